//! Which thread uses which part of a process's memory, from a sample of touches.
//!
//! A touch is a page fault of a thread on memory that is there already: the kernel's NUMA balancing takes pages
//! out of the page tables now and then, to see who touches them (hint faults).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, NodeId};

/// Memory is given to users in blocks of so much: what a huge page has.
pub const BLOCK: Bytes = Bytes::from_mib(2);

/// Who uses the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Users {
    /// As far as touches were seen.
    Seen(Touches),
    /// That is unknown.
    Unknown(Unseen),
}

/// Touches that were seen, of those that are known to be no first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Touches {
    /// In rising order; of very many those that were touched most often.
    pub blocks: Vec<BlockSeen>,
    /// Touches that the kernel could not tell, because too many came at once.
    pub lost: u64,
}

/// A block of memory of which a page was touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockSeen {
    /// Its address divided by [`BLOCK`].
    pub index: u64,
    /// Where the page lies that was touched last; `None`: unknown.
    pub on: Option<NodeId>,
    /// How often it was touched, by the number of the thread.
    pub by: BTreeMap<u32, u64>,
}

/// Why it is unknown who uses which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// Nobody looks: it seemed to fit on a node, or others come first.
    NotWatched,
    /// The kernel's NUMA balancing is off.
    BalancingOff,
    /// We may not sample its page faults.
    NotPermitted,
    /// The kernel has no such events.
    Unsupported,
    /// There are not enough descriptors, or not enough locked memory.
    NoDescriptors,
    /// It was looked, and too little seen of most of its threads so far.
    TooFew,
    /// More touches were lost than seen.
    Lost,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWatched => "it was not looked, since it seemed to fit on a node or others came first; \
                 that comes by itself",
            Self::BalancingOff => {
                "the kernel's NUMA balancing is off, which makes touches visible: set kernel.numa_balancing to 1"
            }
            Self::NotPermitted => {
                "its page faults may not be sampled: run quartierd with CAP_PERFMON, or as root"
            }
            Self::Unsupported => {
                "this kernel does not tell page faults or has no NUMA balancing: take one with \
                 CONFIG_PERF_EVENTS and CONFIG_NUMA_BALANCING"
            }
            Self::NoDescriptors => {
                "there were not enough descriptors for its threads: raise monitor.descriptors_max and the \
                 limit of open files"
            }
            Self::TooFew => {
                "too few touches were seen of most of its threads: it is looked again, and the kernel shows \
                 more to who runs longer"
            }
            Self::Lost => {
                "more touches were lost than seen, since too many came at once: it is looked again"
            }
        })
    }
}
