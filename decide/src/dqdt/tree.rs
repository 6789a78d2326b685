//! The tree as it is read: flat lists, children before parents, the root last.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use quartier_model::{CpuId, CpuOsId, Distance, LlcId, NodeId, NodeOsId};

/// The most children of a cluster, and the most CPUs of a leaf: the "quaternary" of the name.
pub const FANOUT_MAX: usize = 4;

/// No tree is higher than this, so a path to the root is short whatever the distances are.
///
/// Every round of grouping at least halves the groups (10 rounds for 1024 nodes) and adds
/// ⌈log₄ size⌉ levels for its largest group; the worst sum of these stays well below.
pub const LEVELS_MAX: u8 = 40;

/// A cluster of a [`Tree`]: an index into its list, children before parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u32);

impl ClusterId {
    /// The number as a list index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A cluster: a leaf holds CPUs, every other one holds clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub(crate) parent: Option<ClusterId>,
    pub(crate) children: [ClusterId; FANOUT_MAX],
    pub(crate) nr_children: u8,
    pub(crate) level: u8,
    pub(crate) first_cpu: u32,
    pub(crate) nr_cpus: u32,
    pub(crate) node: Option<NodeId>,
    pub(crate) llc: Option<LlcId>,
    pub(crate) home: Option<NodeId>,
}

impl Cluster {
    /// The cluster it belongs to; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<ClusterId> {
        self.parent
    }

    /// Its clusters, at most [`FANOUT_MAX`]; none for a leaf.
    #[must_use]
    pub fn children(&self) -> &[ClusterId] {
        &self.children[..usize::from(self.nr_children)]
    }

    /// 0 for a leaf, else one more than its highest child.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// N: how many online CPUs it has, those of its children included.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// The node all of it lies in, if it lies in one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// The last-level cache that all its CPUs share, if they are known to share one.
    #[must_use]
    pub fn llc(&self) -> Option<LlcId> {
        self.llc
    }

    /// The node from which distances to it count (thesis: the node that holds its descriptor):
    /// the most central of its nodes. `None` for CPUs of no known node.
    #[must_use]
    pub fn home(&self) -> Option<NodeId> {
        self.home
    }

    /// Positions of its CPUs in the order of the tree.
    pub(crate) fn positions(&self) -> Range<usize> {
        self.first_cpu as usize..(self.first_cpu + self.nr_cpus) as usize
    }
}

/// An online CPU, at its position in the order of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeCpu {
    pub(crate) id: CpuId,
    pub(crate) leaf: ClusterId,
    /// Bit i is set when the i-th CPU of the same leaf is on the same core (itself included).
    pub(crate) siblings: u8,
}

/// The decision tree of a machine. Immutable; a changed machine (a CPU went offline) needs a new
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(crate) clusters: Box<[Cluster]>,
    /// Online CPUs so that every cluster's are neighbours.
    pub(crate) cpus: Box<[TreeCpu]>,
    /// By logical id: position in `cpus`, `None` for an offline CPU.
    pub(crate) positions: Box<[Option<u32>]>,
    pub(crate) cpu_os_ids: Box<[CpuOsId]>,
    pub(crate) cpus_by_os_id: Box<[(CpuOsId, CpuId)]>,
    pub(crate) node_os_ids: Box<[NodeOsId]>,
    /// Row-major, by logical node id.
    pub(crate) distances: Box<[Distance]>,
}

impl Tree {
    /// All clusters, children before parents.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// One cluster.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        &self.clusters[id.index()]
    }

    /// The cluster of the whole machine.
    #[must_use]
    pub fn root(&self) -> ClusterId {
        ClusterId(self.clusters.len() as u32 - 1)
    }

    /// The level of the root; 0 when the machine is one leaf.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.cluster(self.root()).level
    }

    /// How many slots a caller provides for each indicator: one per cluster, then one per online
    /// CPU.
    #[must_use]
    pub fn nr_slots(&self) -> usize {
        self.clusters.len() + self.cpus.len()
    }

    /// Fresh slots in this process's own memory: no threads anywhere.
    #[must_use]
    pub fn new_slots(&self) -> Box<[AtomicU32]> {
        (0..self.nr_slots()).map(|_| AtomicU32::new(0)).collect()
    }

    /// The leaf of a CPU; `None` for an offline CPU or an id that is not of this machine.
    #[must_use]
    pub fn leaf_of(&self, cpu: CpuId) -> Option<ClusterId> {
        Some(self.cpus[self.position_of(cpu)?].leaf)
    }

    /// The CPUs of a cluster, those of its children included.
    ///
    /// # Panics
    /// If the id is not of this tree.
    pub fn cluster_cpus(&self, id: ClusterId) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus[self.cluster(id).positions()].iter().map(|cpu| cpu.id)
    }

    /// A cluster, then its parent, and so on up to the root.
    pub fn path_to_root(&self, from: ClusterId) -> impl Iterator<Item = ClusterId> + '_ {
        std::iter::successors(Some(from), |&id| self.cluster(id).parent)
    }

    /// The logical id of the CPU with this OS id, online or not.
    #[must_use]
    pub fn cpu_by_os_id(&self, os_id: CpuOsId) -> Option<CpuId> {
        let at = self.cpus_by_os_id.binary_search_by_key(&os_id, |entry| entry.0).ok()?;
        Some(self.cpus_by_os_id[at].1)
    }

    /// The kernel's number of a CPU.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn cpu_os_id(&self, cpu: CpuId) -> CpuOsId {
        self.cpu_os_ids[cpu.index()]
    }

    /// The kernel's number of a node.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn node_os_id(&self, node: NodeId) -> NodeOsId {
        self.node_os_ids[node.index()]
    }

    /// D: how far a cluster is from a node. Where either is unknown it counts as unreachable, so
    /// what is known to be near goes first.
    #[must_use]
    pub fn distance(&self, from: Option<NodeId>, to: ClusterId) -> Distance {
        match (from, self.cluster(to).home) {
            (Some(from), Some(home)) => {
                self.distances[from.index() * self.node_os_ids.len() + home.index()]
            }
            _ => Distance::UNREACHABLE,
        }
    }

    pub(crate) fn position_of(&self, cpu: CpuId) -> Option<usize> {
        self.positions.get(cpu.index()).copied().flatten().map(|position| position as usize)
    }

    /// The slot of the CPU at a position.
    pub(crate) fn cpu_slot(&self, position: usize) -> usize {
        self.clusters.len() + position
    }
}
