//! Where files are read from.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use quartier_model::{MachineError, Origin};

use crate::parse;
use crate::{Error, Gathered, Result};

/// No file read here is larger: /sys gives at most a page (or a list of 8192 CPUs), and
/// /proc/PID/status a few KiB. A fixture that is larger is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A machine whose files can be read: this one, a directory, or a gathered file.
#[derive(Clone, Debug)]
pub struct Host {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Live,
    Root { root: PathBuf, name: String },
    Gathered(Gathered),
}

impl Host {
    /// The running kernel. Only its machines may be acted on.
    #[must_use]
    pub fn live() -> Self {
        Self { source: Source::Live }
    }

    /// A directory with `sys` and `proc` inside. `name` is what its machine will be called.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { source: Source::Root { root: root.into(), name: name.into() } }
    }

    /// The machine that a file was gathered from.
    #[must_use]
    pub fn gathered(gathered: Gathered) -> Self {
        Self { source: Source::Gathered(gathered) }
    }

    /// `uname -r` of its kernel.
    ///
    /// # Errors
    /// When the file is missing or cannot be read.
    pub fn kernel_release(&self) -> Result<String> {
        const PATH: &str = "proc/sys/kernel/osrelease";
        let text = self.read_required(PATH, "is /proc mounted there?")?;
        parse::word(&text).ok_or_else(|| self.malformed(PATH, &text, "a kernel release"))
    }

    pub(crate) fn origin(&self) -> Result<Origin> {
        Ok(match &self.source {
            Source::Live => Origin::Live { kernel: self.kernel_release()? },
            Source::Root { name, .. } => Origin::Gathered { name: name.clone() },
            Source::Gathered(gathered) if gathered.is_synthetic() => {
                Origin::Synthetic { spec: gathered.name().to_owned() }
            }
            Source::Gathered(gathered) => Origin::Gathered { name: gathered.name().to_owned() },
        })
    }

    /// The text of a file, by its path below the root; `None` when it does not exist.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>> {
        match &self.source {
            Source::Gathered(gathered) => Ok(gathered.file(path).map(str::to_owned)),
            Source::Live | Source::Root { .. } => {
                let path = self.full_path(path);
                read_text(&path).map_err(|cause| Error::Io { path, cause })
            }
        }
    }

    /// The text of a file of the kernel's that may be of any size; `None` when it cannot be read.
    pub(crate) fn read_large(&self, path: &str) -> Option<String> {
        match &self.source {
            Source::Gathered(gathered) => gathered.file(path).map(str::to_owned),
            Source::Live | Source::Root { .. } => {
                let bytes = std::fs::read(self.full_path(path)).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }

    pub(crate) fn read_required(&self, path: &str, remedy: &'static str) -> Result<String> {
        self.read(path)?.ok_or_else(|| self.missing(path, remedy))
    }

    /// A file that must be there; `remedy` is for whoever can look there.
    pub(crate) fn missing(&self, path: &str, remedy: &'static str) -> Error {
        let remedy = match &self.source {
            Source::Live | Source::Root { .. } => remedy,
            Source::Gathered(_) => "the file is incomplete, so gather the machine again",
        };
        Error::Missing { path: self.full_path(path), remedy }
    }

    /// Reads and parses a file; `None` when it does not exist.
    pub(crate) fn parse<T>(
        &self,
        path: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.read(path)? else { return Ok(None) };
        parse(&text).map(Some).ok_or_else(|| self.malformed(path, &text, expected))
    }

    pub(crate) fn malformed(&self, path: &str, found: &str, expected: &str) -> Error {
        Error::malformed(self.full_path(path), found, expected)
    }

    pub(crate) fn inconsistent(&self, path: &str, reason: String) -> Error {
        let remedy = match &self.source {
            Source::Live | Source::Root { .. } => "if a CPU or node came or went, retry",
            Source::Gathered(_) => "gather the machine again",
        };
        Error::Inconsistent { path: self.full_path(path), reason, remedy }
    }

    /// Who says it is who is wrong.
    pub(crate) fn no_machine(&self, error: MachineError) -> Error {
        match &self.source {
            Source::Live | Source::Root { .. } => Error::Machine(error),
            Source::Gathered(_) => Error::FileMachine(error),
        }
    }

    /// The path as an error names it.
    pub(crate) fn full_path(&self, path: &str) -> PathBuf {
        match &self.source {
            Source::Live => Path::new("/").join(path),
            Source::Root { root, .. } => root.join(path),
            Source::Gathered(gathered) => Path::new(gathered.name()).join(path),
        }
    }
}

/// Reads a file that may not exist. /sys answers `ENODEV` or `ENXIO` for a device that went away
/// after its file was opened.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    /// A process that ended after its file was opened.
    const ESRCH: i32 = 3;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 == FILE_BYTES_MAX => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any file of the kernel"))
        }
        // The name of a process may be any bytes.
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                || matches!(error.raw_os_error(), Some(ENXIO | ENODEV | ESRCH)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Files by path, so that gathered output is sorted.
pub(crate) type Files = BTreeMap<String, String>;
