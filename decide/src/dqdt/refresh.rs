//! The periodic refresh of U and M (thesis 4.3.1, 4.3.4, 5.3.3): the single writer.

use std::num::NonZeroU32;

use quartier_model::{CpuId, NodeId};

use crate::dqdt::estimates::Estimates;
use crate::dqdt::layout::{FreeMemory, Resources, SUM, THREADS_SCALE, Usage};
use crate::dqdt::tree::{Cluster, ClusterId};
use crate::sync::Relaxed;

/// N of the moving average: U of a CPU is smoothed over so many ticks (thesis 4.3.4).
pub const EMA_TICKS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Renews U and M of a tree.
///
/// Each cluster's five entries have one writer. The thesis has one task per node for the clusters
/// that lie on it; [`Tree::updater`](super::Tree::updater) names them. One refresher may do all
/// ([`tick`](Self::tick)), or each of several its part ([`set_cpu`](Self::set_cpu), then
/// [`refresh_cluster`](Self::refresh_cluster) for every cluster of the part, leaves first).
#[derive(Debug)]
pub struct Refresher<'a> {
    estimates: Estimates<'a>,
    resources: &'a [Resources],
    ema_ticks: NonZeroU32,
}

impl<'a> Refresher<'a> {
    /// Renews `resources`, smoothing U over `ema_ticks` ticks.
    ///
    /// # Errors
    /// When there are not exactly [`Tree::nr_slots`](super::Tree::nr_slots) entries.
    pub fn new(
        estimates: Estimates<'a>,
        resources: &'a [Resources],
        ema_ticks: NonZeroU32,
    ) -> Result<Self, super::EstimatesError> {
        let estimates = estimates.with_resources(resources)?;
        Ok(Self { estimates, resources, ema_ticks })
    }

    /// One tick: `busy` tells the part of the last period that a CPU was busy, `free` a node's free
    /// memory; `None` where nobody knows, and then nobody will know it of their clusters either.
    pub fn tick(
        &self,
        busy: impl Fn(CpuId) -> Option<Usage>,
        free: impl Fn(NodeId) -> Option<FreeMemory>,
    ) {
        let tree = self.estimates.tree();
        for position in 0..tree.nr_cpus() {
            let cpu = tree.cpu_at(position);
            self.set_cpu(cpu, busy(cpu));
        }
        tree.cluster_ids().rev().for_each(|id| self.refresh_cluster(id, &free));
    }

    /// Takes a new value of a CPU's utilisation into its moving average: thesis 4.3.4, with
    /// `U ← U + 2 (u − U) / (N + 1)`. The first known value counts whole.
    pub fn set_cpu(&self, cpu: CpuId, busy: Option<Usage>) {
        let tree = self.estimates.tree();
        let Some(position) = tree.position_of(cpu) else { return };
        let leaf = tree.cluster(tree.cpus[position].leaf);
        let entry = position - leaf.positions().start;
        let resources = &self.resources[leaf.slot()];
        let old = resources.usage(entry);
        let move_to = |old: Usage, busy: Usage| {
            Usage::from_scaled(moved(old.scaled(), busy.scaled(), self.ema_ticks))
        };
        let smoothed = busy.map(|busy| old.map_or(busy, |old| move_to(old, busy)));
        resources.set_usage(entry, smoothed);
    }

    /// Renews the entries of one cluster from its children's sums, or a leaf's from its CPUs: U is
    /// the mean over the CPUs, M the sum over the nodes; each unknown when a part of it is.
    pub fn refresh_cluster(&self, id: ClusterId, free: impl Fn(NodeId) -> Option<FreeMemory>) {
        let tree = self.estimates.tree();
        let cluster = tree.cluster(id);
        let resources = &self.resources[cluster.slot()];
        let was_known = resources.usage(SUM).is_some();
        if cluster.is_leaf() {
            let parts = (0..cluster.nr_cpus() as usize).map(|entry| (1, resources.usage(entry)));
            resources.set_usage(SUM, mean(parts));
        } else {
            self.pull_children(cluster, resources);
        }
        self.see_threads(id, resources, was_known);
        // Inside a node every cluster has the node's memory at hand. CPUs of no known node add none:
        // wherever their memory is, it is counted at its node.
        let memory = match cluster.node() {
            Some(node) => free(node),
            None => cluster.children().try_fold(FreeMemory::default(), |sum, child| {
                Some(sum.plus(&self.resources[tree.cluster(child).slot()].free_memory(SUM)?))
            }),
        };
        resources.set_free_memory(SUM, memory.as_ref());
    }

    /// U of an entry is an average over the last ticks, so T that it is compared with is one too.
    fn see_threads(&self, id: ClusterId, resources: &Resources, was_known: bool) {
        let nr_threads = self.estimates.threads_of(id).all();
        for (seen, nr_threads) in resources.threads_seen.iter().zip(nr_threads) {
            let now = nr_threads.saturating_mul(THREADS_SCALE);
            let old = if was_known { seen.load(Relaxed) } else { now };
            seen.store(moved(old, now, self.ema_ticks), Relaxed);
        }
    }

    fn pull_children(&self, cluster: &Cluster, resources: &Resources) {
        let tree = self.estimates.tree();
        for (entry, child) in cluster.children().enumerate() {
            let child = &self.resources[tree.cluster(child).slot()];
            resources.set_usage(entry, child.usage(SUM));
            resources.set_free_memory(entry, child.free_memory(SUM).as_ref());
        }
        let parts = cluster.children().enumerate();
        let parts =
            parts.map(|(entry, child)| (tree.cluster(child).nr_cpus(), resources.usage(entry)));
        resources.set_usage(SUM, mean(parts));
    }
}

/// Rounds away from the old value, so that a constant load is reached and not only approached.
fn moved(old: u32, new: u32, ticks: NonZeroU32) -> u32 {
    let (old, new) = (i64::from(old), i64::from(new));
    let divisor = i64::from(ticks.get()) + 1;
    let twice = 2 * (new - old);
    let step = (twice.abs() + divisor - 1) / divisor * twice.signum();
    // With N = 1 the new value counts whole; a step never overshoots.
    let step = if step.abs() > (new - old).abs() { new - old } else { step };
    (old + step) as u32
}

/// The mean over so many CPUs each; parts without CPUs do not count.
fn mean(parts: impl Iterator<Item = (u32, Option<Usage>)>) -> Option<Usage> {
    let with_cpus = parts.filter(|(nr_cpus, _)| *nr_cpus > 0);
    let (mut nr_cpus, mut sum) = (0u64, 0u64);
    for (weight, usage) in with_cpus {
        nr_cpus += u64::from(weight);
        sum += u64::from(usage?.scaled()) * u64::from(weight);
    }
    let mean = (sum + nr_cpus / 2).checked_div(nr_cpus)?;
    Some(Usage::from_scaled(mean as u32))
}
