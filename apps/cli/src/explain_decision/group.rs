//! Decisions about several threads that belong together.

use std::collections::BTreeMap;

use quartier_decide::dqdt::{ClusterId, Tree};
use quartier_decide::policy::group::{Group, decide};
use quartier_model::CpuId;

use super::placement::Replay;
use super::report::{CpuShare, Outcome, Report, Share};
use crate::topo::view::count;

/// Fills the report.
pub fn replay(replay: &Replay<'_>, report: &mut Report) {
    let nr_threads = replay.options.threads.unwrap_or(1) as usize;
    let near = match replay.from {
        Some(cpu) => replay.scene.cpu_and_node(cpu),
        None => "nothing in particular".to_owned(),
    };
    report.request = format!("{} near {near}", count(nr_threads, "thread"));
    report.visits_max = None;
    report.start = Some(replay.start_at_leaf("the leaf of the CPU that it should be near"));
    let mut cpus = vec![CpuId(0); nr_threads];
    let request = Group { near: replay.from, allowed: replay.allowed };
    if let Some(visited) = decide(&replay.scene.estimates, &request, &mut cpus) {
        report.shares = Shares::new(replay, &cpus).list();
        report.outcome = Some(Outcome { visited, ..Outcome::default() });
    }
}

struct Shares<'a> {
    replay: &'a Replay<'a>,
    tree: &'a Tree,
    nr_threads: u32,
    per_cpu: BTreeMap<CpuId, u32>,
    /// By cluster.
    per_cluster: Vec<u32>,
}

impl<'a> Shares<'a> {
    fn new(replay: &'a Replay<'a>, cpus: &[CpuId]) -> Self {
        let tree = replay.scene.names.tree;
        let mut per_cpu: BTreeMap<CpuId, u32> = BTreeMap::new();
        for &cpu in cpus {
            *per_cpu.entry(cpu).or_default() += 1;
        }
        let mut per_cluster = vec![0u32; tree.clusters().len()];
        for (&cpu, &threads) in &per_cpu {
            let path = tree.leaf_of(cpu).into_iter().flat_map(|leaf| tree.path_to_root(leaf));
            path.for_each(|cluster| per_cluster[cluster.index()] += threads);
        }
        Self { replay, tree, nr_threads: cpus.len() as u32, per_cpu, per_cluster }
    }

    /// What the threads go into, from the smallest cluster that takes all of them: parents first.
    fn list(&self) -> Vec<Share> {
        let takes_all = |id: &ClusterId| self.per_cluster[id.index()] == self.nr_threads;
        let top = self.tree.cluster_ids().rev().find(takes_all);
        let mut left: Vec<_> = top.into_iter().map(|top| (top, 0)).collect();
        let mut shares = Vec::new();
        while let Some((id, depth)) = left.pop() {
            shares.push(self.share(id, depth));
            let children: Vec<_> = self.tree.cluster(id).children().collect();
            let with_threads = children.into_iter().filter(|id| self.per_cluster[id.index()] > 0);
            left.extend(with_threads.rev().map(|id| (id, depth + 1)));
        }
        shares
    }

    fn share(&self, id: ClusterId, depth: usize) -> Share {
        let is_leaf = self.tree.cluster(id).is_leaf();
        let cpus = self.tree.cluster_cpus(id).filter(|_| is_leaf).filter_map(|cpu| {
            let threads = *self.per_cpu.get(&cpu)?;
            Some(CpuShare { cpu: self.replay.scene.names.cpu(cpu), threads })
        });
        Share {
            cluster: self.replay.teller().name(id),
            threads: self.per_cluster[id.index()],
            cpus: cpus.collect(),
            depth,
        }
    }
}
