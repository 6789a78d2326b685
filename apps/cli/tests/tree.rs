//! `quartier tree`, run as a user runs it, in a directory of its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn tree(args: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quartier"));
    command.arg("tree").args(args).arg("--directory").arg(directory).output().unwrap()
}

fn serve(directory: &Path, more: &[&str]) -> Output {
    tree(&[&["serve", "--ticks", "1"], more].concat(), directory)
}

/// The one sentence of a refusal.
fn refused(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    text
}

#[test]
fn a_tree_is_made_shown_and_gone_on_with() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("mine");
    assert!(serve(&place, &["--threads-mode", "660"]).status.success());
    let shown = tree(&["show", "--json"], &place);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["threads"], &shown["may_place"]), (&0.into(), &true.into()));
    assert!(shown["refreshed_ms_ago"].is_u64(), "{shown}");
    assert!(shown["nodes"][0]["free_pages"].as_u64().is_some_and(|pages| pages > 0), "{shown}");
    let before = fs::metadata(place.join("tree")).unwrap();
    assert!(serve(&place, &[]).status.success());
    let after = fs::metadata(place.join("tree")).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino;
    assert_eq!(inode(&before), inode(&after), "what is there is kept");
    let other = refused(&serve(&place, &["--threads-mode", "666"]));
    assert!(other.contains("has --threads-mode 660, not 666"), "{other}");
    let other = refused(&serve(&place, &["--free-pages-min", "7"]));
    assert!(other.contains("has --free-pages-min"), "{other}");
}

#[test]
fn files_of_others_stay_as_they_are() {
    let directory = TempDir::new().unwrap();
    for name in ["tree", "threads"] {
        let notes = directory.path().join(name);
        fs::write(&notes, "notes\n").unwrap();
        assert!(refused(&serve(directory.path(), &[])).contains("is no decision tree"));
        assert_eq!(fs::read_to_string(&notes).unwrap(), "notes\n");
        fs::remove_file(&notes).unwrap();
    }
}

#[test]
fn no_tree_is_made_where_others_may_write() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(refused(&serve(directory.path(), &[])).contains("others may write there"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let directory = TempDir::new().unwrap();
    let nowhere = directory.path().join("no/such");
    assert!(refused(&serve(&nowhere, &[])).contains("name a directory in a tmpfs"));
    assert!(refused(&tree(&["show"], &nowhere)).contains("there is no decision tree at"));
    for (option, value) in
        [("--ticks", "0"), ("--free-pages-min", "x"), ("--period", "0s"), ("--threads-mode", "777")]
    {
        let output = tree(&["serve", option, value], directory.path());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("`{value}` is not")), "{text}");
    }
}

#[test]
fn an_output_that_is_full_is_told() {
    let directory = TempDir::new().unwrap();
    assert!(serve(directory.path(), &[]).status.success());
    let full = fs::File::create("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quartier"));
    command.args(["tree", "show", "--directory"]).arg(directory.path()).stdout(full);
    let text = refused(&command.output().unwrap());
    assert!(text.contains("cannot write to the standard output"), "{text}");
}
