//! What is to be done with a machine's tasks, and what came of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ByCpuset, Bytes, Nanos, NodeId, Standing, TaskId, Unseen};

/// What made the Reporter look (UNAS, algorithm 2, line 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// Threads wait on one node while CPUs of another are idle.
    Unbalanced,
    /// A process began, ended, grew, or uses its memory or its CPUs otherwise than before.
    Changed,
    /// A core that is faster than the one where a thread runs is idle.
    PowerfulIdle,
    /// Tasks cost each other more on one node than on others.
    Contention,
    /// The administrator pinned a process that is not where it should be.
    Pinned,
    /// What kept a process where it is may have passed: it rested, was too young for a move to pay, or found no room.
    Passed,
    /// An earlier plan has had its time: did it help?
    Due,
}

/// What to do, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The snapshot's time.
    pub at: Nanos,
    /// What made the Reporter look.
    pub triggers: Vec<Trigger>,
    /// Of each process that may be placed, those first that would gain most elsewhere.
    pub factors: Vec<Factors>,
    /// In this order.
    pub steps: Vec<Step>,
    /// What was considered and is not done.
    pub left: Vec<Left>,
}

/// How well a process is placed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factors {
    /// Which.
    pub process: TaskId,
    /// CPUs' worth that it runs.
    pub running: f64,
    /// CPUs' worth that it waits for.
    pub waiting: f64,
    /// How much farther than local its memory is from its threads: Σ share × (distance ratio − 1).
    pub remoteness: Option<f64>,
    /// The part of its running time in which it would wait for memory, were all of it local.
    pub intensity: Intensity,
    /// How many times as fast it would run at the best place.
    pub speedup: Option<f64>,
    /// By how much others slow its memory down: 0 for not at all.
    pub contention: Option<f64>,
}

/// The part of its running time in which a task waits for memory, 0 to 1, and where that is known from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intensity {
    /// From counted misses of the last-level cache.
    Measured(f64),
    /// From the size of its memory beside a last-level cache.
    Assumed(f64),
}

impl Intensity {
    /// The number alone.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Measured(value) | Self::Assumed(value) => value,
        }
    }
}

/// One process's part of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which.
    pub process: TaskId,
    /// What kind of step.
    pub kind: Kind,
    /// Where each thread is held from now on; `None`: it may go anywhere again.
    pub threads: Vec<(TaskId, Option<NodeId>)>,
    /// Where all other threads of the process are held that may be placed; `None`: as they were.
    pub others: Option<NodeId>,
    /// What happens to its memory.
    pub pages: Pages,
    /// CPU time that it gains in a second, in CPUs' worth.
    pub gain: f64,
    /// CPU time that the pages cost.
    pub cost: Nanos,
}

/// What kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Threads and memory of a process come together on one node.
    Gather,
    /// Its threads are shared out over nodes, each with the pages that it uses.
    Split,
    /// It leaves a node where tasks cost each other most.
    Scatter,
    /// Where the administrator wants it.
    Pin,
    /// What was done did not help: back to how it was.
    TakeBack,
    /// More of its threads run than its nodes have CPUs for: they may go where the kernel has some. Its pages stay.
    LetGo,
}

impl Kind {
    /// Whether threads are placed as they were before, rather than held.
    #[must_use]
    pub fn is_release(self) -> bool {
        matches!(self, Self::TakeBack | Self::LetGo)
    }
}

/// What happens to a process's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// It stays.
    Stay,
    /// All of its own pages go to a node: so much is elsewhere.
    To {
        /// Which.
        node: NodeId,
        /// Estimated from the sample.
        bytes: Bytes,
    },
    /// What threads of one node use goes there; whatever else stays.
    ToUsers {
        /// At most so much moves.
        bytes: Bytes,
        /// Blocks by their index ([`crate::BlockSeen`]), in rising order, with their node.
        blocks: Vec<(u64, NodeId)>,
    },
    /// What the latest step moved goes back to where it was before that.
    Back,
}

