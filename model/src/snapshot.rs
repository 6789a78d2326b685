//! What the Monitor saw of a machine and its tasks: the only thing, beside the outcome of earlier
//! plans, that decisions are made from. Counts and times are whole numbers, so a snapshot that was
//! written down and read again is the same one, and gives the same plan.
//!
//! Absent is not zero: what could not be seen is `None`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Allocated, Bytes, CpuId, CpuList, CpuOsId, KernelSeen, Machine, Nanos, NodeId, Users};

/// A process or a thread, also after others have got its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The kernel's number: a process's id, or a thread's.
    pub id: u32,
    /// When it began, in clock ticks since the machine was started (field 22 of proc(5) `stat`).
    pub start_ticks: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// A thread with what it may have inherited from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which.
    pub thread: TaskId,
    /// Its process.
    pub process: TaskId,
    /// The number of that process's parent.
    pub parent: u32,
}

/// The name of the memory that all processes of a `quartier run` map.
pub const SESSION_MEMORY: &str = "quartier-session";

/// Where the decision tree of the machine is, which programs map that count themselves in it.
pub const TREE_OF_MACHINE: &str = "/dev/shm/quartier";

/// So many of something on each node. Nodes with none are left out.
pub type PerNode = BTreeMap<NodeId, u64>;

/// A machine at work, over a window of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// When the window ended, since the Monitor began; it never goes back.
    pub at: Nanos,
    /// How long it was.
    pub window: Nanos,
    /// CPUs that tasks may be placed on (the kernel's numbers): online, and not isolated.
    pub cpus: CpuList,
    /// By [`CpuId`]: how long each CPU was busy in the window; `None` if it is offline or unknown.
    pub cpus_busy: Vec<Option<Nanos>>,
    /// By [`NodeId`].
    pub nodes: Vec<NodeSeen>,
    /// What the kernel counts, over about a second; `None`: it was asked once so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelSeen>,
    /// The tasks that ran or waited in the window, by process.
    pub processes: Vec<ProcessSeen>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSeen {
    /// Free memory.
    pub free: Option<Bytes>,
    /// Page cache that nobody used lately, which makes room when it is needed (`Inactive(file)`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<Bytes>,
    /// Free blocks of 2ⁿ pages, by n; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free_blocks: Vec<u64>,
    /// What was allocated there over about a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Allocated>,
}

impl NodeSeen {
    /// Free memory in blocks of 2 MiB and more (of base pages of 4 KiB); `None`: unknown.
    #[must_use]
    pub fn free_huge(&self) -> Option<Bytes> {
        const HUGE_ORDER: usize = 9;
        let pages = |(order, blocks): (usize, &u64)| blocks.saturating_mul(1 << order.min(32));
        let huge = self.free_blocks.iter().enumerate().skip(HUGE_ORDER).map(pages);
        let pages: u64 = huge.fold(0, u64::saturating_add);
        (!self.free_blocks.is_empty()).then(|| Bytes(pages.saturating_mul(4096)))
    }
}

/// A process with the threads of it that ran or waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSeen {
    /// Which.
    pub id: TaskId,
    /// Its name, as the kernel has it (at most 15 bytes).
    pub name: String,
    /// How long ago it began.
    pub age: Nanos,
    /// Whether it may be placed.
    pub standing: Standing,
    /// Whether it counts its threads in the machine's decision tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_itself: bool,
    /// The node that the administrator wants it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<NodeId>,
    /// The CPUs that its cpuset leaves to it (the kernel's numbers); `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// The nodes that its cpuset lets it allocate on; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mems: Option<Vec<NodeId>>,
    /// Its own resident memory (anonymous pages), which may be moved.
    pub resident: Option<Bytes>,
    /// The part of it that it used lately, where the kernel can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Of the checks of that part, one page of each region every 20 ms, so many in 1,000 found it accessed since the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accessed_per_mille: Option<u32>,
    /// On which nodes pages lie: of a sample of its own resident memory.
    pub sample: Option<PerNode>,
    /// When that was asked.
    pub sampled_at: Option<Nanos>,
    /// Which thread uses which part of it; `None`: it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
    /// Those that ran or waited.
    pub threads: Vec<ThreadSeen>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadSeen {
    /// Which.
    pub id: TaskId,
    /// How long it was on a CPU in the window.
    pub ran: Nanos,
    /// How long it could have been, while others were.
    pub waited: Nanos,
    /// The CPU that it was on last.
    pub cpu: Option<CpuId>,
    /// The nodes that it was found on, with how often.
    pub found_on: PerNode,
    /// The node that we hold it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_on: Option<NodeId>,
    /// Whether it may be placed; `None`: as its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// On which nodes the pages lie that it touched: of a sample of its touches (hint faults).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<PerNode>,
    /// Fetches that missed the last-level cache in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc_misses: Option<u64>,
    /// Instructions in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Cycles in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Reads in the window that another node's memory answered (`node-load-misses` of perf).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_reads: Option<u64>,
    /// Page faults lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultsSeen>,
}

/// Page faults of a thread between two looks at them (proc(5) `stat`, fields 10 and 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultsSeen {
    /// Those for which nothing had to be read: first touches, copies, and NUMA balancing's hint faults.
    pub minor: u64,
    /// Those for which a page had to be read.
    pub major: u64,
    /// The time in between.
    pub over: Nanos,
}

