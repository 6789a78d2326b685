//! The tree as it is read: one list, parents before children, brothers side by side.

use std::ops::Range;

use quartier_model::{CpuId, CpuOsId, Distance, LlcId, NodeId, NodeOsId};

/// The most children of a cluster, and the most CPUs of a leaf: the "quaternary" of the name.
pub const FANOUT_MAX: usize = 4;

/// No tree is higher than this, so a path to the root is short whatever the distances are.
///
/// Every round of grouping at least halves the groups (10 rounds for 1024 nodes) and adds
/// ⌈log₄ size⌉ levels for its largest group; the worst sum of these stays well below.
pub const LEVELS_MAX: u8 = 40;

/// Clusters whose estimates share memory of one node: a page of [`Threads`](super::Threads).
pub const SLOTS_PER_GROUP: usize = if cfg!(loom) { 4 } else { 64 };

/// A cluster of a [`Tree`]: an index into its list. The root is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u32);

impl ClusterId {
    /// The cluster of the whole machine.
    pub const ROOT: Self = Self(0);

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
    pub(crate) first_child: u32,
    pub(crate) nr_children: u8,
    /// Its place among its parent's children, and in the parent's five entries.
    pub(crate) place: u8,
    pub(crate) level: u8,
    pub(crate) first_cpu: u32,
    pub(crate) nr_cpus: u32,
    pub(crate) nr_cores: u32,
    /// Where its estimates lie in the lists that the caller provides.
    pub(crate) slot: u32,
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
    pub fn children(&self) -> impl ExactSizeIterator<Item = ClusterId> + use<> {
        let nr_children = u32::from(self.nr_children);
        (self.first_child..self.first_child + nr_children).map(ClusterId)
    }

    pub(crate) fn child(&self, place: u8) -> ClusterId {
        ClusterId(self.first_child + u32::from(place))
    }

    /// Whether it holds CPUs, not clusters. A node without CPUs is a leaf too.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.nr_children == 0
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

    /// How many cores these CPUs are threads of. A core of more threads than a leaf holds counts once
    /// in each of its leaves.
    #[must_use]
    pub fn nr_cores(&self) -> u32 {
        self.nr_cores
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

    /// Where its estimates lie in lists of [`Tree::nr_slots`].
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot as usize
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
    /// The highest cluster of each node.
    pub(crate) node_clusters: Box<[ClusterId]>,
    /// Row-major, by logical node id.
    pub(crate) distances: Box<[Distance]>,
    /// The node that each group of slots describes.
    pub(crate) slot_groups: Box<[Option<NodeId>]>,
}

impl Tree {
    /// All clusters, parents before children.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The ids of all clusters, parents before children.
    pub fn cluster_ids(&self) -> impl DoubleEndedIterator<Item = ClusterId> + use<> {
        (0..self.clusters.len() as u32).map(ClusterId)
    }

    /// One cluster.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        &self.clusters[id.index()]
    }

    /// The level of the root; 0 when the machine is one leaf.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.cluster(ClusterId::ROOT).level
    }

    /// How many entries a caller's lists of estimates have; a multiple of [`SLOTS_PER_GROUP`].
    #[must_use]
    pub fn nr_slots(&self) -> usize {
        self.slot_groups.len() * SLOTS_PER_GROUP
    }

    /// The node that each group of [`SLOTS_PER_GROUP`] slots describes: its memory is where they
    /// belong. `None` for CPUs of no known node.
    #[must_use]
    pub fn slot_groups(&self) -> &[Option<NodeId>] {
        &self.slot_groups
    }

    /// How many CPUs take threads: those that are online.
    #[must_use]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The leaf of a CPU; `None` for an offline CPU or an id that is not of this machine.
    #[must_use]
    pub fn leaf_of(&self, cpu: CpuId) -> Option<ClusterId> {
        Some(self.cpus[self.position_of(cpu)?].leaf)
    }

    /// The node of a CPU, where both are known.
    #[must_use]
    pub fn node_of(&self, cpu: CpuId) -> Option<NodeId> {
        self.cluster(self.leaf_of(cpu)?).node
    }

    /// The cluster that is a node: the highest of those that lie in it.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn cluster_of_node(&self, node: NodeId) -> ClusterId {
        self.node_clusters[node.index()]
    }

    /// The CPUs of a cluster, those of its children included.
    ///
    /// # Panics
    /// If the id is not of this tree.
    pub fn cluster_cpus(&self, id: ClusterId) -> impl ExactSizeIterator<Item = CpuId> + '_ {
        self.cpus[self.cluster(id).positions()].iter().map(|cpu| cpu.id)
    }

    /// Who renews U and M of a cluster (thesis 4.3.1: the background task of the node that holds
    /// its descriptor): the first CPU of its home, or of the node with CPUs that is nearest.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn updater(&self, id: ClusterId) -> Option<CpuId> {
        let home = self.cluster(id).home;
        let with_cpus = |node: &ClusterId| self.cluster(*node).nr_cpus > 0;
        let nearest = self.node_clusters.iter().copied().filter(with_cpus);
        let nearest = nearest.min_by_key(|&node| (self.distance(home, node), node));
        // CPUs of a home that nobody knows are as near as any.
        let near = if home.is_some() { nearest.unwrap_or(ClusterId::ROOT) } else { id };
        self.cluster_cpus(near).min()
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

    /// How many nodes the machine has.
    #[must_use]
    pub fn nr_nodes(&self) -> usize {
        self.node_os_ids.len()
    }

    /// The kernel's number of a node.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn node_os_id(&self, node: NodeId) -> NodeOsId {
        self.node_os_ids[node.index()]
    }

    /// The node with this OS id.
    #[must_use]
    pub fn node_by_os_id(&self, os_id: NodeOsId) -> Option<NodeId> {
        let at = self.node_os_ids.iter().position(|id| *id == os_id)?;
        Some(NodeId(at as u32))
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

    /// Distances from a node to each node; empty where it is unknown.
    pub(crate) fn distances_from(&self, from: Option<NodeId>) -> &[Distance] {
        let nr_nodes = self.node_os_ids.len();
        from.map_or(&[], |from| &self.distances[from.index() * nr_nodes..][..nr_nodes])
    }

    /// The CPU at a position in the order of the tree.
    pub(crate) fn cpu_at(&self, position: usize) -> CpuId {
        self.cpus[position].id
    }

    pub(crate) fn position_of(&self, cpu: CpuId) -> Option<usize> {
        self.positions.get(cpu.index()).copied().flatten().map(|position| position as usize)
    }
}
