//! The letter box between the program's threads and the helper.
//!
//! It lies in a page of its own that the kernel wipes in every child that gets a copy of the memory,
//! however it was forked: a child has no helper, and nobody there is in the middle of a request. A
//! child that shares the memory (`vfork`) shares the letter box, and may use it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use quartier_session::Reason;

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

/// The letter box. Zero is how it begins, and how a child finds it.
#[repr(C, align(4096))]
pub(super) struct Letterbox {
    state: AtomicU32,
    /// Taken by the thread that talks to the helper.
    turn: AtomicU32,
    request: AtomicU32,
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
    /// Fences that are up (see `fences`).
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
            _ => State::Failed,
        }
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

    /// From `state`, unless it has changed.
    fn fail_from(&self, state: State) -> bool {
        let (from, to) = (state as u32, State::Failed as u32);
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
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

    /// The request is done.
    pub(super) fn answer(&self) {
        self.request.store(NO_REQUEST, Ordering::SeqCst);
        sys::futex_wake(&self.request);
    }

    /// Whether a thread is about to touch the doorbell; waits a while for it if so.
    pub(super) fn wait_while_ringing(&self) -> bool {
        let rings = self.ringing.load(Ordering::SeqCst) != 0;
        if rings {
            sys::futex_wait(&self.ringing, 1, 10);
        }
        rings
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

    /// The helper is gone without a word. What it had marked the kernel has given back as it died: where
    /// the program's data was with it, the launcher has ended the program (see `device::Guard`).
    fn note_lost_helper(&self) {
        if self.fail_from(State::Ready) {
            self.fences.store(0, Ordering::SeqCst);
            if let Some(runtime) = runtime::get() {
                runtime.slot().note(Reason::HelperGone);
            }
        }
    }
}

/// The turn to talk to the helper, with all signals blocked so that no handler can want it too.
pub(super) struct Turn(#[allow(dead_code)] AllBlocked);

impl Turn {
    pub(super) fn take() -> Self {
        let blocked = AllBlocked::new();
        while BOX.turn.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            sys::futex_wait(&BOX.turn, 1, 100);
        }
        Self(blocked)
    }

    /// Puts a request in the letter box and rings; returns when the helper has answered or is gone.
    pub(super) fn ask(&self, request: Request, start: usize, end: usize) {
        if BOX.state() != State::Ready {
            return;
        }
        BOX.start.store(start, Ordering::Relaxed);
        BOX.end.store(end, Ordering::Relaxed);
        BOX.request.store(request as u32, Ordering::SeqCst);
        BOX.ring();
        while BOX.request.load(Ordering::SeqCst) == request as u32 && BOX.state() == State::Ready {
            if BOX.alive.load(Ordering::SeqCst) == 0 {
                BOX.note_lost_helper();
            } else {
                sys::futex_wait(&BOX.request, request as u32, 100);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BOX.turn.store(0, Ordering::Release);
        sys::futex_wake(&BOX.turn);
    }
}
