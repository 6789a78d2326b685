//! What came of an event: one word that the two sides change, and a value that is there once it says so.

use std::time::Instant;

use crate::sync::{self, AcqRel, Acquire, Arc, AtomicU32, Relaxed, Thread, UnsafeCell};

/// What came of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It ran, and this is its result.
    Done(R),
    /// Its deadline was over before its turn came. It did not run.
    Expired,
    /// It was cancelled before its turn came. It did not run.
    Cancelled,
    /// The mailboxes are gone, or it panicked: there is no result.
    Lost,
}

const PENDING: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const EXPIRED: u32 = 3;
const CANCELLED: u32 = 4;
const LOST: u32 = 5;
/// Beside PENDING or RUNNING: a thread is to be woken.
const WAITED_FOR: u32 = 8;

#[derive(Debug)]
struct Cell<R> {
    state: AtomicU32,
    result: UnsafeCell<Option<R>>,
    waiter: UnsafeCell<Option<Thread>>,
}

// SAFETY: `result` is written by the side that runs the event before the state says DONE, and taken by
// the one that sent it after that; `waiter` is written by the latter before WAITED_FOR is set, and taken by
// whoever takes WAITED_FOR away.
unsafe impl<R: Send> Sync for Cell<R> {}

/// For the result of an event that was sent. Who drops it does not want to know; the event runs all the same.
#[derive(Debug)]
#[must_use = "an event that nobody waits for may be lost; drop this to say so"]
pub struct Reply<R> {
    cell: Arc<Cell<R>>,
}

/// The side that runs the event. Dropped without an answer, it is lost.
#[derive(Debug)]
pub(super) struct Answer<R> {
    cell: Arc<Cell<R>>,
}

pub(super) fn pair<R>() -> (Answer<R>, Reply<R>) {
    let cell = Arc::new(Cell {
        state: AtomicU32::new(PENDING),
        result: UnsafeCell::new(None),
        waiter: UnsafeCell::new(None),
    });
    (Answer { cell: Arc::clone(&cell) }, Reply { cell })
}

impl<R> Answer<R> {
    /// Whether the event may run: nobody has cancelled it. From now on nobody can.
    pub(super) fn begin(&self) -> bool {
        let mut state = self.cell.state.load(Relaxed);
        loop {
            if state & !WAITED_FOR != PENDING {
                return false;
            }
            let running = RUNNING | (state & WAITED_FOR);
            match self.cell.state.compare_exchange_weak(state, running, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(other) => state = other,
            }
        }
    }

    /// After [`begin`](Self::begin).
    pub(super) fn done(self, result: R) {
        // SAFETY: nobody reads it before the state says DONE.
        self.cell.result.with_mut(|place| unsafe { *place = Some(result) });
        self.cell.end(DONE);
    }

    pub(super) fn expired(self) {
        self.cell.end(EXPIRED);
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        self.cell.end(LOST);
    }
}

impl<R> Cell<R> {
    /// Says what came of it, unless that was said, and wakes who waits.
    fn end(&self, outcome: u32) {
        let mut state = self.state.load(Relaxed);
        loop {
            if !is_open(state) {
                return;
            }
            match self.state.compare_exchange_weak(state, outcome, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(other) => state = other,
            }
        }
        if state & WAITED_FOR != 0 {
            // SAFETY: whoever took WAITED_FOR away, as here, takes the waiter.
            let waiter = self.waiter.with_mut(|waiter| unsafe { (*waiter).take() });
            waiter.into_iter().for_each(|thread| thread.unpark());
        }
    }
}

fn is_open(state: u32) -> bool {
    matches!(state & !WAITED_FOR, PENDING | RUNNING)
}

impl<R> Reply<R> {
    /// Whether it is known what came of the event.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !is_open(self.cell.state.load(Acquire))
    }

    /// Takes the event back, if its turn has not come. Whether it did: it will not run.
    pub fn cancel(&self) -> bool {
        // Waiting and cancelling are both this side's, one after the other: WAITED_FOR is not set.
        self.cell.state.compare_exchange(PENDING, CANCELLED, AcqRel, Relaxed).is_ok()
    }

    /// What came of it, or this again if that is not known yet.
    ///
    /// # Errors
    /// The reply, to ask again.
    pub fn try_take(self) -> Result<Outcome<R>, Self> {
        match self.cell.state.load(Acquire) {
            DONE => {
                // SAFETY: the state says that it was written, and the other side is through.
                let result = self.cell.result.with_mut(|place| unsafe { (*place).take() });
                Ok(result.map_or(Outcome::Lost, Outcome::Done))
            }
            EXPIRED => Ok(Outcome::Expired),
            CANCELLED => Ok(Outcome::Cancelled),
            LOST => Ok(Outcome::Lost),
            _ => Err(self),
        }
    }

    /// Waits for what comes of it. A listener must not wait like this for one who may wait for it: see
    /// [`Listener::wait_for`](super::Listener::wait_for).
    pub fn wait(mut self) -> Outcome<R> {
        loop {
            self.sleep(None);
            match self.try_take() {
                Ok(outcome) => return outcome,
                Err(again) => self = again,
            }
        }
    }

    /// The same until an instant.
    ///
    /// # Errors
    /// The reply, when it is over: the event is not cancelled by that.
    pub fn wait_until(mut self, until: Instant) -> Result<Outcome<R>, Self> {
        while !self.is_known() && Instant::now() < until {
            self.sleep(Some(until));
        }
        self.try_take()
    }

    /// Sleeps until it is known, the instant is there, or for no reason.
    fn sleep(&mut self, until: Option<Instant>) {
        let cell = &*self.cell;
        let state = cell.state.load(Acquire);
        if !is_open(state) {
            return;
        }
        // SAFETY: WAITED_FOR is not set, so the other side does not look at it.
        cell.waiter.with_mut(|waiter| unsafe { *waiter = Some(sync::current_thread()) });
        let mut state = state;
        while is_open(state) && state & WAITED_FOR == 0 {
            let waited_for = state | WAITED_FOR;
            match cell.state.compare_exchange(state, waited_for, AcqRel, Acquire) {
                Ok(_) => state = waited_for,
                Err(other) => state = other,
            }
        }
        if !is_open(state) {
            return;
        }
        sync::park(until);
        // The next who sleeps may be another thread.
        let mut state = cell.state.load(Relaxed);
        while state & WAITED_FOR != 0 {
            let alone = state & !WAITED_FOR;
            match cell.state.compare_exchange(state, alone, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(other) => state = other,
            }
        }
    }
}
