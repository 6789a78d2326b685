//! Creating and mapping a session.

use std::ffi::CString;
use std::fs::File;
use std::mem::{align_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use quartier_model::{Machine, SESSION_MEMORY};
use thiserror::Error;

use crate::seat::{NR_SEATS, Seat, Sitting, Taken};
use crate::{Config, Header, LAYOUT_VERSION, Launcher, MAGIC, ProcessSlot, SlotState};

/// Processes of one run that are reported one by one.
const NR_PROCESSES: usize = 1024;

/// Why a session could not be made or mapped.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum SessionError {
    #[error("cannot {operation} the run's shared memory: {source}")]
    Os { operation: &'static str, source: std::io::Error },
    #[error(
        "the run's shared memory is not what this version of Quartier writes: {0}; use quartier and its runtime from one build"
    )]
    Foreign(&'static str),
}

fn os(operation: &'static str) -> impl Fn() -> SessionError {
    move || SessionError::Os { operation, source: std::io::Error::last_os_error() }
}

/// A mapped session. The mapping lives as long as the process.
#[derive(Debug)]
pub struct Session {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: all shared state behind `base` is atomics, or written once before anyone else maps it.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

fn align_up(offset: usize) -> usize {
    offset.next_multiple_of(64)
}

impl Session {
    /// Creates a session; gives the memfd (close-on-exec) and the mapping.
    ///
    /// # Errors
    /// When the kernel refuses the memory.
    pub fn create(
        machine: &Machine,
        machine_json: &str,
        launcher: Launcher,
        config: Config,
    ) -> Result<(OwnedFd, Self), SessionError> {
        let nr_nodes = machine.nodes().len();
        let machine_offset = align_up(size_of::<Header>());
        let processes_offset = align_up(machine_offset + machine_json.len());
        let stride = align_up(size_of::<ProcessSlot>() + 2 * nr_nodes * size_of::<AtomicU64>());
        let seats_offset = processes_offset + NR_PROCESSES * stride;
        let len = seats_offset + NR_SEATS * size_of::<Seat>();
        let name = CString::new(SESSION_MEMORY).expect("it has no zero byte");
        // SAFETY: a valid C string; the result is checked.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(os("create")());
        }
        // SAFETY: `fd` was just created and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain system call on our descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(os("size")());
        }
        let session = Self::map(fd.as_raw_fd(), len)?;
        let header = Header {
            magic: MAGIC,
            version: LAYOUT_VERSION,
            nr_nodes: nr_nodes as u32,
            size_bytes: len as u64,
            machine_offset: machine_offset as u64,
            machine_len: machine_json.len() as u64,
            launcher,
            first_thread: AtomicU64::new(0),
            processes_offset: processes_offset as u64,
            nr_processes: NR_PROCESSES as u64,
            process_stride: stride as u64,
            seats_offset: seats_offset as u64,
            nr_seats: NR_SEATS as u64,
            seats_used: AtomicU64::new(0),
            config,
        };
        // SAFETY: the mapping is ours alone so far, page-aligned, and `len` covers both writes.
        unsafe {
            session.base.cast::<Header>().write(header);
            session.base.add(machine_offset).copy_from_nonoverlapping(
                NonNull::from(machine_json.as_bytes()).cast(),
                machine_json.len(),
            );
        }
        Ok((fd, session))
    }

    /// Maps the session at `path` (the value of [`ENV_SESSION`](crate::ENV_SESSION)).
    ///
    /// # Errors
    /// When it cannot be opened, or was not written by this version.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| SessionError::Os { operation: "open", source })?;
        Self::of(&file)
    }

    /// Maps an open session; the descriptor may be closed afterwards.
    ///
    /// # Errors
    /// When it was not written by this version.
    pub fn of(file: &File) -> Result<Self, SessionError> {
        let metadata =
            file.metadata().map_err(|source| SessionError::Os { operation: "size", source })?;
        let len = metadata.len();
        if len < size_of::<Header>() as u64 {
            return Err(SessionError::Foreign("it is too short"));
        }
        let session = Self::map(file.as_raw_fd(), len as usize)?;
        session.check()?;
        Ok(session)
    }

    fn map(fd: RawFd, len: usize) -> Result<Self, SessionError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(os("map")());
        }
        NonNull::new(base.cast()).map(|base| Self { base, len }).ok_or_else(os("map"))
    }

    fn check(&self) -> Result<(), SessionError> {
        let header = self.header();
        if header.magic != MAGIC {
            return Err(SessionError::Foreign("it has another mark at its start"));
        }
        if header.version != LAYOUT_VERSION {
            return Err(SessionError::Foreign("it has another layout version"));
        }
        let end = |offset: u64, count: u64, each: usize| {
            count.checked_mul(each as u64).and_then(|bytes| offset.checked_add(bytes))
        };
        let min_stride = size_of::<ProcessSlot>() as u64 + 16 * u64::from(header.nr_nodes);
        let ends = [
            end(header.machine_offset, header.machine_len, 1),
            end(header.processes_offset, header.nr_processes, header.process_stride as usize),
            end(header.seats_offset, header.nr_seats, size_of::<Seat>()),
        ];
        let inside = ends.iter().all(|end| end.is_some_and(|end| end <= self.len as u64));
        let aligned = [header.processes_offset, header.process_stride, header.seats_offset]
            .iter()
            .all(|offset| offset % align_of::<AtomicU64>() as u64 == 0);
        if !inside || !aligned || header.process_stride < min_stride {
            return Err(SessionError::Foreign("its parts do not fit in it"));
        }
        Ok(())
    }

    /// The fixed part.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: `map` gave at least a header's length; what is written again in it is atomic.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// What to do.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.header().config
    }

    /// The machine, as JSON.
    #[must_use]
    pub fn machine_json(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: `check` (or `create`) put the range inside the mapping; it is never written again.
        unsafe {
            std::slice::from_raw_parts(
                self.base.add(header.machine_offset as usize).as_ptr(),
                header.machine_len as usize,
            )
        }
    }

    fn slot_base(&self, index: usize) -> NonNull<u8> {
        let header = self.header();
        assert!((index as u64) < header.nr_processes);
        let offset = header.processes_offset + index as u64 * header.process_stride;
        // SAFETY: `check` put every slot inside the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// The slot with this index.
    ///
    /// # Panics
    /// If there are fewer slots.
    #[must_use]
    pub fn slot(&self, index: usize) -> &ProcessSlot {
        // SAFETY: inside the mapping, aligned, all atomics, for which every bit pattern is valid.
        unsafe { self.slot_base(index).cast().as_ref() }
    }

    /// The slots in use, with their indices.
    pub fn processes(&self) -> impl Iterator<Item = (usize, &ProcessSlot)> + '_ {
        (0..self.header().nr_processes as usize)
            .map(|index| (index, self.slot(index)))
            .filter(|(_, slot)| slot.state() != SlotState::Free)
    }

    /// The slot of a running process, or a fresh one; `None` when all are taken.
    #[must_use]
    pub fn claim(&self, pid: u32) -> Option<(usize, &ProcessSlot)> {
        let namespace = crate::own_pid_namespace();
        self.slot_of(pid, namespace).or_else(|| {
            (0..self.header().nr_processes as usize)
                .map(|index| (index, self.slot(index)))
                .find(|(_, slot)| slot.claim(pid, namespace))
        })
    }

    /// The slot of a running process. Ids say nothing from one PID namespace to the other.
    #[must_use]
    pub fn slot_of(&self, pid: u32, pid_namespace: u32) -> Option<(usize, &ProcessSlot)> {
        self.processes().find(|(_, slot)| slot.is_of(pid, pid_namespace))
    }

    /// The slot with this index, if there are so many.
    #[must_use]
    pub fn find_slot(&self, index: usize) -> Option<&ProcessSlot> {
        ((index as u64) < self.header().nr_processes).then(|| self.slot(index))
    }

    /// Frees the seats of the process of a slot that ends, or executes another program. Its threads are not
    /// counted one by one any more.
    pub fn free_seats_of(&self, index: usize, by: u32) {
        for (_, seat) in self.seats() {
            if let Some(left) = seat.sitting().filter(|sitting| sitting.process == index) {
                seat.forget(&left, by);
            }
        }
    }

    fn per_node(&self, index: usize, array: usize) -> &[AtomicU64] {
        let nr_nodes = self.header().nr_nodes as usize;
        let offset = size_of::<ProcessSlot>() + array * nr_nodes * size_of::<AtomicU64>();
        // SAFETY: the stride covers both arrays (`check`); 8-aligned as the slot is; atomics.
        unsafe {
            std::slice::from_raw_parts(self.slot_base(index).add(offset).cast().as_ptr(), nr_nodes)
        }
    }

    /// The seats that have been used, with their indices.
    pub fn seats(&self) -> impl Iterator<Item = (usize, &Seat)> + '_ {
        let used = self.header().seats_used.load(Ordering::Acquire);
        self.all_seats().iter().enumerate().take(used as usize)
    }

    /// Takes a free seat for a thread; `None` when there is none.
    #[must_use]
    pub fn sit(&self, sitting: &Sitting, by: u32) -> Option<(&Seat, Taken<'_>)> {
        let (at, seat, taken) = self
            .all_seats()
            .iter()
            .enumerate()
            .find_map(|(at, seat)| Some((at, seat, seat.claim(sitting, by)?)))?;
        self.header().seats_used.fetch_max(at as u64 + 1, Ordering::AcqRel);
        Some((seat, taken))
    }

    fn all_seats(&self) -> &[Seat] {
        let header = self.header();
        // SAFETY: `check` (or `create`) put the seats inside the mapping, aligned; all are atomics, for
        // which every bit pattern is valid.
        unsafe {
            let first = self.base.add(header.seats_offset as usize).cast::<Seat>();
            std::slice::from_raw_parts(first.as_ptr(), header.nr_seats as usize)
        }
    }

    /// Threads placed on each node (by logical id) in the process of slot `index`.
    #[must_use]
    pub fn threads_per_node(&self, index: usize) -> &[AtomicU64] {
        self.per_node(index, 0)
    }

    /// Resident pages on each node (by logical id) at the end of the process of slot `index`.
    #[must_use]
    pub fn pages_per_node(&self, index: usize) -> &[AtomicU64] {
        self.per_node(index, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, CpuBits, Policy, Reason};
    use quartier_model::SyntheticSpec;
    use std::io::Write;
    use std::sync::atomic::Ordering;

    fn create() -> (OwnedFd, Session) {
        let machine = SyntheticSpec::uniform(4, 2).machine().unwrap();
        let config = Config::new(Policy::NextTouch, CpuBits::EMPTY);
        let launcher = Launcher { pid: 1, tree_fd: 3, threads_fd: 4, pid_namespace: 0 };
        Session::create(&machine, "{}", launcher, config).unwrap()
    }

    fn path(fd: &OwnedFd) -> std::path::PathBuf {
        format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
    }

    #[test]
    fn what_one_mapping_counts_another_reads() {
        let (fd, mine) = create();
        let other = Session::open(&path(&fd)).unwrap();
        let (index, slot) = mine.claim(42).unwrap();
        slot.set_name(b"a-name-that-is-too-long");
        slot.add(Counter::PagesMoved, 7);
        slot.note(Reason::PagesBusy);
        mine.pages_per_node(index)[3].store(9, Ordering::Relaxed);
        let (seen, slot) = other.processes().next().unwrap();
        assert_eq!((seen, slot.pid(), slot.name().as_str()), (index, 42, "a-name-that-is-"));
        assert_eq!(slot.get(Counter::PagesMoved), 7);
        assert_eq!(slot.reasons().collect::<Vec<_>>(), [Reason::PagesBusy]);
        assert_eq!(other.pages_per_node(seen)[3].load(Ordering::Relaxed), 9);
        assert_eq!(other.machine_json(), b"{}");
    }

    #[test]
    fn seats_are_taken_one_after_the_other_and_used_again() {
        let (fd, mine) = create();
        let other = Session::open(&path(&fd)).unwrap();
        let sitting = |tid| Sitting { tid, process: 0, node_os_id: None };
        drop(mine.sit(&sitting(1), 9));
        drop(mine.sit(&sitting(2), 9));
        let tids = || -> Vec<u32> {
            other.seats().filter_map(|(_, seat)| Some(seat.sitting()?.tid)).collect()
        };
        assert_eq!(tids(), [1, 2]);
        other.seats().next().unwrap().1.take(9).unwrap().give_up();
        assert_eq!(tids(), [2]);
        drop(mine.sit(&sitting(3), 9));
        assert_eq!(tids(), [3, 2]);
        mine.free_seats_of(0, 9);
        assert_eq!(tids(), []);
        mine.header().seats_used.store(NR_SEATS as u64, Ordering::Relaxed);
        mine.seats().for_each(|(_, seat)| _ = seat.claim(&sitting(4), 9));
        assert!(mine.sit(&sitting(5), 9).is_none(), "no more than there are");
    }

    #[test]
    fn a_process_that_executes_another_program_keeps_its_slot() {
        let (_fd, session) = create();
        assert_eq!(session.claim(7).unwrap().0, session.claim(7).unwrap().0);
        assert_ne!(session.claim(7).unwrap().0, session.claim(8).unwrap().0);
        assert!(session.slot_of(7, crate::own_pid_namespace() + 1).is_none(), "another's 7");
    }

    #[test]
    fn a_full_session_refuses_one_more() {
        let (_fd, session) = create();
        for pid in 1..=NR_PROCESSES as u32 {
            assert!(session.claim(pid).is_some());
        }
        assert!(session.claim(99_999).is_none());
    }

    #[test]
    fn foreign_or_damaged_memory_is_refused() {
        let (magic, version, machine_offset, processes_offset) = (0, 8, 24, 64);
        let seats_offset = std::mem::offset_of!(Header, seats_offset);
        let damage = [
            (magic, 1),
            (version, 99),
            (machine_offset, u64::MAX),
            (processes_offset, 3),
            (seats_offset, u64::MAX - 63),
            (seats_offset + 8, u64::MAX / 2),
        ];
        for (offset, word) in damage {
            let (fd, session) = create();
            // SAFETY: inside the header of a mapping that only this test uses.
            unsafe { session.base.add(offset).cast::<u64>().write(word) };
            assert!(Session::open(&path(&fd)).is_err(), "offset {offset}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"short").unwrap();
        assert!(Session::open(file.path()).is_err());
    }
}
