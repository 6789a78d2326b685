//! Opening what somebody else made, trusting nothing of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quartier_decide::dqdt::{ProcessEntry, Record, Resources, Threads, Tree};

use crate::create::os;
use crate::layout::{
    Mark, PAGE_BYTES, THREADS_MAGIC, TREE_MAGIC, ThreadsHeader, TreeHeader, VERSION, checksum,
};
use crate::mapping::Mapping;
use crate::{Lists, SharedError, SharedTree, owner};

/// Their names in the directory.
pub(crate) const TREE_FILE: &str = "tree";
pub(crate) const THREADS_FILE: &str = "threads";

/// While both files are being replaced they may be of two pairs.
const PAIR_TRIES: u32 = 20;

impl SharedTree {
    /// Opens the tree in a directory: to place threads where that is permitted, else to read.
    ///
    /// # Errors
    /// When there is none, it cannot be trusted, or is not what this program makes.
    pub fn open(directory: &Path) -> Result<Self, SharedError> {
        match check_trust(directory) {
            Err(error) if error.is_not_found() => return Err(SharedError::none(directory)),
            trusted => trusted?,
        }
        for tries in 0.. {
            let tree = open_if_there(&directory.join(TREE_FILE))?;
            let threads = open_if_there(&directory.join(THREADS_FILE))?;
            let opened = match (tree, threads) {
                (Some(tree), Some(threads)) => Self::of_opened(tree, threads, directory),
                // Whose the other one is matters: what is not ours is not to be replaced.
                (Some(tree), None) => tree
                    .map(TREE_MAGIC)
                    .and_then(|_| Err(damaged(directory, "its file `threads` is not there"))),
                (None, Some(threads)) => threads
                    .map(THREADS_MAGIC)
                    .and_then(|_| Err(damaged(directory, "its file `tree` is not there"))),
                (None, None) => Err(SharedError::none(directory)),
            };
            match opened {
                Err(SharedError::Damaged { .. }) if tries < PAIR_TRIES => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                opened => return opened,
            }
        }
        unreachable!("the last try returns")
    }

    /// The same, if the tree is of this machine as it is: as `tree` is.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`SharedError::OtherMachine`].
    pub fn open_for(directory: &Path, tree: &Tree) -> Result<Self, SharedError> {
        let shared = Self::open(directory)?;
        shared.check_is_of(tree, directory)?;
        Ok(shared)
    }

    /// Opens both files by name: those of [`private`](Self::private), say.
    ///
    /// # Errors
    /// As [`open`](Self::open); who may write the directory is not looked at.
    pub fn open_files(tree: &Path, threads: &Path) -> Result<Self, SharedError> {
        Self::of_opened(open_file(tree)?, open_file(threads)?, tree)
    }

    /// Opens two files that are open for reading and writing already.
    ///
    /// # Errors
    /// As [`open_files`](Self::open_files).
    pub fn of_descriptors(tree: File, threads: File) -> Result<Self, SharedError> {
        Self::of_files(tree, threads, Path::new("the decision tree"))
    }

    pub(crate) fn of_files(tree: File, threads: File, path: &Path) -> Result<Self, SharedError> {
        let opened = |file, name| Opened { file, is_writable: true, path: path.join(name) };
        Self::of_opened(opened(tree, TREE_FILE), opened(threads, THREADS_FILE), path)
    }

    fn of_opened(tree: Opened, threads: Opened, path: &Path) -> Result<Self, SharedError> {
        let (resources, threads) = (tree.map(TREE_MAGIC)?, threads.map(THREADS_MAGIC)?);
        // SAFETY: both are at least a page long, which is more than either header.
        let (tree_header, threads_header) =
            unsafe { (resources.header::<TreeHeader>(), threads.header::<ThreadsHeader>()) };
        if tree_header.mark.pair != threads_header.mark.pair {
            return Err(damaged(path, "its two files do not belong together"));
        }
        let topology = resources.bytes(tree_header.topology_offset, tree_header.topology_bytes);
        let topology = topology.ok_or_else(|| damaged(path, "its topology is cut off"))?;
        if checksum(&topology) != tree_header.topology_checksum {
            return Err(damaged(path, "its topology is not what was written"));
        }
        let tree = Tree::decode(&topology).map_err(|error| SharedError::Damaged {
            path: path.display().to_string(),
            what: format!("of its topology {error}"),
        })?;
        let lists = Lists {
            resources_offset: tree_header.resources_offset,
            threads_offset: threads_header.threads_offset,
            nr_slots: threads_header.nr_slots,
            processes_offset: threads_header.processes_offset,
            nr_processes: threads_header.nr_processes,
            records_offset: threads_header.records_offset,
            nr_records: threads_header.nr_records,
        };
        let slots = [tree_header.nr_slots, lists.nr_slots];
        if slots.iter().any(|slots| *slots != tree.nr_slots() as u64) {
            return Err(damaged(path, "it has not an estimate for each cluster"));
        }
        if !all_fit(&lists, &resources, &threads) {
            return Err(damaged(path, "its parts do not fit in it"));
        }
        Ok(Self { tree, resources, threads, lists })
    }

