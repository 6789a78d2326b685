//! The kernel's interfaces for memory placement, with nothing of ours in them: system calls without
//! errno, userfaultfd and the page map. No call here allocates, locks or panics.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod mappings;
pub mod pagemap;
pub mod sys;
pub mod uffd;

pub use syscalls::Errno;
