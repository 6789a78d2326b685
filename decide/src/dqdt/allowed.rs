//! Which CPUs a thread may run on: its cpuset and affinity.

use quartier_model::{CpuId, CpuList, CpuOsId};

use crate::dqdt::tree::{Cluster, ClusterId, Tree};

/// A set of online CPUs of one tree. Making one allocates; asking it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// One bit per position in the order of the tree, so a cluster is a range of bits.
    words: Box<[u64]>,
    /// Allowed CPUs of each cluster, and the cores that they are threads of.
    sizes: Box<[(u32, u32)]>,
    /// The leaves that anything is allowed of; empty where the whole tree is allowed.
    leaves: Box<[ClusterId]>,
}

impl Allowed {
    /// Every online CPU.
    #[must_use]
    pub fn all(tree: &Tree) -> Self {
        Self::from_positions(tree, 0..tree.cpus.len())
    }

    /// These CPUs; those that are offline or not of this machine are left out.
    #[must_use]
    pub fn new(tree: &Tree, cpus: impl IntoIterator<Item = CpuId>) -> Self {
        Self::from_positions(tree, cpus.into_iter().filter_map(|cpu| tree.position_of(cpu)))
    }

    /// The same from the kernel's numbers, as `Cpus_allowed_list` or `sched_getaffinity` give
    /// them.
    #[must_use]
    pub fn from_os_ids(tree: &Tree, cpus: &CpuList) -> Self {
        Self::new(tree, cpus.iter().filter_map(|os_id| tree.cpu_by_os_id(CpuOsId(os_id))))
    }

    fn from_positions(tree: &Tree, positions: impl Iterator<Item = usize>) -> Self {
        let mut words = vec![0u64; tree.cpus.len().div_ceil(64)];
        for position in positions {
            words[position / 64] |= 1 << (position % 64);
        }
        let has = |position: usize| words[position / 64] >> (position % 64) & 1 == 1;
        let mut sizes = vec![(0, 0); tree.clusters().len()];
        let mut leaves = Vec::new();
        // Children come after their parents: from the last to the first they are known already.
        for id in tree.cluster_ids().rev() {
            let at = id.index();
            let cluster = tree.cluster(id);
            sizes[at] = if cluster.is_leaf() {
                let sizes = sizes_of_leaf(tree, cluster, has);
                leaves.extend((sizes.0 > 0).then_some(id));
                sizes
            } else {
                let children = cluster.children().map(|child| sizes[child.index()]);
                children.fold((0, 0), |sum, child| (sum.0 + child.0, sum.1 + child.1))
            };
        }
        leaves.reverse();
        if sizes[0].0 as usize == tree.nr_cpus() {
            leaves.clear();
        }
        Self { words: words.into(), sizes: sizes.into(), leaves: leaves.into() }
    }

    /// How many CPUs of a cluster are allowed.
    ///
    /// # Panics
    /// If the id is not of the tree this was made for.
    #[must_use]
    pub fn nr_in(&self, cluster: ClusterId) -> u32 {
        self.sizes[cluster.index()].0
    }

    /// How many cores the allowed CPUs of a cluster are threads of.
    ///
    /// # Panics
    /// If the id is not of the tree this was made for.
    #[must_use]
    pub fn nr_cores_in(&self, cluster: ClusterId) -> u32 {
        self.sizes[cluster.index()].1
    }

    /// Both at once.
    pub(crate) fn sizes_in(&self, cluster: ClusterId) -> (u32, u32) {
        self.sizes[cluster.index()]
    }

    /// Whether every CPU of a cluster is allowed.
    pub(crate) fn is_whole(&self, tree: &Tree, cluster: ClusterId) -> bool {
        self.nr_in(cluster) == tree.cluster(cluster).nr_cpus()
    }

    /// The leaves that anything is allowed of, if that is a part of the tree and they are few.
    pub(crate) fn leaves_if_few(&self, few: usize) -> &[ClusterId] {
        if self.leaves.len() <= few { &self.leaves } else { &[] }
    }

    /// Whether no CPU is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether a CPU is online and allowed.
    #[must_use]
    pub fn contains(&self, tree: &Tree, cpu: CpuId) -> bool {
        tree.position_of(cpu).is_some_and(|position| self.has(position))
    }

    pub(crate) fn has(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Whether this was made for a tree of the same shape.
    pub(crate) fn fits(&self, tree: &Tree) -> bool {
        self.sizes.len() == tree.clusters().len()
            && self.words.len() == tree.cpus.len().div_ceil(64)
    }
}

/// Cores of the allowed CPUs of one leaf: each counts at its first allowed thread.
fn sizes_of_leaf(tree: &Tree, leaf: &Cluster, has: impl Fn(usize) -> bool) -> (u32, u32) {
    let mut mask = 0u8;
    let mut nr_cores = 0;
    for (place, position) in leaf.positions().enumerate().filter(|&(_, position)| has(position)) {
        nr_cores += u32::from(tree.cpus[position].siblings & mask == 0);
        mask |= 1 << place;
    }
    (mask.count_ones(), nr_cores)
}
