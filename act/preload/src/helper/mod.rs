//! The helper: a process that shares the program's memory (`CLONE_VM` without `CLONE_THREAD`) and
//! serves its touches.
//!
//! Why a process and not a thread of the program: it is in none of the program's thread lists, takes
//! none of its signals, is not stopped when the program's threads are (a debugger that reads marked
//! memory is served), and its descriptors are out of reach of `close_range` in the program.
//!
//! Rules for all code below this module that runs in the helper: no C library call that can set
//! errno, no heap, no panic; it may only touch memory that is never marked.

mod areas;
mod catch_up;
mod changes;
mod child;
mod copy;
mod evidence;
mod fences;
mod history;
mod homes;
mod letterbox;
mod look;
mod mark;
mod mates;
mod moves;
mod pull;
mod regions;
mod room;
mod rounds;
mod serve;
mod slots;
mod spawn;
mod station;
mod table;

use std::sync::atomic::Ordering;

use quartier_session::{ProcessSlot, Reason, Rung};

use crate::runtime::{self, Runtime};
use crate::signals::AllBlocked;
use crate::{cores, sys};
use letterbox::{Answer, BOX, Request, Turn};

/// What the helper is to do; the same for its whole life.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// Where to count.
    pub slot: &'static ProcessSlot,
    /// Nodes of the machine.
    pub nr_nodes: u32,
    /// The highest rung allowed.
    pub rung_max: Rung,
    /// Block size in bytes, a power of two ≥ a page: the least that is pulled.
    pub block_bytes: usize,
    /// What a sweep's touch pulls at most.
    pub block_bytes_max: usize,
    /// Whether huge pages are split into blocks.
    pub split_huge: bool,
    /// Whether blocks are copied even when they are local already.
    pub always_copy: bool,
    /// How long to stay with nothing marked.
    pub idle_ms: u32,
    /// How often to look at the program; more often where a round of marking comes sooner.
    pub tick_ms: u32,
    /// Until the first round of marking.
    pub remark_ms_first: u32,
    /// Between two rounds of marking at most; 0: no rounds.
    pub remark_ms_max: u32,
}

/// Blocks that a touch pulls, but for a sweep and for where two nodes' parts meet.
const BLOCKS_PULLED: usize = 4;

impl Orders {
    /// What a touch pulls in bytes, likewise. Less than that in one stretch is not worth marking.
    pub fn pull_bytes(&self) -> usize {
        (self.block_bytes * BLOCKS_PULLED).min(self.block_bytes_max)
    }
}

/// Readies the letter box. Called once, while the program has one thread.
pub fn prepare() {
    letterbox::prepare();
}

/// What became of marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// As far as the kernel allows.
    Done,
    /// Not: forks or changes of mappings went on all the time.
    NotNow,
    /// Not: there is no helper to do it, or nothing is to be marked.
    Off,
}

/// How often, a millisecond apart, a range is tried to be marked that cannot be now.
const MARK_TRIES: u32 = 1000;

/// Marks all resident private data, starting the helper if there is none. Blocks until done, but does not
/// wait where it cannot be now: rounds will do it.
pub fn mark_all(orders: &Orders) {
    mark(orders, Request::MarkAll, 0, usize::MAX);
}

/// Marks what is resident in `[start, end)`.
pub fn mark_range(orders: &Orders, start: usize, end: usize) -> Marked {
    mark(orders, Request::MarkRange, start, end)
}

fn mark(orders: &Orders, request: Request, start: usize, end: usize) -> Marked {
    for _ in 0..MARK_TRIES {
        let turn = Turn::take();
        // Asked with the turn taken: who ends the moving of pages does so first, then has all given back.
        let wanted = runtime::get().is_some_and(Runtime::moves_pages);
        if !wanted || !spawn::ensure(orders) {
            return Marked::Off;
        }
        cores::watch();
        match turn.ask(request, start, end) {
            Answer::Done => return Marked::Done,
            Answer::NotNow if request == Request::MarkAll => break,
            // The helper was just going home, say.
            Answer::NotNow | Answer::Gone => {}
        }
        drop(turn);
        sys::sleep_micros(1000);
    }
    Marked::NotNow
}

/// The process ends: whether its helper was lost is not asked again.
pub fn note_lost() {
    BOX.note_lost_helper();
}

/// Starts a helper that keeps a process with one thread within its share of a node (see `share`).
/// The program has one thread, and signals are blocked meanwhile.
pub fn watch_share() -> bool {
    let _blocked = AllBlocked::new();
    BOX.program.store(sys::pid() as u32, Ordering::Relaxed);
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
    if BOX.has_helper() {
        Turn::take().ask(Request::GiveBack, start, end);
    }
}

/// While it lives nothing is marked of its own accord: the program is about to change its mappings, and
/// has been given back what lies there. With all signals blocked, so that no handler leaves it behind.
#[derive(Debug)]
pub struct Hold(#[allow(dead_code)] AllBlocked);

impl Hold {
    /// Holds, until dropped.
    pub fn new() -> Self {
        // But for those by which the program may answer the call that is to come (seccomp's SIGSYS).
        let blocked = AllBlocked::but_of_instructions();
        BOX.hold();
        Self(blocked)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        BOX.release();
    }
}

/// Before a fork: the child must find its data, and nothing may be marked until [`after_fork`]. On the
/// `rwp` rung data never leaves its place, and the kernel gives the child plain pages; but where fences cut
/// a mapping, its copy would stay cut for ever.
pub fn before_fork(orders: &Orders) {
    BOX.hold();
    let holds_data = orders.slot.rung() == Rung::Move;
    if holds_data && BOX.has_helper() {
        orders.slot.note(Reason::Forked);
        give_back();
    } else if BOX.fences.load(Ordering::SeqCst) > 0 {
        Turn::take().ask(Request::LiftFences, 0, usize::MAX);
    }
}

/// After a fork, in the parent.
pub fn after_fork() {
    BOX.release();
}

/// After a fork, in the child: the helper serves the parent, not us. The letter box is empty already.
pub fn forget() {
    mates::forget();
}
