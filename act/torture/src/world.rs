//! What all workers share.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::arena::Arena;
use crate::log::{Log, Op};

/// The whole test.
#[derive(Debug)]
pub struct World {
    /// The memory under test.
    pub arena: Arena,
    /// What was done.
    pub log: Log,
    /// The seed of everything.
    pub seed: u64,
    /// Long-lived workers.
    pub workers: usize,
    /// How often children are made, against everything else: once in so many operations.
    pub fork_every: usize,
    /// Whether a fork past the C library may be tried: the runtime sees it with root's rights only.
    pub unseen_forks: bool,
    /// Operations left out, as bits: to find out which it takes for a difference.
    pub without: u64,
    /// No timer.
    pub no_signals: bool,
    /// Number of the phase under way; workers wait on it.
    pub phase: &'static AtomicU32,
    /// Workers that have finished the phase.
    pub done: &'static AtomicU32,
    /// What the phase is.
    pub kind: &'static AtomicU32,
    /// Operations for each worker in the phase.
    pub share: &'static AtomicU32,
    /// Signals handled.
    pub signals: &'static AtomicU64,
}

impl World {
    /// Whether an operation is not left out.
    #[must_use]
    pub fn allows(&self, op: Op) -> bool {
        self.without >> op as u8 & 1 == 0
    }
}
