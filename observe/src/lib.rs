//! What the kernel says about a machine and its processes, with the root as a parameter.
//!
//! A [`Host`] is the running kernel, a directory that looks like one (a container's or a guest's
//! root, a test's tempdir), or a [`Gathered`] file saved on another machine. One reader serves all
//! three, so what works on a fixture works live.
//!
//! Absent is not zero: what a kernel does not say is `None` or [`Provenance::Assumed`]
//! (a kernel without `CONFIG_NUMA` has no node directory); what it says and we cannot read is an
//! [`Error`] with the file's path.
//!
//! **Why not hwloc.** hwloc reads /sys well, and a saved copy too, but the copy's root is one
//! environment variable (`HWLOC_FSROOT`) for the whole process, offline CPUs are dropped while
//! reading, an archive of many files is what its `hwloc-gather-topology` saves, and the C library
//! would have to be there wherever we run. What we need of /sys is a dozen kinds of files.
//!
//! [`Provenance::Assumed`]: quartier_model::Provenance::Assumed
#![forbid(unsafe_code)]

mod cpus;
pub mod damon;
mod error;
pub mod events;
mod gathered;
mod host;
mod load;
mod machine;
mod nodes;
mod parse;
mod process;
pub mod profile;
mod receiving;
mod serving;
pub mod switches;
pub mod tasks;
mod thread;
mod totals;

pub use error::{Error, Result, json_complaint, printable};
pub use gathered::{GATHERED_FORMAT, Gathered, machine_from_json};
pub use host::Host;
pub use load::CpuTimes;
pub use process::{Pid, ProcessLimits};
pub use receiving::Interface;
pub use serving::{Listening, ServerProcess, ServerUsage, TICKS_PER_SECOND};
pub use thread::{ThreadTimes, own_cpu_time, own_process_cpu_time};