/// Whether a task may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It may.
    Free,
    /// It is the kernel's.
    KernelThread,
    /// Somebody set which CPUs it runs on.
    AffinitySet,
    /// `quartier run` places it, from before its second thread on.
    UnderRun,
    /// Somebody set which nodes its memory comes from.
    MemoryPolicySet,
    /// The kernel does not say whether somebody did, or we may not ask.
    Unknown,
    /// It has a real-time or deadline class, which is a promise about its CPU.
    RealTime,
    /// The configuration, or the program's environment, says to leave it alone.
    OptedOut,
    /// Only what was opted in is placed, and it was not.
    NotOptedIn,
    /// It is whoever watches. What that takes, most of it while pages move, says nothing about the places of others.
    Watcher,
}

impl Standing {
    /// Why it is left alone; `None` if it may be placed.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Free => None,
            Self::KernelThread => Some("it is a kernel thread"),
            Self::AffinitySet => Some("somebody set its CPU affinity"),
            Self::UnderRun => Some("`quartier run` places it"),
            Self::MemoryPolicySet => Some("somebody set its memory policy"),
            Self::Unknown => Some("whether somebody set its affinity or memory policy is unknown"),
            Self::RealTime => Some("it has a real-time scheduling class"),
            Self::OptedOut => Some("it was opted out"),
            Self::NotOptedIn => Some("only what was opted in is placed"),
            Self::Watcher => Some("it is quartierd itself"),
        }
    }
}

impl Snapshot {
    /// Whether tasks of a process may be placed on a CPU: the machine's may, and its cpuset has it.
    #[must_use]
    pub fn may_use(&self, process: &ProcessSeen, cpu: CpuOsId) -> bool {
        let of_process = process.cpus.as_ref();
        self.cpus.contains(cpu.0) && of_process.is_none_or(|cpus| cpus.contains(cpu.0))
    }

    /// Whether it can be of a machine: that has every node and CPU that is named.
    #[must_use]
    pub fn fits(&self, machine: &Machine) -> bool {
        let fits = |process: &ProcessSeen| process.fits(machine);
        self.nodes.len() <= machine.nodes().len()
            && self.cpus_busy.len() <= machine.cpus().len()
            && self.processes.iter().all(fits)
    }
}

impl ProcessSeen {
    fn fits(&self, machine: &Machine) -> bool {
        let has = |node: &NodeId| node.index() < machine.nodes().len();
        let has_all = |counts: &Option<PerNode>| counts.iter().flat_map(PerNode::keys).all(has);
        let thread_fits = |thread: &ThreadSeen| {
            thread.cpu.is_none_or(|cpu| cpu.index() < machine.cpus().len())
                && thread.found_on.keys().chain(&thread.held_on).all(has)
                && has_all(&thread.touched)
        };
        let blocks_fit = match &self.users {
            Some(Users::Seen(touches)) => {
                touches.blocks.iter().flat_map(|block| &block.on).all(has)
            }
            _ => true,
        };
        blocks_fit
            && self.mems.iter().flatten().chain(&self.pin).all(has)
            && has_all(&self.sample)
            && self.threads.iter().all(thread_fits)
    }

    /// Whether a thread of it may be placed.
    #[must_use]
    pub fn standing_of(&self, thread: &ThreadSeen) -> Standing {
        match self.standing {
            Standing::Free => thread.standing.unwrap_or(Standing::Free),
            left => left,
        }
    }

    /// Those that may be placed.
    pub fn free_threads(&self) -> impl Iterator<Item = &ThreadSeen> {
        self.threads.iter().filter(|thread| self.standing_of(thread) == Standing::Free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unseen;

    fn process(standing: Standing, thread: Option<Standing>) -> ProcessSeen {
        let id = TaskId { id: 7, start_ticks: 9 };
        let thread = ThreadSeen {
            id,
            ran: Nanos(1),
            waited: Nanos(2),
            cpu: None,
            found_on: PerNode::from([(NodeId(3), 5)]),
            held_on: None,
            standing: thread,
            touched: None,
            llc_misses: None,
            instructions: None,
            cycles: None,
            remote_reads: None,
            faults: None,
        };
        ProcessSeen {
            id,
            name: "x".to_owned(),
            age: Nanos(3),
            standing,
            counts_itself: false,
            pin: None,
            cpus: None,
            mems: None,
            resident: None,
            working_set: None,
            accessed_per_mille: None,
            sample: Some(PerNode::new()),
            sampled_at: Some(Nanos(4)),
            users: Some(Users::Unknown(Unseen::BalancingOff)),
            threads: vec![thread],
        }
    }

    #[test]
    fn what_was_written_down_is_read_again_and_unknown_stays_unknown() {
        let processes = vec![process(Standing::Free, None)];
        let snapshot =
            Snapshot { cpus_busy: vec![None, Some(Nanos(0))], processes, ..Snapshot::default() };
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
        assert!(text.contains("\"found_on\":{\"3\":5}"), "{text}");
    }

    #[test]
    fn a_thread_may_be_placed_if_nothing_says_otherwise() {
        use Standing::{AffinitySet, Free, OptedOut};
        for (of_process, of_thread, expected) in [
            (Free, None, Free),
            (Free, Some(AffinitySet), AffinitySet),
            (OptedOut, None, OptedOut),
            (OptedOut, Some(Free), OptedOut),
        ] {
            let process = process(of_process, of_thread);
            assert_eq!(process.standing_of(&process.threads[0]), expected);
            assert_eq!(process.free_threads().count(), usize::from(expected == Free));
        }
    }
}
