//! Rules for Rust files and packages: where unsafe may be, what a file begins with, what is dead.

use super::LINES_MAX;
use crate::Findings;
use crate::workspace::{File, Package};

/// Where `unsafe` may be written: the effects, parts that other programs link, and the shared
/// object's initialisers. Everywhere else the compiler forbids it.
const UNSAFE_FOLDERS: [&str; 7] = [
    "act/",
    "percore/",
    "shared/",
    "apps/libquartier/",
    "apps/runtime/",
    "lab/treebench/",
    "lab/plugin/",
];

/// Folders of pure code, and what of the standard library is not pure.
const PURE_FOLDERS: [&str; 2] = ["model/src/", "decide/src/"];
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::io",
    "std::env",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
];

/// Folders of libraries that live in other programs or below a command, whose streams are not theirs.
const SILENT_FOLDERS: [&str; 10] = [
    "model/src/",
    "observe/src/",
    "decide/src/",
    "act/kernel/src/",
    "act/session/src/",
    "act/preload/src/",
    "act/host/src/",
    "percore/src/",
    "act/steer/src/",
    "act/steer/preload/src/",
];

/// Checks one Rust file.
pub fn check_file(file: &File) -> Findings {
    let mut findings = Findings::default();
    let File { path, text } = file;
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
    findings.require(first.is_some_and(|line| line.starts_with("//!")), || {
        format!("{path}: begins without `//!`: say in a line what the file is for")
    });
    let nr_lines = text.lines().count();
    findings.require(nr_lines <= LINES_MAX, || {
        format!("{path}: {nr_lines} lines; split it, {LINES_MAX} is the most")
    });
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let production = text[..tests].lines().map(code).enumerate();
    let mut forbid = |folders: &[&str], words: &[&str], why: &str| {
        if !folders.iter().any(|folder| path.starts_with(folder)) {
            return;
        }
        for (at, line) in production.clone() {
            for word in words {
                findings
                    .require(!line.contains(word), || format!("{path}:{}: {word}: {why}", at + 1));
            }
        }
    };
    forbid(&PURE_FOLDERS, &IMPURE, "this folder is pure (no I/O, no clock)");
    forbid(&SILENT_FOLDERS, &["println!(", "print!("], "the streams belong to the caller");
    for (at, line) in text.lines().map(code).enumerate() {
        findings.require(line.trim() != "#[ignore]", || {
            format!("{path}:{}: an ignored test needs a reason: #[ignore = \"…\"]", at + 1)
        });
    }
    findings
}

/// A line without its comment. A `//` in a string cuts it short, which only hides what follows.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Checks the roots of one package.
pub fn check_package(package: &Package, files: &[File]) -> Findings {
    let mut findings = Findings::default();
    let folder = format!("{}/", package.folder);
    if UNSAFE_FOLDERS.iter().any(|allowed| folder.starts_with(allowed)) {
        return findings;
    }
    for root in &package.roots {
        let Some(file) = files.iter().find(|file| file.path == *root) else { continue };
        // Build scripts run before anything that could check them; they have no roots of unsafe either.
        findings.require(
            file.text.lines().any(|line| line == "#![forbid(unsafe_code)]")
                || file.path.ends_with("build.rs") && !file.text.contains("unsafe"),
            || format!("{root}: lacks #![forbid(unsafe_code)]; unsafe is for {UNSAFE_FOLDERS:?}"),
        );
    }
    findings
}

/// Every file below a `src` is named by a `mod` beside or above it: what is not is never compiled.
pub fn check_reached(files: &[File]) -> Findings {
    let mut findings = Findings::default();
    for file in files {
        let Some((folder, module)) = module_of(&file.path) else { continue };
        let parents = [
            format!("{folder}/mod.rs"),
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
            format!("{folder}.rs"),
        ];
        let declares = |line: &str| {
            let words = code(line).trim().trim_end_matches([';', '{', ' ']);
            words == format!("mod {module}") || words.ends_with(&format!(" mod {module}"))
        };
        let reached = files
            .iter()
            .filter(|other| parents.contains(&other.path))
            .any(|other| other.text.lines().any(declares));
        findings.require(reached, || {
            format!("{}: no `mod {module}` beside it: dead, or forgotten", file.path)
        });
    }
    findings
}

