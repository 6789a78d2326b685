//! The letter box between the program's threads and the helper.
//!
//! It lies in a page of its own that the kernel wipes in every child that gets a copy of the memory,
//! however it was forked: a child has no helper, and nobody there is in the middle of a request. A
//! child that shares the memory (`vfork`) shares the letter box, and may use it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use quartier_session::{Reason, Rung};

use crate::runtime;
use crate::signals::AllBlocked;
use crate::sys::{self, PAGE};

/// What there is of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// None.
    None = 0,
    /// It is being started.
    Starting = 1,
    /// It serves.
    Ready = 2,
    /// There can be none.
    Failed = 3,
    /// It looks for a last request.
    Closing = 4,
}

/// What a thread asks of the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Request {
    MarkAll = 1,
    MarkRange = 2,
    GiveBack = 3,
    LiftFences = 4,
}

const NO_REQUEST: u32 = 0;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// Nothing was marked: a fork or a change of mappings is under way, or nothing is to be marked any more.
    NotNow,
    /// There is no helper, or it went without an answer.
    Gone,
}

/// How long a request waits for the launcher to end a program whose data was with a killed helper.
const END_MAX_MICROS: u32 = 2_000_000;

/// How often, 10 ms apart, the helper looks whether who is about to ring has. It may have been killed.
const RINGING_TRIES: u32 = 100;

/// The letter box. Zero is how it begins, and how a child finds it.
#[repr(C, align(4096))]
pub(super) struct Letterbox {
    state: AtomicU32,
    /// The id of the thread that talks to the helper.
    turn: AtomicU32,
    request: AtomicU32,
    /// Not 0 when the last request was refused.
    refused: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Not 0 while a thread is about to touch the doorbell.
    ringing: AtomicU32,
    /// Not 0 while nothing may be marked: forks and changes of mappings under way.
    holds: AtomicU32,
    /// Address of a page whose touch the helper sees; 0 without a helper.
    pub(super) doorbell: AtomicUsize,
    /// The program's process id.
    pub(super) program: AtomicU32,
    /// Fences that are up, or about to be (see `fences`).
    pub(super) fences: AtomicU32,
    /// Not zero while a helper uses its stack: the kernel clears it when the helper is gone.
    pub(super) alive: AtomicU32,
    /// The process id of the last helper.
    pub(super) helper: AtomicU32,
}

pub(super) static BOX: Letterbox = Letterbox {
    state: AtomicU32::new(State::None as u32),
    turn: AtomicU32::new(0),
    request: AtomicU32::new(NO_REQUEST),
    refused: AtomicU32::new(0),
    start: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    ringing: AtomicU32::new(0),
    holds: AtomicU32::new(0),
    doorbell: AtomicUsize::new(0),
    program: AtomicU32::new(0),
    fences: AtomicU32::new(0),
    alive: AtomicU32::new(0),
    helper: AtomicU32::new(0),
};

/// Has the kernel wipe the letter box in children. Without that a child might wait for its parent's helper,
/// so there will be none.
pub(super) fn prepare() {
    // SAFETY: the page holds nothing but the letter box, all zero by now, and belongs to no file: it is past
    // the initialised data.
    let wiped =
        unsafe { sys::madvise(std::ptr::from_ref(&BOX) as usize, PAGE, libc::MADV_WIPEONFORK) };
    if wiped.is_err() {
        BOX.set_state(State::Failed);
    }
}

