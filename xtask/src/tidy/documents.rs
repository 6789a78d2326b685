//! Documents and manifests: what they name is there.

use crate::Findings;
use crate::workspace::Workspace;

/// The map: every path that it names must exist.
const MAP: &str = "docs/ARCHITECTURE.md";

/// Every manifest in the clone belongs to the workspace, or nothing builds and tests it.
pub fn check_members(workspace: &Workspace) -> Findings {
    let mut findings = Findings::default();
    for file in &workspace.files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        findings.require(workspace.packages.iter().any(|package| package.folder == folder), || {
            format!("{}: no member of the workspace", file.path)
        });
    }
    findings
}

/// Every path in the map exists, and every package is on the map.
pub fn check_paths(workspace: &Workspace) -> Findings {
    let mut findings = Findings::default();
    let map = workspace.files.iter().find(|file| file.path == MAP);
    findings.require(map.is_some(), || format!("{MAP} is missing"));
    let Some(map) = map else { return findings };
    let paths: Vec<_> = paths(&map.text).collect();
    for path in &paths {
        findings.require(workspace.exists(path), || format!("{MAP}: `{path}` does not exist"));
    }
    for package in &workspace.packages {
        let named = |path: &&str| path.trim_end_matches('/') == package.folder;
        findings.require(paths.iter().any(named), || {
            format!("{MAP}: does not mention `{}/`", package.folder)
        });
    }
    findings
}

/// What stands in backticks and is a path of ours: it has a slash and only a path's characters, and
/// does not begin at a machine's root.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        word.contains('/')
            && !word.starts_with(['/', '-', '~', '$'])
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
    };
    // Fences of blocks have three backticks, an odd number: what is inside stays inside.
    text.split('`').skip(1).step_by(2).filter(is_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{File, Package};

    fn workspace(map: Option<&str>, manifests: &[&str]) -> Workspace {
        let root = Workspace::load().unwrap().root;
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let mut files: Vec<_> = manifests.iter().map(|path| file(path, "")).collect();
        files.extend(map.map(|text| file(MAP, text)));
        let package = Package {
            name: "xtask".to_owned(),
            folder: "xtask".to_owned(),
            roots: Vec::new(),
            dependencies: Vec::new(),
        };
        Workspace { root, packages: vec![package], files }
    }

    #[test]
    fn only_paths_of_ours_are_paths() {
        let text = "`a/b.rs` and `c/`, not `/proc/self`, `--x/y`, `a`, `a -> b/c`, plain d/e.\n";
        assert_eq!(paths(text).collect::<Vec<_>>(), ["a/b.rs", "c/"]);
    }

    #[test]
    fn a_map_that_names_what_is_gone_or_leaves_a_package_out_is_wrong() {
        let problems = |map| check_paths(&workspace(map, &[])).problems;
        assert_eq!(problems(Some("`xtask/` and `xtask/src/main.rs`\n")), Vec::<String>::new());
        assert_eq!(problems(Some("`xtask/` and `xtask/src/gone.rs`\n")).len(), 1);
        assert_eq!(problems(Some("nothing\n")).len(), 1);
        assert_eq!(problems(None).len(), 1);
    }

    #[test]
    fn a_package_outside_the_workspace_is_found() {
        let problems = |manifests: &[&str]| check_members(&workspace(None, manifests)).problems;
        assert_eq!(problems(&["Cargo.toml", "xtask/Cargo.toml"]), Vec::<String>::new());
        assert_eq!(problems(&["stray/Cargo.toml"]).len(), 1);
    }
}
