//! From a machine to its tree. The only place of this module that allocates much.

use std::collections::{BTreeMap, VecDeque};

use quartier_model::{CpuId, LlcId, Machine, NodeId};

use crate::dqdt::grouping::Distances;
use crate::dqdt::tree::{
    Cluster, ClusterId, FANOUT_MAX, LEVELS_MAX, SLOTS_PER_GROUP, Tree, TreeCpu,
};

/// A cluster whose place in the lists is not known yet. Either it has CPUs or children or, for a
/// CPU-less node, neither.
#[derive(Debug, Default)]
struct Draft {
    node: Option<NodeId>,
    llc: Option<LlcId>,
    cpus: Vec<CpuId>,
    children: Vec<Draft>,
}

impl Draft {
    fn level(&self) -> u8 {
        self.children.iter().map(|child| child.level() + 1).max().unwrap_or(0)
    }

    fn nr_cpus(&self) -> usize {
        self.cpus.len() + self.children.iter().map(Draft::nr_cpus).sum::<usize>()
    }

    fn nodes(&self, into: &mut Vec<NodeId>) {
        into.extend(self.node);
        self.children.iter().for_each(|child| child.nodes(into));
    }
}

impl Tree {
    /// The tree of a machine. The same machine always gives the same tree.
    ///
    /// Online CPUs whose node the kernel does not tell form a cluster of their own, furthest from
    /// everything else.
    #[must_use]
    pub fn build(machine: &Machine) -> Self {
        let nodes = machine
            .node_ids()
            .map(|node| draft_node(machine, machine.node_cpus(node), Some(node)))
            .collect();
        let mut root = draft_neighbourhoods(machine, nodes);
        let homeless: Vec<_> = machine
            .cpu_ids()
            .filter(|cpu| {
                let cpu = &machine.cpus()[cpu.index()];
                cpu.online && cpu.node.is_none()
            })
            .collect();
        if !homeless.is_empty() {
            root = join(vec![root, draft_node(machine, &homeless, None)]);
        }
        Emitter::new(machine, &root).finish()
    }
}

/// Joins nodes to neighbourhoods, these to larger ones, and so on until one is left.
fn draft_neighbourhoods(machine: &Machine, mut groups: Vec<Draft>) -> Draft {
    let slit = |from, to| machine.distance(NodeId(from as u32), NodeId(to as u32)).0;
    let mut distances = Distances::new(groups.len(), slit);
    while groups.len() > 1 {
        let neighbourhoods = distances.neighbourhoods();
        let inner = |members: &Vec<usize>| {
            distances.merged(&members.iter().map(|&at| vec![at]).collect::<Vec<_>>())
        };
        let inner: Vec<_> = neighbourhoods.iter().map(inner).collect();
        groups = regroup(groups, &neighbourhoods)
            .into_iter()
            .zip(inner)
            .map(|(members, distances)| join_compactly(members, distances))
            .collect();
        distances = distances.merged(&neighbourhoods);
    }
    groups.pop().expect("a machine has a node")
}

/// Joins the members of one neighbourhood, with as many levels as a fan-out of four needs.
fn join_compactly(mut members: Vec<Draft>, mut distances: Distances) -> Draft {
    while members.len() > FANOUT_MAX {
        let parts = distances.compact_parts();
        members = regroup(members, &parts).into_iter().map(join).collect();
        distances = distances.merged(&parts);
    }
    join(members)
}

/// Distributes drafts over groups of their indices.
fn regroup(drafts: Vec<Draft>, groups: &[Vec<usize>]) -> Vec<Vec<Draft>> {
    let mut drafts: Vec<_> = drafts.into_iter().map(Some).collect();
    let mut take = |&at: &usize| drafts[at].take().expect("groups do not overlap");
    groups.iter().map(|group| group.iter().map(&mut take).collect()).collect()
}

/// One cluster of at most four; the only member of a group stands for itself.
fn join(mut members: Vec<Draft>) -> Draft {
    debug_assert!((1..=FANOUT_MAX).contains(&members.len()));
    if members.len() == 1 {
        return members.remove(0);
    }
    let same_node = members.windows(2).all(|pair| pair[0].node == pair[1].node);
    let same_llc = members.windows(2).all(|pair| pair[0].llc == pair[1].llc);
    Draft {
        node: members[0].node.filter(|_| same_node),
        llc: members[0].llc.filter(|_| same_llc),
        cpus: Vec::new(),
        children: members,
    }
}

/// Joins members that are in a good order already, nearly equally many into each cluster.
fn join_in_order(mut members: Vec<Draft>) -> Draft {
    while members.len() > FANOUT_MAX {
        let nr_groups = members.len().div_ceil(FANOUT_MAX);
        let mut left = members.into_iter();
        members = (0..nr_groups)
            .map(|group| {
                let size = left.len().div_ceil(nr_groups - group);
                join(left.by_ref().take(size).collect())
            })
            .collect();
    }
    join(members)
}

