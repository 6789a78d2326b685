//! What rustc and clippy do not check, over every tracked file.

mod documents;
mod rust;
mod text;

use crate::Findings;
use crate::workspace::Workspace;

/// Lines a file may have. A ratchet: lower it, never raise it.
const LINES_MAX: usize = 800;
/// Lines from which a file is named, so that it is split before it must be.
const LINES_NOTED: usize = 400;

/// Checks everything.
pub fn check(workspace: &Workspace) -> Findings {
    let mut findings = Findings::default();
    for file in &workspace.files {
        findings.merge(text::check(file, &workspace.root));
        if file.path.ends_with(".rs") {
            findings.merge(rust::check_file(file));
        }
    }
    for package in &workspace.packages {
        findings.merge(rust::check_package(package, &workspace.files));
    }
    findings.merge(rust::check_reached(&workspace.files));
    findings.merge(documents::check_members(workspace));
    findings.merge(documents::check_paths(workspace));
    findings
}

/// What is worth knowing and no failure.
pub fn notes(workspace: &Workspace) -> Vec<String> {
    let long = |file: &&crate::workspace::File| {
        file.path.ends_with(".rs") && file.text.lines().count() > LINES_NOTED
    };
    workspace
        .files
        .iter()
        .filter(long)
        .map(|file| format!("{}: {} lines", file.path, file.text.lines().count()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    #[test]
    fn long_files_are_named() {
        let file =
            |lines: usize| File { path: format!("src/{lines}.rs"), text: "//! x\n".repeat(lines) };
        let workspace = Workspace {
            root: "/nowhere".into(),
            packages: Vec::new(),
            files: vec![file(LINES_NOTED), file(LINES_NOTED + 1)],
        };
        assert_eq!(notes(&workspace), ["src/401.rs: 401 lines"]);
    }
}
