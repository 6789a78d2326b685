//! How busy CPUs were between two looks at their times.

use std::collections::BTreeMap;

use quartier_decide::dqdt::Usage;
use quartier_model::CpuOsId;
use quartier_observe::CpuTimes;

/// The times of all CPUs at one moment.
pub type AllTimes = BTreeMap<CpuOsId, CpuTimes>;

/// The part of the time in between that a CPU was busy; `None` where one of the two does not know it, or no time
/// has passed.
pub fn usage(before: &AllTimes, now: &AllTimes, cpu: CpuOsId) -> Option<Usage> {
    let (before, now) = (before.get(&cpu)?, now.get(&cpu)?);
    let period = now.total_ticks.saturating_sub(before.total_ticks);
    Usage::from_busy(now.busy_ticks.saturating_sub(before.busy_ticks), period)
}
