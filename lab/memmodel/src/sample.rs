//! Sampling in time: only some windows of a run are modelled, and the counts are scaled.
//!
//! Whoever feeds the model drives it: all CPUs together are [`Phase::Skipped`] for most of the time (and
//! need not be fed at all), then [`Phase::WarmUp`], then [`Phase::Measured`]. Together, because lines
//! that CPUs take from each other can only be seen while both are fed. Instructions are counted in every
//! phase ([`Cpu::retire`](crate::Cpu::retire) is cheap) and are what counts are scaled by.
//!
//! Or sampling in sets: [`System::new_sampled`](crate::System::new_sampled) models one in so many sets of
//! every cache, and all TLBs. That spares the model's time, but every access has to be fed.
//!
//! `benches/sampling.rs` compares the two. Where private caches are small and the last level is on the
//! home side, short windows are right for a fifth of the cost. Where caches are of megabytes, what is
//! in them after a skipped window is stale, and no warm-up that is worth its cost mends it: there, sets.
//!
//! Modelled cycles are for whole runs: neither the stalls nor the queues of what was left out are in
//! them.

use serde::{Deserialize, Serialize};

use crate::kinds::Owner;
use crate::snapshot::{Counts, Snapshot};

/// What is done with accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// They are modelled and counted.
    Measured,
    /// They are modelled, so that caches have in them what they would have, and not counted.
    WarmUp,
    /// They are dropped.
    Skipped,
}

/// An estimate of Q from measured windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Q of the whole run in MiB.
    pub q_mib: f64,
    /// Its standard error, as a share of it: sampling alone, without what cold caches add.
    pub standard_error: f64,
    /// Measured windows.
    pub nr_windows: usize,
}

/// Measured windows of a run, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// Instructions and MiB of each.
    windows: Vec<(f64, f64)>,
}

impl Windows {
    /// Adds a window: what the program did between two snapshots.
    pub fn add(&mut self, window: &Snapshot) {
        let counts = &window.program;
        let instructions = counts.totals().sampled_instructions;
        let mib = counts.q_mib(&window.geometry) * f64::from(window.sets_one_in);
        self.windows.push((instructions as f64, mib));
    }

    /// Q of the run of so many instructions in all; `None` with less than two windows, which say nothing
    /// of an error, or without instructions.
    #[must_use]
    pub fn estimate(&self, nr_instructions: u64) -> Option<Estimate> {
        let nr = self.windows.len() as f64;
        let sum = |f: fn(&(f64, f64)) -> f64| self.windows.iter().map(f).sum::<f64>();
        let (instructions, mib) = (sum(|window| window.0), sum(|window| window.1));
        if nr < 2.0 || instructions <= 0.0 {
            return None;
        }
        // The ratio estimator of survey sampling, with its correction for a finite population.
        let ratio = mib / instructions;
        let residual = |&(instructions, mib): &(f64, f64)| (mib - ratio * instructions).powi(2);
        let variance = self.windows.iter().map(residual).sum::<f64>() / (nr - 1.0);
        let left_out = (1.0 - instructions / nr_instructions as f64).max(0.0);
        let error = (variance * left_out / nr).sqrt() / (instructions / nr);
        let standard_error = if ratio > 0.0 { error / ratio } else { 0.0 };
        let q_mib = ratio * nr_instructions as f64;
        Some(Estimate { q_mib, standard_error, nr_windows: self.windows.len() })
    }
}

impl Counts {
    /// What counts of commands and misses are multiplied by to stand for the whole run: instructions
    /// over those that were measured. 1 without sampling; `None` if nothing was measured.
    #[must_use]
    pub fn scale(&self) -> Option<f64> {
        let totals = self.totals();
        let measured = totals.sampled_instructions;
        (measured > 0).then(|| totals.instructions as f64 / measured as f64)
    }
}

impl Snapshot {
    /// Q of an owner in MiB, scaled to the whole run: by the sets and the windows that were left out.
    /// `None` if nothing was measured.
    #[must_use]
    pub fn q_mib_scaled(&self, owner: Owner) -> Option<f64> {
        let counts = self.of(owner);
        Some(counts.q_mib(&self.geometry) * f64::from(self.sets_one_in) * counts.scale()?)
    }
}

/// The lines, modulo their number, that are modelled where one in so many sets is: one of each
/// `one_in` neighbours, without a pattern that a program's strides could follow.
pub(crate) fn modelled_sets(nr_sets: u32, one_in: u32) -> u64 {
    let pick = |group: u32| {
        let mixed = (group + 1).wrapping_mul(0x9e37_79b9) >> 16;
        group * one_in + mixed % one_in
    };
    (0..nr_sets / one_in).fold(0, |mask, group| mask | 1 << pick(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_group_of_neighbouring_sets_is_modelled() {
        for one_in in [1, 2, 4, 8, 16, 32, 64] {
            let mask = modelled_sets(64, one_in);
            for group in 0..64 / one_in {
                let of_group = mask >> (group * one_in) & (u64::MAX >> (64 - one_in));
                assert_eq!(of_group.count_ones(), 1, "1 in {one_in}, group {group}");
            }
        }
    }
}
