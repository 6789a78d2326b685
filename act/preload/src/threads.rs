//! The program's threads: where each was placed. Fixed arrays of atomics in the library's own
//! segment, so that the helper can look a thread up while it waits, in one read and without a lock.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering};

use quartier_kernel::sys;
use quartier_session::Seat;

/// Threads that can be followed at once; more run unplaced.
pub const THREADS_MAX: usize = 8192;

/// The largest `pid_max` a 64-bit kernel takes.
const TIDS_MAX: usize = 1 << 22;

/// CPUs that a kernel can have (x86-64's largest `NR_CPUS`).
const CPUS_MAX: usize = 8192;

/// "Nothing known" in a node field, which holds the OS id plus one: all zero, so that the tables lie
/// in zero-filled memory and cost nothing until used.
const UNKNOWN: u16 = 0;

/// One thread.
#[derive(Debug)]
pub struct Thread {
    tid: AtomicU32,
    /// Not 0 once the program has set its affinity: it is never touched again.
    by_program: AtomicU32,
    /// OS id plus one of the CPU on which it was placed.
    placed: AtomicU32,
    /// Its seat in the session, where it was placed.
    seat: AtomicPtr<Seat>,
    /// Not 0 once it is about to end.
    leaving: AtomicU32,
    /// Whether it is wide while it makes a child: it has its own seat then.
    widened: AtomicU32,
    /// The C library's handle.
    handle: AtomicUsize,
    /// Address of its `rseq` area, which says on which CPU it is; 0 where there is none.
    rseq: AtomicUsize,
    stack_start: AtomicUsize,
    stack_end: AtomicUsize,
    /// Where its last pull ended, and how long that pull was: a sweep goes on there.
    sweep_end: AtomicUsize,
    sweep_len: AtomicUsize,
}

#[allow(clippy::declare_interior_mutable_const)] // Only an initialiser of the array below.
const EMPTY: Thread = Thread {
    tid: AtomicU32::new(0),
    by_program: AtomicU32::new(0),
    placed: AtomicU32::new(0),
    seat: AtomicPtr::new(ptr::null_mut()),
    leaving: AtomicU32::new(0),
    widened: AtomicU32::new(0),
    handle: AtomicUsize::new(0),
    rseq: AtomicUsize::new(0),
    stack_start: AtomicUsize::new(0),
    stack_end: AtomicUsize::new(0),
    sweep_end: AtomicUsize::new(0),
    sweep_len: AtomicUsize::new(0),
};

static THREADS: [Thread; THREADS_MAX] = [EMPTY; THREADS_MAX];
/// Index into `THREADS` plus one, by thread id.
static BY_TID: [AtomicU16; TIDS_MAX] = [const { AtomicU16::new(0) }; TIDS_MAX];
/// OS id of each CPU's node, plus one.
static NODE_OF_CPU: [AtomicU16; CPUS_MAX] = [const { AtomicU16::new(UNKNOWN) }; CPUS_MAX];
/// One past the highest entry ever used.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

