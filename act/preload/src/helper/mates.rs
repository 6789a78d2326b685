//! Mates: threads of the helper that take a part of a long copy each.
//!
//! The helper alone keeps the table and reads the kernel's messages. A mate gets a piece of a copy and
//! says how far it came; the helper waits for all of them before it does anything else, so for
//! everybody but this module a copy is one step. A mate that has not begun when the helper is through
//! with the rest is not waited for: on a busy machine nobody waits for a mate to get a processor.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::own;
use quartier_kernel::uffd::Uffd;
use syscalls::Errno;

use super::copy::COPY_CHUNK;
use super::station::Station;
use crate::affinity;
use crate::sys::{self, SysResult};

/// Mates of a helper at most.
pub(super) const MATES_MAX: usize = 3;

/// Enough for a handful of frames without buffers.
const STACK_BYTES: usize = 64 << 10;

/// How long a mate sleeps before it looks whether it missed a call.
const SLEEP_MS: u64 = 60_000;

const IDLE: u32 = 0;
const CALLED: u32 = 1;
const BUSY: u32 = 2;

/// A copy out of the shadow, cut into pieces that whoever is free takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub uffd: Uffd,
    /// In the shadow.
    pub first: usize,
    /// In the shadow.
    pub last: usize,
    /// Add (wrapping) to an address of the shadow to get the program's.
    pub to_program: usize,
    /// Where the copy is allocated.
    pub node: u32,
}

/// A piece that could not be copied to its end: `[from, to)` of the shadow is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub from: usize,
    pub to: usize,
    pub error: Errno,
}

/// The job at hand. Written by the helper while no mate is called.
struct Board {
    uffd: AtomicI32,
    next: AtomicUsize,
    last: AtomicUsize,
    to_program: AtomicUsize,
    node: AtomicU32,
}

static BOARD: Board = Board {
    uffd: AtomicI32::new(-1),
    next: AtomicUsize::new(0),
    last: AtomicUsize::new(0),
    to_program: AtomicUsize::new(0),
    node: AtomicU32::new(0),
};

impl Board {
    fn write(&self, job: Job) {
        self.uffd.store(job.uffd.0, Ordering::Relaxed);
        self.next.store(job.first, Ordering::Relaxed);
        self.last.store(job.last, Ordering::Relaxed);
        self.to_program.store(job.to_program, Ordering::Relaxed);
        self.node.store(job.node, Ordering::Relaxed);
    }
}

struct Mate {
    /// Not zero while the mate uses its stack: the kernel clears it when the mate is gone.
    alive: AtomicU32,
    state: AtomicU32,
    /// What the mate left of its last piece; nothing where `left_from` is 0.
    left_from: AtomicUsize,
    left_to: AtomicUsize,
    left_error: AtomicI32,
}

impl Mate {
    fn note(&self, left: Option<Left>) {
        self.left_from.store(left.map_or(0, |left| left.from), Ordering::Relaxed);
        self.left_to.store(left.map_or(0, |left| left.to), Ordering::Relaxed);
        self.left_error.store(left.map_or(0, |left| left.error.into_raw()), Ordering::Relaxed);
    }

    /// Waits until a mate that was called is through, unless it has not begun; gives what it left.
    fn finished(&self) -> Option<Left> {
        if self.state.compare_exchange(CALLED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return None;
        }
        while self.state.load(Ordering::Acquire) == BUSY {
            sys::futex_wait(&self.state, BUSY, 100);
        }
        let (from, to) =
            (self.left_from.load(Ordering::Relaxed), self.left_to.load(Ordering::Relaxed));
        let error = Errno::new(self.left_error.load(Ordering::Relaxed));
        (from != 0).then_some(Left { from, to, error })
    }
}

static MATES: [Mate; MATES_MAX] = [const {
    Mate {
        alive: AtomicU32::new(0),
        state: AtomicU32::new(IDLE),
        left_from: AtomicUsize::new(0),
        left_to: AtomicUsize::new(0),
        left_error: AtomicI32::new(0),
    }
}; MATES_MAX];

/// Where the mates' stacks begin; 0 before there is one. Kept from one helper to the next.
static STACKS: AtomicUsize = AtomicUsize::new(0);

/// How many are of use: the program's thread waits meanwhile, so one processor is free at least.
pub(super) fn wanted() -> usize {
    let cpus =
        affinity::get(0).map_or(1, |cpus| cpus.words.iter().map(|word| word.count_ones()).sum());
    (cpus as usize).saturating_sub(1).min(MATES_MAX)
}

/// Reserves the stacks, once.
pub(super) fn reserve() -> SysResult<()> {
    if STACKS.load(Ordering::Relaxed) == 0 {
        STACKS.store(own::map(MATES_MAX * STACK_BYTES)?, Ordering::Release);
    }
    Ok(())
}

