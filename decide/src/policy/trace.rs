//! What happened during a decision, for those who ask why.

use crate::dqdt::ClusterId;
use crate::policy::load::{Load, Part};

/// Listens to a decision. [`NoTrace`] costs nothing.
pub trait Trace {
    /// Whether anybody listens; events are not even made otherwise.
    const IS_ON: bool = true;

    /// One more thing happened.
    fn note(&mut self, event: Event);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    const IS_ON: bool = false;

    fn note(&mut self, _: Event) {}
}

impl Trace for Vec<Event> {
    fn note(&mut self, event: Event) {
        self.push(event);
    }
}

/// A step of a decision. Attempts count from 1; conditions are written in the thesis's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A cluster's estimates were read.
    Visited {
        /// Which.
        cluster: ClusterId,
        /// Of its allowed CPUs together.
        load: Load,
    },
    /// On the way up, a cluster did not satisfy what an attempt stops at.
    Passed {
        /// Which.
        cluster: ClusterId,
        /// As it was read.
        load: Load,
        /// The attempt.
        attempt: u8,
        /// What did not hold.
        condition: &'static str,
    },
    /// The way up of an attempt ended.
    Stopped {
        /// Here.
        cluster: ClusterId,
        /// As it was read.
        load: Load,
        /// The attempt.
        attempt: u8,
        /// What held.
        condition: &'static str,
    },
    /// On the way down, a part was not eligible.
    Rejected {
        /// Which.
        part: Part,
        /// As it was read.
        load: Load,
        /// The attempt.
        attempt: u8,
        /// What did not hold.
        condition: &'static str,
    },
    /// On the way down, a part was eligible.
    Eligible {
        /// Which.
        part: Part,
        /// As it was read.
        load: Load,
        /// 1 is the one that is tried first.
        rank: u8,
        /// The attempt.
        attempt: u8,
        /// By what eligible parts were sorted.
        order: &'static str,
    },
    /// Nothing in a cluster was eligible although its parent's entry said so: the estimates are
    /// being changed, or a condition holds for a cluster and for none of its parts.
    Failed {
        /// Which.
        cluster: ClusterId,
        /// The attempt.
        attempt: u8,
    },
}
