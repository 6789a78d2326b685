//! Why something could not be read. Every error that is about a file names it.

use std::io;
use std::path::PathBuf;

use quartier_model::MachineError;
use thiserror::Error;

/// Why something could not be read. The message says all, so there is no `source` to add to it.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages are the documentation.
pub enum Error {
    #[error("cannot read {path}: {cause}")]
    Io { path: PathBuf, cause: io::Error },
    #[error("{path} is missing: {remedy}")]
    Missing { path: PathBuf, remedy: &'static str },
    #[error("{path} says `{found}`, and {expected} was expected")]
    Malformed { path: PathBuf, found: String, expected: String },
    #[error("{path} does not agree with the rest: {reason}; {remedy}")]
    Inconsistent { path: PathBuf, reason: String, remedy: &'static str },
    #[error("what the kernel says makes no machine: {0}")]
    Machine(MachineError),
    #[error("{0}")]
    Name(MachineError),
    #[error("what the file says makes no machine: {0}")]
    FileMachine(MachineError),
    #[error(
        "this is no machine: {0}; give a file from `quartier gather` or `quartier topo --json`"
    )]
    NotAMachine(String),
    #[error("this is not what `{writer}` writes: {complaint}")]
    Json { writer: &'static str, complaint: String },
    #[error("gathered format {found} is not {}: gather the machine again", crate::GATHERED_FORMAT)]
    Format { found: u64 },
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// What a reader of JSON complains of, without Rust's words, and without control characters that the
/// text may have brought.
#[must_use]
pub fn json_complaint(error: &serde_json::Error) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("invalid type: map", "invalid type: object"),
    ];
    let mut text = printable(&error.to_string());
    if let Some((before, name)) = text.split_once("expected struct ") {
        let after = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        text = format!("{before}expected an object{after}");
    }
    for (rusts, ours) in WORDS {
        text = text.replace(rusts, ours);
    }
    text
}

/// Text of others, so that it cannot write elsewhere on a terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// How much of a malformed file an error quotes.
const QUOTED_CHARS_MAX: usize = 60;

impl Error {
    pub(crate) fn malformed(path: PathBuf, found: &str, expected: impl Into<String>) -> Self {
        let mut quoted: String = found.trim().chars().take(QUOTED_CHARS_MAX).collect();
        quoted = printable(&quoted);
        if found.trim().chars().nth(QUOTED_CHARS_MAX).is_some() {
            quoted.push('…');
        }
        Self::Malformed { path, found: quoted, expected: expected.into() }
    }
}
