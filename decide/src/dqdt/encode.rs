//! A tree as bytes, so that a process can have it without building it: building takes milliseconds
//! for a thousand nodes, reading microseconds.
//!
//! Little-endian 32-bit words, [`NONE`] for what is absent: five counts (clusters, CPUs that take
//! threads, CPUs in all, nodes, groups of slots), then a list of each of the first four with the
//! fields in the order of the code below, then the groups' nodes, then the distances, a byte each.
//!
//! Reading trusts nothing: whatever the bytes are, the result is an error or a tree that every
//! search and every list index is safe with.

use quartier_model::{CpuId, CpuOsId, Distance, LlcId, NodeId, NodeOsId};
use thiserror::Error;

use crate::dqdt::tree::{
    Cluster, ClusterId, FANOUT_MAX, LEVELS_MAX, SLOTS_PER_GROUP, Tree, TreeCpu,
};

const NONE: u32 = u32::MAX;

/// More nodes, CPUs or clusters than any kernel can have: the bytes are something else.
const COUNT_MAX: u32 = 1 << 17;

/// Why bytes are no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum DecodeError {
    #[error("it ends too early")]
    Truncated,
    #[error("it says {0}, which no tree does")]
    Broken(&'static str),
}

impl Tree {
    /// The tree as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let none = |id: Option<u32>| id.unwrap_or(NONE);
        let mut words = vec![
            self.clusters.len() as u32,
            self.cpus.len() as u32,
            self.cpu_os_ids.len() as u32,
            self.node_os_ids.len() as u32,
            self.slot_groups.len() as u32,
        ];
        for cluster in &self.clusters {
            let sizes = [cluster.nr_children, cluster.place, cluster.level, 0];
            words.extend([
                none(cluster.parent.map(|id| id.0)),
                cluster.first_child,
                u32::from_le_bytes(sizes),
                cluster.first_cpu,
                cluster.nr_cpus,
                cluster.nr_cores,
                cluster.slot,
                none(cluster.node.map(|id| id.0)),
                none(cluster.llc.map(|id| id.0)),
                none(cluster.home.map(|id| id.0)),
            ]);
        }
        for cpu in &self.cpus {
            words.extend([cpu.id.0, cpu.leaf.0, u32::from(cpu.siblings)]);
        }
        words.extend(self.cpu_os_ids.iter().map(|os_id| os_id.0));
        words.extend(self.node_os_ids.iter().map(|os_id| os_id.0));
        words.extend(self.slot_groups.iter().map(|node| none(node.map(|id| id.0))));
        let distances = self.distances.iter().map(|distance| distance.0);
        words.iter().flat_map(|word| word.to_le_bytes()).chain(distances).collect()
    }

    /// The tree of these bytes.
    ///
    /// # Errors
    /// When they are not what [`encode`](Self::encode) makes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader { bytes };
        let [nr_clusters, nr_cpus, nr_os_ids, nr_nodes, nr_groups] = reader.words()?;
        if [nr_clusters, nr_cpus, nr_os_ids, nr_nodes, nr_groups].iter().any(|n| *n > COUNT_MAX) {
            return Err(DecodeError::Broken("that there are hundreds of thousands of something"));
        }
        let clusters = reader.list(nr_clusters, cluster)?;
        let cpus = reader.list(nr_cpus, |[id, leaf, siblings]| TreeCpu {
            id: CpuId(id),
            leaf: ClusterId(leaf),
            siblings: siblings as u8,
        })?;
        let cpu_os_ids = reader.list(nr_os_ids, |[os_id]| CpuOsId(os_id))?;
        let node_os_ids = reader.list(nr_nodes, |[os_id]| NodeOsId(os_id))?;
        let slot_groups = reader.list(nr_groups, |[node]| some(node).map(NodeId))?;
        let nr_distances = node_os_ids.len() * node_os_ids.len();
        let distances = reader.bytes.get(..nr_distances).ok_or(DecodeError::Truncated)?;
        let mut cpus_by_os_id: Vec<_> =
            (0..).map(CpuId).zip(&cpu_os_ids).map(|(cpu, os_id)| (*os_id, cpu)).collect();
        cpus_by_os_id.sort_unstable();
        let mut tree = Self {
            positions: vec![None; cpu_os_ids.len()].into(),
            node_clusters: vec![ClusterId::ROOT; node_os_ids.len()].into(),
            distances: distances.iter().copied().map(Distance).collect(),
            clusters: clusters.into(),
            cpus: cpus.into(),
            cpu_os_ids: cpu_os_ids.into(),
            cpus_by_os_id: cpus_by_os_id.into(),
            node_os_ids: node_os_ids.into(),
            slot_groups: slot_groups.into(),
        };
        tree.check_clusters()?;
        tree.check_cpus()?;
        tree.check_nodes()?;
        Ok(tree)
    }

    /// Parents before children, brothers side by side, every CPU in one leaf, every slot once.
    fn check_clusters(&self) -> Result<(), DecodeError> {
        let mut next_child = 1;
        let mut slots = vec![false; self.nr_slots()];
        for (at, cluster) in self.clusters.iter().enumerate() {
            let nr_children = usize::from(cluster.nr_children);
            require(nr_children <= FANOUT_MAX && nr_children != 1, "a cluster of too many")?;
            require(cluster.is_leaf() || cluster.first_child == next_child, "unordered children")?;
            next_child += u32::from(cluster.nr_children);
            require(next_child as usize <= self.clusters.len(), "children that are not there")?;
            require(cluster.level <= LEVELS_MAX, "a tree too high")?;
            require(at > 0 || cluster.parent.is_none(), "a root with a parent")?;
            let slot =
                slots.get_mut(cluster.slot()).ok_or(DecodeError::Broken("a slot too far"))?;
            require(!std::mem::replace(slot, true), "two clusters in one slot")?;
            let group = self.slot_groups[cluster.slot() / SLOTS_PER_GROUP];
            require(group == cluster.home, "a slot on another node")?;
            let last_cpu = cluster.first_cpu.checked_add(cluster.nr_cpus);
            let is_inside = last_cpu.is_some_and(|last| last as usize <= self.cpus.len());
            require(is_inside, "CPUs that are not there")?;
            let nodes = [cluster.node, cluster.home].into_iter().flatten();
            let mut nodes = nodes.map(NodeId::index);
            require(nodes.all(|node| node < self.node_os_ids.len()), "a node that is not there")?;
        }
        require(next_child as usize == self.clusters.len(), "clusters without a parent")?;
        self.clusters
            .iter()
            .enumerate()
            .try_for_each(|(at, cluster)| self.check_family(at, cluster))
    }

    /// A cluster and its children, once all indices are known to be inside.
    fn check_family(&self, at: usize, cluster: &Cluster) -> Result<(), DecodeError> {
        if cluster.is_leaf() {
            require(cluster.level == 0, "a leaf above the ground")?;
            return require(cluster.nr_cpus as usize <= FANOUT_MAX, "a leaf of too many");
        }
        let mut first_cpu = cluster.first_cpu;
        let (mut nr_cores, mut level) = (0, 0);
        for (place, child) in cluster.children().enumerate() {
            let child = self.cluster(child);
            require(child.parent == Some(ClusterId(at as u32)), "a child of another parent")?;
            require(usize::from(child.place) == place, "a child in another place")?;
            require(child.first_cpu == first_cpu, "CPUs out of order")?;
            first_cpu += child.nr_cpus;
            nr_cores += u64::from(child.nr_cores);
            level = level.max(child.level + 1);
        }
        require(first_cpu == cluster.first_cpu + cluster.nr_cpus, "CPUs of no child")?;
        require(nr_cores == u64::from(cluster.nr_cores), "cores of no child")?;
        require(level == cluster.level, "another level than its children's")
    }

    fn check_cpus(&mut self) -> Result<(), DecodeError> {
        let root = self.clusters.first().ok_or(DecodeError::Broken("no cluster"))?;
        require(root.nr_cpus as usize == self.cpus.len() && root.nr_cpus > 0, "other CPUs")?;
        for (position, cpu) in self.cpus.iter().enumerate() {
            let leaf = self.clusters.get(cpu.leaf.index());
            let leaf = leaf.ok_or(DecodeError::Broken("a leaf that is not there"))?;
            require(leaf.is_leaf() && leaf.positions().contains(&position), "a CPU elsewhere")?;
            let place = position - leaf.positions().start;
            let known = (1u32 << leaf.nr_cpus) - 1;
            require(u32::from(cpu.siblings) & !known == 0, "siblings that are not there")?;
            require(cpu.siblings >> place & 1 == 1, "a CPU that is not on its own core")?;
            let known = self.positions.get_mut(cpu.id.index());
            let known = known.ok_or(DecodeError::Broken("a CPU that is not there"))?;
            require(known.replace(position as u32).is_none(), "a CPU twice")?;
        }
        for leaf in self.clusters.iter().filter(|cluster| cluster.is_leaf()) {
            let cpus = self.cpus[leaf.positions()].iter().enumerate();
            let first = cpus.filter(|(place, cpu)| cpu.siblings & ((1 << place) - 1) == 0);
            require(first.count() == leaf.nr_cores as usize, "other cores")?;
        }
        let ids = self.cpus_by_os_id.windows(2);
        require(ids.into_iter().all(|pair| pair[0].0 < pair[1].0), "one CPU number twice")
    }

    fn check_nodes(&mut self) -> Result<(), DecodeError> {
        let mut is_there = vec![false; self.node_os_ids.len()];
        for at in (0..self.clusters.len()).rev() {
            if let Some(node) = self.clusters[at].node {
                self.node_clusters[node.index()] = ClusterId(at as u32);
                is_there[node.index()] = true;
            }
        }
        require(is_there.iter().all(|is_there| *is_there), "a node of no cluster")?;
        let mut os_ids: Vec<_> = self.node_os_ids.to_vec();
        os_ids.sort_unstable();
        require(os_ids.windows(2).all(|pair| pair[0] < pair[1]), "one node number twice")
    }
}

