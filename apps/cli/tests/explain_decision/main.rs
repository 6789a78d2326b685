//! `quartier explain-decision`, run as a user runs it.

mod decisions;
mod input;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs one decision; `line` is what a user types after the command's name.
fn explain(line: &str) -> Output {
    let words = line.split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quartier"));
    command.arg("explain-decision").args(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is told of a decision that found something.
fn decided(line: &str) -> String {
    let output = explain(line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}: {errors}");
    stdout(&output)
}

/// What is told of one for which nothing will do.
fn nothing(line: &str) -> String {
    let output = explain(line);
    assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
    let text = stdout(&output);
    assert!(text.contains("Nothing decided: "), "{line}: {text}");
    text
}

/// The one sentence that says what is wrong with the input.
fn refused(line: &str) -> String {
    let output = explain(line);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}: {message}");
    assert!(output.stdout.is_empty(), "{line}");
    assert_eq!(message.lines().count(), 1, "{line}: {message}");
    assert!(!message.contains("panicked") && message.starts_with("quartier: "), "{message}");
    message
}

fn json(line: &str) -> Value {
    let output = explain(&format!("{line} --json"));
    assert!(output.status.code().is_some_and(|code| code < 2), "{line}: {output:?}");
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn has(text: &str, parts: &[&str]) {
    // Columns are as wide as they need: spaces say nothing.
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(plain(text).contains(&plain(part)), "`{part}` is missing:\n{text}");
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/machines").join(name)
}

fn oddities(rest: &str) -> String {
    format!("{rest} --machine {}", fixture("oddities.json").display())
}

/// A file with this text, and its path.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("given.json");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}
