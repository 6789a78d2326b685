//! Run a function where its data is: a mailbox for each CPU or node (the events of ALMOS, thesis 4.2.3).
//!
//! Instead of touching another node's memory, a thread sends an *event* there: a function with what it needs,
//! a priority, and a deadline if it has one. Who *listens* at the mailbox runs it, close to the data,
//! and the sender gets the result. In ALMOS the listener is a kernel task and an urgent event an
//! interrupt; here the listener is any thread of the program that calls [`Listener::run_pending`] when it
//! suits, on the CPU or node that it is held on, and for an urgent event a function of the program's wakes
//! it. There is no thread of ours.
//!
//! ```
//! use quartier_percore::events::{Events, Outcome, Priority};
//!
//! let events = Events::new(4, 64);
//! let mut listener = events.listen(2).expect("nobody listens at node 2 yet");
//! let reply = events.send(2, Priority::Normal, None, || 6 * 7)?;
//! // Some time later, on a thread of node 2:
//! assert_eq!(listener.run_pending(usize::MAX), 1);
//! assert_eq!(reply.wait(), Outcome::Done(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reply;
mod ring;

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use thiserror::Error;

pub use reply::{Outcome, Reply};

use crate::sync::{Acquire, Arc, AtomicBool, Relaxed, Release};
use reply::Answer;
use ring::Ring;

/// Which of the waiting events is run next. Of one priority, the one sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others, and the listener is woken for it (the thesis's IPI).
    Urgent,
    /// When nothing is urgent.
    Normal,
    /// When nothing else is there.
    Background,
}

const NR_PRIORITIES: usize = 3;

/// Mailboxes for the CPUs or nodes of a machine: the program says what a number stands for. Clones are the same
/// mailboxes.
///
/// - **Bounds:** each mailbox has room for so many events of each priority. Sending never waits: a full
///   mailbox gives the function back. An event that was not begun at its deadline is not run.
/// - **Lock-free:** whatever happens to one sender or listener, others send. An event that was sent while
///   another's sender had lost the CPU in the middle of it is seen when that one has gone on.
/// - **Memory:** 40 bytes for each place; each event an allocation with the function, and one for its reply.
/// - **Loses** where the function does less than some 200 ns of remote accesses, where nobody runs
///   [`Listener::run_pending`] often, and to a plain call where caller and data are on one node anyway.
///   Urgent events that never end starve the others.
#[derive(Clone)]
pub struct Events {
    mailboxes: Arc<Mailboxes>,
}

struct Mailboxes {
    all: Box<[Mailbox]>,
    wake: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

struct Mailbox {
    rings: [Ring<Event>; NR_PRIORITIES],
    is_listened_at: AtomicBool,
}

struct Event {
    deadline: Option<Instant>,
    job: Box<dyn Run + Send>,
}

/// A function and where its result goes.
struct Job<F, R> {
    work: F,
    answer: Answer<R>,
}

trait Run {
    /// Whether it was not cancelled.
    fn run(self: Box<Self>) -> bool;
    fn expire(self: Box<Self>);
}

impl<F: FnOnce() -> R, R> Run for Job<F, R> {
    fn run(self: Box<Self>) -> bool {
        let Self { work, answer } = *self;
        let may_run = answer.begin();
        if may_run {
            answer.done(work());
        }
        may_run
    }

    fn expire(self: Box<Self>) {
        self.answer.expired();
    }
}

/// An event that was not sent, and why.
#[derive(Error)]
#[error("{why}")]
pub struct NotSent<F> {
    /// Why.
    pub why: Refusal,
    /// What was to be run: the sender may run it itself, or send it later.
    pub work: F,
}

impl<F> fmt::Debug for NotSent<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(formatter)
    }
}

/// Why an event was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The mailbox has no more room.
    #[error(
        "mailbox {target} is full: {capacity} events of this priority wait there; run this one here, or let \
         its listener run"
    )]
    Full {
        /// The mailbox.
        target: usize,
        /// Its room for each priority.
        capacity: usize,
    },
    /// There is no such mailbox.
    #[error(
        "there is no mailbox {target}: there are {nr_mailboxes}, counted from 0; send to one of them"
    )]
    NoMailbox {
        /// What was asked for.
        target: usize,
        /// How many there are.
        nr_mailboxes: usize,
    },
}

impl Events {
    /// So many mailboxes, each with room for the next power of two of `capacity` events of each priority.
    #[must_use]
    pub fn new(nr_mailboxes: usize, capacity: usize) -> Self {
        Self::build(nr_mailboxes, capacity, None)
    }

    /// The same with a function that is called with the mailbox's number after an urgent event was sent there:
    /// unpark its listener, or write to a descriptor that it polls.
    pub fn with_wake(
        nr_mailboxes: usize,
        capacity: usize,
        wake: impl Fn(usize) + Send + Sync + 'static,
    ) -> Self {
        Self::build(nr_mailboxes, capacity, Some(Box::new(wake)))
    }

