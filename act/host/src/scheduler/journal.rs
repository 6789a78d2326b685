//! What was changed, written down before it was: one line of JSON for each thing, and for each thing that was
//! taken back. A machine that was started anew has no task of before, so nothing has to survive that: lines are
//! not forced to the disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use quartier_model::TaskId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::blocks::{self, Block, Blocks};
use super::cpuset::Narrowed;
use super::holds::{Held, Holds};

/// Another number after each start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// A journal that has grown by so much is written anew, without what has been taken back.
const GROWTH_MAX: u64 = 4 << 20;

/// A journal is no link to another file.
const NO_LINK: i32 = libc::O_NOFOLLOW;

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Entry {
    /// The machine since its last start (`/proc/sys/kernel/random/boot_id`).
    Boot(String),
    /// A thread is held.
    Hold(TaskId, Held),
    /// It is not any more.
    Free {
        /// Whose thread.
        process: TaskId,
        /// Which.
        thread: TaskId,
    },
    /// Pages of a process are moved.
    Moved(TaskId, Vec<Block>),
    /// They are where they were, or it has ended.
    Back(TaskId),
    /// The control group of a process is narrowed to a node.
    Narrow(TaskId, Narrowed),
    /// It is not any more.
    Widen(TaskId),
}

/// Why there is no journal.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum JournalError {
    #[error("cannot write the journal {path}: {cause}")]
    Io { path: PathBuf, cause: io::Error },
    #[error("the journal {path} is not one, from its line {line} on: {complaint}")]
    Malformed { path: PathBuf, line: usize, complaint: String },
    #[error(
        "cannot tell when this machine was started, so not whose changes a journal holds: {BOOT_ID}: {cause}"
    )]
    Boot { cause: io::Error },
    #[error("another quartierd writes the journal {path}: stop it first")]
    InUse { path: PathBuf },
    #[error(
        "nothing can be done to a machine that was saved or made up: run it on the machine itself"
    )]
    NotLive,
}

/// What has been changed and not been taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Threads that are held.
    pub held: Holds,
    /// By process, and by the index of the block: where its pages were first.
    pub moved: BTreeMap<TaskId, Blocks>,
    /// By process: its control group, where we narrowed that.
    pub narrowed: BTreeMap<TaskId, Narrowed>,
}

/// A journal that is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    changes: Changes,
    /// Bytes that it has, and had when it was written anew.
    len: u64,
    len_anew: u64,
}

impl Changes {
    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Boot(_) => {}
            Entry::Hold(thread, held) => self.held.insert(thread, held),
            Entry::Free { process, thread } => self.held.remove(process, thread),
            Entry::Moved(process, blocks) => {
                let moved = self.moved.entry(process).or_default();
                blocks.into_iter().for_each(|block| blocks::note(moved, block));
            }
            Entry::Back(process) => {
                self.moved.remove(&process);
            }
            Entry::Narrow(process, narrowed) => {
                self.narrowed.insert(process, narrowed);
            }
            Entry::Widen(process) => {
                self.narrowed.remove(&process);
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let held = self.held.of(None).map(|(thread, held)| Entry::Hold(*thread, held.clone()));
        let moved = self
            .moved
            .iter()
            .map(|(process, blocks)| Entry::Moved(*process, blocks.values().cloned().collect()));
        let narrowed = self.narrowed.iter();
        let narrowed =
            narrowed.map(|(process, narrowed)| Entry::Narrow(*process, narrowed.clone()));
        held.chain(moved).chain(narrowed)
    }
}

