//! Everything that can go wrong in the lab, each with what, why and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the lab did not do what was asked.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum Error {
    #[error("cannot {operation} {}: {source}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {operation}: {source}")]
    System { operation: &'static str, source: io::Error },
    /// Something asked for that cannot be; the text says what, why and the remedy.
    #[error("{0}")]
    Refused(String),
    #[error("cannot start `{program}`: {source}; {remedy}")]
    Program { program: String, source: io::Error, remedy: &'static str },
    #[error("`{program}` failed ({status}): {stderr}")]
    ProgramFailed { program: String, status: String, stderr: String },
    #[error("{what} is not in the cache and cannot be fetched: {reason}; {remedy}")]
    Missing { what: String, reason: String, remedy: String },
    /// The guest stopped before it said how the command ended.
    #[error("{what}{}", tail(console))]
    GuestDied { what: String, console: String },
    #[error("the guest gave up: {what}{}", tail(console))]
    GuestFailed { what: String, console: String },
    #[error("the command was still running after --timeout {seconds} s, so the guest was ended")]
    TimedOut { seconds: u64 },
}

/// The console's tail, set off from the sentence before it.
fn tail(console: &str) -> String {
    match console.trim() {
        "" => "; its console is empty".to_owned(),
        text => format!("; the end of its console:\n{text}"),
    }
}

/// Exit status of a run that the guest, not the command, ended.
pub const STATUS_LAB_FAILED: u8 = 125;
/// Exit status of a run that reached its time limit, as `timeout` has it.
pub const STATUS_TIMED_OUT: u8 = 124;
/// Exit status of bad input, something missing or something not permitted.
pub const STATUS_REFUSED: u8 = 2;

impl Error {
    /// The exit status that tells this error from the command's own.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::GuestDied { .. } | Self::GuestFailed { .. } => STATUS_LAB_FAILED,
            Self::TimedOut { .. } => STATUS_TIMED_OUT,
            _ => STATUS_REFUSED,
        }
    }

    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }
}

/// Adds to an I/O error what was being done, and to which file.
pub(crate) trait Context<T> {
    fn doing(self, operation: &'static str) -> Result<T>;
    fn path(self, operation: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn doing(self, operation: &'static str) -> Result<T> {
        self.map_err(|source| Error::System { operation, source: source.into() })
    }

    fn path(self, operation: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::File {
            operation,
            path: path.to_owned(),
            source: source.into(),
        })
    }
}
