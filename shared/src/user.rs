//! Where shared trees are, and a user's own, which lives as long as somebody uses it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use quartier_decide::dqdt::Tree;
use quartier_model::TREE_OF_MACHINE;
use rustix::fs::{FlockOperation, flock};

use crate::create::os;
use crate::open::{THREADS_FILE, TREE_FILE, check_trust};
use crate::{Create, SharedError, SharedTree};

/// Whoever uses a user's tree holds this file's lock, shared.
const LOCK_FILE: &str = "lock";

/// Whoever looks whether there is a tree, to make one, holds this file's lock.
const MAKING_FILE: &str = "making";

/// The tree that an administrator (or the daemon) makes for the whole machine.
#[must_use]
pub fn system_directory() -> PathBuf {
    PathBuf::from(TREE_OF_MACHINE)
}

/// The tree that a user's own programs share where there is no other.
#[must_use]
pub fn directory_of_user() -> PathBuf {
    PathBuf::from(format!("/dev/shm/quartier-{}", rustix::process::geteuid().as_raw()))
}

/// A user's tree in use. The last user who lets go of it removes the files.
#[derive(Debug)]
pub struct UserTree {
    shared: SharedTree,
    directory: PathBuf,
    lock: File,
}

impl UserTree {
    /// Opens the tree in a directory of this user; makes it where there is none, or where what is
    /// there is not of this machine as it is.
    ///
    /// # Errors
    /// When the directory cannot be made or is not to be trusted, or the files cannot be made.
    pub fn join(directory: &Path, tree: &Tree) -> Result<Self, SharedError> {
        loop {
            make_directory(directory)?;
            match check_trust(directory) {
                // The last user has just removed it.
                Err(error) if error.is_not_found() => continue,
                trusted => trusted?,
            }
            let use_it = FlockOperation::LockShared;
            let Some(lock) = locked(directory, LOCK_FILE, use_it)? else { continue };
            // Of several that find none, one makes it.
            let make_it = FlockOperation::LockExclusive;
            let Some(_making) = locked(directory, MAKING_FILE, make_it)? else { continue };
            let shared = match SharedTree::open_for(directory, tree) {
                Err(error) if error.may_be_replaced() => {
                    SharedTree::create(directory, tree, &Create::default())?
                }
                opened => opened?,
            };
            return Ok(Self { shared, directory: directory.to_owned(), lock });
        }
    }

    /// The tree.
    #[must_use]
    pub fn shared(&self) -> &SharedTree {
        &self.shared
    }
}

impl Drop for UserTree {
    fn drop(&mut self) {
        // Nobody else uses it: under the exclusive lock nobody can begin to, either. Who waits for the
        // lock finds that its file is gone and starts again.
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            for file in [TREE_FILE, THREADS_FILE, MAKING_FILE, LOCK_FILE] {
                let _ = fs::remove_file(self.directory.join(file));
            }
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

fn make_directory(directory: &Path) -> Result<(), SharedError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(os("make", directory, error))
        }
        _ => Ok(()),
    }
}

/// A lock file, locked. `None` when the last user removed it meanwhile.
fn locked(directory: &Path, name: &str, how: FlockOperation) -> Result<Option<File>, SharedError> {
    let path = directory.join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = match options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|source| os("open", &path, source))?,
    };
    flock(&file, how).map_err(|errno| os("lock", &path, errno.into()))?;
    let is_there = |now: fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == now.ino());
    Ok(fs::metadata(&path).is_ok_and(is_there).then_some(file))
}
