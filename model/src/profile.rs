//! What a profiler saw of a program: where its threads ran and waited, and when.

use serde::{Deserialize, Serialize};

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// As in the source; where the file has no name for it, the file's name and the offset in it.
    pub function: String,
    /// File name of the program or library; `[kernel]`; `[program]`.
    pub module: String,
    /// File and line in the source, as far as the program says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// The module of frames in the kernel.
pub const KERNEL_MODULE: &str = "[kernel]";

/// Of a frame that is no function: it has the name of the program that a process is, and is the outermost.
pub const PROGRAM_MODULE: &str = "[program]";

impl Frame {
    /// Whether it is in the kernel.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.module == KERNEL_MODULE
    }

    /// Whether it is no function, but the program that runs.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.module == PROGRAM_MODULE
    }
}

/// What an instruction accessed, or a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// Address.
    pub address: u64,
    /// The variable there, in [`Recording::objects`]; absent: no variable with a name.
    pub object: Option<u32>,
    /// It writes.
    pub is_write: bool,
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was made, and waits for its first CPU.
    Made,
    /// It has something to do again, if it waited.
    Woken,
    /// It began, or went on, on a CPU.
    Came,
    /// It was running here.
    Ran {
        /// In [`Recording::stacks`].
        stack: u32,
        /// What it accessed last.
        touch: Option<Touch>,
    },
    /// It is about to wait here, if it does leave the CPU.
    Waits {
        /// In [`Recording::stacks`].
        stack: u32,
        /// The futex.
        word: Option<Touch>,
        /// It waits for that word to be something else than 2: as C libraries write it, a lock that others wait for.
        is_locked: bool,
    },
    /// It was seen waiting here.
    Asleep {
        /// In [`Recording::stacks`].
        stack: u32,
        /// The futex.
        word: Option<Touch>,
        /// As of [`Happening::Waits`].
        is_locked: bool,
    },
    /// It left its CPU.
    Left {
        /// Others took it; the thread could have gone on.
        is_preempted: bool,
    },
    /// It is no more.
    Ended,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds, by the monotonic clock.
    pub at_ns: u64,
    /// Whom it happened to.
    pub tid: u32,
    /// What.
    pub what: Happening,
}

/// One run of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Places.
    pub frames: Vec<Frame>,
    /// From the outermost place to the innermost, in `frames`.
    pub stacks: Vec<Vec<u32>>,
    /// Names of variables.
    pub objects: Vec<String>,
    /// In the order of time.
    pub events: Vec<Event>,
    /// Records that nobody took in time.
    pub nr_lost: u64,
    /// Waits and the kernel were not seen: threads were looked at now and then instead.
    pub is_user_only: bool,
    /// It was seen when threads were woken.
    pub has_wakeups: bool,
}