impl Journal {
    /// That of this machine since its last start, see [`Self::open_after`].
    ///
    /// # Errors
    /// The same, and when nobody says which start that was.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let boot =
            std::fs::read_to_string(BOOT_ID).map_err(|cause| JournalError::Boot { cause })?;
        Self::open_after(path, boot.trim())
    }

    /// Opens the journal in a file, which is made if there is none; what is in it from before the
    /// machine was started is forgotten.
    ///
    /// # Errors
    /// When it cannot be written, another process has it, or it is something else.
    pub fn open_after(path: &Path, boot: &str) -> Result<Self, JournalError> {
        let io = |cause| JournalError::Io { path: path.to_owned(), cause };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).custom_flags(NO_LINK);
        let file = options.open(path).map_err(io)?;
        lock(&file).map_err(|_| JournalError::InUse { path: path.to_owned() })?;
        let (opened, there) = (file.metadata().map_err(io)?, path.metadata().map_err(io)?);
        if opened.ino() != there.ino() {
            // Another one has written it anew since it was opened.
            return Err(JournalError::InUse { path: path.to_owned() });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        let changes = read(path, &text, boot)?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            boot: boot.to_owned(),
            changes,
            len: 0,
            len_anew: 0,
        };
        journal.write_anew()?;
        Ok(journal)
    }

    /// What has been changed and not been taken back.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Writes down what is about to be done, or has been taken back.
    ///
    /// # Errors
    /// When it cannot be written: then it must not be done.
    pub fn write(&mut self, entry: Entry) -> Result<(), JournalError> {
        self.append(&entry)?;
        self.changes.apply(entry);
        if self.len > self.len_anew + GROWTH_MAX { self.write_anew() } else { Ok(()) }
    }

    fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let line = line(entry);
        self.file.write_all(&line).map_err(|cause| self.io(cause))?;
        self.len += line.len() as u64;
        Ok(())
    }

    /// Without what has been taken back: into a second file, which takes its place.
    fn write_anew(&mut self) -> Result<(), JournalError> {
        let mut text = line(&Entry::Boot(self.boot.clone()));
        self.changes.entries().for_each(|entry| text.extend(line(&entry)));
        let next = self.path.with_extension("next");
        let file = create_for_owner(&next).and_then(|mut file| {
            file.write_all(&text)?;
            Ok(file)
        });
        let file = file.map_err(|cause| self.io(cause))?;
        lock(&file).map_err(|errno| self.io(errno.into()))?;
        std::fs::rename(&next, &self.path).map_err(|cause| self.io(cause))?;
        (self.file, self.len, self.len_anew) = (file, text.len() as u64, text.len() as u64);
        Ok(())
    }

    fn io(&self, cause: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), cause }
    }
}

/// A new file that belongs to whoever its folder belongs to: `quartier undo` by root leaves a journal that the service
/// can go on with, which is another user. Nor may that user have root write elsewhere, by a link.
fn create_for_owner(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
    if let Some(folder) = path.parent().and_then(|folder| folder.metadata().ok())
        && folder.uid() != file.metadata()?.uid()
    {
        // Only root may.
        let _ = fchown(&file, Some(folder.uid()), Some(folder.gid()));
    }
    Ok(file)
}

