//! The shared memory between `quartier run` and the programs it runs.
//!
//! The launcher creates one memfd for a run, writes the configuration and the machine into it, and
//! tells the tree of processes its path (`/proc/LAUNCHER/fd/N`) through [`ENV_SESSION`]. Each process
//! claims a slot and counts into it, so that what happened is known however the process ends.
//!
//! Layout: [`Header`], then the machine (JSON), and the process slots.
//! All fields that change are atomics; no reference to anything else in the mapping is ever made.

mod desk;
mod layout;
mod map;
mod process;
mod reason;

pub use desk::DeskRequest;
pub use layout::{
    Config, CpuBits, FirstThread, Header, LAYOUT_VERSION, Launcher, MAGIC, NR_CPU_WORDS, Pin,
    Policy, Rung, Strategy,
};
pub use map::{Session, SessionError};
pub use process::{Counter, Counters, ProcessSlot, SlotState};
pub use reason::Reason;

/// Names the session's memory to the processes of a run: `/proc/PID/fd/N`.
pub const ENV_SESSION: &str = "QUARTIER_SESSION";

/// Names the socket (abstract) from which a process gets a descriptor of `/dev/userfaultfd`.
pub const ENV_SOCKET: &str = "QUARTIER_SOCKET";

/// `off` turns Auto-Next-Touch off for a process and what it starts (the thesis's
/// `ALMIX_ANXT_DISABLE`, 4.4.4).
pub const ENV_NEXT_TOUCH: &str = "QUARTIER_NEXT_TOUCH";
