//! Where a new program goes: thesis 4.3.3, item 3.
//!
//! As a thread, but
//! - there is no way up: every attempt goes down from the root;
//! - attempt 1 enters only what has `T < N` and `M > threshold`, so that the program finds memory
//!   where it starts;
//! - every attempt sorts by T ↑ (per CPU), then A ↑, a random number: programs that start at the same moment
//!   do not all choose the same node.
//!
//! Unknown M refuses nobody. CPUs of one node share its memory, so inside a node M is not asked for
//! again.

use quartier_model::{Bytes, Machine};

use crate::dqdt::{Allowed, ClusterId, LEVELS_MAX, Tree};
use crate::policy::load::Entry;
use crate::policy::plan::{Attempt, Condition, Order, Placement, Plan, Start, by_threads};
use crate::policy::thread::{SECOND, THIRD, idle};

/// A request for a new program's CPU.
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    /// Where it may run.
    pub allowed: &'a Allowed,
    /// A cluster with no more free pages than this is entered only when no other will do. `None`:
    /// memory is not asked for. The thesis's default is [`default_free_pages_min`].
    pub free_pages_min: Option<u64>,
    /// Where the random numbers of the tie-breaks come from: another for each request.
    pub seed: u64,
}

impl Placement for Exec<'_> {
    fn plan(&self, _: &Tree) -> Plan<'_> {
        Plan {
            start: Start::Down(ClusterId::ROOT),
            level_max: LEVELS_MAX,
            attempts: &ATTEMPTS,
            allowed: self.allowed,
            from: None,
            free_pages_min: self.free_pages_min,
            seed: Some(self.seed),
        }
    }
}

/// The thesis's default for M: half the pages of a node; of the smallest that has memory, where they
/// differ. `None` where a node's memory is unknown.
#[must_use]
pub fn default_free_pages_min(machine: &Machine, page: Bytes) -> Option<u64> {
    let sizes: Option<Vec<_>> = machine.nodes().iter().map(|node| node.memory).collect();
    let smallest = sizes?.into_iter().filter(|memory| memory.0 > 0).min()?;
    Some(smallest.0.checked_div(page.0)? / 2)
}

static ATTEMPTS: [Attempt; 3] = [
    Attempt { eligible: HAS_CORE_AND_MEMORY, ..idle(FEWEST_THREADS) },
    Attempt { order: FEWEST_THREADS, ..SECOND },
    Attempt { order: FEWEST_THREADS, ..THIRD },
];

const HAS_CORE_AND_MEMORY: Condition = Condition {
    text: "T < N and M > threshold",
    holds: |load, free_pages_min| {
        let has_memory = free_pages_min.zip(load.free_pages()).is_none_or(|(min, free)| free > min);
        load.nr_threads < load.nr_cores && has_memory
    },
};

const FEWEST_THREADS: Order = Order {
    text: "T / N ↑, A ↑",
    compare: |a, b| by_threads(a, b).then_with(|| by_random(a, b)),
};

fn by_random(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    a.random.cmp(&b.random)
}