impl Letterbox {
    pub(super) fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::None,
            1 => State::Starting,
            2 => State::Ready,
            4 => State::Closing,
            _ => State::Failed,
        }
    }

    /// Whether a helper serves, or is about to say whether it goes on.
    pub(super) fn has_helper(&self) -> bool {
        matches!(self.state(), State::Ready | State::Closing)
    }

    /// By the helper: it goes home, unless a request is in the box. Whoever puts one there looks at the state
    /// afterwards: one of the two sees the other.
    pub(super) fn close(&self) -> bool {
        self.set_state(State::Closing);
        let is_over = self.request().is_none();
        self.set_state(if is_over { State::None } else { State::Ready });
        is_over
    }

    /// Sets the state, and tells who waits for it.
    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::SeqCst);
        sys::futex_wake(&self.state);
    }

    /// Waits a while for another state than `State::Starting`.
    pub(super) fn wait_for_start(&self) {
        sys::futex_wait(&self.state, State::Starting as u32, 100);
    }

    /// Whoever stops the program's group while the helper is still leaving it stops the helper for good:
    /// who continues the group does not reach it. So who waits for it lets it go on.
    pub(super) fn let_helper_go_on(&self) {
        let helper = self.helper.load(Ordering::Acquire) as i32;
        if helper > 0 && self.alive.load(Ordering::Acquire) != 0 {
            sys::let_go_on(helper);
        }
    }

    /// From one state to another; `false` if it was not that one.
    pub(super) fn change_state(&self, from: State, to: State) -> bool {
        let changed = self
            .state
            .compare_exchange(from as u32, to as u32, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        sys::futex_wake(&self.state);
        changed
    }

    pub(super) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn release(&self) {
        self.holds.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) != 0
    }

    /// The request in the box, with its range.
    pub(super) fn request(&self) -> Option<(Request, usize, usize)> {
        let request = match self.request.load(Ordering::SeqCst) {
            1 => Request::MarkAll,
            2 => Request::MarkRange,
            3 => Request::GiveBack,
            4 => Request::LiftFences,
            _ => return None,
        };
        Some((request, self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed)))
    }

    /// The request is done, or refused.
    pub(super) fn answer(&self, done: bool) {
        self.refused.store(u32::from(!done), Ordering::Relaxed);
        self.request.store(NO_REQUEST, Ordering::SeqCst);
        sys::futex_wake(&self.request);
    }

    /// Waits until no request is in the box; `false` when there is no helper to take it out.
    fn wait_until_empty(&self) -> bool {
        loop {
            let request = self.request.load(Ordering::SeqCst);
            if request == NO_REQUEST {
                return true;
            }
            if !self.has_helper() {
                return false;
            }
            self.note_lost_helper();
            sys::futex_wait(&self.request, request, 100);
        }
    }

    /// Waits for a thread that is about to touch the doorbell; not for ever: it may have been killed. One
    /// that is only late is served again.
    pub(super) fn wait_for_ringer(&self) {
        for _ in 0..RINGING_TRIES {
            if self.ringing.load(Ordering::SeqCst) == 0 {
                return;
            }
            sys::futex_wait(&self.ringing, 1, 10);
        }
        self.ringing.store(0, Ordering::SeqCst);
    }

    /// Touches the doorbell: the helper serves that, if there is one.
    fn ring(&self) {
        let doorbell = self.doorbell.load(Ordering::Acquire) as *const u8;
        self.ringing.store(1, Ordering::SeqCst);
        // SAFETY: the doorbell page stays mapped for the life of the process; touching it is its use.
        unsafe { doorbell.read_volatile() };
        self.ringing.store(0, Ordering::SeqCst);
        sys::futex_wake(&self.ringing);
    }

    /// Notes a helper that is gone without a word. Where the program's data was with it, the launcher is
    /// about to end the program (see `device::Guard`), and nothing may go on as if that were back. Elsewhere
    /// the kernel has given back what was marked as the helper died.
    pub(super) fn note_lost_helper(&self) {
        let is_lost = || self.has_helper() && self.alive.load(Ordering::SeqCst) == 0;
        let Some(runtime) = runtime::get().filter(|_| is_lost()) else { return };
        if runtime.slot().rung() == Rung::Move {
            sys::sleep_micros(END_MAX_MICROS);
        }
        if is_lost()
            && [State::Ready, State::Closing]
                .iter()
                .any(|from| self.change_state(*from, State::Failed))
        {
            self.fences.store(0, Ordering::SeqCst);
            runtime.slot().note(Reason::HelperGone);
        }
    }
}

/// The turn to talk to the helper, with all signals blocked so that no handler can want it too.
pub(super) struct Turn(#[allow(dead_code)] AllBlocked);

impl Turn {
    pub(super) fn take() -> Self {
        let blocked = AllBlocked::new();
        let me = sys::tid() as u32;
        let mut owner = 0;
        while let Err(now) =
            BOX.turn.compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
        {
            let in_time = sys::futex_wait(&BOX.turn, now, 100);
            // A child that shares the memory may have been killed in its turn.
            let is_lost = now != 0 && !in_time && sys::is_gone_from_here(now as i32);
            owner = if is_lost { now } else { 0 };
        }
        Self(blocked)
    }

    /// Puts a request in the letter box and rings; returns when the helper has answered or is gone.
    pub(super) fn ask(&self, request: Request, start: usize, end: usize) -> Answer {
        // An owner that was killed may have left a request: its answer is not ours.
        if !BOX.wait_until_empty() || !BOX.has_helper() {
            return Answer::Gone;
        }
        BOX.start.store(start, Ordering::Relaxed);
        BOX.end.store(end, Ordering::Relaxed);
        BOX.request.store(request as u32, Ordering::SeqCst);
        BOX.ring();
        if !BOX.wait_until_empty() {
            return Answer::Gone;
        }
        if BOX.refused.load(Ordering::Relaxed) == 0 { Answer::Done } else { Answer::NotNow }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BOX.turn.store(0, Ordering::Release);
        sys::futex_wake(&BOX.turn);
    }
}
