//! The guest's CPUs, one after another.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Context, Result};

/// Runs something on each CPU that this thread may use, until it fails; afterwards it may use all of them again.
///
/// # Errors
/// The first, or when a CPU cannot be had.
pub fn on_each(mut run: impl FnMut(usize) -> Result<()>) -> Result<()> {
    let all = sched_getaffinity(None).doing("find this guest's CPUs")?;
    let mut visit = |cpu| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).doing("visit a CPU")?;
        run(cpu)
    };
    let end = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).try_for_each(&mut visit);
    sched_setaffinity(None, &all).doing("visit a CPU")?;
    end
}