/// Starts up to `wanted` mates as threads of the calling helper; gives how many there are.
pub(super) fn start(wanted: usize) -> usize {
    let stacks = STACKS.load(Ordering::Acquire);
    if stacks == 0 {
        return 0;
    }
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_CHILD_CLEARTID;
    let mut started = 0;
    for mate in MATES.iter().take(wanted.min(MATES_MAX)) {
        mate.state.store(IDLE, Ordering::Relaxed);
        mate.alive.store(1, Ordering::Release);
        let top = stacks + (started + 1) * STACK_BYTES;
        // SAFETY: a stack that nobody uses (`wait_until_gone`); the mate never returns from `work`,
        // and reads only what lives as long as the process.
        let id = unsafe {
            libc::clone(
                work,
                top as *mut c_void,
                flags,
                std::ptr::from_ref(mate).cast_mut().cast(),
                std::ptr::null_mut::<c_void>(),
                std::ptr::null_mut::<c_void>(),
                mate.alive.as_ptr(),
            )
        };
        if id < 0 {
            mate.alive.store(0, Ordering::Release);
            break;
        }
        started += 1;
    }
    started
}

/// Waits until no mate of a helper that has ended uses its stack any more.
pub(super) fn wait_until_gone() {
    for mate in &MATES {
        while mate.alive.load(Ordering::Acquire) != 0 {
            sys::futex_wait_shared(&mate.alive, 1, 10);
        }
    }
}

/// In a child after `fork`: there are none.
pub(super) fn forget() {
    MATES.iter().for_each(|mate| mate.alive.store(0, Ordering::Relaxed));
}

extern "C" fn work(mate: *mut c_void) -> libc::c_int {
    // SAFETY: one of `MATES`.
    let mate = unsafe { &*mate.cast::<Mate>() };
    let mut station = Station::default();
    loop {
        let called = mate.state.compare_exchange(CALLED, BUSY, Ordering::AcqRel, Ordering::Acquire);
        if called.is_err() {
            sys::futex_wait(&mate.state, IDLE, SLEEP_MS);
            continue;
        }
        station.go_to(BOARD.node.load(Ordering::Relaxed));
        mate.note(take_pieces());
        mate.state.store(IDLE, Ordering::Release);
        sys::futex_wake(&mate.state);
    }
}

/// What the helper and each mate left of a copy, and what nobody took.
pub(super) type Lefts = [Option<Left>; MATES_MAX + 2];

/// Copies with the first `mates`; wakes nobody in the program.
///
/// # Safety
/// The shadow must hold what the program believes is at its addresses.
pub(super) unsafe fn copy(job: Job, mates: usize) -> Lefts {
    let pieces = (job.last - job.first).div_ceil(COPY_CHUNK);
    let mates = &MATES[..mates.min(pieces - 1)];
    BOARD.write(job);
    for mate in mates {
        mate.state.store(CALLED, Ordering::Release);
        sys::futex_wake(&mate.state);
    }
    let mut lefts: Lefts = [None; MATES_MAX + 2];
    lefts[MATES_MAX] = take_pieces();
    for (left, mate) in lefts.iter_mut().zip(mates) {
        *left = mate.finished();
    }
    // Whoever meets an error takes no further piece, so some may be left when all do.
    let next = BOARD.next.load(Ordering::Relaxed);
    if next < job.last {
        lefts[MATES_MAX + 1] = Some(Left { from: next, to: job.last, error: Errno::EAGAIN });
    }
    lefts
}

/// Takes pieces until there is none, or one cannot be copied to its end.
fn take_pieces() -> Option<Left> {
    let uffd = Uffd(BOARD.uffd.load(Ordering::Relaxed));
    let last = BOARD.last.load(Ordering::Relaxed);
    let to_program = BOARD.to_program.load(Ordering::Relaxed);
    loop {
        let from = BOARD.next.fetch_add(COPY_CHUNK, Ordering::Relaxed);
        if from >= last {
            return None;
        }
        let to = (from + COPY_CHUNK).min(last);
        let mut at = from;
        while at < to {
            // SAFETY: by the contract of `copy`, whose job this is.
            let (done, result) =
                unsafe { uffd.copy_quietly(at.wrapping_add(to_program), at, to - at) };
            if done > 0 {
                // SAFETY: the shadow is ours, and its contents have arrived in the program.
                let _ = unsafe { sys::madvise(at, done, libc::MADV_DONTNEED) };
            }
            at += done;
            match result {
                Ok(_) => {}
                Err(Errno::EAGAIN) if done > 0 => {}
                Err(error) => return Some(Left { from: at, to, error }),
            }
        }
    }
}