/// The cluster of one node's CPUs: by last-level cache, then by at most four.
fn draft_node(machine: &Machine, cpus: &[CpuId], node: Option<NodeId>) -> Draft {
    if cpus.is_empty() {
        return Draft { node, ..Draft::default() };
    }
    let mut by_llc: BTreeMap<Option<LlcId>, Vec<CpuId>> = BTreeMap::new();
    for &cpu in cpus {
        by_llc.entry(machine.cpus()[cpu.index()].llc).or_default().push(cpu);
    }
    // A cache of one core is nobody's neighbourhood: such cores fill leaves together.
    let is_private = |cpus: &[CpuId]| cpus.iter().all(|&cpu| same_core(machine, cpus[0], cpu));
    let (private, mut by_llc): (BTreeMap<_, _>, BTreeMap<_, _>) =
        by_llc.into_iter().partition(|(_, cpus)| is_private(cpus));
    if !private.is_empty() {
        by_llc.entry(None).or_default().extend(private.into_values().flatten());
    }
    let caches = by_llc.into_iter().map(|(llc, cpus)| {
        let leaf = |cpus| Draft { node, llc, cpus, children: Vec::new() };
        join_in_order(chunk_by_core(machine, cpus).into_iter().map(leaf).collect())
    });
    join_in_order(caches.collect())
}

/// Nearly equal chunks of at most four CPUs; hardware threads of one core stay together unless
/// they are more than four.
fn chunk_by_core(machine: &Machine, mut cpus: Vec<CpuId>) -> Vec<Vec<CpuId>> {
    cpus.sort_by_key(|&cpu| (core_of(machine, cpu), cpu));
    let size = cpus.len().div_ceil(cpus.len().div_ceil(FANOUT_MAX));
    let mut chunks: Vec<Vec<CpuId>> = vec![Vec::new()];
    for core in cpus.chunk_by(|&a, &b| same_core(machine, a, b)) {
        for unit in core.chunks(FANOUT_MAX) {
            let last = chunks.last_mut().expect("never empty");
            if last.len() < size && last.len() + unit.len() <= FANOUT_MAX {
                last.extend_from_slice(unit);
            } else {
                chunks.push(unit.to_vec());
            }
        }
    }
    chunks
}

fn core_of(machine: &Machine, cpu: CpuId) -> (Option<u32>, Option<u32>) {
    let cpu = &machine.cpus()[cpu.index()];
    (cpu.package.map(|package| package.0), cpu.core)
}

fn same_core(machine: &Machine, a: CpuId, b: CpuId) -> bool {
    let core = core_of(machine, a);
    a == b || (core.1.is_some() && core == core_of(machine, b))
}

/// A draft that is in the queue, and so has its id already.
struct Queued<'a> {
    draft: &'a Draft,
    parent: Option<ClusterId>,
    place: u8,
    first_cpu: usize,
}

/// Puts drafts into the list, level by level, so that brothers are neighbours.
struct Emitter<'a> {
    machine: &'a Machine,
    queue: VecDeque<Queued<'a>>,
    clusters: Vec<Cluster>,
    cpus: Vec<TreeCpu>,
}

impl<'a> Emitter<'a> {
    fn new(machine: &'a Machine, root: &'a Draft) -> Self {
        let nowhere = TreeCpu { id: CpuId(0), leaf: ClusterId::ROOT, siblings: 0 };
        let cpus = vec![nowhere; root.nr_cpus()];
        let queue = VecDeque::from([Queued { draft: root, parent: None, place: 0, first_cpu: 0 }]);
        let mut emitter = Self { machine, queue, clusters: Vec::new(), cpus };
        while let Some(next) = emitter.queue.pop_front() {
            emitter.emit(&next);
        }
        emitter
    }

    fn emit(&mut self, Queued { draft, parent, place, first_cpu }: &Queued<'a>) {
        let id = ClusterId(self.clusters.len() as u32);
        let first_child = self.clusters.len() + 1 + self.queue.len();
        let mut first_cpu_of_child = *first_cpu;
        for (place, child) in (0..).zip(&draft.children) {
            let first_cpu = first_cpu_of_child;
            self.queue.push_back(Queued { draft: child, parent: Some(id), place, first_cpu });
            first_cpu_of_child += child.nr_cpus();
        }
        let level = draft.level();
        debug_assert!(level <= LEVELS_MAX);
        self.emit_cpus(&draft.cpus, id, *first_cpu);
        let mut nodes = Vec::new();
        draft.nodes(&mut nodes);
        nodes.sort_unstable();
        nodes.dedup();
        self.clusters.push(Cluster {
            parent: *parent,
            first_child: first_child as u32,
            nr_children: draft.children.len() as u8,
            place: *place,
            level,
            first_cpu: *first_cpu as u32,
            nr_cpus: draft.nr_cpus() as u32,
            nr_cores: 0,
            slot: 0,
            node: draft.node,
            llc: draft.llc,
            home: most_central(self.machine, &nodes),
        });
    }