/// Whoever was killed a moment ago may still be ending.
fn lock(file: &File) -> rustix::io::Result<()> {
    const TRIES: u32 = 20;
    let mut tried = 0;
    loop {
        let locked = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        tried += 1;
        if locked.is_ok() || tried == TRIES {
            return locked;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn line(entry: &Entry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).expect("entries have nothing that JSON has not");
    line.push(b'\n');
    line
}

/// What a journal says. A last line without an end was being written when its writer was killed: what it
/// says was not done yet.
fn read(path: &Path, text: &str, boot: &str) -> Result<Changes, JournalError> {
    let mut changes = Changes::default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (at, line) in whole.lines().enumerate() {
        let entry: Entry = serde_json::from_str(line).map_err(|error| JournalError::Malformed {
            path: path.to_owned(),
            line: at + 1,
            complaint: error.to_string(),
        })?;
        if matches!(&entry, Entry::Boot(other) if other != boot) {
            return Ok(Changes::default());
        }
        changes.apply(entry);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::mask::Mask;
    use proptest::prelude::*;
    use quartier_model::{NodeId, NodeOsId};
    use quartier_session::CpuBits;

    fn task(id: u32) -> TaskId {
        TaskId { id, start_ticks: 5 }
    }

    fn hold(id: u32) -> Entry {
        let set = Mask::from(&[2, 3].into_iter().collect::<CpuBits>());
        Entry::Hold(
            task(id),
            Held {
                process: task(1),
                node: NodeId(1),
                before: Mask::All,
                set,
                made: None,
                earlier: None,
            },
        )
    }

    fn free(id: u32) -> Entry {
        Entry::Free { process: task(1), thread: task(id) }
    }

    fn moved(id: u32, index: u64, from: u32) -> Entry {
        let pages = (0..9).map(|page| (page * u64::from(from + 1), NodeOsId(from)));
        Entry::Moved(task(id), vec![Block::of(index, pages)])
    }

    fn narrowed(inode: u32) -> Narrowed {
        let set = Mask::from(&[4, 5].into_iter().collect::<CpuBits>());
        let (group, inode) = ("/a.service".to_owned(), inode.into());
        Narrowed { group, inode, node: NodeId(2), set, earlier: None }
    }

    fn journal(folder: &tempfile::TempDir, boot: &str) -> Result<Journal, JournalError> {
        Journal::open_after(&folder.path().join("journal"), boot)
    }

    #[test]
    fn what_was_done_is_known_to_whoever_comes_after() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = journal(&folder, "a").unwrap();
        let narrow = |id, inode| Entry::Narrow(task(id), narrowed(inode));
        let entries = [hold(7), hold(8), free(7), moved(1, 4, 2), moved(1, 4, 3)];
        let groups = [narrow(1, 1), narrow(2, 2), Entry::Widen(task(2))];
        for entry in entries.into_iter().chain(groups) {
            first.write(entry).unwrap();
        }
        assert!(matches!(journal(&folder, "a"), Err(JournalError::InUse { .. })));
        let changes = first.changes().clone();
        drop(first);
        let second = journal(&folder, "a").unwrap();
        assert_eq!(*second.changes(), changes);
        let held: Vec<_> = changes.held.of(None).map(|(thread, _)| *thread).collect();
        assert_eq!(held, [task(8)]);
        assert_eq!(changes.narrowed, BTreeMap::from([(task(1), narrowed(1))]));
        let mut first = changes.moved[&task(1)][&4].pages().filter(|(page, _)| *page == 0);
        assert_eq!(first.next(), Some((0, NodeOsId(2))), "where it was first");
        drop(second);
        let other = journal(&folder, "b").unwrap();
        assert_eq!(*other.changes(), Changes::default(), "the machine was started anew");
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal(&folder, "a").unwrap();
        journal.write(hold(1)).unwrap();
        for _ in 0..60_000 {
            journal.write(hold(7)).unwrap();
            journal.write(free(7)).unwrap();
        }
        let len = folder.path().join("journal").metadata().unwrap().len();
        assert!(len < 2 * GROWTH_MAX, "{len}");
        assert_eq!(journal.changes().held.len(), 1);
        journal.write(hold(9)).unwrap();
        drop(journal);
        assert_eq!(super::tests::journal(&folder, "a").unwrap().changes().held.len(), 2);
    }

    #[test]
    fn what_is_no_journal_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "{\"boot\":\"a\"}\nrubbish\n{}\n").unwrap();
        let refused = journal(&folder, "a").unwrap_err().to_string();
        assert!(refused.contains("line 2"), "{refused}");
        let nowhere =
            Journal::open_after(Path::new("/nonexistent/journal"), "a").unwrap_err().to_string();
        assert!(nowhere.contains("/nonexistent/journal: No such file"), "{nowhere}");
    }

    #[test]
    fn it_belongs_to_whom_its_folder_belongs_and_is_no_link() {
        use std::os::unix::fs::{chown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("journal"), folder.path().join("victim"));
        std::fs::write(&victim, "mine").unwrap();
        symlink(&victim, path.with_extension("next")).unwrap();
        // Who may not give files away leaves them as they are.
        let other = if chown(folder.path(), Some(65534), Some(65534)).is_ok() { 65534 } else { 0 };
        drop(journal(&folder, "a").unwrap());
        let there = path.symlink_metadata().unwrap();
        assert!(there.is_file() && (other == 0 || there.uid() == other), "{there:?}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        let refused = journal(&folder, "a").unwrap_err().to_string();
        assert!(refused.contains("cannot write the journal"), "{refused}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        prop_oneof![
            (0..4u32).prop_map(hold),
            (0..4u32).prop_map(free),
            (0..4u32, 0..4u64, 0..4u32).prop_map(|(id, index, from)| moved(id, index, from)),
            (0..4u32).prop_map(|id| Entry::Back(task(id))),
            (0..4u32).prop_map(|id| Entry::Narrow(task(id), narrowed(id))),
            (0..4u32).prop_map(|id| Entry::Widen(task(id))),
        ]
    }

    proptest! {
        /// Its writer may be killed in the middle of any line.
        #[test]
        fn a_journal_that_ends_anywhere_says_all_that_was_done(
            entries in proptest::collection::vec(any_entry(), 0..12),
            cut: prop::sample::Index,
        ) {
            let lines: Vec<_> = entries.iter().map(line).collect();
            let text = lines.concat();
            let cut = cut.index(text.len() + 1);
            let read = read(Path::new("x"), std::str::from_utf8(&text[..cut]).unwrap(), "a").unwrap();
            let mut expected = Changes::default();
            let mut end = 0;
            for (entry, line) in entries.into_iter().zip(&lines) {
                end += line.len();
                if end <= cut {
                    expected.apply(entry);
                }
            }
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([{}\"a-z:0-9,\\[\\]\n]|hold|boot|free){0,60}") {
            let _ = read(Path::new("x"), &text, "a");
        }
    }
}
