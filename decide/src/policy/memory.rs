//! Which node pages come from: thesis 4.3.2.
//!
//! Up from the requester's node until a cluster has enough free pages, then down into the nearest
//! of its children that has (of equally near ones the one with most), until a node is reached. Where only the sum of several nodes is
//! enough, the way down fails and the way up goes on, within the same bound as every decision
//! ([`visits_max`]).

use std::cmp::Reverse;

use quartier_model::{Distance, NodeId};

use crate::dqdt::{BLOCK_ORDERS, ClusterId, Estimates, FANOUT_MAX, FreeMemory, SUM, Tree};
use crate::policy::load::{Load, Part};
use crate::policy::search::visits_max;
use crate::policy::trace::{Event, NoTrace, Trace};

const CONDITION: &str = "M ≥ pages asked for";

/// A set of nodes of one tree: `mems_allowed`, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedNodes {
    words: Box<[u64]>,
    /// By cluster: whether a node of it is allowed.
    clusters: Box<[bool]>,
}

impl AllowedNodes {
    /// Every node.
    #[must_use]
    pub fn all(tree: &Tree) -> Self {
        Self::new(tree, (0..tree.nr_nodes() as u32).map(NodeId))
    }

    /// These nodes; those that are not of this machine are left out.
    #[must_use]
    pub fn new(tree: &Tree, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut words = vec![0u64; tree.nr_nodes().div_ceil(64)];
        let mut clusters = vec![false; tree.clusters().len()];
        for node in nodes.into_iter().filter(|node| node.index() < tree.nr_nodes()) {
            words[node.index() / 64] |= 1 << (node.index() % 64);
            let cluster = tree.cluster_of_node(node);
            tree.path_to_root(cluster).for_each(|above| clusters[above.index()] = true);
        }
        Self { words: words.into(), clusters: clusters.into() }
    }

    /// Whether a node is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.words.get(node.index() / 64);
        word.is_some_and(|word| word >> (node.index() % 64) & 1 == 1)
    }
}

/// A request for pages of one node.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The requester's node. `None` where unknown: the search then starts at the root.
    pub from: Option<NodeId>,
    /// Where the pages may be.
    pub allowed: &'a AllowedNodes,
    /// Free base pages that the node must have.
    pub nr_pages: u64,
    /// A contiguous block of 2ⁿ pages that it must have, too. Blocks above order 9 are not counted
    /// apart: a node that has one has one of order 9.
    pub block_order: Option<usize>,
}

/// A node for pages, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The node.
    pub node: NodeId,
    /// How far it is from the requester.
    pub distance: Distance,
    /// Clusters whose estimates were read; at most [`visits_max`].
    pub visited: u32,
}

/// Chooses a node. `None` when none was found that is known to have enough: leave it to the kernel then.
/// (A node may have enough and not be found where the sums of many others promise as much, or where M of
/// a node beside it is unknown: the bound is kept.)
///
/// # Panics
/// If `request.allowed` was made for another tree.
#[must_use]
pub fn decide(estimates: &Estimates<'_>, request: &Request<'_>) -> Option<Decision> {
    explain(estimates, request, &mut NoTrace)
}

/// The same, telling `trace` each step.
///
/// # Panics
/// If `request.allowed` was made for another tree.
#[must_use]
pub fn explain<T: Trace>(
    estimates: &Estimates<'_>,
    request: &Request<'_>,
    trace: &mut T,
) -> Option<Decision> {
    let tree = estimates.tree();
    let fits = request.allowed.clusters.len() == tree.clusters().len();
    assert!(fits, "the set of allowed nodes was made for another tree");
    let mut walk = Walk { estimates, request, visited: 0, visits_max: visits_max(tree), trace };
    let cluster = walk.run()?;
    let node = tree.cluster(cluster).node()?;
    let distance = tree.distance(request.from, cluster);
    Some(Decision { node, distance, visited: walk.visited })
}

