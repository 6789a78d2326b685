//! The folder outside the repository where fetched kernels and QEMU are kept.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::{Context, Error, Result};

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Held while the cache is written; the kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl Cache {
    /// `$QUARTIER_CACHE`, else `$XDG_CACHE_HOME/quartier`, else `~/.cache/quartier`.
    ///
    /// # Errors
    /// When none of the three is set.
    pub fn from_environment() -> Result<Self> {
        let absolute =
            |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let root = absolute("QUARTIER_CACHE")
            .or_else(|| absolute("XDG_CACHE_HOME").map(|path| path.join("quartier")))
            .or_else(|| absolute("HOME").map(|path| path.join(".cache/quartier")));
        root.map(Self::at).ok_or_else(|| {
            Error::refused(
                "there is no place for kernels: neither QUARTIER_CACHE, XDG_CACHE_HOME nor HOME is \
                 an absolute path; set QUARTIER_CACHE",
            )
        })
    }

    /// A cache in `root`.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where kernels are: one folder a release.
    #[must_use]
    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// Where QEMU is, once fetched.
    #[must_use]
    pub fn qemu(&self) -> PathBuf {
        self.root.join("qemu")
    }

    /// Where guests are as they were when they had booted.
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// The state of one private apt.
    #[must_use]
    pub(crate) fn apt(&self, name: &str) -> PathBuf {
        self.root.join("apt").join(name)
    }

    /// Waits for other writers, then keeps them out.
    ///
    /// # Errors
    /// When the cache cannot be written.
    pub fn lock(&self, waiting: impl FnOnce()) -> Result<CacheLock> {
        fs::create_dir_all(&self.root).path("create", &self.root)?;
        let path = self.root.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .path("open", &path)?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            waiting();
            rustix::fs::flock(&file, FlockOperation::LockExclusive).path("lock", &path)?;
        }
        Ok(CacheLock { _file: file })
    }
}
