//! What a policy is made of: where its search starts, and up to three attempts.

use std::cmp::Ordering;

use quartier_model::NodeId;

use crate::dqdt::{Allowed, ClusterId, Tree};
use crate::policy::load::{Entry, Load};

/// A decision about a CPU that can be asked for: [`Thread`](super::Thread), [`Fork`](super::Fork),
/// [`Exec`](super::Exec), [`Balance`](super::Balance).
pub trait Placement {
    /// How to search for it.
    #[doc(hidden)]
    fn plan(&self, tree: &Tree) -> Plan<'_>;
}

/// How to search.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub(crate) start: Start,
    /// The way up ends below clusters of a higher level than this.
    pub(crate) level_max: u8,
    /// In order: what one does not find the next one looks for.
    pub(crate) attempts: &'static [Attempt],
    pub(crate) allowed: &'a Allowed,
    /// Distances count from here.
    pub(crate) from: Option<NodeId>,
    /// M above which a cluster has room for a new program. `None`: M is not asked for.
    pub(crate) free_pages_min: Option<u64>,
    /// What A is made of. `None`: ties are broken by the tree's order.
    pub(crate) seed: Option<u64>,
}

/// Where the way up begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// At the first, which the entries of the second, its parent, describe: the parent is read.
    Below(ClusterId, ClusterId),
    /// At a cluster that is read.
    At(ClusterId),
    /// No way up: every attempt goes down from this cluster.
    Down(ClusterId),
}

impl Start {
    /// As a thread starts: at the leaf of its creator, at the root when that is unknown.
    pub(crate) fn of_leaf(tree: &Tree, leaf: Option<ClusterId>, level_max: u8) -> Self {
        let Some(leaf) = leaf else { return Self::At(ClusterId::ROOT) };
        let parent = tree.cluster(leaf).parent();
        match parent.filter(|&parent| tree.cluster(parent).level() <= level_max) {
            Some(parent) => Self::Below(leaf, parent),
            None => Self::At(leaf),
        }
    }
}

/// A way up and a way down.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Where the way up ends. `None`: where that of the attempt before ended.
    pub stop: Option<Condition>,
    /// Whether a way up that found no such place goes down from where it ended all the same.
    pub goes_down_from_top: bool,
    /// What the way down may enter.
    pub eligible: Condition,
    /// What it enters first.
    pub order: Order,
    /// Whether any of these looks at U of clusters.
    pub wants_usage: bool,
    /// Which CPUs of a leaf may be taken.
    pub takes: CpuCondition,
    /// Which of them is taken.
    pub cpu_order: Order,
}

/// What must hold of a cluster, with its text in the thesis's letters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub text: &'static str,
    /// The second argument is [`Plan::free_pages_min`].
    pub holds: fn(&Load, Option<u64>) -> bool,
}

/// What must hold of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuCondition {
    pub text: &'static str,
    pub holds: fn(&Entry) -> bool,
}

/// What goes first, with its text: ↑ smallest first, ↓ largest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub text: &'static str,
    pub compare: fn(&Entry, &Entry) -> Ordering,
}

/// `T < N`, with N in cores: some core runs nothing.
pub(crate) const HAS_IDLE_CORE: Condition =
    Condition { text: "T < N", holds: |load, _| load.nr_threads < load.nr_cores };

/// `T < N and not U = 100`: some core runs nothing of those who are counted, and nobody knows of others.
pub(crate) const IS_IDLE: Condition = Condition {
    text: "T < N and not U = 100",
    holds: |load, _| {
        load.nr_threads < load.nr_cores && load.usage_percent.is_none_or(|percent| percent < 100)
    },
};

/// `T < N or U < 100`, with N in CPUs.
pub(crate) const HAS_ROOM: Condition = Condition {
    text: "T < N or U < 100",
    holds: |load, _| load.nr_threads < load.nr_cpus || usage_or_full(load) < 100,
};

/// `U < 100`.
pub(crate) const IS_NOT_FULL: Condition =
    Condition { text: "U < 100", holds: |load, _| usage_or_full(load) < 100 };

/// Anything.
pub(crate) const ANY: Condition = Condition { text: "any", holds: |_, _| true };

pub(crate) const IDLE_CPU: CpuCondition =
    CpuCondition { text: "T = 0 on its core", holds: |cpu| cpu.nr_threads_of_core == 0 };

pub(crate) const ANY_CPU: CpuCondition = CpuCondition { text: "any", holds: |_| true };

pub(crate) const FREE_CPU: CpuCondition =
    CpuCondition { text: "U < 100", holds: |cpu| usage_or_full(&cpu.load) < 100 };

pub(crate) const LEAST_LOADED: Order = Order {
    text: "U ↑, T / N ↑, D ↑",
    compare: |a, b| by_usage(a, b).then_with(|| by_threads(a, b)).then_with(|| by_distance(a, b)),
};

pub(crate) const FEWEST_THREADS: Order = Order {
    text: "T / N ↑, D ↑",
    compare: |a, b| by_threads(a, b).then_with(|| by_distance(a, b)),
};

pub(crate) const LEAST_LOADED_CPU: Order = Order {
    text: "U ↑, T ↑, T of its core ↑",
    compare: |a, b| {
        by_usage(a, b)
            .then(a.load.nr_threads.cmp(&b.load.nr_threads))
            .then(a.nr_threads_of_core.cmp(&b.nr_threads_of_core))
    },
};

/// The cluster so many levels above the node of a leaf, or above a leaf of no known node. The thesis's
/// nodes are its leaves; here a node may have levels inside it.
pub(crate) fn above_node(tree: &Tree, leaf: ClusterId, levels: usize) -> ClusterId {
    let node = tree.cluster(leaf).node();
    let home = node.map_or(leaf, |node| tree.cluster_of_node(node));
    tree.path_to_root(home).nth(levels).unwrap_or(ClusterId::ROOT)
}

/// Unknown U counts as 100: nobody vouches for room.
pub(crate) fn usage_or_full(load: &Load) -> u8 {
    load.usage_percent.unwrap_or(100)
}

pub(crate) fn by_usage(a: &Entry, b: &Entry) -> Ordering {
    usage_or_full(&a.load).cmp(&usage_or_full(&b.load))
}

/// T per CPU, since clusters of a level need not be of one size. Without the division.
pub(crate) fn by_threads(a: &Entry, b: &Entry) -> Ordering {
    let weighted = |a: &Entry, b: &Entry| u64::from(a.load.nr_threads) * u64::from(b.load.nr_cpus);
    weighted(a, b).cmp(&weighted(b, a))
}

pub(crate) fn by_distance(a: &Entry, b: &Entry) -> Ordering {
    a.distance.cmp(&b.distance)
}
