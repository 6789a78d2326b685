//! The helper: a process that shares the program's memory (`CLONE_VM` without `CLONE_THREAD`) and
//! serves its touches.
//!
//! Why a process and not a thread of the program: it is in none of the program's thread lists, takes
//! none of its signals, is not stopped when the program's threads are (a debugger that reads marked
//! memory is served), and its descriptors are out of reach of `close_range` in the program.
//!
//! Rules for all code below this module that runs in the helper: no C library call that can set
//! errno, no heap, no panic; it may only touch memory that is never marked.

mod changes;
mod child;
mod copy;
mod fences;
mod history;
mod homes;
mod look;
mod mark;
mod mates;
mod pull;
mod regions;
mod rounds;
mod serve;
mod spawn;
mod station;
mod table;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use quartier_session::{ProcessSlot, Reason, Rung};

use crate::signals::AllBlocked;
use crate::{cores, sys};

/// What the helper is to do; the same for its whole life.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// Where to count.
    pub slot: &'static ProcessSlot,
    /// The highest rung allowed.
    pub rung_max: Rung,
    /// Block size in bytes, a power of two ≥ a page.
    pub block_bytes: usize,
    /// Block size up to which a sweep grows.
    pub block_bytes_max: usize,
    /// Whether huge pages are split into blocks.
    pub split_huge: bool,
    /// Whether blocks are copied even when they are local already.
    pub always_copy: bool,
    /// How long to stay with nothing marked.
    pub idle_ms: u32,
    /// Between two rounds of marking at most; 0: no rounds.
    pub remark_ms_max: u32,
}

const STATE_NONE: u32 = 0;
const STATE_STARTING: u32 = 1;
const STATE_READY: u32 = 2;
const STATE_FAILED: u32 = 3;

const REQUEST_NONE: u32 = 0;
const REQUEST_MARK_ALL: u32 = 1;
const REQUEST_MARK_RANGE: u32 = 2;
const REQUEST_GIVE_BACK: u32 = 3;
const REQUEST_LIFT_FENCES: u32 = 4;

/// How long a program waits for its helper before it goes on without one.
const PATIENCE_MS: u64 = 10_000;

/// The letter box between the program's threads and the helper.
struct Control {
    state: AtomicU32,
    /// Taken by the thread that talks to the helper.
    turn: AtomicU32,
    request: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Address of a page whose touch the helper sees; 0 without a helper.
    doorbell: AtomicUsize,
    /// Not 0 while a thread is about to touch the doorbell.
    ringing: AtomicU32,
    /// The program's process id.
    program: AtomicU32,
    /// Forks under way: nothing may be marked meanwhile.
    forks: AtomicU32,
    /// Fences that are up (see `fences`).
    fences: AtomicU32,
}

static CONTROL: Control = Control {
    state: AtomicU32::new(STATE_NONE),
    turn: AtomicU32::new(0),
    request: AtomicU32::new(REQUEST_NONE),
    start: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    doorbell: AtomicUsize::new(0),
    ringing: AtomicU32::new(0),
    program: AtomicU32::new(0),
    forks: AtomicU32::new(0),
    fences: AtomicU32::new(0),
};

/// The turn to talk to the helper, with all signals blocked so that no handler can want it too.
struct Turn(#[allow(dead_code)] AllBlocked);

impl Turn {
    fn take() -> Self {
        let blocked = AllBlocked::new();
        while CONTROL.turn.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            sys::futex_wait(&CONTROL.turn, 1, 100);
        }
        Self(blocked)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        CONTROL.turn.store(0, Ordering::Release);
        sys::futex_wake(&CONTROL.turn);
    }
}

/// Marks all resident private data, starting the helper if there is none. Blocks until done.
pub fn mark_all(orders: &Orders) {
    mark(orders, REQUEST_MARK_ALL, 0, usize::MAX);
}

/// Marks what is resident in `[start, end)`; `false` when there is no helper to do it.
pub fn mark_range(orders: &Orders, start: usize, end: usize) -> bool {
    mark(orders, REQUEST_MARK_RANGE, start, end)
}

