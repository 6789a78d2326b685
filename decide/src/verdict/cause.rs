//! The classes of what stops programs, and the cures that are known for each.

use serde::{Deserialize, Serialize};

/// Why a program does not scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Threads wait for a lock, or hand it over.
    Lock,
    /// Threads write one word of memory, so its cache line travels.
    BouncingLine,
    /// Threads write words of their own in one cache line.
    FalseSharing,
    /// One thread works while the others have nothing to do.
    SerialPart,
    /// Threads get unequal parts of the work.
    Imbalance,
    /// The kernel works longer for each unit.
    KernelPath,
    /// The kernel's NUMA balancing unmaps pages and moves them.
    NumaBalancing,
    /// Memory is on other nodes.
    RemoteMemory,
    /// Memory or a link is as busy as it can be.
    MemoryBandwidth,
    /// The program waits for whoever gives it work.
    ClientLimited,
    /// The program waits for a disk.
    Disk,
    /// The program waits for time to pass.
    Sleep,
}

impl Class {
    /// In two or three words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::BouncingLine => "bouncing line",
            Self::FalseSharing => "false sharing",
            Self::SerialPart => "serial part",
            Self::Imbalance => "imbalance",
            Self::KernelPath => "kernel path",
            Self::NumaBalancing => "NUMA balancing",
            Self::RemoteMemory => "remote memory",
            Self::MemoryBandwidth => "memory bandwidth",
            Self::ClientLimited => "client-limited",
            Self::Disk => "disk",
            Self::Sleep => "sleep",
        }
    }

    /// What helps.
    #[must_use]
    pub fn cure(self) -> &'static str {
        match self {
            Self::Lock => {
                "hold it for less, shard it, or put a table for each CPU in front of what it guards; a queue lock \
                 keeps the hand-over short"
            }
            Self::BouncingLine => {
                "a sloppy counter (a part for each CPU, summed when it is read), or one for each thread"
            }
            Self::FalseSharing => {
                "give each thread's part a cache line of its own (pad or align to 64 bytes)"
            }
            Self::SerialPart => "share its work out, or let it run beside what follows",
            Self::Imbalance => {
                "smaller parts that threads take when they are free (a queue, work stealing)"
            }
            Self::KernelPath => {
                "call it less often, or on something that is not shared: SO_REUSEPORT for accept, a file or an \
                 arena for each thread, huge pages for faults"
            }
            Self::NumaBalancing => {
                "`sysctl kernel.numa_balancing=0`, and memory where it is to stay: `quartier run`, or numactl \
                 --interleave for what all nodes use"
            }
            Self::RemoteMemory => {
                "`quartier run`: pages go to the nodes of the threads that use them (next touch); or a copy for each node"
            }
            Self::MemoryBandwidth => {
                "spread the data over all nodes' memory (`quartier run`, numactl --interleave), or touch less of it for \
                 each unit"
            }
            Self::ClientLimited => "more load: more clients, or connections, or a faster generator",
            Self::Disk => "tmpfs or a faster disk, to see what the program itself can do",
            Self::Sleep => "wait for an event instead of for time",
        }
    }
}