    fn emit_cpus(&mut self, cpus: &[CpuId], leaf: ClusterId, first: usize) {
        for (at, &cpu) in cpus.iter().enumerate() {
            let siblings = cpus.iter().enumerate().fold(0, |mask, (at, &other)| {
                mask | u8::from(same_core(self.machine, cpu, other)) << at
            });
            self.cpus[first + at] = TreeCpu { id: cpu, leaf, siblings };
        }
    }

    /// Cores of a leaf count at their first thread; above, children are added up.
    fn count_cores(&mut self) {
        for at in (0..self.clusters.len()).rev() {
            let cluster = &self.clusters[at];
            let children = cluster.children().map(|child| self.clusters[child.index()].nr_cores);
            let is_first = |(place, cpu): (usize, &TreeCpu)| cpu.siblings & ((1 << place) - 1) == 0;
            self.clusters[at].nr_cores = if cluster.is_leaf() {
                let cpus = self.cpus[cluster.positions()].iter().enumerate();
                cpus.filter(|&(place, cpu)| is_first((place, cpu))).count() as u32
            } else {
                children.sum()
            };
        }
    }

    /// Clusters of one home lie together, in groups that no other home's are in.
    fn assign_slots(&mut self) -> Vec<Option<NodeId>> {
        let mut by_home: BTreeMap<Option<NodeId>, Vec<usize>> = BTreeMap::new();
        for (at, cluster) in self.clusters.iter().enumerate() {
            by_home.entry(cluster.home).or_default().push(at);
        }
        let mut groups = Vec::new();
        for (home, members) in by_home {
            for group in members.chunks(SLOTS_PER_GROUP) {
                let first = groups.len() * SLOTS_PER_GROUP;
                // Each group begins at another of its slots: were it always the first, the leaves of a
                // thousand nodes would all compete for the same sets of the caches.
                let turn = groups.len() * 7 % SLOTS_PER_GROUP;
                for (slot, &at) in group.iter().enumerate() {
                    self.clusters[at].slot = (first + (slot + turn) % SLOTS_PER_GROUP) as u32;
                }
                groups.push(home);
            }
        }
        groups
    }

    fn node_clusters(&self) -> Vec<ClusterId> {
        let mut node_clusters = vec![ClusterId::ROOT; self.machine.nodes().len()];
        // From the last to the first: of several the highest remains.
        for (at, cluster) in self.clusters.iter().enumerate().rev() {
            if let Some(node) = cluster.node {
                node_clusters[node.index()] = ClusterId(at as u32);
            }
        }
        node_clusters
    }

    fn finish(mut self) -> Tree {
        self.count_cores();
        let slot_groups = self.assign_slots();
        let machine = self.machine;
        let mut positions = vec![None; machine.cpus().len()];
        for (position, cpu) in self.cpus.iter().enumerate() {
            positions[cpu.id.index()] = Some(position as u32);
        }
        let mut cpus_by_os_id: Vec<_> =
            machine.cpu_ids().map(|cpu| (machine.cpus()[cpu.index()].os_id, cpu)).collect();
        cpus_by_os_id.sort_unstable();
        let rows = &machine.distances().rows;
        Tree {
            node_clusters: self.node_clusters().into(),
            clusters: self.clusters.into(),
            cpus: self.cpus.into(),
            positions: positions.into(),
            cpu_os_ids: machine.cpus().iter().map(|cpu| cpu.os_id).collect(),
            cpus_by_os_id: cpus_by_os_id.into(),
            node_os_ids: machine.nodes().iter().map(|node| node.os_id).collect(),
            distances: rows.iter().flatten().copied().collect(),
            slot_groups: slot_groups.into(),
        }
    }
}

/// The node nearest to all others of a cluster; one with CPUs if there is one, since distances to
/// a cluster matter to threads.
fn most_central(machine: &Machine, nodes: &[NodeId]) -> Option<NodeId> {
    let sum = |from: NodeId| -> u64 {
        nodes.iter().map(|&to| u64::from(machine.distance(from, to).0)).sum()
    };
    nodes.iter().copied().min_by_key(|&node| (machine.node_cpus(node).is_empty(), sum(node), node))
}
