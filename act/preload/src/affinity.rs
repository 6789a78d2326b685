//! Affinity of threads: what the user allows, what we narrow, what the program believes.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use quartier_session::CpuBits;

use crate::sys::{self, SysResult};

/// The CPUs that the user allows this process: its affinity when it started, before we narrowed
/// anything. Written once, before the program has a second thread.
struct Base(UnsafeCell<CpuBits>, AtomicBool);

// SAFETY: written once while the process has one thread (see `set_base`), only read afterwards.
unsafe impl Sync for Base {}

static BASE: Base = Base(UnsafeCell::new(CpuBits::EMPTY), AtomicBool::new(false));

/// The affinity of a thread (0: the caller), asked of the kernel and not of any interposed function.
pub fn get(tid: i32) -> SysResult<CpuBits> {
    let mut bits = CpuBits::EMPTY;
    sys::affinity(tid, &mut bits.words)?;
    Ok(bits)
}

/// Sets the affinity of a thread (0: the caller).
pub fn set(tid: i32, bits: &CpuBits) -> SysResult {
    sys::set_affinity(tid, &bits.words)
}

/// Notes what the user allows. Only while the process has one thread.
pub fn set_base(bits: CpuBits) {
    // SAFETY: there is one thread, so nobody reads.
    unsafe { BASE.0.get().write(bits) };
    BASE.1.store(true, Ordering::Release);
}

/// What the user allows; `None` before it is known.
#[must_use]
pub fn base() -> Option<&'static CpuBits> {
    // SAFETY: written before the flag was set, never afterwards while there are other threads.
    BASE.1.load(Ordering::Acquire).then(|| unsafe { &*BASE.0.get() })
}
