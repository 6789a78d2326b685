//! What the clusters of a decision tree are called, and which are alike.

use quartier_decide::dqdt::{Cluster, ClusterId, Tree};
use quartier_model::{CpuId, CpuList, Machine};

/// A machine and its tree, to name clusters by.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub machine: &'a Machine,
    pub tree: &'a Tree,
}

/// Where a cluster lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It spans these nodes.
    Nodes(CpuList),
    /// It is all of a node.
    Node(u32),
    /// It is all CPUs of a last-level cache of this level, in a node with several.
    Cache(u8),
    /// It is some CPUs of a node or a cache.
    Part,
    /// It is CPUs whose node the kernel does not tell.
    NoNode,
}

impl Names<'_> {
    /// Where a cluster lies.
    pub fn kind(&self, id: ClusterId) -> Kind {
        let cluster = self.tree.cluster(id);
        let above = cluster.parent().map(|parent| self.tree.cluster(parent));
        let is_node_above = above.is_some_and(|above| above.node().is_some());
        let is_cache_above = above.is_some_and(|above| above.llc() == cluster.llc());
        match (cluster.node(), cluster.llc()) {
            (Some(node), _) if !is_node_above => Kind::Node(self.tree.node_os_id(node).0),
            (Some(_), Some(llc)) if !is_cache_above => {
                Kind::Cache(self.machine.llcs()[llc.index()].level)
            }
            (Some(_), _) => Kind::Part,
            (None, _) => match self.nodes(id) {
                nodes if nodes.is_empty() => Kind::NoNode,
                nodes => Kind::Nodes(nodes),
            },
        }
    }

    /// What a cluster is: `node 3`, `nodes 0-3`, `L3`, `part`.
    pub fn what(&self, id: ClusterId) -> String {
        match self.kind(id) {
            Kind::Nodes(nodes) => format!("nodes {nodes}"),
            Kind::Node(node) => format!("node {node}"),
            Kind::Cache(level) => format!("L{level}"),
            Kind::Part => "part".to_owned(),
            Kind::NoNode => "no known node".to_owned(),
        }
    }

    /// What a cluster is called where it stands alone: `node 3`, `nodes 0-3`, `CPUs 4-7`.
    pub fn name(&self, id: ClusterId) -> String {
        match self.kind(id) {
            Kind::Nodes(_) | Kind::Node(_) => self.what(id),
            Kind::Cache(_) | Kind::Part | Kind::NoNode => self.members(id),
        }
    }

    /// The CPUs of a cluster: `CPUs 4-7`, `CPU 8`, `no CPUs`.
    pub fn members(&self, id: ClusterId) -> String {
        cpus_text(&self.cpus(id))
    }

    /// The kernel's numbers of a cluster's CPUs.
    pub fn cpus(&self, id: ClusterId) -> CpuList {
        self.tree.cluster_cpus(id).map(|cpu| self.cpu(cpu)).collect()
    }

    /// The kernel's number of a CPU.
    pub fn cpu(&self, cpu: CpuId) -> u32 {
        self.tree.cpu_os_id(cpu).0
    }

    /// The kernel's number of the node that a cluster's distances count from.
    pub fn home(&self, id: ClusterId) -> Option<u32> {
        self.tree.cluster(id).home().map(|home| self.tree.node_os_id(home).0)
    }

    /// The kernel's number of the CPU that renews a cluster's U and M.
    pub fn updater(&self, id: ClusterId) -> Option<u32> {
        self.tree.updater(id).map(|cpu| self.cpu(cpu))
    }

    /// The kernel's numbers of the nodes that a cluster has a part of.
    pub fn nodes(&self, id: ClusterId) -> CpuList {
        let mut nodes = Vec::new();
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            let cluster = self.tree.cluster(id);
            match cluster.node() {
                Some(node) => nodes.push(self.tree.node_os_id(node).0),
                None => left.extend(cluster.children()),
            }
        }
        nodes.into_iter().collect()
    }

    /// A cluster's children, neighbours of the same shape together unless `all` are to be apart.
    pub fn alike_children(&self, id: ClusterId, all: bool) -> Vec<Vec<ClusterId>> {
        let children: Vec<_> = self.tree.cluster(id).children().collect();
        let alike = children.chunk_by(|&a, &b| !all && self.is_alike(a, b));
        alike.map(<[ClusterId]>::to_vec).collect()
    }

    /// Whether two clusters have the same shape, so that one can stand for the other.
    fn is_alike(&self, a: ClusterId, b: ClusterId) -> bool {
        let (first, second) = (self.tree.cluster(a), self.tree.cluster(b));
        let shape = |cluster: &Cluster| {
            let (is_in_node, is_in_cache) = (cluster.node().is_some(), cluster.llc().is_some());
            (cluster.nr_cpus(), cluster.nr_cores(), is_in_node, is_in_cache)
        };
        let mut children = first.children().zip(second.children());
        shape(first) == shape(second)
            && first.children().len() == second.children().len()
            && children.all(|(a, b)| self.is_alike(a, b))
    }
}

/// CPUs with their noun.
pub fn cpus_text(cpus: &CpuList) -> String {
    match cpus.len() {
        0 => "no CPUs".to_owned(),
        1 => format!("CPU {cpus}"),
        _ => format!("CPUs {cpus}"),
    }
}

/// Nodes with their noun.
pub fn nodes_text(nodes: &CpuList) -> String {
    match nodes.len() {
        0 => "no node".to_owned(),
        1 => format!("node {nodes}"),
        _ => format!("nodes {nodes}"),
    }
}
