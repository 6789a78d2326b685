//! The decision tree as text. In a large one neighbours of the same shape share a line, unless all
//! are asked for.

use std::fmt::Write;

use quartier_decide::dqdt::{ClusterId, Tree};
use quartier_model::{CpuId, CpuList, Machine};

use super::view::{View, count};

/// With more clusters than this, those that are alike share a line.
const CLUSTERS_IN_FULL_MAX: usize = 64;

/// The whole text. `all`: every cluster has its line.
pub fn print(machine: &Machine, tree: &Tree, all: bool) -> String {
    let mut text = format!(
        "{}: decision tree of height {}, {}, {}\n",
        View::new(machine).title(),
        tree.height(),
        count(tree.clusters().len(), "cluster"),
        count(tree.clusters().iter().filter(|c| c.is_leaf()).count(), "leaf")
            .replace("leafs", "leaves"),
    );
    let all = all || tree.clusters().len() <= CLUSTERS_IN_FULL_MAX;
    Printer { machine, tree, all, text: &mut text }.push_cluster(ClusterId::ROOT, "", "");
    if !all {
        text += "Clusters that are alike share a line; --all prints each.\n";
    }
    text
}

struct Printer<'a> {
    machine: &'a Machine,
    tree: &'a Tree,
    all: bool,
    text: &'a mut String,
}

impl Printer<'_> {
    fn push_cluster(&mut self, id: ClusterId, branch: &str, indent: &str) {
        let _ = writeln!(self.text, "{branch}{}", self.label(id));
        let children: Vec<_> = self.tree.cluster(id).children().collect();
        let groups: Vec<&[ClusterId]> = if self.all {
            children.chunks(1).collect()
        } else {
            children.chunk_by(|&a, &b| self.is_alike(a, b)).collect()
        };
        for (at, group) in groups.iter().enumerate() {
            let is_last = at + 1 == groups.len();
            let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let more = group.len() > 1;
            let first_branch = if more { "├─ " } else { branch };
            let first_below = if more { "│  " } else { below };
            self.push_cluster(
                group[0],
                &format!("{indent}{first_branch}"),
                &format!("{indent}{first_below}"),
            );
            if more {
                self.push_more(&group[1..], &format!("{indent}{branch}"));
            }
        }
    }

    fn push_more(&mut self, alike: &[ClusterId], branch: &str) {
        let labels: Vec<_> = alike.iter().map(|&id| self.label(id)).collect();
        let _ = match labels.as_slice() {
            [one] => writeln!(self.text, "{branch}{one}"),
            many => writeln!(self.text, "{branch}{} more alike: {}", many.len(), many.join("; ")),
        };
    }

    fn label(&self, id: ClusterId) -> String {
        let cluster = self.tree.cluster(id);
        let os_id = |cpu: CpuId| self.tree.cpu_os_id(cpu).0;
        let cpus: CpuList = self.tree.cluster_cpus(id).map(os_id).collect();
        let cpus = match cpus.len() {
            0 => "no CPUs".to_owned(),
            1 => format!("CPU {cpus}"),
            _ => format!("CPUs {cpus}"),
        };
        let above = cluster.parent().map(|parent| self.tree.cluster(parent));
        let is_node_above = above.is_some_and(|above| above.node().is_some());
        let what = match (cluster.node(), cluster.llc()) {
            (Some(node), _) if !is_node_above => format!("node {}", self.tree.node_os_id(node).0),
            (Some(_), Some(llc)) if above.is_none_or(|above| above.llc() != Some(llc)) => {
                format!("L{}", self.machine.llcs()[llc.index()].level)
            }
            (Some(_), _) => "part".to_owned(),
            (None, _) => match self.nodes_of(id) {
                nodes if nodes.is_empty() => "no known node".to_owned(),
                nodes => format!("nodes {nodes}"),
            },
        };
        format!("{what}: {cpus}")
    }

    fn nodes_of(&self, id: ClusterId) -> CpuList {
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

    /// Whether two clusters have the same shape, so that one can stand for the other.
    fn is_alike(&self, a: ClusterId, b: ClusterId) -> bool {
        let (first, second) = (self.tree.cluster(a), self.tree.cluster(b));
        let mut children = first.children().zip(second.children());
        first.nr_cpus() == second.nr_cpus()
            && first.node().is_some() == second.node().is_some()
            && first.children().len() == second.children().len()
            && children.all(|(a, b)| self.is_alike(a, b))
    }
}
