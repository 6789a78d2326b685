//! Guests as they were when they had booted, so that the next one of the same kind goes on from there: to boot takes an emulated
//! machine seconds, to read what it was then takes none.
//!
//! A snapshot is taken when our agent has said that it runs, before it has heard anything: nothing of a command, of its user or of
//! this machine's files is in it, and the random numbers of whoever goes on from it begin anew ([`Start::seed`]).
//!
//! [`Start::seed`]: crate::frame::Start::seed

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quartier_model::Bytes;
use rustix::fs::{MemfdFlags, SeekFrom};

use crate::error::{Context, Error, Result};
use crate::topology::Topology;

/// So many are kept, those used last; each takes what a kernel has written to its memory, some 300 MiB.
const KEPT_MAX: usize = 16;
/// None is taken where the disk would have less room after it.
const ROOM_MIN_BYTES: u64 = 4 << 30;
/// How the name of one begins that is being written, which takes a second.
const NEW: &str = ".new-";
const UNFINISHED: Duration = Duration::from_secs(600);
const KEY: &str = "key";
const STATE: &str = "state";

/// What two guests must have in common for one to go on from where the other was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// From the machine, as QEMU is told of it, the files that it is made of, and what it boots with. And from when this machine
    /// booted: what was not all written when its power went is not gone on from.
    ///
    /// # Errors
    /// When a file is not there.
    pub fn new(machine: &str, files: &[&Path], initramfs: &[u8]) -> Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut text = format!("1 {} {machine}", boot.trim());
        for file in files {
            let about = fs::metadata(file).path("read", file)?;
            let (size, changed) = (about.len(), (about.mtime(), about.mtime_nsec()));
            text += &format!(" {} {size} {changed:?}", file.display());
        }
        Ok(Self(format!("{text} {} {:x}", initramfs.len(), hash(initramfs))))
    }

    fn name(&self) -> String {
        format!("{:016x}", hash(self.0.as_bytes()))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Where they are kept.
#[derive(Clone, Debug)]
pub struct Snapshots {
    folder: PathBuf,
}

/// A machine's state, and the memory of each node.
#[derive(Debug)]
pub struct Snapshot {
    state: File,
    memory: Vec<File>,
}

impl Snapshots {
    /// Those in this folder, which need not be there.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The one of that key, if there is one that can be read.
    pub fn find(&self, key: &Key, nr_nodes: usize) -> Option<Snapshot> {
        let folder = self.folder.join(key.name());
        if fs::read_to_string(folder.join(KEY)).ok()? != key.0 {
            return None;
        }
        let open = |name: &str| File::open(folder.join(name)).ok();
        let memory = (0..nr_nodes).map(|node| open(&node.to_string())).collect::<Option<_>>()?;
        let snapshot = Snapshot { state: open(STATE)?, memory };
        // The kept ones are those used last.
        let used = File::options().write(true).open(folder.join(KEY)).ok()?;
        let _ = used.set_modified(SystemTime::now());
        Some(snapshot)
    }

    /// Whether the disk has room for one more.
    pub fn has_room(&self) -> bool {
        let there = self.folder.ancestors().find(|folder| folder.exists());
        let about = there.and_then(|folder| rustix::fs::statvfs(folder).ok());
        about.is_some_and(|about| about.f_bavail.saturating_mul(about.f_frsize) > ROOM_MIN_BYTES)
    }

    /// How many there are, and what all together take of the disk.
    pub fn about(&self) -> (usize, Bytes) {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let folders: Vec<_> = entries(&self.folder).map(|entry| entry.path()).collect();
        let files = folders.iter().flat_map(|folder| entries(folder));
        let blocks: u64 = files.filter_map(|file| Some(file.metadata().ok()?.blocks())).sum();
        (folders.iter().filter(|folder| folder.join(KEY).exists()).count(), Bytes(blocks * 512))
    }

    /// Keeps one, and no more than so many with it. Where two are made at once, the second one changes nothing.
    ///
    /// # Errors
    /// When it cannot be written; nothing is left of it then.
    pub fn keep(&self, key: &Key, snapshot: &Snapshot) -> Result<()> {
        fs::create_dir_all(&self.folder).path("create", &self.folder)?;
        self.forget_unfinished();
        let new = tempfile::Builder::new().prefix(NEW).tempdir_in(&self.folder);
        let new = new.path("write in", &self.folder)?;
        for (node, memory) in snapshot.memory.iter().enumerate() {
            write(memory, &new.path().join(node.to_string()))?;
        }
        write(&snapshot.state, &new.path().join(STATE))?;
        fs::write(new.path().join(KEY), &key.0).path("write in", new.path())?;
        let place = self.folder.join(key.name());
        if fs::rename(new.path(), &place).is_ok() {
            let _ = new.keep();
        }
        self.forget_old();
        Ok(())
    }

    /// Forgets one that is of no use.
    pub fn forget(&self, key: &Key) {
        let _ = fs::remove_dir_all(self.folder.join(key.name()));
    }

    /// What somebody left who was killed while he wrote one.
    fn forget_unfinished(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let is_new = entry.file_name().to_string_lossy().starts_with(NEW);
            let changed = entry.metadata().and_then(|about| about.modified());
            let is_old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago > UNFINISHED));
            if is_new && is_old {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Whoever reads one that is forgotten meanwhile has its files open.
    fn forget_old(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let used = |folder: &Path| fs::metadata(folder.join(KEY)).and_then(|key| key.modified());
        let mut kept: Vec<(SystemTime, PathBuf)> =
            entries.filter_map(|entry| Some((used(&entry.path()).ok()?, entry.path()))).collect();
        kept.sort();
        for (_, folder) in kept.iter().rev().skip(KEPT_MAX) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Snapshot {
    /// The files of a machine that does not run yet. They are of memory themselves.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn of_new(topology: &Topology) -> Result<Self> {
        let making = "make a file for a node's memory";
        let file = |bytes: u64| {
            let file = rustix::fs::memfd_create("quartier-node", MemfdFlags::CLOEXEC);
            let file = File::from(file.doing(making)?);
            file.set_len(bytes).doing(making)?;
            Ok(file)
        };
        let memory = topology.bytes_of_nodes().map(file).collect::<Result<_>>()?;
        Ok(Self { state: file(0)?, memory })
    }

    /// Where its state is, and then each node's memory, for a process of their own.
    ///
    /// # Errors
    /// When there can be no more open files.
    pub fn files(&self) -> Result<Vec<OwnedFd>> {
        let all = std::iter::once(&self.state).chain(&self.memory);
        all.map(|file| Ok(file.try_clone().doing("open a file again")?.into())).collect()
    }

    /// Fills these files with it.
    ///
    /// # Errors
    /// When it cannot be read, or there are other files than it has.
    pub fn copy_to(&self, other: &Self) -> Result<()> {
        let making = "go on from a snapshot";
        let size = |file: &File| file.metadata().map(|about| about.len()).doing(making);
        for (from, to) in self.memory.iter().zip(&other.memory) {
            // Who has mapped a file that shrinks is killed.
            if size(from)? != size(to)? {
                return Err(Error::refused("a node's memory is not all there"));
            }
            copy(from, to).doing(making)?;
        }
        copy(&self.state, &other.state).doing(making)
    }
}

fn write(from: &File, path: &Path) -> Result<()> {
    let to = File::create_new(path).path("write", path)?;
    copy(from, &to).path("write", path)
}

/// All that is not a hole.
fn copy(from: &File, to: &File) -> std::io::Result<()> {
    const PIECE: usize = 1 << 20;
    let end = from.metadata()?.len();
    to.set_len(end)?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < end {
        at = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(from, SeekFrom::Hole(at))?;
        while at < hole {
            let piece = &mut buffer[..PIECE.min((hole - at) as usize)];
            from.read_exact_at(piece, at)?;
            to.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(size: u64, parts: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        parts.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        file
    }

    fn snapshot(state: &[u8], memory: &[u8]) -> Snapshot {
        let of_node = file(64 * MIB, &[(0, b"begin"), (40 * MIB + 3, memory)]);
        Snapshot { state: file(state.len() as u64, &[(0, state)]), memory: vec![of_node] }
    }

    fn key(machine: &str) -> Key {
        Key::new(machine, &[], b"initramfs").unwrap()
    }

    #[test]
    fn what_was_kept_is_found_with_its_holes() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::at(&folder.path().join("new"));
        assert!(snapshots.find(&key("a"), 1).is_none());
        let long = vec![7; 3 * MIB as usize + 1];
        snapshots.keep(&key("a"), &snapshot(b"state", &long)).unwrap();
        // A second one of the same key is not taken.
        snapshots.keep(&key("a"), &snapshot(b"other", b"other")).unwrap();
        assert_eq!(fs::read_dir(&snapshots.folder).unwrap().count(), 1);
        let (count, bytes) = snapshots.about();
        assert!(count == 1 && (3 * MIB..8 * MIB).contains(&bytes.0), "{count} {bytes:?}");
        assert!(snapshots.find(&key("b"), 1).is_none() && snapshots.find(&key("a"), 2).is_none());
        let found = snapshots.find(&key("a"), 1).unwrap();
        let empty = Snapshot { state: file(0, &[]), memory: vec![file(64 * MIB, &[])] };
        found.copy_to(&empty).unwrap();
        let mut read = vec![0; long.len()];
        empty.memory[0].read_exact_at(&mut read, 40 * MIB + 3).unwrap();
        assert!(read == long && empty.memory[0].metadata().unwrap().len() == 64 * MIB);
        assert!(empty.memory[0].metadata().unwrap().blocks() * 512 < 8 * MIB, "holes stay holes");
        assert_eq!(empty.state.metadata().unwrap().len(), 5);
        let smaller = Snapshot { state: file(0, &[]), memory: vec![file(32 * MIB, &[])] };
        assert!(found.copy_to(&smaller).is_err(), "another machine's");
        snapshots.forget(&key("a"));
        assert!(snapshots.find(&key("a"), 1).is_none());
    }

    #[test]
    fn those_used_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::at(folder.path());
        let tiny = || Snapshot { state: file(1, &[(0, b"s")]), memory: vec![file(1, &[])] };
        for nr in 0..KEPT_MAX {
            snapshots.keep(&key(&nr.to_string()), &tiny()).unwrap();
            let path = folder.path().join(key(&nr.to_string()).name()).join(KEY);
            let long_ago = SystemTime::now() - Duration::from_secs(3600 - nr as u64);
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        snapshots.find(&key("0"), 1).unwrap();
        snapshots.keep(&key("new"), &tiny()).unwrap();
        let is_kept = |nr: &str| snapshots.find(&key(nr), 1).is_some();
        assert!(is_kept("0") && !is_kept("1") && is_kept("2") && is_kept("new"));
    }

    #[test]
    fn another_machine_file_or_program_is_another_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        fs::write(&path, "one").unwrap();
        let of = |machine: &str, initramfs: &[u8]| Key::new(machine, &[&path], initramfs).unwrap();
        let first = of("-m 1G", b"agent");
        assert_eq!(first, of("-m 1G", b"agent"));
        assert!(first != of("-m 2G", b"agent") && first != of("-m 1G", b"agenT"));
        fs::write(&path, "another").unwrap();
        assert!(first != of("-m 1G", b"agent"));
        assert!(Key::new("", &[Path::new("/no such file")], b"").is_err());
    }
}
