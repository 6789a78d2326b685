//! The estimates of every cluster: T exact, U and M as last refreshed. They live in slices that
//! the caller provides, so the same code serves private and shared memory.
//!
//! All accesses are relaxed: the numbers are counts, nothing is published through them, and a
//! decision is allowed to see a moment's disagreement between a cluster and its CPUs.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use quartier_model::{CpuId, NodeId};
use thiserror::Error;

use crate::dqdt::allowed::Allowed;
use crate::dqdt::tree::{ClusterId, Tree};

/// The percentages a U slot can hold, plus one: 0 in the slot means unknown, so memory fresh from
/// the kernel does not claim that every CPU is idle.
const USAGE_MAX_PERCENT: u8 = 100;

/// A tree with the slots of its indicators.
#[derive(Clone, Copy, Debug)]
pub struct Estimates<'a> {
    tree: &'a Tree,
    threads: &'a [AtomicU32],
    usage: Option<&'a [AtomicU8]>,
    free_pages: Option<&'a [AtomicU64]>,
}

/// Why slots do not serve a tree, or a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum EstimatesError {
    #[error("{given} slots for {what}, and the tree has {needed}: make them for this tree")]
    Length { what: &'static str, given: usize, needed: usize },
    #[error("CPU {0} is offline or not of this machine, so no thread is counted on it")]
    Cpu(CpuId),
    #[error("CPU {0} has no counted thread left: a thread was taken off twice")]
    NotCounted(CpuId),
}

/// What a policy sees of a cluster, reduced to the CPUs that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// N: CPUs.
    pub nr_cpus: u32,
    /// T: active threads.
    pub nr_threads: u32,
    /// U: utilisation in percent; `None` where unknown.
    pub usage_percent: Option<u8>,
}

impl<'a> Estimates<'a> {
    /// T in `threads`, U and M unknown.
    ///
    /// # Errors
    /// When there are not exactly [`Tree::nr_slots`] slots.
    pub fn new(tree: &'a Tree, threads: &'a [AtomicU32]) -> Result<Self, EstimatesError> {
        check_length("T", threads.len(), tree.nr_slots())?;
        Ok(Self { tree, threads, usage: None, free_pages: None })
    }

    /// U in `usage`: [`Tree::nr_slots`] slots, each the percentage plus one, 0 for unknown.
    ///
    /// # Errors
    /// When there are not exactly that many.
    pub fn with_usage(mut self, usage: &'a [AtomicU8]) -> Result<Self, EstimatesError> {
        check_length("U", usage.len(), self.tree.nr_slots())?;
        self.usage = Some(usage);
        Ok(self)
    }

    /// M in `free_pages`: one slot per cluster, each the number of pages plus one, 0 for unknown.
    ///
    /// # Errors
    /// When there are not exactly that many.
    pub fn with_free_pages(mut self, pages: &'a [AtomicU64]) -> Result<Self, EstimatesError> {
        check_length("M", pages.len(), self.tree.clusters().len())?;
        self.free_pages = Some(pages);
        Ok(self)
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &'a Tree {
        self.tree
    }

