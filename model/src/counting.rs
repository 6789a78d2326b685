//! Whether threads' instructions and cache misses are counted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether the CPUs' counters can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// No thread has run yet that could be counted.
    #[default]
    NotAsked,
    /// Instructions and misses of the last-level cache are counted.
    Counts,
    /// Instructions are, misses of the last-level cache cannot be.
    WithoutMisses,
    /// The machine has no counters that the kernel can use.
    Unsupported,
    /// We may not count.
    NotPermitted,
    /// There are not enough descriptors for all threads that run.
    NoDescriptors,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "nothing was counted yet",
            Self::Counts => "instructions and cache misses are counted",
            Self::WithoutMisses => {
                "instructions are counted; cache misses are not, since this machine has no counter for them: \
                 how much memory matters to a process is assumed from how much it has"
            }
            Self::Unsupported => {
                "instructions and cache misses are not counted, since this machine has no counters (many \
                 virtual ones have none; give it a virtual PMU): how much memory matters to a process is \
                 assumed from how much it has"
            }
            Self::NotPermitted => {
                "instructions and cache misses are not counted, since that is not permitted: run quartierd \
                 with CAP_PERFMON, or as root"
            }
            Self::NoDescriptors => {
                "instructions and cache misses are not counted of all threads, since there are not enough \
                 descriptors: raise monitor.descriptors_max and the limit of open files"
            }
        })
    }
}