    fn build(
        nr_mailboxes: usize,
        capacity: usize,
        wake: Option<Box<dyn Fn(usize) + Send + Sync>>,
    ) -> Self {
        let mailbox = |_| Mailbox {
            rings: [(); NR_PRIORITIES].map(|()| Ring::new(capacity)),
            is_listened_at: AtomicBool::new(false),
        };
        let all = (0..nr_mailboxes).map(mailbox).collect();
        Self { mailboxes: Arc::new(Mailboxes { all, wake }) }
    }

    /// How many there are.
    #[must_use]
    pub fn nr_mailboxes(&self) -> usize {
        self.mailboxes.all.len()
    }

    /// Sends a function to a mailbox, to be run by whoever listens there, now or later.
    ///
    /// # Errors
    /// The function, when the mailbox is full or there is none of that number.
    pub fn send<F, R>(
        &self,
        target: usize,
        priority: Priority,
        deadline: Option<Instant>,
        work: F,
    ) -> Result<Reply<R>, NotSent<F>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let nr_mailboxes = self.nr_mailboxes();
        let Some(mailbox) = self.mailboxes.all.get(target) else {
            return Err(NotSent { why: Refusal::NoMailbox { target, nr_mailboxes }, work });
        };
        let ring = &mailbox.rings[priority as usize];
        let (answer, reply) = reply::pair();
        // A box until it has a place, so that it can be given back.
        let mut job = Some(Box::new(Job { work, answer }));
        ring.push_with(|| Event { deadline, job: job.take().expect("it is asked for once") });
        if let Some(job) = job {
            let why = Refusal::Full { target, capacity: ring.capacity() };
            return Err(NotSent { why, work: job.work });
        }
        if let (Priority::Urgent, Some(wake)) = (priority, &self.mailboxes.wake) {
            wake(target);
        }
        Ok(reply)
    }

    /// The right to run what is sent to a mailbox, on this thread. `None` when somebody has it, or there is no
    /// such mailbox.
    #[must_use]
    pub fn listen(&self, target: usize) -> Option<Listener> {
        let mailbox = self.mailboxes.all.get(target)?;
        mailbox.is_listened_at.compare_exchange(false, true, Acquire, Relaxed).ok()?;
        Some(Listener { mailboxes: Arc::clone(&self.mailboxes), target, deferred: VecDeque::new() })
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Events").field("nr_mailboxes", &self.nr_mailboxes()).finish()
    }
}

/// The one who runs what is sent to a mailbox. Dropped, what waits there waits for the next one.
pub struct Listener {
    mailboxes: Arc<Mailboxes>,
    target: usize,
    /// The thesis's second listening point: for the same CPU, after all others, with nothing atomic.
    deferred: VecDeque<Box<dyn FnOnce()>>,
}

impl Listener {
    /// Runs what waits, at most so many events, the most urgent first; how many it ran, without those that
    /// were cancelled or too late.
    pub fn run_pending(&mut self, nr_max: usize) -> usize {
        let mut nr_run = 0;
        while nr_run < nr_max {
            if let Some(event) = self.next() {
                nr_run += usize::from(event.run());
            } else if let Some(work) = self.deferred.pop_front() {
                work();
                nr_run += 1;
            } else {
                break;
            }
        }
        nr_run
    }

    /// Keeps a function for a later [`run_pending`](Self::run_pending) of this thread, after all events.
    pub fn defer(&mut self, work: impl FnOnce() + 'static) {
        self.deferred.push_back(Box::new(work));
    }

    /// Waits for a reply and runs what is sent here meanwhile: two listeners may so wait for each other.
    pub fn wait_for<R>(&mut self, mut reply: Reply<R>) -> Outcome<R> {
        let mut spin = crate::sync::Spin::default();
        loop {
            match reply.try_take() {
                Ok(outcome) => return outcome,
                Err(again) => reply = again,
            }
            if self.run_pending(1) == 0 {
                spin.turn();
            }
        }
    }

    fn next(&mut self) -> Option<Event> {
        let rings = &self.mailboxes.all[self.target].rings;
        // SAFETY: there is one listener at a mailbox, borrowed here for as long.
        rings.iter().find_map(|ring| unsafe { ring.pop() })
    }
}

impl Event {
    /// Runs it, unless it is too late or cancelled. Whether it ran.
    fn run(self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.job.expire();
            return false;
        }
        self.job.run()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.mailboxes.all[self.target].is_listened_at.store(false, Release);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nr_deferred = self.deferred.len();
        formatter
            .debug_struct("Listener")
            .field("target", &self.target)
            .field("nr_deferred", &nr_deferred)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