fn cluster(words: [u32; 10]) -> Cluster {
    let [parent, first_child, sizes, first_cpu, nr_cpus, nr_cores, slot, node, llc, home] = words;
    let [nr_children, place, level, _] = sizes.to_le_bytes();
    Cluster {
        parent: some(parent).map(ClusterId),
        first_child,
        nr_children,
        place,
        level,
        first_cpu,
        nr_cpus,
        nr_cores,
        slot,
        node: some(node).map(NodeId),
        llc: some(llc).map(LlcId),
        home: some(home).map(NodeId),
    }
}

fn some(word: u32) -> Option<u32> {
    (word != NONE).then_some(word)
}

fn require(holds: bool, what_else: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Broken(what_else)) }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn words<const N: usize>(&mut self) -> Result<[u32; N], DecodeError> {
        let mut words = [0; N];
        for word in &mut words {
            let (first, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
            *word = u32::from_le_bytes(*first);
            self.bytes = rest;
        }
        Ok(words)
    }

    fn list<T, const N: usize>(
        &mut self,
        count: u32,
        item: impl Fn([u32; N]) -> T,
    ) -> Result<Vec<T>, DecodeError> {
        // Not reserved before it is known that so many are there.
        if self.bytes.len() < count as usize * N * 4 {
            return Err(DecodeError::Truncated);
        }
        (0..count).map(|_| self.words().map(&item)).collect()
    }
}
