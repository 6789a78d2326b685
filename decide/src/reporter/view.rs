//! What `quartierd` shows of a machine: what it sees, what it decided last of each process, and what came of it.

use quartier_model::{
    Allocated, Bytes, Counting, Distance, KernelSeen, Nanos, NodeOsId, Outcome, ProcessSeen,
    Standing, Step, TaskId, Why, WorkingSets,
};
use serde::{Deserialize, Serialize};

use super::{NodeOverview, Placed, Settings};

/// The version of what is shown; raised when an older reader would go wrong.
pub const VIEW_FORMAT: u32 = 2;

/// A machine, now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// [`VIEW_FORMAT`].
    pub format: u32,
    /// Of `quartierd`.
    pub version: String,
    /// Milliseconds since 1970, in UTC.
    pub unix_ms: u64,
    /// Since `quartierd` began, as all times below.
    pub at: Nanos,
    /// Over so long it was looked.
    pub window: Nanos,
    /// Whether anything is done about it, or only said.
    pub applies: bool,
    /// Whether threads' instructions and cache misses are counted.
    #[serde(default)]
    pub counting: Counting,
    /// Whether it is known how much of their memory processes use.
    #[serde(default)]
    pub working_sets: WorkingSets,
    /// What decisions go by.
    pub settings: Option<Settings>,
    /// By [`quartier_model::NodeId`].
    pub nodes: Vec<NodeView>,
    /// What the kernel counts of the whole machine, over about a second.
    #[serde(default)]
    pub kernel: Option<KernelSeen>,
    /// From each node to each.
    pub distances: Vec<Vec<Distance>>,
    /// CPUs' worth that run on one node and have their memory on another.
    pub flows_cpus: Vec<Vec<f64>>,
    /// The last ten minutes, the latest last.
    #[serde(default)]
    pub history: Vec<LocalAt>,
    /// Those that ran or waited.
    pub processes: Vec<ProcessView>,
    /// The latest last.
    pub events: Vec<Event>,
    /// Since `quartierd` began.
    pub counts: Counts,
}

/// How local a machine was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalAt {
    /// When, in milliseconds since 1970, in UTC.
    pub unix_ms: u64,
    /// The part of running that had its memory on its own node; `None`: nothing ran, or it is not known.
    pub local: Option<f64>,
}

/// What is counted since `quartierd` began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Looks at all tasks.
    pub looks: u64,
    /// Plans that were made.
    pub plans: u64,
    /// Steps of plans.
    pub steps: u64,
    /// Threads that were put on a node.
    pub threads_held: u64,
    /// Memory that was moved.
    pub moved: Bytes,
    /// Memory that could not be moved.
    pub stayed: Bytes,
    /// What all that took.
    #[serde(default)]
    pub cpu: CpuSpent,
}

/// CPU time of `quartierd`, by what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSpent {
    /// Looking at tasks and nodes.
    pub observe: Nanos,
    /// Finding triggers and making plans.
    pub decide: Nanos,
    /// Holding threads, moving pages, and the journal of that.
    pub act: Nanos,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// The kernel's number.
    pub os_id: NodeOsId,
    /// CPUs that tasks may be placed on.
    pub cpus: u32,
    /// Installed.
    pub memory: Option<Bytes>,
    /// Not used by anybody (M).
    pub free: Option<Bytes>,
    /// The part of that in blocks of 2 MiB and more: what huge pages can move to as they are.
    #[serde(default)]
    pub free_huge: Option<Bytes>,
    /// The part of the time that its CPUs were busy, with whatever: 0 to 1 (U).
    pub busy: Option<f64>,
    /// What was allocated there over about a second.
    #[serde(default)]
    pub allocated: Option<Allocated>,
    /// What runs there.
    #[serde(flatten)]
    pub seen: NodeOverview,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessView {
    /// As the kernel has it.
    pub name: String,
    /// Since it began.
    pub age: Nanos,
    /// Whether it may be placed.
    pub standing: Standing,
    /// Its own resident memory.
    pub resident: Option<Bytes>,
    /// How much of that it used lately.
    #[serde(default)]
    pub working_set: Option<Bytes>,
    /// Threads that ran or waited.
    pub threads: u32,
    /// Those of them that are held on a node.
    pub held: u32,
    /// Where it is.
    #[serde(flatten)]
    pub placed: Placed,
    /// What was decided of it last.
    pub decided: Option<Decided>,
}

/// What a plan says of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// When.
    pub at: Nanos,
    /// How many times as fast it would run at the best place, if that was asked.
    pub speedup: Option<f64>,
    /// What was to be done, or why nothing.
    pub what: What,
}

/// What was to be done with a process, or why nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It is moved.
    Step(Step),
    /// It is not.
    Left(Why),
}

/// Something that was decided or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// To whom.
    pub process: TaskId,
    /// Its name at the time.
    pub name: String,
    /// What.
    pub what: Happened,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happened {
    /// A step was decided.
    Decided(Step),
    /// This came of it.
    Done(Outcome),
}

/// All that is known of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// [`VIEW_FORMAT`].
    pub format: u32,
    /// Since `quartierd` began, as all times below.
    pub at: Nanos,
    /// Over so long it was looked.
    pub window: Option<Nanos>,
    /// Whether anything is done, or only said.
    pub applies: bool,
    /// What decisions go by.
    pub settings: Option<Settings>,
    /// The kernel's numbers of the nodes, by [`quartier_model::NodeId`].
    #[serde(default)]
    pub nodes: Vec<NodeOsId>,
    /// As in a [`View`]; `None`: it did not run.
    pub process: Option<ProcessView>,
    /// As the Monitor saw it.
    pub seen: Option<ProcessSeen>,
    /// Why it was not seen.
    pub absent: Option<Absent>,
    /// The kernel's numbers of the nodes on which threads of it are held, sleeping ones too.
    #[serde(default)]
    pub held_on: Vec<NodeOsId>,
    /// Likewise of the nearest of those that started it, its parent, or its parent's, and so on, of whom any thread is held.
    #[serde(default)]
    pub starter_held_on: Vec<NodeOsId>,
    /// What was decided and done, the latest last; also to an earlier process that had its number.
    pub events: Vec<Event>,
}

/// Why a process was not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// No process and no thread has that number.
    Gone,
    /// It is a thread of the kernel, which nobody looks at.
    KernelThread {
        /// Its name.
        name: String,
    },
    /// None of its threads ran or waited.
    Asleep {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// Nobody has looked at it yet.
    New {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
}