impl Thread {
    /// Enters the calling thread; `None` when the table is full.
    pub fn enter(tid: u32, rseq: usize, stack: (usize, usize)) -> Option<&'static Self> {
        let slot = BY_TID.get(tid as usize)?;
        let (at, thread) = take_free(tid).or_else(|| {
            forget_dead(sys::pid());
            take_free(tid)
        })?;
        thread.by_program.store(0, Ordering::Relaxed);
        thread.placed.store(0, Ordering::Relaxed);
        thread.seat.store(ptr::null_mut(), Ordering::Relaxed);
        thread.widened.store(0, Ordering::Relaxed);
        // SAFETY: a query of the calling thread, which enters itself.
        thread.handle.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
        thread.rseq.store(rseq, Ordering::Relaxed);
        // In whole pages, as everything that is marked.
        let (start, end) = (stack.0 & !(sys::PAGE - 1), stack.1.next_multiple_of(sys::PAGE));
        thread.stack_start.store(start, Ordering::Relaxed);
        thread.stack_end.store(end, Ordering::Relaxed);
        thread.sweep_len.store(0, Ordering::Relaxed);
        slot.store(at as u16 + 1, Ordering::Release);
        Some(thread)
    }

    /// The thread is about to end. It is found no more, but its stack is still kept out of marking:
    /// the kernel writes there as its very last act, when it can no longer wait for us.
    pub fn leave(&self) {
        if let Some(slot) = BY_TID.get(self.tid() as usize) {
            slot.store(0, Ordering::Release);
        }
        self.leaving.store(1, Ordering::Release);
    }

    fn free(&self) {
        self.stack_end.store(0, Ordering::Relaxed);
        self.leaving.store(0, Ordering::Relaxed);
        self.tid.store(0, Ordering::Release);
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire) != 0
    }

    /// The thread with this id.
    pub fn find(tid: i32) -> Option<&'static Self> {
        let at = BY_TID.get(usize::try_from(tid).ok()?)?.load(Ordering::Acquire);
        let thread = THREADS.get(at.checked_sub(1)? as usize)?;
        (thread.tid.load(Ordering::Acquire) == tid as u32).then_some(thread)
    }

    /// The thread with this handle of the C library.
    pub fn find_handle(handle: libc::pthread_t) -> Option<&'static Self> {
        Self::all().find(|thread| thread.handle.load(Ordering::Relaxed) == handle as usize)
    }

    /// Notes its CPU (OS id) and its seat.
    pub fn set_placed(&self, cpu_os_id: u32, seat: &'static Seat) {
        self.placed.store(cpu_os_id + 1, Ordering::Relaxed);
        self.seat.store(ptr::from_ref(seat).cast_mut(), Ordering::Release);
    }

    /// Forgets them.
    pub fn set_unplaced(&self) {
        self.seat.store(ptr::null_mut(), Ordering::Release);
        self.placed.store(0, Ordering::Relaxed);
    }

    /// Its seat, if it was placed. A thread that ended without a word has lost it to another.
    pub fn seat(&self) -> Option<&'static Seat> {
        // SAFETY: null, or a seat of the session, which stays mapped as long as the process.
        let seat = unsafe { self.seat.load(Ordering::Acquire).as_ref() }?;
        let sitting = seat.sitting()?;
        let own_process =
            crate::runtime::get().is_none_or(|own| own.slot_index() == sitting.process);
        (own_process && sitting.tid == self.tid()).then_some(seat)
    }

    /// Notes that it is wide while it makes a child.
    pub fn set_widened(&self, widened: bool) {
        self.widened.store(u32::from(widened), Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_widened(&self) -> bool {
        self.widened.load(Ordering::Relaxed) != 0
    }

    /// The CPU (OS id) on which it was placed.
    pub fn placed(&self) -> Option<u32> {
        self.placed.load(Ordering::Relaxed).checked_sub(1)
    }

    /// All threads entered.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        entries().filter(|thread| !thread.is_leaving())
    }

    /// Its id.
    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Its stack, with its thread block, as first byte and one past the last.
    pub fn stack(&self) -> (usize, usize) {
        (self.stack_start.load(Ordering::Relaxed), self.stack_end.load(Ordering::Relaxed))
    }

    /// Whether the program has set its affinity.
    pub fn is_by_program(&self) -> bool {
        self.by_program.load(Ordering::Relaxed) != 0
    }

    /// Notes that.
    pub fn set_by_program(&self) {
        self.by_program.store(1, Ordering::Relaxed);
    }

    /// Whether we placed it, and nobody has placed it otherwise since.
    pub fn is_ours(&self) -> bool {
        self.seat().is_some_and(|seat| seat.placed().is_some())
    }

    /// The OS id of the node that we hold it on.
    pub fn held_on(&self) -> Option<u32> {
        self.seat()?.placed()?.node_os_id
    }

    /// The address of its `rseq` area; 0 without one.
    pub fn rseq(&self) -> usize {
        self.rseq.load(Ordering::Relaxed)
    }

    /// The OS id of the node that it runs on, as its `rseq` area says. Only for a
    /// thread that is stopped in a fault, whose area is therefore still there.
    pub fn node_by_rseq(&self) -> Option<u32> {
        let rseq = self.rseq.load(Ordering::Relaxed);
        if rseq == 0 {
            return None;
        }
        // SAFETY: the kernel's `struct rseq` (cpu_id at byte 4) of a live thread, in its thread
        // block, which is never marked; the kernel writes it, so it is read as volatile.
        let cpu = unsafe { ((rseq + 4) as *const u32).read_volatile() };
        node_of_cpu(cpu)
    }

    /// Whether a pull at `address` continues this thread's sweep, and how long the last one was.
    pub fn sweep(&self, address: usize) -> Option<usize> {
        (self.sweep_end.load(Ordering::Relaxed) == address)
            .then(|| self.sweep_len.load(Ordering::Relaxed))
    }

    /// Notes a pull.
    pub fn set_sweep(&self, end: usize, len: usize) {
        self.sweep_end.store(end, Ordering::Relaxed);
        self.sweep_len.store(len, Ordering::Relaxed);
    }
}

/// The OS id of a CPU's node, once [`set_node_of_cpu`] has said it.
#[must_use]
pub fn node_of_cpu(cpu_os_id: u32) -> Option<u32> {
    let node = NODE_OF_CPU.get(cpu_os_id as usize)?.load(Ordering::Relaxed);
    (node != UNKNOWN).then(|| u32::from(node) - 1)
}

