//! Where a process goes that another one forks: thesis 4.3.3, item 2.
//!
//! As a thread, but
//! - the way up starts two levels above the parent's node, since both may create threads that need
//!   room near them. ("Le cluster logique de niveau 2": the thesis's nodes are its leaves. Here a
//!   node may have levels inside it, so levels count from the node.)
//! - attempt 1 sorts by T ↑ (per CPU), then D ↑: an idle node goes first.

use quartier_model::CpuId;

use crate::dqdt::{Allowed, ClusterId, LEVELS_MAX, Tree};
use crate::policy::plan::{Attempt, FEWEST_THREADS, Placement, Plan, Start, above_node};
use crate::policy::thread::{SECOND, THIRD, idle};

/// The way up starts so many levels above the parent's node.
pub const FORK_LEVELS: usize = 2;

/// A request for a forked process's CPU.
#[derive(Clone, Copy, Debug)]
pub struct Fork<'a> {
    /// The CPU of the forking thread. `None` where unknown: the search then starts at the root.
    pub parent: Option<CpuId>,
    /// Where the new process may run.
    pub allowed: &'a Allowed,
}

impl Placement for Fork<'_> {
    fn plan(&self, tree: &Tree) -> Plan<'_> {
        let leaf = self.parent.and_then(|parent| tree.leaf_of(parent));
        let node = leaf.and_then(|leaf| tree.cluster(leaf).node());
        let above = leaf.map_or(ClusterId::ROOT, |leaf| above_node(tree, leaf, FORK_LEVELS));
        Plan {
            start: Start::At(above),
            level_max: LEVELS_MAX,
            attempts: &ATTEMPTS,
            allowed: self.allowed,
            from: node,
            free_pages_min: None,
            seed: None,
        }
    }
}

static ATTEMPTS: [Attempt; 3] = [idle(FEWEST_THREADS), SECOND, THIRD];
