//! The shared memory between `quartier run` and the programs it runs.
//!
//! The launcher creates one memfd for a run, writes the configuration and the machine into it, and
//! tells the tree of processes its path (`/proc/LAUNCHER/fd/N`) through [`ENV_SESSION`]. Each process
//! claims a slot and counts into it, so that what happened is known however the process ends.
//!
//! Layout: [`Header`], then the machine (JSON), the process slots, and the threads' seats.
//! All fields that change are atomics; no reference to anything else in the mapping is ever made.

use std::os::unix::fs::MetadataExt;

mod desk;
mod layout;
mod map;
mod process;
mod reason;
mod seat;

pub use desk::DeskRequest;
pub use layout::{
    Config, CpuBits, FirstThread, Header, LAYOUT_VERSION, Launcher, MAGIC, NR_CPU_WORDS, Pin,
    Policy, Rung, Strategy,
};
pub use map::{Session, SessionError};
pub use process::{Counter, Counters, ProcessSlot, SlotState};
pub use reason::Reason;
pub use seat::{NR_SEATS, Seat, Sitting, Taken};

/// The low 32 bits of this process's PID namespace's inode; 0 where /proc does not say. Thread ids mean the
/// same to two processes only where this is the same and not 0.
#[must_use]
pub fn own_pid_namespace() -> u32 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino() as u32)
}

/// Names the session's memory to the processes of a run: `/proc/PID/fd/N`.
pub const ENV_SESSION: &str = "QUARTIER_SESSION";

/// Names the socket (abstract) from which a process gets a descriptor of `/dev/userfaultfd`.
pub const ENV_SOCKET: &str = "QUARTIER_SOCKET";

/// `off` turns Auto-Next-Touch off for a process and what it starts (the thesis's
/// `ALMIX_ANXT_DISABLE`, 4.4.4).
pub const ENV_NEXT_TOUCH: &str = "QUARTIER_NEXT_TOUCH";