fn encode(node_os_id: u32) -> u16 {
    u16::try_from(node_os_id + 1).unwrap_or(UNKNOWN)
}

/// Says on which node a CPU is.
pub fn set_node_of_cpu(cpu_os_id: u32, node_os_id: u32) {
    if let Some(entry) = NODE_OF_CPU.get(cpu_os_id as usize) {
        entry.store(encode(node_os_id), Ordering::Relaxed);
    }
}

fn take_free(tid: u32) -> Option<(usize, &'static Thread)> {
    let (at, thread) = THREADS.iter().enumerate().find(|(_, thread)| {
        let free = thread.tid.load(Ordering::Relaxed) == 0;
        free && thread.tid.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    HIGHEST.fetch_max(at + 1, Ordering::AcqRel);
    Some((at, thread))
}

/// Entries in use, those of ending threads included.
fn entries() -> impl Iterator<Item = &'static Thread> {
    let used = HIGHEST.load(Ordering::Acquire).min(THREADS_MAX);
    THREADS[..used].iter().filter(|thread| thread.tid.load(Ordering::Acquire) != 0)
}

/// The stacks of all threads, those about to end included.
fn stacks() -> impl Iterator<Item = (usize, usize)> {
    entries().map(Thread::stack)
}

/// The first of them that overlaps `[start, end)`.
pub fn first_stack(start: usize, end: usize) -> Option<(usize, usize)> {
    stacks().filter(|(first, last)| *first < end && start < *last).min()
}

/// Frees the entries of threads that have ended.
pub fn forget_dead(program: i32) {
    for thread in entries().filter(|thread| thread.is_leaving()) {
        if !sys::thread_exists(program, thread.tid() as i32) {
            thread.free();
        }
    }
}

/// Forgets every thread: in a child after `fork`, which then enters its only one.
pub fn forget_all() {
    entries().for_each(|thread| {
        thread.leave();
        thread.free();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_session::{Config, CpuBits, Launcher, Policy, Session, Sitting};

    #[test]
    fn a_thread_is_found_until_it_leaves() {
        let thread = Thread::enter(1_000_001, 0, (4096, 8192)).unwrap();
        assert_eq!(Thread::find(1_000_001).unwrap().stack(), (4096, 8192));
        thread.leave();
        assert!(Thread::find(1_000_001).is_none());
        assert!(stacks().any(|stack| stack == (4096, 8192)), "kept until the thread is gone");
        forget_dead(sys::pid());
        assert!(!stacks().any(|stack| stack == (4096, 8192)));
    }

    fn session() -> &'static Session {
        let machine = quartier_model::SyntheticSpec::uniform(4, 2).machine().unwrap();
        let launcher = Launcher { pid: 1, tree_fd: 0, threads_fd: 0, pid_namespace: 0 };
        let config = Config::new(Policy::NextTouch, CpuBits::EMPTY);
        Box::leak(Box::new(Session::create(&machine, "{}", launcher, config).unwrap().1))
    }

    #[test]
    fn a_thread_is_on_the_node_of_its_seat_until_another_has_that() {
        let thread = Thread::enter(1_000_003, 0, (0, 0)).unwrap();
        assert_eq!(thread.held_on(), None);
        let session = session();
        let sitting = |tid| Sitting { tid, process: 0, node_os_id: Some(3) };
        let (seat, taken) = session.sit(&sitting(1_000_003), 9).unwrap();
        drop(taken);
        thread.set_placed(6, seat);
        assert_eq!((thread.held_on(), thread.placed()), (Some(3), Some(6)));
        seat.take(9).unwrap().put_back_on(Some(1));
        assert_eq!(thread.held_on(), Some(1));
        seat.take(9).unwrap().leave();
        assert_eq!((thread.held_on(), thread.seat().is_some()), (None, true));
        seat.take_at_end(9).unwrap().give_up();
        drop(session.sit(&sitting(7), 9));
        assert!(thread.seat().is_none());
        thread.leave();
    }

    #[test]
    fn impossible_ids_are_not_found() {
        assert!(Thread::find(-1).is_none());
        assert!(Thread::find(i32::MAX).is_none());
        assert!(Thread::enter(u32::MAX, 0, (0, 0)).is_none());
        assert_eq!(node_of_cpu(u32::MAX), None);
    }

    #[test]
    fn a_sweep_goes_on_where_it_ended() {
        let thread = Thread::enter(1_000_002, 0, (0, 0)).unwrap();
        thread.set_sweep(8192, 4096);
        assert_eq!(thread.sweep(8192), Some(4096));
        assert_eq!(thread.sweep(4096), None);
        thread.leave();
    }
}