    /// T of a cluster.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn nr_threads(&self, cluster: ClusterId) -> u32 {
        self.threads[cluster.index()].load(Relaxed)
    }

    /// T of a CPU; 0 for a CPU that takes no threads.
    #[must_use]
    pub fn nr_threads_on(&self, cpu: CpuId) -> u32 {
        self.tree.position_of(cpu).map_or(0, |position| self.nr_threads_at(position))
    }

    pub(crate) fn nr_threads_at(&self, position: usize) -> u32 {
        self.threads[self.tree.cpu_slot(position)].load(Relaxed)
    }

    /// Counts a thread on a CPU and on every cluster up to the root. Says whether it did: an
    /// offline CPU takes none.
    pub fn add_thread(&self, cpu: CpuId) -> bool {
        let Some(position) = self.tree.position_of(cpu) else { return false };
        self.threads[self.tree.cpu_slot(position)].fetch_add(1, Relaxed);
        self.add_above(position);
        true
    }

    /// Counts a thread on the CPU at `position` if T there still is what the decision saw.
    pub(crate) fn add_if_unchanged(&self, position: usize, seen: u32) -> bool {
        let slot = &self.threads[self.tree.cpu_slot(position)];
        let added = slot.compare_exchange(seen, seen.saturating_add(1), Relaxed, Relaxed).is_ok();
        if added {
            self.add_above(position);
        }
        added
    }

    fn add_above(&self, position: usize) {
        for cluster in self.tree.path_to_root(self.tree.cpus[position].leaf) {
            self.threads[cluster.index()].fetch_add(1, Relaxed);
        }
    }

    /// Takes a thread off a CPU and off every cluster up to the root.
    ///
    /// # Errors
    /// When the CPU takes no threads, or has none left. Nothing is changed then.
    pub fn remove_thread(&self, cpu: CpuId) -> Result<(), EstimatesError> {
        let position = self.tree.position_of(cpu).ok_or(EstimatesError::Cpu(cpu))?;
        // Only the CPU is checked: a thread is counted there first, so whoever holds a count there
        // has one in every cluster above as well.
        self.threads[self.tree.cpu_slot(position)]
            .fetch_update(Relaxed, Relaxed, |nr_threads| nr_threads.checked_sub(1))
            .map_err(|_| EstimatesError::NotCounted(cpu))?;
        for cluster in self.tree.path_to_root(self.tree.cpus[position].leaf) {
            self.threads[cluster.index()].fetch_sub(1, Relaxed);
        }
        Ok(())
    }

    /// Whether there are slots for U; they may all be unknown.
    pub(crate) fn has_usage(&self) -> bool {
        self.usage.is_some()
    }

    /// U of a cluster, in percent.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn usage_percent(&self, cluster: ClusterId) -> Option<u8> {
        self.usage_in(cluster.index())
    }

    pub(crate) fn usage_percent_at(&self, position: usize) -> Option<u8> {
        self.usage_in(self.tree.cpu_slot(position))
    }

    fn usage_in(&self, slot: usize) -> Option<u8> {
        let percent = self.usage?[slot].load(Relaxed).checked_sub(1)?;
        Some(percent.min(USAGE_MAX_PERCENT))
    }

    /// Sets U of a CPU; [`refresh`](Self::refresh) carries it to the clusters. Single writer.
    pub fn set_usage(&self, cpu: CpuId, percent: Option<u8>) {
        if let (Some(usage), Some(position)) = (self.usage, self.tree.position_of(cpu)) {
            store_usage(&usage[self.tree.cpu_slot(position)], percent);
        }
    }

    /// M of a cluster, in pages.
    ///
    /// # Panics
    /// If the id is not of this tree.
    #[must_use]
    pub fn free_pages(&self, cluster: ClusterId) -> Option<u64> {
        self.free_pages?[cluster.index()].load(Relaxed).checked_sub(1)
    }

    /// Renews U and M of every cluster: U is the mean over its CPUs, M the sum over its nodes
    /// (`of_node` gives the free pages of one), each unknown when a part of it is. To be called
    /// periodically by the single writer.
    pub fn refresh(&self, of_node: impl Fn(NodeId) -> Option<u64>) {
        for (at, cluster) in self.tree.clusters().iter().enumerate() {
            if let Some(usage) = self.usage {
                let percent = cluster
                    .positions()
                    .map(|cpu| self.usage_percent_at(cpu))
                    .try_fold(0u32, |sum, percent| Some(sum + u32::from(percent?)));
                let mean = percent.and_then(|sum| sum.checked_div(cluster.nr_cpus()));
                store_usage(&usage[at], mean.map(|mean| mean as u8));
            }
            if let Some(pages) = self.free_pages {
                // Inside a node all clusters have the node's memory at hand. CPUs of no known node
                // add none: wherever their memory is, it is counted at its node.
                let sum = match cluster.node() {
                    Some(node) => of_node(node),
                    None => cluster.children().iter().map(|&child| self.free_pages(child)).sum(),
                };
                pages[at].store(sum.map_or(0, |sum| sum.saturating_add(1)), Relaxed);
            }
        }
    }

    /// N, T and U of a cluster, of its allowed CPUs only.
    ///
    /// A cluster that is allowed as a whole answers from its own slot. One that is cut by the mask
    /// is summed up CPU by CPU: its own T counts threads on CPUs that do not concern the caller.
    pub(crate) fn load(&self, id: ClusterId, allowed: &Allowed) -> Load {
        let cluster = self.tree.cluster(id);
        let nr_cpus = allowed.nr_in(id);
        if nr_cpus == cluster.nr_cpus() {
            let nr_threads = self.nr_threads(id);
            return Load { nr_cpus, nr_threads, usage_percent: self.usage_percent(id) };
        }
        let mut load = Load { nr_cpus, nr_threads: 0, usage_percent: None };
        if nr_cpus == 0 {
            return load;
        }
        let mut usage_sum = self.usage.map(|_| 0u32);
        for position in allowed.positions_in(cluster.positions()) {
            load.nr_threads = load.nr_threads.saturating_add(self.nr_threads_at(position));
            usage_sum =
                usage_sum.and_then(|sum| Some(sum + u32::from(self.usage_percent_at(position)?)));
        }
        load.usage_percent = usage_sum.map(|sum| (sum / nr_cpus) as u8);
        load
    }
}

fn store_usage(slot: &AtomicU8, percent: Option<u8>) {
    slot.store(percent.map_or(0, |percent| percent.min(USAGE_MAX_PERCENT) + 1), Relaxed);
}

fn check_length(what: &'static str, given: usize, needed: usize) -> Result<(), EstimatesError> {
    if given == needed { Ok(()) } else { Err(EstimatesError::Length { what, given, needed }) }
}