/// A process that is not moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// Which.
    pub process: TaskId,
    /// Why not.
    pub why: Why,
}

/// Why a process is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It may not be.
    Standing(Standing),
    /// It is well placed.
    WellPlaced,
    /// It hardly runs.
    Idle,
    /// It would gain too little.
    GainsLittle {
        /// How many times as fast it would run.
        speedup: f64,
    },
    /// It would have to run longer than the configuration says until the move is paid for.
    PaysTooLate {
        /// So long.
        after: Nanos,
    },
    /// It was moved not long ago.
    Rests {
        /// Until then.
        until: Nanos,
    },
    /// A move did not help it before.
    DidNotHelp {
        /// It is not tried again until then.
        until: Nanos,
    },
    /// Its pages would have to move, and tasks wait for memory already.
    MemoryScarce,
    /// Its pages would have to move, and those of others still do: where there is too much is not seen before.
    OthersMove,
    /// No node that it may use has room for it.
    NoRoom,
    /// It needs more than one node, and which thread uses which page is unknown.
    UsersUnknown(Unseen),
    /// Where its memory lies is unknown.
    MemoryUnknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(standing) => {
                f.write_str(standing.reason().unwrap_or("it may be placed"))
            }
            Self::WellPlaced => f.write_str("it is where its memory is"),
            Self::Idle => f.write_str("it hardly runs"),
            Self::GainsLittle { speedup } => write!(f, "it would run {speedup:.2} times as fast"),
            Self::PaysTooLate { after } => write!(f, "the move would pay for itself after {after}"),
            Self::Rests { until } => write!(f, "it was moved, and rests until {until}"),
            Self::DidNotHelp { until } => {
                write!(f, "a move did not help it; it is not tried again until {until}")
            }
            Self::MemoryScarce => f.write_str(
                "its pages would have to move, and tasks of this machine wait for memory: it is tried when they do not",
            ),
            Self::OthersMove => f.write_str(
                "its pages would have to move, and those of others still do: it is decided when they have",
            ),
            Self::NoRoom => f.write_str("no node that it may use has room for it"),
            Self::UsersUnknown(unseen) => write!(
                f,
                "it needs more than one node, and which thread uses which page is unknown: {unseen}",
            ),
            Self::MemoryUnknown => f.write_str("where its memory lies is unknown"),
        }
    }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// When it was done, or given up, since the Monitor began.
    pub at: Nanos,
    /// Of which process.
    pub process: TaskId,
    /// Threads that are held as the plan says.
    pub threads_held: u32,
    /// Threads that are not: they ended, or somebody set their affinity meanwhile.
    pub threads_left: u32,
    /// Pages that lie where the plan says now, and did not before.
    pub moved: Bytes,
    /// Pages that could not be moved.
    pub stayed: Bytes,
    /// Why not all was done; `None` if it was.
    pub refusal: Option<Refusal>,
    /// Whether it is held by the cpuset of its control group; `None`: nobody asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_cpuset: Option<ByCpuset>,
}

impl Outcome {
    /// Whether nothing is left that somebody else could do: all was done, or whoever it was has ended.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.refusal, None | Some(Refusal::Ended))
    }
}

/// Why a step was not done, or in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// Nothing is done without `--apply`.
    DryRun,
    /// The process ended.
    Ended,
    /// Not permitted: `CAP_SYS_NICE` is needed.
    NotPermitted,
    /// The node has no room left.
    NoRoom,
    /// Its cpuset forbids it.
    Cpuset,
    /// The kernel is too old, or was built without it.
    Unsupported,
    /// The administrator has changed meanwhile which tasks may be placed.
    OtherRules,
    /// Somebody set the memory policy of a thread of it, and its pages may be that thread's.
    PolicySet,
    /// `quartier run` places it.
    UnderRun,
    /// Whether somebody set a policy for parts of its memory is unknown: it is too large to ask, or we may not.
    PolicyUnknown,
}
