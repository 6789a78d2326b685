//! Affinities of any thread, on machines of any size (`rustix` and `nix` stop at 1024 CPUs).

use quartier_kernel::sys::{self, SysResult};
use quartier_model::CpuList;
use quartier_session::CpuBits;

/// The affinity of a thread; 0: of the caller.
pub fn get(tid: u32) -> SysResult<CpuBits> {
    let mut bits = CpuBits::EMPTY;
    sys::affinity(tid as i32, &mut bits.words)?;
    Ok(bits)
}

/// The CPUs that a thread may run on; `None` when it has ended.
#[must_use]
pub fn affinity_of(tid: u32) -> Option<CpuList> {
    get(tid).ok().map(|bits| bits.iter().collect())
}

/// This thread, and whatever it starts, may run on all of these CPUs that its cpuset leaves to it.
#[must_use]
pub fn widen_own_affinity(cpus: &CpuList) -> bool {
    set(0, &cpus.iter().collect()).is_ok()
}

/// Sets it.
pub fn set(tid: u32, bits: &CpuBits) -> SysResult {
    sys::set_affinity(tid as i32, &bits.words)
}

/// Whether a thread is gone. (One of which /proc says nothing may only be hidden.)
#[must_use]
pub fn is_gone(tid: u32) -> bool {
    !sys::any_thread_exists(tid as i32)
}
