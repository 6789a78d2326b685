//! The estimates of every cluster: T exact, U and M as last refreshed. They live in lists that the
//! caller provides, so the same code serves private and shared memory.
//!
//! All accesses are relaxed: the numbers are counts, nothing is published through them, and a
//! decision is allowed to see a moment's disagreement between a cluster and its parent's entry for
//! it. (The [`Ledger`](super::Ledger) adds the ordering that it needs.)

use quartier_model::{CpuId, NodeId};
use thiserror::Error;

use crate::dqdt::layout::{FreeMemory, Resources, SUM, Threads, Usage, count_of};
use crate::dqdt::tree::{Cluster, ClusterId, Tree};
use crate::sync::{AtomicU32, Relaxed};

/// A tree with its estimates.
#[derive(Clone, Copy, Debug)]
pub struct Estimates<'a> {
    tree: &'a Tree,
    threads: &'a [Threads],
    resources: Option<&'a [Resources]>,
}

/// Why lists do not serve a tree, or a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum EstimatesError {
    #[error("{given} entries for {what}, and the tree has {needed}: make them for this tree")]
    Length { what: &'static str, given: usize, needed: usize },
    #[error("CPU {0} is offline or not of this machine, so no thread is counted on it")]
    Cpu(CpuId),
    #[error("CPU {0} has no counted thread left: a thread was taken off twice")]
    NotCounted(CpuId),
}

impl Tree {
    /// T of every cluster in this process's own memory: no threads anywhere.
    #[must_use]
    pub fn new_threads(&self) -> Box<[Threads]> {
        (0..self.nr_slots()).map(|_| Threads::new()).collect()
    }

    /// U and M of every cluster in this process's own memory: nothing known.
    #[must_use]
    pub fn new_resources(&self) -> Box<[Resources]> {
        (0..self.nr_slots()).map(|_| Resources::new()).collect()
    }
}

impl<'a> Estimates<'a> {
    /// T in `threads`, U and M unknown.
    ///
    /// # Errors
    /// When there are not exactly [`Tree::nr_slots`] entries.
    pub fn new(tree: &'a Tree, threads: &'a [Threads]) -> Result<Self, EstimatesError> {
        check_length("T", threads.len(), tree.nr_slots())?;
        Ok(Self { tree, threads, resources: None })
    }

    /// U and M in `resources`.
    ///
    /// # Errors
    /// When there are not exactly [`Tree::nr_slots`] entries.
    pub fn with_resources(mut self, resources: &'a [Resources]) -> Result<Self, EstimatesError> {
        check_length("U and M", resources.len(), self.tree.nr_slots())?;
        self.resources = Some(resources);
        Ok(self)
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &'a Tree {
        self.tree
    }