/// The folder in which a source file's parent is, and the file's module; `None` for roots.
fn module_of(path: &str) -> Option<(&str, &str)> {
    let (_, below) = path.rsplit_once("src/")?;
    let (mut folder, name) = path.rsplit_once('/')?;
    let mut module = name.strip_suffix(".rs")?;
    if module == "mod" {
        (folder, module) = folder.rsplit_once('/')?;
    }
    let is_root = matches!(below, "lib.rs" | "main.rs") || below.starts_with("bin/");
    (!is_root).then_some((folder, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn problems(path: &str, text: &str) -> Vec<String> {
        check_file(&file(path, text)).problems
    }

    #[test]
    fn a_good_file_is_fine() {
        let text = "//! What it is for.\n\nuse std::sync::Mutex; // not std::fs\n\
                    #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(problems("decide/src/a.rs", text), Vec::<String>::new());
        assert_eq!(problems("observe/src/a.rs", "//! x\nuse std::fs;\n"), Vec::<String>::new());
    }

    #[test]
    fn a_file_says_what_it_is_for_and_is_not_endless() {
        assert_eq!(problems("a.rs", "use x;\n//! late\n").len(), 1);
        assert_eq!(problems("a.rs", "").len(), 1);
        assert_eq!(problems("a.rs", &"//! x\n".repeat(LINES_MAX)).len(), 0);
        assert_eq!(problems("a.rs", &"//! x\n".repeat(LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn pure_code_stays_pure_and_libraries_silent() {
        for word in IMPURE {
            let text = format!("//! x\nuse {word};\n");
            assert_eq!(problems("decide/src/dqdt/a.rs", &text).len(), 1, "{word}");
            assert_eq!(problems("decide/tests/a.rs", &text).len(), 0, "{word}");
        }
        let text = "//! x\nfn f() { eprintln!(\"x\"); }\n";
        assert!(!problems("act/preload/src/a.rs", text).is_empty());
        assert_eq!(problems("apps/cli/src/a.rs", text).len(), 0);
    }

    #[test]
    fn an_ignored_test_has_a_reason() {
        assert_eq!(problems("a.rs", "//! x\n#[test]\n#[ignore]\n").len(), 1);
        assert_eq!(problems("a.rs", "//! x\n#[test]\n#[ignore = \"slow\"]\n").len(), 0);
    }

    #[test]
    fn unsafe_is_forbidden_outside_its_folders() {
        let package = |folder: &str| Package {
            name: "p".to_owned(),
            folder: folder.to_owned(),
            roots: vec![format!("{folder}/src/lib.rs")],
            dependencies: Vec::new(),
        };
        for (folder, text, nr_problems) in [
            ("observe", "//! x\n", 1),
            ("observe", "//! x\n// #![forbid(unsafe_code)]\n", 1),
            ("observe", "//! x\n#![forbid(unsafe_code)]\n", 0),
            ("actor", "//! x\n", 1),
            ("act/host", "//! x\n", 0),
            ("apps/runtime", "//! x\n", 0),
            ("apps/cli", "//! x\n", 1),
        ] {
            let files = [file(&format!("{folder}/src/lib.rs"), text)];
            let findings = check_package(&package(folder), &files);
            assert_eq!(findings.problems.len(), nr_problems, "{folder}: {findings:?}");
        }
    }

    #[test]
    fn a_file_that_nothing_names_is_dead() {
        let mut files = vec![
            file("a/src/lib.rs", "//! x\nmod named;\npub(crate) mod deep;\n// mod dead;\n"),
            file("a/src/named.rs", "//! x\nmod below;\n"),
            file("a/src/named/below.rs", "//! x\n"),
            file("a/src/deep/mod.rs", "//! x\nmod below;\n"),
            file("a/src/deep/below.rs", "//! x\n"),
            file("a/tests/free.rs", "//! x\n"),
        ];
        assert_eq!(check_reached(&files).problems, Vec::<String>::new());
        files.push(file("a/src/dead.rs", "//! x\n"));
        files.push(file("a/src/deep/named.rs", "//! x\n"));
        assert_eq!(check_reached(&files).problems.len(), 2);
    }
}
