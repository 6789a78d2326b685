//! A copy of a folder, made beside the one before: what has not changed is the same file.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::listing::{Entry, Listing, Stamp, named};

/// A tree as it was made.
#[derive(Clone, Debug)]
pub struct Tree {
    pub path: PathBuf,
    /// The same for all copies.
    pub listing: Arc<Listing>,
    /// Of its files: a folder belongs to whom the original does, who could put others in their place.
    inodes: BTreeMap<PathBuf, u64>,
}

/// Why there is no new tree.
#[derive(Debug)]
pub enum Unmade {
    /// The original changed meanwhile.
    Changed,
    Failed(io::Error),
}

impl From<io::Error> for Unmade {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Whether a file has to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// One that changes while it is read is read once more, with all others.
    Whole,
    /// One that never stands still is taken as it comes: it will be copied again.
    AsItComes,
}

impl Tree {
    /// Makes one at `path`, where nothing is yet. Nobody can write there, so nothing that a server writes gets lost in a copy:
    /// it is refused. On failure nothing is left.
    pub fn make(
        path: PathBuf,
        original: &Path,
        listing: &Arc<Listing>,
        before: Option<&Self>,
        patience: Patience,
    ) -> Result<Self, Unmade> {
        let mut tree = Self { path, listing: Arc::clone(listing), inodes: BTreeMap::new() };
        let made = make_folder(&tree.path).map_err(Unmade::Failed);
        let made = made.and_then(|()| tree.fill(original, before, patience));
        match made {
            Ok(()) => Ok(tree),
            Err(error) => {
                remove(&tree.path);
                Err(error)
            }
        }
    }

    fn fill(
        &mut self,
        original: &Path,
        before: Option<&Self>,
        patience: Patience,
    ) -> Result<(), Unmade> {
        for (path, entry) in &self.listing.entries {
            let to = self.path.join(path);
            match entry {
                Entry::Folder { .. } => make_folder(&to)?,
                Entry::Link(target) => symlink(target, &to).map_err(|error| named(&to, &error))?,
                Entry::File(stamp) => {
                    let same = before.filter(|it| it.listing.entries.get(path) == Some(entry));
                    let linked = same.and_then(|before| before.link(path, &to));
                    let inode = match linked {
                        Some(inode) => inode,
                        None => copy(&original.join(path), &to, stamp, patience)?,
                    };
                    self.inodes.insert(path.clone(), inode);
                }
            }
        }
        // From within to without: what is closed cannot be filled, and what is given away is in what is not.
        for (path, entry) in self.listing.entries.iter().rev() {
            if let Entry::Folder { mode, owner } = entry {
                close(&self.path.join(path), *mode, *owner)?;
            }
        }
        let root = Stamp::of(&fs::metadata(original).map_err(|error| named(original, &error))?);
        Ok(close(&self.path, root.mode, root.owner)?)
    }

    /// Gives one of its files a place in the next tree, if it is the one that was put there.
    fn link(&self, path: &Path, to: &Path) -> Option<u64> {
        fs::hard_link(self.path.join(path), to).ok()?;
        let inode = fs::symlink_metadata(to).ok().map(|data| data.ino());
        let is_ours = inode.is_some() && inode.as_ref() == self.inodes.get(path);
        if !is_ours {
            let _ = fs::remove_file(to);
        }
        inode.filter(|_| is_ours)
    }
}

/// Nobody looks into it before it is whole.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path).map_err(|error| named(path, &error))
}

/// Readable by whom the original is, and writable by nobody.
fn close(path: &Path, mode: u32, owner: (u32, u32)) -> io::Result<()> {
    give(path, owner);
    fs::set_permissions(path, Permissions::from_mode(mode & 0o555))
        .map_err(|error| named(path, &error))
}

/// To whom the original belongs, which only root may do; else it is ours, and who may read it follows from its mode.
fn give(path: &Path, (uid, gid): (u32, u32)) {
    let _ = chown(path, Some(uid), Some(gid));
}

/// Gives the copy's inode.
fn copy(from: &Path, to: &Path, stamp: &Stamp, patience: Patience) -> Result<u64, Unmade> {
    // What took the place of a file since may be a pipe, which would make whoever opens it wait, or a link to anything.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(from);
    let mut original = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Unmade::Changed),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(Unmade::Changed);
        }
        Err(error) => return Err(named(from, &error).into()),
    };
    // Whatever the patience, it is the file that was seen: no other may be read by whoever may read this one.
    let is_same = |file: &File| {
        let seen = Stamp::of(&file.metadata().map_err(|error| named(from, &error))?);
        io::Result::Ok(match patience {
            Patience::Whole => seen == *stamp,
            Patience::AsItComes => seen.is_of_the_same_file_as(stamp),
        })
    };
    if !is_same(&original)? {
        return Err(Unmade::Changed);
    }
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(to);
    let mut file = created.map_err(|error| named(to, &error))?;
    io::copy(&mut original, &mut file).map_err(|error| named(from, &error))?;
    if !is_same(&original)? {
        return Err(Unmade::Changed);
    }
    give(to, stamp.owner);
    // Servers make a file's tag of its time and length: the same on all copies.
    let (seconds, nanoseconds) = stamp.modified;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds },
    };
    rustix::fs::futimens(&file, &times).map_err(io::Error::from)?;
    let is_readable = Permissions::from_mode(stamp.mode & 0o555);
    let closed = file.set_permissions(is_readable).and_then(|()| file.metadata());
    closed.map(|data| data.ino()).map_err(|error| named(to, &error).into())
}

/// Removes a tree. Who is not root has to open its folders first; root must not, for they are others', who could have put links to
/// anything in their place.
pub fn remove(path: &Path) {
    let is_root = rustix::process::geteuid().is_root();
    let mut folders = if is_root { Vec::new() } else { vec![path.to_owned()] };
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let found = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = found.filter(|item| item.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|item| item.path()));
    }
    let _ = fs::remove_dir_all(path);
}