struct Walk<'a, T> {
    estimates: &'a Estimates<'a>,
    request: &'a Request<'a>,
    visited: u32,
    visits_max: u32,
    trace: &'a mut T,
}

impl<T: Trace> Walk<'_, T> {
    fn run(&mut self) -> Option<ClusterId> {
        let tree = self.estimates.tree();
        let home = self.request.from.map(|from| tree.cluster_of_node(from));
        let mut at =
            home.map_or(ClusterId::ROOT, |home| tree.cluster(home).parent().unwrap_or(home));
        if tree.cluster(at).node().is_some() {
            // A machine of one node.
            self.visited += 1;
            let memory = self.estimates.free_memory(at);
            return self.has_enough(at, memory).then_some(at);
        }
        let mut tried = home.filter(|&home| self.has_enough(home, self.entry_of(home)));
        if tried.is_some() {
            self.visited += 1;
            self.note(|| Event::Visited { cluster: at, load: Load::NONE });
            return tried;
        }
        loop {
            if let Some(found) = self.descend(at, tried) {
                return Some(found);
            }
            tried = Some(at);
            at = tree.cluster(at).parent().filter(|_| self.visited < self.visits_max)?;
        }
    }

    /// Down from a cluster, leaving out the child that the way up came from.
    fn descend(&mut self, from: ClusterId, tried: Option<ClusterId>) -> Option<ClusterId> {
        let tree = self.estimates.tree();
        if self.visited >= self.visits_max {
            return None;
        }
        self.visited += 1;
        let load =
            self.load(self.estimates.resources_of(from).and_then(|all| all.free_memory(SUM)));
        self.note(|| Event::Visited { cluster: from, load });
        let nobody = (Distance::UNREACHABLE, Reverse(0), ClusterId::ROOT);
        let mut eligible = [nobody; FANOUT_MAX];
        let mut nr_eligible = 0;
        for child in tree.cluster(from).children().filter(|&child| Some(child) != tried) {
            let memory = self.entry_of(child);
            let (part, load) = (Part::Cluster(child), self.load(memory));
            if self.has_enough(child, memory) {
                let free_pages = memory.map_or(0, |memory| memory.pages);
                let distance = tree.distance(self.request.from, child);
                eligible[nr_eligible] = (distance, Reverse(free_pages), child);
                nr_eligible += 1;
            } else {
                self.note(|| Event::Rejected { part, load, attempt: 1, condition: CONDITION });
            }
        }
        let eligible = &mut eligible[..nr_eligible];
        // Four at most, and never equal: sorting in place allocates nothing.
        eligible.sort_unstable();
        for (rank, &(_, _, child)) in (1..).zip(eligible.iter()) {
            let (part, load) = (Part::Cluster(child), self.load(self.entry_of(child)));
            self.note(|| Event::Eligible { part, load, rank, attempt: 1, order: "D ↑, M ↓" });
        }
        eligible.iter().find_map(|&(_, _, child)| match tree.cluster(child).node() {
            Some(_) => Some(child),
            None => self.descend(child, None),
        })
    }

    /// M of a cluster, as its parent's entry for it has it.
    fn entry_of(&self, cluster: ClusterId) -> Option<FreeMemory> {
        let cluster = self.estimates.tree().cluster(cluster);
        self.estimates.resources_of(cluster.parent()?)?.free_memory(usize::from(cluster.place))
    }

    fn has_enough(&self, cluster: ClusterId, memory: Option<FreeMemory>) -> bool {
        let order = self.request.block_order.map(|order| order.min(BLOCK_ORDERS - 1));
        self.request.allowed.clusters[cluster.index()]
            && memory.is_some_and(|memory| {
                memory.pages >= self.request.nr_pages
                    && order.is_none_or(|order| memory.has_block(order))
            })
    }

    fn load(&self, memory: Option<FreeMemory>) -> Load {
        Load::of_memory(memory.map(|memory| memory.pages))
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if T::IS_ON {
            self.trace.note(event());
        }
    }
}
