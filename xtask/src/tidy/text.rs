//! Rules for every text file: nothing of the machine it was written on, nothing left over.

use std::path::Path;

use crate::Findings;
use crate::workspace::File;

/// Hosts that an address in a tracked file may name: places a reader goes to, none that a build
/// fetches from. A mirror or registry is read from the machine's own configuration, never written.
const HOSTS: [&str; 7] = [
    "www.w3.org",
    "www.apache.org",
    "www.debian.org",
    "docs.kernel.org",
    "man7.org",
    "keepachangelog.com",
    "semver.org",
];

/// Folders at a machine's root that a file may well name: they are the system's, on any machine.
const SYSTEM_FOLDERS: [&str; 19] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root",
    "run", "sbin", "srv", "sys", "tmp", "usr", "var",
];

/// Checks one file.
pub fn check(file: &File, root: &Path) -> Findings {
    let mut findings = Findings::default();
    if file.path == "Cargo.lock" {
        return findings;
    }
    let personal = personal_folders(root);
    findings.require(file.text.is_empty() || file.text.ends_with('\n'), || {
        format!("{}: the last line has no end", file.path)
    });
    let mut problems = Vec::new();
    let is_licence = file.path.starts_with("LICENSE");
    for (at, line) in file.text.split('\n').enumerate() {
        let mut report = |what: &str| problems.push(format!("{}:{}: {what}", file.path, at + 1));
        if line.ends_with([' ', '\t', '\r']) {
            report("space at the end of the line");
        }
        if ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
            report("left over from a merge");
        }
        if let Some(path) = personal.iter().find_map(|folder| names_folder(line, folder)) {
            report(&format!("`{path}` is a path of one person's machine"));
        }
        for host in hosts(line) {
            if !HOSTS.contains(&host) && !is_licence {
                report(&format!(
                    "`{host}` is no host that files may name (xtask/src/tidy/text.rs)"
                ));
            }
        }
    }
    findings.nr_checked += 1;
    findings.problems.extend(problems);
    findings
}

/// Folders in which people and their work live, here and elsewhere.
fn personal_folders(root: &Path) -> Vec<String> {
    let mut folders = vec!["/home/".to_owned(), "/Users/".to_owned()];
    folders.push(format!("{}/", root.display()));
    let first = root.iter().nth(1).map(|name| name.to_string_lossy().into_owned());
    if let Some(first) = first.filter(|first| !SYSTEM_FOLDERS.contains(&first.as_str())) {
        folders.push(format!("/{first}/"));
    }
    folders
}

/// The path below `folder` that the line names, if it does: `/home/` alone or in `x/home/y` is none.
fn names_folder<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    line.match_indices(folder).find_map(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = &line[at + folder.len()..];
        let length =
            rest.find(|c: char| !(c.is_alphanumeric() || "._-/".contains(c))).unwrap_or(rest.len());
        let begins = !before.is_some_and(|c| c.is_alphanumeric() || "._-*}".contains(c));
        (begins && length > 0).then(|| &line[at..at + folder.len() + length])
    })
}

/// The hosts of the addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(at, mark)| {
        let scheme = line[..at].rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        let rest = &line[at + mark.len()..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c)));
        let host = &rest[..end.unwrap_or(rest.len())];
        (["http", "https", "ftp", "git", "ssh"].contains(&scheme) && host.contains('.'))
            .then_some(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let file = File { path: "a.md".to_owned(), text: text.to_owned() };
        check(&file, Path::new("/elsewhere/clone")).problems
    }

    #[test]
    fn plain_text_is_fine() {
        let text = "Reads /proc and /sys; see http://www.w3.org/2000/svg.\n\n\
                    A `HOME=/root` shell, C:/x, file:/mirror, https://localhost:1/.\n";
        assert_eq!(problems(text), Vec::<String>::new());
        assert_eq!(problems(""), Vec::<String>::new());
    }

    #[test]
    fn what_is_left_over_is_found() {
        for (text, part) in [
            ("no end", "no end"),
            ("one\ntwo \n", "a.md:2: space"),
            ("windows\r\n", "space"),
            (&format!("{} theirs\n", "<".repeat(7)), "merge"),
        ] {
            let problems = problems(text);
            assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
            assert!(problems[0].contains(part), "{problems:?}");
        }
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let home = ["/home", "/someone/x"].concat();
        let work = ["/elsewhere", "/scratch"].concat();
        let clone = ["/elsewhere/clone", "/target/debug"].concat();
        for path in [home, work, clone] {
            let problems = problems(&format!("see `{path}` there\n"));
            assert_eq!(problems.len(), 1, "{path}: {problems:?}");
            assert!(problems[0].contains(&path), "{problems:?}");
        }
        assert_eq!(problems("a folder like /home/ or /elsewhere/ alone\n"), Vec::<String>::new());
    }

    #[test]
    fn hosts_that_a_build_would_fetch_from_are_found() {
        let host = ["mirror", ".example"].concat();
        let problems = problems(&format!("deb https://{host}/debian stable main\n"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(&host), "{problems:?}");
    }
}
