//! Modelled time: what the counts would take on the machine of the geometry. Nothing here is measured.

use quartier_memmodel::geometry::Geometry;
use quartier_memmodel::{CpuCounts, PeakUtilisation, Snapshot};
use serde::{Deserialize, Serialize};

/// Modelled time of the program in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modelled {
    /// Modelled cycles of the CPU that has most: the phase cannot be shorter. Waiting for other
    /// threads is not in it, as a program that waits executes nothing.
    pub phase_cycles: u64,
    /// The same in milliseconds, at the geometry's frequency; absent if no CPU executed anything.
    pub phase_ms: Option<f64>,
    /// The highest modelled utilisation of any window since the guest began; above 1 more was asked
    /// for than can be.
    pub peak_utilisation: PeakUtilisation,
    /// Each CPU, by number.
    pub cpus: Vec<CpuTime>,
}

/// Modelled time of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// The CPU.
    pub cpu: usize,
    /// Its node.
    pub node: u16,
    /// Instructions of the program that it executed. Counted, not modelled.
    pub instructions: u64,
    /// Modelled cycles: of instructions and stalls.
    pub modelled_cycles: u64,
    /// Of them, modelled stalls.
    pub stall_cycles: u64,
}

impl Modelled {
    pub(super) fn new(counted: &Snapshot) -> Self {
        let cpus = &counted.program.cpus;
        let phase_cycles = cpus.iter().map(|cpu| cpu.modelled_cycles).max().unwrap_or(0);
        Self {
            phase_cycles,
            phase_ms: (phase_cycles > 0)
                .then(|| milliseconds(phase_cycles as f64, &counted.geometry)),
            peak_utilisation: counted.modelled_peak_utilisation,
            cpus: cpus.iter().enumerate().map(|(cpu, counts)| CpuTime::new(cpu, counts)).collect(),
        }
    }

    /// The CPU that has most cycles; absent if none has any.
    #[must_use]
    pub fn slowest(&self) -> Option<&CpuTime> {
        let most = |cpu: &&CpuTime| (cpu.modelled_cycles, std::cmp::Reverse(cpu.cpu));
        self.cpus.iter().filter(|cpu| cpu.modelled_cycles > 0).max_by_key(most)
    }

    /// CPUs that executed any of the program.
    #[must_use]
    pub fn nr_busy(&self) -> usize {
        self.cpus.iter().filter(|cpu| cpu.modelled_cycles > 0).count()
    }

    /// Mean modelled cycles of those CPUs; absent if there are none.
    #[must_use]
    pub fn mean_busy_cycles(&self) -> Option<f64> {
        let total: u128 = self.cpus.iter().map(|cpu| u128::from(cpu.modelled_cycles)).sum();
        (self.nr_busy() > 0).then(|| total as f64 / self.nr_busy() as f64)
    }
}

/// What cycles take at a geometry's frequency.
pub(super) fn milliseconds(cycles: f64, geometry: &Geometry) -> f64 {
    cycles / (f64::from(geometry.cost.frequency_mhz) * 1000.0)
}

impl CpuTime {
    fn new(cpu: usize, counts: &CpuCounts) -> Self {
        let stall_cycles =
            (counts.totals.modelled_stall_millicycles / 1000).min(counts.modelled_cycles);
        Self {
            cpu,
            node: counts.node,
            instructions: counts.totals.instructions,
            modelled_cycles: counts.modelled_cycles,
            stall_cycles,
        }
    }
}
