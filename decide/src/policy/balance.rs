//! Where an overloaded CPU sends a thread: thesis 4.3.4.
//!
//! The CPU itself asks, when it has more than it can do ([`CpuState::should_balance`]). The search
//! is a thread's, but
//! - attempt 1 sorts by T ↑ (per CPU), then D ↑, and goes where U is not known to be 100: others may keep
//!   the CPUs busy;
//! - if that fails, a near CPU with U < 100 will do; and if there is none, the thread stays.

use quartier_model::CpuId;

use crate::dqdt::{Allowed, ClusterId, Estimates, LEVELS_MAX, Tree, Usage};
use crate::policy::fork::FORK_LEVELS;
use crate::policy::plan::{
    Attempt, FEWEST_THREADS, FREE_CPU, IS_IDLE, IS_NOT_FULL, LEAST_LOADED, LEAST_LOADED_CPU,
    Placement, Plan, Start, above_node,
};
use crate::policy::thread::idle;

/// A request for a CPU that takes a thread over.
#[derive(Clone, Copy, Debug)]
pub struct Balance<'a> {
    /// The overloaded CPU.
    pub initiator: CpuId,
    /// Where the thread may run.
    pub allowed: &'a Allowed,
}

impl Placement for Balance<'_> {
    fn plan(&self, tree: &Tree) -> Plan<'_> {
        let leaf = tree.leaf_of(self.initiator);
        Plan {
            start: Start::of_leaf(tree, leaf, LEVELS_MAX),
            level_max: LEVELS_MAX,
            attempts: &ATTEMPTS,
            allowed: self.allowed,
            from: leaf.and_then(|leaf| tree.cluster(leaf).node()),
            free_pages_min: None,
            seed: None,
        }
    }
}

static ATTEMPTS: [Attempt; 2] = [
    Attempt { stop: Some(IS_IDLE), eligible: IS_IDLE, wants_usage: true, ..idle(FEWEST_THREADS) },
    Attempt {
        stop: Some(IS_NOT_FULL),
        goes_down_from_top: false,
        eligible: IS_NOT_FULL,
        order: LEAST_LOADED,
        wants_usage: true,
        takes: FREE_CPU,
        cpu_order: LEAST_LOADED_CPU,
    },
];

/// What the condition for balancing depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// U of the CPU; `None` where unknown.
    pub usage: Option<Usage>,
    /// T: threads assigned to it.
    pub nr_threads: u32,
    /// R: of these, threads that could run at once and do not.
    pub nr_ready: u32,
}

/// Whether a CPU should look for another that takes a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShouldBalance {
    /// It has not too much to do, or nobody has less.
    No,
    /// It should.
    Yes {
        /// It may look again before its period is over: two levels above its node there is room
        /// (U₂ < 100).
        soon: bool,
    },
}

impl CpuState {
    /// What the tree knows of a CPU; R is the caller's.
    #[must_use]
    pub fn of(estimates: &Estimates<'_>, cpu: CpuId, nr_ready: u32) -> Self {
        let nr_threads = estimates.nr_threads_on(cpu);
        Self { usage: estimates.usage_on(cpu), nr_threads, nr_ready }
    }

    /// U = 100 and T > 1 and R > 0 and the root's U < 100, U in whole percents. Unknown U asks for
    /// nothing.
    #[must_use]
    pub fn should_balance(&self, estimates: &Estimates<'_>, cpu: CpuId) -> ShouldBalance {
        let percent = |usage: Option<Usage>| usage.map(Usage::percent);
        let is_full = percent(self.usage) == Some(100);
        let has_room =
            |cluster: ClusterId| percent(estimates.usage(cluster)).is_some_and(|u| u < 100);
        if !(is_full && self.nr_threads > 1 && self.nr_ready > 0 && has_room(ClusterId::ROOT)) {
            return ShouldBalance::No;
        }
        let tree = estimates.tree();
        let leaf = tree.leaf_of(cpu);
        let level_2 = leaf.map_or(ClusterId::ROOT, |leaf| above_node(tree, leaf, FORK_LEVELS));
        ShouldBalance::Yes { soon: has_room(level_2) }
    }
}
