//! The directory of a running `serve`: whose name is taken, and where its files are.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

use super::copy::make_directory;
use super::left;
use super::receiving::Receiving;

/// For commands that ask about a `serve`.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Which `serve`, where there are several [default: the one there is]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// A name that nobody else uses while this is held.
#[derive(Debug)]
pub struct Instance {
    pub directory: PathBuf,
    _lock: File,
}

/// Where all instances of this user are.
pub fn base() -> PathBuf {
    let uid = rustix::process::geteuid();
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    match own {
        _ if uid.is_root() => PathBuf::from("/run/quartier-serve"),
        Some(path) => PathBuf::from(path).join("quartier-serve"),
        None => std::env::temp_dir().join(format!("quartier-serve-{}", uid.as_raw())),
    }
}

impl Instance {
    /// Takes the name.
    pub fn take(name: &str) -> anyhow::Result<Self> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name) {
            bail!("--name {name}: a name has letters, digits, `.`, `_` and `-`, and no `.` first");
        }
        let base = base();
        make_directory(&base)?;
        let found = fs::symlink_metadata(&base)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            bail!(
                "{} is another user's, or no folder: remove it, or set XDG_RUNTIME_DIR",
                base.display()
            );
        }
        let directory = base.join(name);
        make_directory(&directory)?;
        let path = directory.join("lock");
        // Whoever may open it may hold it, and keep us from this name.
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.with_context(|| format!("cannot write {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "a `quartier serve` named {name} runs already: stop that one, or give this one another --name"
            );
        }
        // At once: whoever sees the lock believes them.
        for file in ["status.json", "metrics"] {
            let _ = fs::remove_file(directory.join(file));
        }
        refuse_if_copies_live(name, &directory)?;
        Receiving::undo_left(&directory);
        Ok(Self { directory, _lock: lock })
    }

    /// A copy's own directory.
    pub fn of_copy(&self, copy: usize) -> PathBuf {
        self.directory.join(format!("copy-{copy}"))
    }
}

/// They answer from the files that are here: nothing of these is touched.
fn refuse_if_copies_live(name: &str, directory: &Path) -> anyhow::Result<()> {
    let groups: Vec<String> =
        left::living(directory).iter().map(|group| format!("-{group}")).collect();
    if groups.is_empty() {
        return Ok(());
    }
    bail!(
        "copies of a `quartier serve` named {name} that was killed still serve: `kill -- {}` ends them; or give this one another --name",
        groups.join(" ")
    )
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether somebody holds the name.
pub fn is_running(directory: &Path) -> bool {
    let lock = File::open(directory.join("lock"));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}