fn mark(orders: &Orders, request: u32, start: usize, end: usize) -> bool {
    let turn = Turn::take();
    let served = if CONTROL.forks.load(Ordering::Acquire) == 0 && spawn::ensure(orders) {
        cores::watch();
        ask(request, start, end);
        true
    } else {
        false
    };
    drop(turn);
    served
}

/// Starts a helper that keeps a process with one thread within its share of a node (see `share`).
/// The program has one thread, and signals are blocked meanwhile.
pub fn watch_share() -> bool {
    let _blocked = AllBlocked::new();
    CONTROL.program.store(sys::pid() as u32, Ordering::Relaxed);
    spawn::watch_share()
}

/// Ends that helper; returns when it has taken its policies back.
pub fn end_watch() {
    crate::share::stop();
    spawn::wait_until_gone();
}

/// Puts everything that is marked back in place; afterwards no page of the program is ours.
pub fn give_back() {
    give_back_range(0, usize::MAX);
}

/// The same for all regions that overlap `[start, end)`.
pub fn give_back_range(start: usize, end: usize) {
    if CONTROL.state.load(Ordering::Acquire) != STATE_READY {
        return;
    }
    let turn = Turn::take();
    ask(REQUEST_GIVE_BACK, start, end);
    drop(turn);
}

/// Before a fork: the child must find its data, and nothing may be marked until [`after_fork`]. On the
/// `rwp` rung data never leaves its place, and the kernel gives the child plain pages; but where fences cut
/// a mapping, its copy would stay cut for ever.
pub fn before_fork(orders: &Orders) {
    CONTROL.forks.fetch_add(1, Ordering::AcqRel);
    let holds_data = orders.slot.rung() == Rung::Move;
    if holds_data && CONTROL.state.load(Ordering::Acquire) == STATE_READY {
        orders.slot.note(Reason::Forked);
        give_back();
    } else if CONTROL.fences.load(Ordering::SeqCst) > 0 {
        let turn = Turn::take();
        ask(REQUEST_LIFT_FENCES, 0, usize::MAX);
        drop(turn);
    }
}

/// After a fork, in the parent.
pub fn after_fork() {
    CONTROL.forks.fetch_sub(1, Ordering::AcqRel);
}

/// After a fork, in the child: the helper serves the parent, not us.
pub fn forget() {
    CONTROL.state.store(STATE_NONE, Ordering::Relaxed);
    CONTROL.request.store(REQUEST_NONE, Ordering::Relaxed);
    CONTROL.doorbell.store(0, Ordering::Relaxed);
    CONTROL.forks.store(0, Ordering::Relaxed);
    CONTROL.fences.store(0, Ordering::Relaxed);
    CONTROL.turn.store(0, Ordering::Relaxed);
    CONTROL.ringing.store(0, Ordering::Relaxed);
    spawn::forget();
}

/// Puts a request in the letter box and rings; returns when the helper has answered or is gone.
fn ask(request: u32, start: usize, end: usize) {
    if CONTROL.program.load(Ordering::Relaxed) != sys::pid() as u32 {
        // A child of a raw fork: the helper serves the parent.
        CONTROL.state.store(STATE_NONE, Ordering::Release);
    }
    if CONTROL.state.load(Ordering::Acquire) != STATE_READY {
        return;
    }
    CONTROL.start.store(start, Ordering::Relaxed);
    CONTROL.end.store(end, Ordering::Relaxed);
    CONTROL.request.store(request, Ordering::Release);
    let doorbell = CONTROL.doorbell.load(Ordering::Acquire) as *const u8;
    CONTROL.ringing.store(1, Ordering::SeqCst);
    // SAFETY: the doorbell page stays mapped for the life of the process; touching it is its use.
    unsafe { doorbell.read_volatile() };
    CONTROL.ringing.store(0, Ordering::SeqCst);
    sys::futex_wake(&CONTROL.ringing);
    while CONTROL.request.load(Ordering::Acquire) == request
        && CONTROL.state.load(Ordering::Acquire) == STATE_READY
    {
        sys::futex_wait(&CONTROL.request, request, 100);
    }
}
