//! Where a new thread goes: thesis 4.3.3, item 1.
//!
//! Share no CPU while an idle one is left, and stay near the creator. Up to three attempts, each a
//! way up from the creator's leaf and a way down from where it stopped:
//!
//! | attempt | up until         | down into        | sorted by        | CPU of the leaf |
//! |---------|------------------|------------------|------------------|-----------------|
//! | 1       | T < N            | T < N            | N − T ↓, D ↑     | an idle one     |
//! | 2       | T < N or U < 100 | T < N or U < 100 | U ↑, T ↑, D ↑    | least U         |
//! | 3       | the same         | any              | U ↑, T ↑, D ↑    | least U         |
//!
//! How the text is read where it leaves a choice:
//! - **Eligibility in attempt 1** is printed `T_{i−1} < N_i`; read as `T_{i−1} < N_{i−1}`, which
//!   is what attempt 2 prints, and without which a full cluster could be entered.
//! - **N − T descending** is said to fill one eligible cluster before another. What fills a cluster
//!   is the way up, which stops at the creator's own while that has an idle CPU; the sort itself
//!   prefers the emptiest, so threads that leave their creator's cluster spread. ([`Strategy::Packed`]
//!   sorts the other way.)
//! - **Attempt 3** is "the same search, accepting a load of 100 %". Were that read into the way up
//!   too, it would stop at the creator's leaf at once and every further thread would pile up there
//!   until load balancing (4.3.4). It is read into the way down only: the way up ends at the top,
//!   and threads spread over the machine.
//! - **SMT.** The thesis's cores have one thread each. Here a hardware thread is half a core:
//!   attempt 1 counts N in cores and takes a CPU whose whole core is idle; from attempt 2 on N are
//!   CPUs.
//! - **T of unequal clusters.** All clusters of a level have the same N in the thesis. Here they
//!   need not, so T is compared per CPU.
//! - **Unknown U** counts as 100: nobody vouches for room. Sorting comes down to T and D.
//! - **Among equal CPUs of a leaf** the one whose core has fewest threads, then the first.
//! - **A mask** makes the tree smaller: N, T and U of a cluster are those of its allowed CPUs.

use quartier_model::CpuId;

use crate::dqdt::{Allowed, ClusterId, LEVELS_MAX, Tree};
use crate::policy::plan::{
    ANY, ANY_CPU, Attempt, HAS_IDLE_CORE, HAS_ROOM, IDLE_CPU, LEAST_LOADED, LEAST_LOADED_CPU,
    Order, Placement, Plan, Start, by_distance, by_threads,
};

/// Which eligible clusters go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Near the creator, then the emptiest cluster.
    #[default]
    Thesis,
    /// Near the creator, then the fullest cluster that has an idle CPU: whole clusters stay free.
    Packed,
    /// From the top, the emptiest cluster wherever it is: most memory bandwidth and cache for each.
    Spread,
}

/// A request for a new thread's CPU.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    /// The CPU of the creating thread, online or not, allowed or not. `None` where unknown: the
    /// search then starts at the root.
    pub creator: Option<CpuId>,
    /// Where the new thread may run.
    pub allowed: &'a Allowed,
    /// The way up ends below clusters of a higher level (thesis: "niveau logique maximal").
    /// `None`: the height of the tree.
    pub level_max: Option<u8>,
    /// Which eligible clusters go first.
    pub strategy: Strategy,
}

impl<'a> Thread<'a> {
    /// A request that may go as far as the machine goes, in the thesis's order.
    #[must_use]
    pub fn new(creator: Option<CpuId>, allowed: &'a Allowed) -> Self {
        Self { creator, allowed, level_max: None, strategy: Strategy::Thesis }
    }

    /// The highest cluster around the creator that is within `level_max`, from which
    /// [`Strategy::Spread`] goes down; the root where the creator is unknown.
    #[must_use]
    pub fn top(&self, tree: &Tree) -> ClusterId {
        let level_max = self.level_max.unwrap_or(LEVELS_MAX);
        let within = |id: &ClusterId| tree.cluster(*id).level() <= level_max;
        let leaf = self.creator.and_then(|creator| tree.leaf_of(creator));
        let path = leaf.into_iter().flat_map(|leaf| tree.path_to_root(leaf));
        path.take_while(within).last().unwrap_or(ClusterId::ROOT)
    }
}

impl Placement for Thread<'_> {
    fn plan(&self, tree: &Tree) -> Plan<'_> {
        let leaf = self.creator.and_then(|creator| tree.leaf_of(creator));
        let level_max = self.level_max.unwrap_or(LEVELS_MAX);
        let (start, attempts) = match self.strategy {
            Strategy::Thesis => (Start::of_leaf(tree, leaf, level_max), &THESIS),
            Strategy::Packed => (Start::of_leaf(tree, leaf, level_max), &PACKED),
            Strategy::Spread => (Start::Down(self.top(tree)), &SPREAD),
        };
        Plan {
            start,
            level_max,
            attempts,
            allowed: self.allowed,
            from: leaf.and_then(|leaf| tree.cluster(leaf).node()),
            free_pages_min: None,
            seed: None,
        }
    }
}

static THESIS: [Attempt; 3] = [idle(MOST_IDLE), SECOND, THIRD];
static PACKED: [Attempt; 3] = [idle(LEAST_IDLE), SECOND, THIRD];
static SPREAD: [Attempt; 3] = [idle(EMPTIEST), SECOND, THIRD];

/// Attempt 1: an idle core.
pub(super) const fn idle(order: Order) -> Attempt {
    Attempt { order, ..FIRST }
}

const FIRST: Attempt = Attempt {
    stop: Some(HAS_IDLE_CORE),
    goes_down_from_top: false,
    eligible: HAS_IDLE_CORE,
    order: MOST_IDLE,
    wants_usage: false,
    takes: IDLE_CPU,
    cpu_order: LEAST_LOADED_CPU,
};

/// Attempt 2: a CPU that is not fully used.
pub(super) const SECOND: Attempt = Attempt {
    stop: Some(HAS_ROOM),
    goes_down_from_top: false,
    eligible: HAS_ROOM,
    order: LEAST_LOADED,
    wants_usage: true,
    takes: ANY_CPU,
    cpu_order: LEAST_LOADED_CPU,
};

/// Attempt 3: the least loaded CPU.
pub(super) const THIRD: Attempt = Attempt {
    stop: None,
    goes_down_from_top: true,
    eligible: ANY,
    order: LEAST_LOADED,
    wants_usage: true,
    takes: ANY_CPU,
    cpu_order: LEAST_LOADED_CPU,
};

const MOST_IDLE: Order = Order {
    text: "N − T ↓, D ↑",
    compare: |a, b| nr_idle(b).cmp(&nr_idle(a)).then_with(|| by_distance(a, b)),
};

const LEAST_IDLE: Order = Order {
    text: "N − T ↑, D ↑",
    compare: |a, b| nr_idle(a).cmp(&nr_idle(b)).then_with(|| by_distance(a, b)),
};

const EMPTIEST: Order = Order {
    text: "T / N ↑, D ↑",
    compare: |a, b| by_threads(a, b).then_with(|| by_distance(a, b)),
};

fn nr_idle(entry: &crate::policy::load::Entry) -> u32 {
    entry.load.nr_cores.saturating_sub(entry.load.nr_threads)
}
