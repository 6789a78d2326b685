//! A real Linux on a machine with N nodes, under QEMU, that runs this machine's programs.
//!
//! [`run`] boots a stock kernel on a [`Topology`] and runs one command in it as if it were here:
//! the same files at the same paths, user, environment, working directory, standard streams and
//! exit status. What the command writes stays in the guest's memory, unless a folder is shared for
//! writing. Kernels and QEMU come from a [`Cache`] that is filled through the host's own package
//! mirror, with signatures checked and the host's package state untouched.
//!
//! How it fits together: the host starts QEMU and a virtio-fs server for `/`, both bound to live
//! no longer than it; the kernel starts the `quartier` program itself ([`agent`]) from an
//! initramfs made in memory; the two ends talk in [`frame`]s over one virtio-serial port.
#![forbid(unsafe_code)]

pub mod agent;
pub mod apt;
mod bzimage;
mod cache;
mod cpio;
pub mod doctor;
mod elf;
mod error;
pub mod frame;
mod guest;
mod initramfs;
mod kernel;
mod limits;
mod modules;
mod qemu;
pub mod share;
pub mod tether;
mod topology;

pub use cache::{Cache, CacheLock};
pub use error::{Error, Result, STATUS_LAB_FAILED, STATUS_REFUSED, STATUS_TIMED_OUT};
pub use frame::Exit;
pub use guest::{
    Captured, HANG_LIMIT, Input, Instrument, Report, Request, SLOW_TIME_MAX, SlowTime, Spaces,
    Streams, capture, prepare, resolve_program, run,
};
pub use kernel::{Kernel, KernelSpec, Provenance, SuiteReleases, available};
pub use qemu::Qemu;
pub use topology::{CPUS_MAX, CpusPerNode, Distances, Memory, NODES_MAX, Topology};
