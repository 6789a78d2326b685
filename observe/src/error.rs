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
    #[error("{path} does not agree with the rest: {reason}; if a CPU or node came or went, retry")]
    Inconsistent { path: PathBuf, reason: String },
    #[error("what the kernel says makes no machine: {0}")]
    Machine(MachineError),
    #[error("this is neither a gathered nor a serialised machine: {0}")]
    Json(serde_json::Error),
    #[error("gathered format {found} is not {}: gather the machine again", crate::GATHERED_FORMAT)]
    Format { found: u32 },
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// How much of a malformed file an error quotes.
const QUOTED_CHARS_MAX: usize = 60;

impl Error {
    pub(crate) fn malformed(path: PathBuf, found: &str, expected: impl Into<String>) -> Self {
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let mut quoted: String =
            found.trim().chars().take(QUOTED_CHARS_MAX).map(printable).collect();
        if found.trim().chars().nth(QUOTED_CHARS_MAX).is_some() {
            quoted.push('…');
        }
        Self::Malformed { path, found: quoted, expected: expected.into() }
    }
}