    /// T of a cluster: the sum of its own entries.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn nr_threads(&self, cluster: ClusterId) -> u32 {
        self.threads_of(cluster).all().into_iter().fold(0, u32::saturating_add)
    }

    /// T as a parent's entry for this child has it; of the root, the sum.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn nr_threads_above(&self, cluster: ClusterId) -> u32 {
        let Cluster { parent, place, .. } = self.tree.cluster(cluster);
        match parent {
            Some(parent) => self.entry(*parent, usize::from(*place)),
            None => self.nr_threads(cluster),
        }
    }

    /// T of a CPU; 0 for a CPU that takes no threads.
    #[must_use]
    pub fn nr_threads_on(&self, cpu: CpuId) -> u32 {
        let load = |position| count_of(self.cpu_slot(position).load(Relaxed));
        self.tree.position_of(cpu).map_or(0, load)
    }

    /// U of a cluster, where it is known.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn usage(&self, cluster: ClusterId) -> Option<Usage> {
        self.resources_of(cluster)?.usage(SUM)
    }

    /// U of a CPU, where it is known.
    #[must_use]
    pub fn usage_on(&self, cpu: CpuId) -> Option<Usage> {
        let position = self.tree.position_of(cpu)?;
        let leaf = self.tree.cpus[position].leaf;
        self.resources_of(leaf)?.usage(position - self.tree.cluster(leaf).positions().start)
    }

    /// M of a cluster, where it is known. Inside a node every cluster has the node's memory.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn free_memory(&self, cluster: ClusterId) -> Option<FreeMemory> {
        self.resources_of(cluster)?.free_memory(SUM)
    }

    /// M of a node, where it is known.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn free_memory_of(&self, node: NodeId) -> Option<FreeMemory> {
        self.free_memory(self.tree.cluster_of_node(node))
    }

    /// Counts a thread on a CPU and in every cluster up to the root: one atomic addition for each.
    /// Says whether it did: an offline CPU takes none.
    pub fn add_thread(&self, cpu: CpuId) -> bool {
        self.tree.position_of(cpu).is_some_and(|position| self.add_at(position))
    }

    /// Counts a thread on the CPU at `position` if T there still is what the decision saw.
    pub(crate) fn add_if_unchanged(&self, position: usize, seen: u32) -> bool {
        let slot = self.cpu_slot(position);
        let now = slot.load(Relaxed);
        let added = count_of(now) == seen
            && slot.compare_exchange(now, now.wrapping_add(1), Relaxed, Relaxed).is_ok();
        if added {
            self.for_each_above(position, |slot| _ = slot.fetch_add(1, Relaxed));
        }
        added
    }

    /// Counts a thread on the CPU at `position`, whatever T is there.
    pub(crate) fn add_at(&self, position: usize) -> bool {
        self.cpu_slot(position).fetch_add(1, Relaxed);
        self.for_each_above(position, |slot| _ = slot.fetch_add(1, Relaxed));
        true
    }

    /// Takes a thread off a CPU and off every cluster up to the root.
    ///
    /// # Errors
    /// When the CPU takes no threads, or has none left. Nothing is changed then.
    pub fn remove_thread(&self, cpu: CpuId) -> Result<(), EstimatesError> {
        let position = self.tree.position_of(cpu).ok_or(EstimatesError::Cpu(cpu))?;
        // Only the CPU is checked: a thread is counted there first, so whoever holds a count there
        // has one in every cluster above as well, or will.
        self.cpu_slot(position)
            .fetch_update(Relaxed, Relaxed, |now| (count_of(now) > 0).then(|| now.wrapping_sub(1)))
            .map_err(|_| EstimatesError::NotCounted(cpu))?;
        self.for_each_above(position, |slot| _ = slot.fetch_sub(1, Relaxed));
        Ok(())
    }

    /// Takes a thread off without asking: whoever calls knows that it was counted.
    pub(crate) fn remove_at(&self, position: usize) {
        self.cpu_slot(position).fetch_sub(1, Relaxed);
        self.for_each_above(position, |slot| _ = slot.fetch_sub(1, Relaxed));
    }

    /// T of the CPU at a position, to be changed.
    pub(crate) fn cpu_slot(&self, position: usize) -> &'a AtomicU32 {
        let leaf = self.tree.cluster(self.tree.cpus[position].leaf);
        &self.threads[leaf.slot()].nr_threads[position - leaf.positions().start]
    }

    /// The entries that count a CPU's threads above its own.
    fn for_each_above(&self, position: usize, mut change: impl FnMut(&AtomicU32)) {
        let mut at = self.tree.cluster(self.tree.cpus[position].leaf);
        while let Some(parent) = at.parent {
            let above = self.tree.cluster(parent);
            change(&self.threads[above.slot()].nr_threads[usize::from(at.place)]);
            at = above;
        }
    }

    pub(crate) fn threads_of(&self, cluster: ClusterId) -> &'a Threads {
        &self.threads[self.tree.cluster(cluster).slot()]
    }

    pub(crate) fn resources_of(&self, cluster: ClusterId) -> Option<&'a Resources> {
        Some(&self.resources?[self.tree.cluster(cluster).slot()])
    }

    /// T of one of a cluster's children or CPUs.
    pub(crate) fn entry(&self, cluster: ClusterId, entry: usize) -> u32 {
        self.threads_of(cluster).get(entry)
    }
}

fn check_length(what: &'static str, given: usize, needed: usize) -> Result<(), EstimatesError> {
    if given == needed { Ok(()) } else { Err(EstimatesError::Length { what, given, needed }) }
}
