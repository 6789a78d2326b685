//! Making the two files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use quartier_decide::dqdt::Tree;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::layout::{
    Mark, NR_PROCESSES, PAGE_BYTES, Plan, THREADS_MAGIC, TREE_MAGIC, VERSION, checksum,
};
use crate::open::{THREADS_FILE, TREE_FILE};
use crate::{SharedError, SharedTree, owner, place};

/// How a shared tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create {
    /// Permissions of `threads`: who may place threads. By default only its owner; 0660 adds a group,
    /// 0666 everybody (see the crate's first page for what that permits).
    pub threads_mode: u32,
    /// M above which a cluster has room for a new program, in base pages. `None`: not asked for.
    pub free_pages_min: Option<u64>,
}

impl Default for Create {
    fn default() -> Self {
        Self { threads_mode: 0o600, free_pages_min: None }
    }
}

/// Permissions of `tree`: everybody reads, its owner writes.
const TREE_MODE: u32 = 0o644;

impl SharedTree {
    /// Makes both files in a directory, in place of those that may be there: whoever has opened those
    /// keeps them.
    ///
    /// # Errors
    /// When the files cannot be made.
    pub fn create(directory: &Path, tree: &Tree, options: &Create) -> Result<Self, SharedError> {
        let pid = std::process::id();
        let temporary = |name: &str| directory.join(format!(".{name}.{pid}"));
        let paths = [temporary(TREE_FILE), temporary(THREADS_FILE)];
        let make = |path: &Path, mode| make(path, mode).map_err(|e| os("write in", directory, e));
        let tree_file = make(&paths[0], TREE_MODE)?;
        let threads_file = make(&paths[1], options.threads_mode)?;
        let written = write_files(tree, options, &tree_file, &threads_file);
        let made = written
            .map_err(|source| os("write", &paths[0], source))
            .and_then(|()| Self::of_files(tree_file, threads_file, directory))
            .and_then(|made| {
                place::on_nodes(&made);
                allocate(&made, directory)?;
                rename(&paths[1], &directory.join(THREADS_FILE))?;
                rename(&paths[0], &directory.join(TREE_FILE))?;
                Ok(made)
            });
        if made.is_err() {
            paths.iter().for_each(|path| _ = fs::remove_file(path));
        }
        made
    }

    /// A tree of this process and of those that inherit its files.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn private(tree: &Tree) -> Result<Self, SharedError> {
        let path = Path::new("memory for a decision tree");
        let file = |name: &str| {
            let fd: Result<OwnedFd, _> = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
            fd.map(File::from).map_err(|errno| os("make", path, errno.into()))
        };
        let (tree_file, threads_file) = (file("quartier-tree")?, file("quartier-threads")?);
        write_files(tree, &Create::default(), &tree_file, &threads_file)
            .map_err(|source| os("write", path, source))?;
        let made = Self::of_files(tree_file, threads_file, path)?;
        place::on_nodes(&made);
        Ok(made)
    }

    /// The files, to be inherited or named by `/proc/PID/fd/N`: `tree` and `threads`.
    #[must_use]
    pub fn files(&self) -> (&File, &File) {
        (self.resources.file(), self.threads.file())
    }
}

/// Writes both files of a tree with nothing known and nothing counted. Only what is not zero is
/// written: pages of estimates get memory when they are first used, on the node they are bound to.
fn write_files(
    tree: &Tree,
    options: &Create,
    tree_file: &File,
    threads_file: &File,
) -> io::Result<()> {
    let plan = Plan::new(tree);
    let mut pair = [0; 8];
    getrandom(&mut pair, GetRandomFlags::empty())?;
    let mark = |magic, file_bytes: usize| Mark {
        magic,
        version: VERSION,
        reserved: 0,
        pair: u64::from_le_bytes(pair),
        boot_id: owner::boot_id().unwrap_or_default(),
        file_bytes: file_bytes as u64,
    };
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    threads_file.set_len(plan.threads_bytes as u64)?;
    let header = [
        mark(THREADS_MAGIC, plan.threads_bytes).bytes(),
        words(&[
            PAGE_BYTES as u64,
            plan.nr_slots as u64,
            plan.processes_offset as u64,
            NR_PROCESSES as u64,
            plan.records_offset as u64,
            plan.nr_records as u64,
        ]),
    ];
    threads_file.write_all_at(&header.concat(), 0)?;
    tree_file.set_len(plan.tree_bytes as u64)?;
    let header = [
        mark(TREE_MAGIC, plan.tree_bytes).bytes(),
        words(&[
            PAGE_BYTES as u64,
            plan.topology.len() as u64,
            checksum(&plan.topology),
            plan.resources_offset as u64,
            plan.nr_slots as u64,
            options.free_pages_min.map_or(0, |pages| pages.saturating_add(1)),
            0,
        ]),
    ];
    tree_file.write_all_at(&plan.topology, PAGE_BYTES as u64)?;
    tree_file.write_all_at(&header.concat(), 0)
}

impl Mark {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<Self>());
        bytes.extend(self.magic);
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.reserved.to_le_bytes());
        bytes.extend(self.pair.to_le_bytes());
        bytes.extend(self.boot_id);
        bytes.extend(self.file_bytes.to_le_bytes());
        bytes
    }
}

/// Takes all memory that both files will ever need, each page from the node that it is bound to: where the tmpfs is full later,
/// whoever touches a page that is not there would end (SIGBUS).
fn allocate(shared: &SharedTree, directory: &Path) -> Result<(), SharedError> {
    for mapping in [&shared.resources, &shared.threads] {
        let all = fallocate(mapping.file(), FallocateFlags::empty(), 0, mapping.len() as u64);
        all.map_err(|errno| os("take memory in", directory, errno.into()))?;
    }
    Ok(())
}

fn make(path: &Path, mode: u32) -> io::Result<File> {
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    // Not through the umask: the mode was asked for.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

fn rename(from: &Path, to: &Path) -> Result<(), SharedError> {
    fs::rename(from, to).map_err(|source| os("make", to, source))
}

pub(crate) fn os(operation: &'static str, path: &Path, error: io::Error) -> SharedError {
    SharedError::Os { operation, path: path.display().to_string(), error }
}