    /// That a tree is of this machine as it is now.
    ///
    /// # Errors
    /// [`SharedError::OtherMachine`] if not.
    pub fn check_is_of(&self, tree: &Tree, directory: &Path) -> Result<(), SharedError> {
        if self.tree == *tree {
            return Ok(());
        }
        Err(SharedError::OtherMachine { path: directory.display().to_string() })
    }
}

struct Opened {
    file: File,
    is_writable: bool,
    path: PathBuf,
}

impl Opened {
    /// Maps a file that begins as it should.
    fn map(self, magic: [u8; 8]) -> Result<Mapping, SharedError> {
        let mut start = [0; 8];
        let begins = self.file.read_exact_at(&mut start, 0).is_ok() && start == magic;
        if !begins {
            let what = "it does not begin as one".to_owned();
            return Err(SharedError::Foreign { path: self.path.display().to_string(), what });
        }
        if self.file.metadata().map_or(0, |metadata| metadata.len()) < PAGE_BYTES as u64 {
            return Err(damaged(&self.path, "it is shorter than its first page"));
        }
        let mapped = Mapping::new(self.file, self.is_writable);
        let mapping = mapped.map_err(|source| os("map", &self.path, source))?;
        // SAFETY: both files are at least a page long and begin with a mark.
        let mark = unsafe { mapping.header::<Mark>() };
        check_mark(mark, &mapping, &self.path)?;
        Ok(mapping)
    }
}

fn open_if_there(path: &Path) -> Result<Option<Opened>, SharedError> {
    match open_file(path) {
        Err(error) if error.is_not_found() => Ok(None),
        opened => opened.map(Some),
    }
}

/// To write where that is permitted, else to read.
fn open_file(path: &Path) -> Result<Opened, SharedError> {
    let open = |write| {
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        // A link in /proc/PID/fd has to be followed; anything else was put there by whoever may write
        // the directory, which is looked at.
        options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path)
    };
    let (file, is_writable) = match open(true) {
        Ok(file) => (file, true),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            (open(false).map_err(|source| os("open", path, source))?, false)
        }
        Err(source) => return Err(os("open", path, source)),
    };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        let what = "it is not a file".to_owned();
        return Err(SharedError::Foreign { path: path.display().to_string(), what });
    }
    Ok(Opened { file, is_writable, path: path.to_owned() })
}

/// Only root and this user may be able to put files there.
pub(crate) fn check_trust(directory: &Path) -> Result<(), SharedError> {
    let metadata =
        fs::symlink_metadata(directory).map_err(|source| os("open", directory, source))?;
    let own = rustix::process::geteuid().as_raw();
    let untrusted = |what| SharedError::Untrusted { path: directory.display().to_string(), what };
    if !metadata.is_dir() {
        return Err(untrusted("it is not a directory"));
    }
    if ![0, own].contains(&metadata.uid()) {
        return Err(untrusted("it belongs to another user"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(untrusted("others may write there"));
    }
    Ok(())
}

fn check_mark(mark: &Mark, mapping: &Mapping, path: &Path) -> Result<(), SharedError> {
    let path_text = || path.display().to_string();
    if mark.version != VERSION {
        return Err(SharedError::Version { path: path_text(), found: mark.version });
    }
    let is_of_this_boot = owner::boot_id().is_none_or(|now| mark.boot_id == now);
    if !is_of_this_boot && mark.boot_id != [0; 16] {
        return Err(SharedError::OtherBoot { path: path_text() });
    }
    if mark.file_bytes > mapping.len() as u64 {
        return Err(damaged(path, "it is cut off"));
    }
    Ok(())
}

/// Whether every list lies inside its file and behind the header: what is counted must not change where
/// it is counted.
fn all_fit(lists: &Lists, resources: &Mapping, threads: &Mapping) -> bool {
    let page = PAGE_BYTES as u64;
    let fits = |mapping: &Mapping, offset: u64, count: u64, each: usize, alignment: u64| {
        let end = count.checked_mul(each as u64).and_then(|bytes| bytes.checked_add(offset));
        let is_inside = end.is_some_and(|end| end <= mapping.len() as u64);
        offset >= page && offset.is_multiple_of(alignment) && is_inside
    };
    let Lists { resources_offset, threads_offset, nr_slots, .. } = *lists;
    let Lists { processes_offset, nr_processes, records_offset, nr_records, .. } = *lists;
    fits(resources, resources_offset, nr_slots, size_of::<Resources>(), page)
        && fits(threads, threads_offset, nr_slots, size_of::<Threads>(), page)
        && fits(threads, processes_offset, nr_processes, size_of::<ProcessEntry>(), 8)
        && fits(threads, records_offset, nr_records, size_of::<Record>(), 8)
}

fn damaged(path: &Path, what: &str) -> SharedError {
    SharedError::Damaged { path: path.display().to_string(), what: what.to_owned() }
}
