//! What a policy sees of a cluster and of its parts.

use std::num::NonZeroU64;

use quartier_model::{CpuId, Distance};

use crate::dqdt::{ClusterId, FANOUT_MAX};

/// N, T, U and M of a cluster or a CPU, of the CPUs that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// N: CPUs.
    pub nr_cpus: u32,
    /// Cores that these CPUs are threads of. A hardware thread is half a core: while T is below
    /// this, some core runs nothing.
    pub nr_cores: u32,
    /// T: active threads. Of a cluster that the mask cuts: an upper bound, since threads on CPUs
    /// outside the mask count too.
    pub nr_threads: u32,
    /// U: utilisation in percent; `None` where unknown or not asked for. Of a cluster that a large mask
    /// cuts: of all its CPUs.
    pub usage_percent: Option<u8>,
    /// M, plus one.
    pub(crate) free_pages: Option<NonZeroU64>,
}

impl Load {
    pub(crate) const NONE: Self =
        Self { nr_cpus: 0, nr_cores: 0, nr_threads: 0, usage_percent: None, free_pages: None };

    /// M: free pages; `None` where unknown or not asked for.
    #[must_use]
    pub fn free_pages(&self) -> Option<u64> {
        Some(self.free_pages?.get() - 1)
    }

    /// M alone.
    pub(crate) fn of_memory(free_pages: Option<u64>) -> Self {
        Self { free_pages: stored(free_pages), ..Self::NONE }
    }
}

pub(crate) fn stored(free_pages: Option<u64>) -> Option<NonZeroU64> {
    NonZeroU64::new(free_pages?.saturating_add(1))
}

/// A child of a cluster, or a CPU of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of its clusters.
    Cluster(ClusterId),
    /// One of its CPUs.
    Cpu(CpuId),
}

/// One of the first four entries of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub load: Load,
    /// T of all hardware threads of the core, in this leaf. Of a cluster: 0.
    pub nr_threads_of_core: u32,
    /// Index among the four.
    pub place: u8,
    /// D: from the node of the requester. Local in a leaf, where it decides nothing.
    pub distance: Distance,
    /// A: a random number where the policy asks for one.
    pub random: u64,
}

impl Entry {
    pub(crate) const NONE: Self = Self {
        load: Load::NONE,
        nr_threads_of_core: 0,
        place: 0,
        distance: Distance::UNREACHABLE,
        random: 0,
    };
}

/// The first four entries of a cluster, as read at one visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub cluster: ClusterId,
    pub nr_entries: u8,
    pub entries: [Entry; FANOUT_MAX],
}

impl Reading {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..usize::from(self.nr_entries)]
    }
}
