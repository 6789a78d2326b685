//! `--allocations`: a library in every process of a run notes who allocates what, in a table that is made for each run.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use quartier_observe::profile::Sites;
use rustix::fs::{FallocateFlags, Mode, fallocate, fchmod};
use tempfile::NamedTempFile;

use super::guard::Guard;
use super::random_seed;
use crate::installed;

const LIBRARY: &str = "libquartier_sites.so";
/// How the library knows the table.
const ENV_TABLE: &str = "QUARTIER_SITES";
/// No disk is to be kept busy with it.
const IN_MEMORY: &str = "/dev/shm";
/// What is said if there is nothing in a run's table.
pub const NOTHING_NOTED: &str = "memory that was allocated has no names, as no process noted any: each is static, has \
     privileges, or an allocator of its own; use a dynamic build that calls the C library's";

/// What is loaded into programs.
///
/// # Errors
/// One sentence, with the remedy.
pub fn library() -> anyhow::Result<PathBuf> {
    let library = installed::library(LIBRARY, "the library that notes allocations")?;
    // The loader's list has no other way to write a path.
    if library.as_os_str().as_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        bail!(
            "{} cannot be loaded into programs: its path has a colon or a space; install quartier elsewhere",
            library.display()
        );
    }
    Ok(library)
}

/// The library, and a folder for tables that is gone once we are.
#[derive(Debug)]
pub struct Allocations {
    library: PathBuf,
    folder: PathBuf,
    _guard: Guard,
}

impl Allocations {
    /// # Errors
    /// One sentence, with the remedy.
    pub fn new() -> anyhow::Result<Self> {
        let library = library()?;
        let is_in_memory = rustix::fs::access(IN_MEMORY, rustix::fs::Access::WRITE_OK).is_ok();
        let parent = if is_in_memory { IN_MEMORY.into() } else { std::env::temp_dir() };
        let folder = parent.join(format!("quartier-sites-{:016x}", random_seed()?));
        let guard = Guard::new(Some(&folder)).context("sh could not be started")?;
        // Others may open what they know the name of: a server of root's is somebody else later.
        if let Err(error) = DirBuilder::new().mode(0o711).create(&folder) {
            guard.dismiss();
            return Err(error).with_context(|| {
                format!(
                    "{} cannot be made: set TMPDIR to a folder that can be written",
                    folder.display()
                )
            });
        }
        Ok(Self { library, folder, _guard: guard })
    }

    /// A table for one run; the error is a sentence.
    pub fn table(&self) -> Result<Table<'_>, String> {
        self.made()
            .map(|file| Table { library: &self.library, file })
            .map_err(|error| {
                format!(
                    "memory that was allocated has no names: {} MiB in {} for those who allocate cannot be had ({error}): \
                     make room there",
                    Sites::TABLE_BYTES >> 20,
                    self.folder.display()
                )
            })
    }

    fn made(&self) -> std::io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().prefix("run-").tempfile_in(&self.folder)?;
        if rustix::process::geteuid().is_root() {
            fchmod(file.as_file(), Mode::from_raw_mode(0o666))?;
        }
        // All of it now: whoever writes where no room is left is killed.
        fallocate(file.as_file(), FallocateFlags::empty(), 0, Sites::TABLE_BYTES)?;
        file.write_all(&Sites::TABLE_HEAD)?;
        Ok(file)
    }
}

/// Where the processes of one run write.
#[derive(Debug)]
pub struct Table<'a> {
    library: &'a Path,
    file: NamedTempFile,
}

impl Table<'_> {
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The library will be in all that a command starts. What is preloaded anyway comes first: it may be an allocator.
    pub fn preload_into(&self, command: &mut Command) {
        let preloads = preloads(std::env::var_os("LD_PRELOAD"), self.library);
        command.env("LD_PRELOAD", preloads).env(ENV_TABLE, self.path());
    }

    /// Whether anybody wrote.
    pub fn has_notes(&self) -> bool {
        Sites::read(self.path()).is_ok_and(|sites| !sites.is_empty())
    }
}

/// What is to be preloaded, after what is anyway.
pub fn preloads(others: Option<OsString>, library: &Path) -> OsString {
    let mut preloads = others.filter(|others| !others.is_empty()).unwrap_or_default();
    if !preloads.is_empty() {
        preloads.push(":");
    }
    preloads.push(library);
    preloads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_anyway_stays_and_comes_first() {
        let library = Path::new("/lib/sites.so");
        for (others, expected) in [
            (None, "/lib/sites.so"),
            (Some(""), "/lib/sites.so"),
            (Some("/lib/a.so b.so"), "/lib/a.so b.so:/lib/sites.so"),
        ] {
            assert_eq!(preloads(others.map(OsString::from), library), expected);
        }
    }
}
