//! Affinities of any thread, on machines of any size (`rustix` and `nix` stop at 1024 CPUs).

use std::io;

use quartier_session::CpuBits;

/// The affinity of a thread.
pub fn get(tid: u32) -> io::Result<CpuBits> {
    let mut bits = CpuBits::EMPTY;
    let (bytes, words) = (CpuBits::byte_len(), bits.words.as_mut_ptr());
    // SAFETY: the kernel writes at most so many bytes.
    let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, words) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(bits) }
}

/// Whether a thread is gone. (One of which /proc says nothing may only be hidden.)
#[must_use]
pub fn is_gone(tid: u32) -> bool {
    get(tid).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// Sets it.
pub fn set(tid: u32, bits: &CpuBits) -> io::Result<()> {
    let (bytes, words) = (CpuBits::byte_len(), bits.words.as_ptr());
    // SAFETY: the kernel reads so many bytes.
    let status = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, bytes, words) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
