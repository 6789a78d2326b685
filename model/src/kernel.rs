//! What the kernel counts of a whole machine and of its nodes, between two looks at that. What a kernel does not count is `None`.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelSeen {
    /// Over so long.
    pub over: Nanos,
    /// Page faults (`pgfault` of proc/vmstat), and those of them that had to wait for a disk (`pgmajfault`).
    pub faults: Option<u64>,
    /// Those.
    pub major_faults: Option<u64>,
    /// Faults by which the kernel's NUMA balancing learns who uses which page (`numa_hint_faults`); absent from a kernel without it.
    pub hint_faults: Option<u64>,
    /// Those of them whose page was on the node of the CPU (`numa_hint_faults_local`).
    pub hint_faults_local: Option<u64>,
    /// Pages that the balancing moved (`numa_pages_migrated`).
    pub balanced_pages: Option<u64>,
    /// For how long some task waited that it need not have, had there been more of it: a CPU, memory, input or output
    /// (proc/pressure, Linux 4.20; `some`).
    pub waited_for_cpu: Option<Nanos>,
    /// Memory: it was reclaimed, or read back.
    pub waited_for_memory: Option<Nanos>,
    /// Input or output.
    pub waited_for_io: Option<Nanos>,
}

/// Of a node, its `numastat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocated {
    /// Pages that were allocated there by its own CPUs (`local_node`).
    pub local_pages: u64,
    /// By those of other nodes (`other_node`).
    pub other_pages: u64,
    /// Pages that were wanted elsewhere, where there was no room (`numa_miss`).
    pub missed_pages: u64,
}

impl KernelSeen {
    /// The part of the time that some task waited for memory; `None`: nobody knows.
    #[must_use]
    pub fn memory_pressure(&self) -> Option<f64> {
        let waited = self.waited_for_memory?;
        (self.over.0 > 0).then(|| waited.0 as f64 / self.over.0 as f64)
    }
}
