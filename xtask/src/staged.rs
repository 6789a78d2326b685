//! What `make stage` put in place: whatever the unit and the man pages name is there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::Findings;

/// Programs by the folder below the prefix that they are in, with the section of their pages.
const PROGRAMS: [(&str, &str, &str); 2] = [("bin", "quartier", "1"), ("sbin", "quartierd", "8")];
/// What `quartier` looks for in `../lib/quartier`.
const LIBRARIES: [&str; 6] = [
    "libquartier_preload.so",
    "libquartier_plugin.so",
    "libquartier_clock.so",
    "libquartier_reuseport.so",
    "libquartier_sites.so",
    "quartier-degrade.jar",
];
const UNIT: &str = "lib/systemd/system/quartierd.service";

/// Checks a tree that was staged with this prefix, before its pages are compressed.
pub fn check(tree: &Path, prefix: &str) -> anyhow::Result<Findings> {
    let tree = Tree { tree, prefix };
    let mut findings = Findings::default();
    let mut require = |path: PathBuf, why: &str, is_program: bool| {
        let is_there = path.metadata().is_ok_and(|there| {
            there.is_file() && (!is_program || there.permissions().mode() & 0o111 == 0o111)
        });
        findings.require(is_there, || format!("{} is missing: {why}", path.display()));
    };
    for (folder, name, section) in PROGRAMS {
        let below = |path: String| tree.below_prefix(&path);
        require(below(format!("{folder}/{name}")), "it is installed", true);
        require(below(format!("share/man/man{section}/{name}.{section}")), "its page", false);
        require(below(format!("share/bash-completion/completions/{name}")), "for bash", false);
        require(below(format!("share/fish/vendor_completions.d/{name}.fish")), "for fish", false);
    }
    for library in LIBRARIES {
        let library = tree.below_prefix(&format!("lib/quartier/{library}"));
        require(library, "quartier loads it", false);
    }
    let unit = tree.below_prefix(UNIT);
    let text = fs::read_to_string(&unit)
        .with_context(|| format!("cannot read the unit {}", unit.display()))?;
    for program in programs(&text) {
        require(tree.at(program), "the unit runs it", true);
    }
    for page in documentation(&text) {
        require(tree.documentation(page), "the unit points there", false);
    }
    let pages = tree.pages()?;
    ensure!(!pages.is_empty(), "there are no man pages below {}", tree.tree.display());
    for page in pages {
        let text = fs::read_to_string(&page)
            .with_context(|| format!("cannot read the page {}", page.display()))?;
        for path in paths(&text) {
            require(tree.at(path), &format!("{} names it", page.display()), false);
        }
    }
    Ok(findings)
}

struct Tree<'a> {
    tree: &'a Path,
    prefix: &'a str,
}

impl Tree<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.tree.join(path.trim_start_matches('/'))
    }

    fn below_prefix(&self, path: &str) -> PathBuf {
        self.at(self.prefix).join(path)
    }

    /// `man:quartierd(8)` or `file:///usr/…`; anything else is nowhere.
    fn documentation(&self, at: &str) -> PathBuf {
        if let Some(path) = at.strip_prefix("file://") {
            return self.at(path);
        }
        let page = at.strip_prefix("man:").and_then(|page| page.strip_suffix(')'));
        let (name, section) = page.and_then(|page| page.split_once('(')).unwrap_or((at, ""));
        self.below_prefix(&format!("share/man/man{section}/{name}.{section}"))
    }

    fn pages(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut pages = Vec::new();
        for (_, _, section) in PROGRAMS {
            let folder = self.below_prefix(&format!("share/man/man{section}"));
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot look into {}", folder.display()))?;
            for entry in entries {
                pages.push(entry?.path());
            }
        }
        pages.sort();
        Ok(pages)
    }
}

/// Values of a unit's settings with names that begin so.
fn settings<'a>(unit: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let setting = unit.lines().filter_map(|line| line.split_once('='));
    setting.filter(move |(key, _)| key.starts_with(name)).map(|(_, value)| value)
}

/// Programs of ours that a unit runs.
fn programs(unit: &str) -> impl Iterator<Item = &str> {
    settings(unit, "Exec")
        .filter_map(|command| {
            command.trim_start_matches(['-', '+', '!', ':', '@']).split(' ').next()
        })
        .filter(|program| program.contains("quartier"))
}

fn documentation(unit: &str) -> impl Iterator<Item = &str> {
    settings(unit, "Documentation").flat_map(str::split_whitespace)
}

/// Files of ours that a page names.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    page.split(move |c| !is_of_path(c))
        .filter(|word| ["/etc/quartier/", "/usr/"].iter().any(|start| word.starts_with(start)))
        .map(|word| word.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::pages;
    use crate::workspace::Workspace;

    /// What `make stage` makes of empty programs and of the true pages.
    fn stage(folder: &Path, prefix: &str) -> PathBuf {
        let (target, tree) = (folder.join("target"), folder.join("tree"));
        fs::create_dir_all(target.join("release")).unwrap();
        for name in ["quartier", "quartierd"].iter().chain(&LIBRARIES) {
            fs::write(target.join("release").join(name), "").unwrap();
        }
        pages::write(&target.join("pages")).unwrap();
        let variables = [
            format!("TARGET={}", target.display()),
            format!("DESTDIR={}", tree.display()),
            format!("PREFIX={prefix}"),
            format!("JAR={}", target.join("release/quartier-degrade.jar").display()),
            "PROFILE=release".to_owned(),
        ];
        // Not those of a make that runs this test.
        let mut make = Command::new("make");
        make.env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .current_dir(Workspace::load().unwrap().root);
        let made = make.args(["--silent", "stage"]).args(variables).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        tree
    }

    #[test]
    fn what_the_unit_and_the_pages_name_is_installed() {
        for prefix in ["/usr", "/opt/quartier"] {
            let folder = tempfile::tempdir().unwrap();
            let tree = stage(folder.path(), prefix);
            let findings = check(&tree, prefix).unwrap();
            assert_eq!(findings.problems, Vec::<String>::new());
            assert!(findings.nr_checked > 15, "{findings:?}");
        }
    }

    #[test]
    fn what_is_missing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let tree = stage(folder.path(), "/usr");
        for (path, why) in [
            ("usr/share/doc/quartier/quartierd.md", "the unit points there"),
            ("usr/share/man/man1/quartier-undo.1", "the unit points there"),
            ("etc/quartier/quartierd.toml", "quartierd.8 names it"),
            ("usr/lib/quartier/libquartier_preload.so", "quartier loads it"),
        ] {
            let text = fs::read(tree.join(path)).unwrap();
            fs::remove_file(tree.join(path)).unwrap();
            let problems = check(&tree, "/usr").unwrap().problems;
            assert!(
                problems.iter().any(|it| it.contains(path) && it.contains(why)),
                "{path}: {problems:?}"
            );
            fs::write(tree.join(path), text).unwrap();
        }
        let program = tree.join("usr/sbin/quartierd");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
        let problems = check(&tree, "/usr").unwrap().problems;
        assert!(problems.iter().any(|it| it.contains("the unit runs it")), "{problems:?}");
    }

    #[test]
    fn a_configuration_that_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("tree/etc/quartier/quartierd.toml");
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, "# mine\n").unwrap();
        stage(folder.path(), "/usr");
        assert_eq!(fs::read_to_string(own).unwrap(), "# mine\n");
    }
}
