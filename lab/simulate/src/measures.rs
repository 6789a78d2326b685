//! What is measured of a run.
//!
//! **Imbalance** is the CPU time that threads ask for and do not get although a CPU elsewhere has it:
//! at each moment the smaller of what waits on some CPUs and what others leave unused, added up over
//! time, in percent of what perfect balance would give. A machine whose CPUs are all busy is balanced,
//! however long its queues, and so is one where nobody waits. Sums over time are whole numbers, so they
//! are exact.

use quartier_model::Distance;
use serde::Serialize;

use crate::choosers::Choice;
use crate::trace::Creation;
use crate::truth::{Sums, WHOLE_PERMILLE};

/// The measures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// Seconds that were measured.
    pub measured_s: f64,
    /// Decisions in that time.
    pub nr_decisions: u64,
    /// CPU time asked for, in percent of what the CPUs have.
    pub demand_percent: f64,
    /// CPU time that waits while a CPU elsewhere is unused, in percent of what perfect balance would
    /// give.
    pub imbalance_percent: f64,
    /// Standard deviation of threads per CPU, of the mean variance over time.
    pub threads_deviation: f64,
    /// Threads on the fullest CPU, over threads per CPU; means over time.
    pub threads_max_over_mean: f64,
    /// Decisions for a CPU that had a thread while another had none, in percent.
    pub shared_needlessly_percent: f64,
    /// Mean SLIT distance from a created thread to its creator; `None` without such threads.
    pub thread_distance: Option<f64>,
    /// Mean SLIT distance from a forked process to its parent.
    pub fork_distance: Option<f64>,
    /// New programs on a node with no more free memory than the threshold, in percent.
    pub short_of_memory_percent: Option<f64>,
    /// Clusters of the tree that a decision read, or CPUs where there is no tree: mean.
    pub reads_mean: f64,
    /// The same: most.
    pub reads_max: u32,
}

impl Measures {
    /// CPU time that threads got, in percent of what they get in another run of the same load.
    #[must_use]
    pub fn cpu_time_percent_of(&self, other: &Self) -> f64 {
        100.0 * ratio(100.0 - self.imbalance_percent, 100.0 - other.imbalance_percent)
    }
}

/// Sums over the measured time.
#[derive(Clone, Debug, Default)]
pub struct Account {
    nr_cpus: u64,
    measured_ns: u64,
    demand: u128,
    imbalance: u128,
    /// What perfect balance would give.
    possible: u128,
    threads: u128,
    threads_of_fullest: u128,
    /// Of the square of all threads, and of the sum of the squares of each CPU's.
    square_of_threads: u128,
    squared_threads: u128,
    nr_decisions: u64,
    nr_shared_needlessly: u64,
    reads: u64,
    reads_max: u32,
    thread_distances: Mean,
    fork_distances: Mean,
    short_of_memory: Mean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

/// A decision as it is accounted for.
#[derive(Clone, Copy, Debug)]
pub struct Decided {
    /// What was chosen, at which cost.
    pub choice: Choice,
    /// For what.
    pub creation: Creation,
    /// From the creator.
    pub distance: Distance,
    /// Whether the CPU has other threads while another CPU has none.
    pub shares_needlessly: bool,
    /// Whether the node has no more free memory than the threshold.
    pub is_short_of_memory: bool,
}

impl Account {
    /// For a machine of so many CPUs.
    #[must_use]
    pub fn new(nr_cpus: usize) -> Self {
        Self { nr_cpus: nr_cpus as u64, ..Self::default() }
    }

    /// So many nanoseconds passed in this state.
    pub fn pass(&mut self, nanos: u64, sums: &Sums) {
        let times = |value: u64| u128::from(value) * u128::from(nanos);
        self.measured_ns += nanos;
        self.demand += times(sums.demand_permille);
        self.imbalance += times(sums.waiting_permille.min(sums.idle_permille));
        self.possible += times(sums.demand_permille.min(self.nr_cpus * WHOLE_PERMILLE));
        self.threads += times(sums.nr_threads);
        self.threads_of_fullest += times(sums.most_threads());
        self.square_of_threads += times(sums.nr_threads.pow(2));
        self.squared_threads += times(sums.squared_threads);
    }

    /// One more decision.
    pub fn decide(&mut self, decided: &Decided) {
        self.nr_decisions += 1;
        self.nr_shared_needlessly += u64::from(decided.shares_needlessly);
        self.reads += u64::from(decided.choice.reads);
        self.reads_max = self.reads_max.max(decided.choice.reads);
        let distance = u64::from(decided.distance.0);
        match decided.creation {
            Creation::Exec => self.short_of_memory.add(u64::from(decided.is_short_of_memory)),
            Creation::Fork(_) => self.fork_distances.add(distance),
            Creation::Thread(_) => self.thread_distances.add(distance),
        }
    }

    /// The measures.
    #[must_use]
    pub fn measures(&self) -> Measures {
        let per_ns = |sum: u128| ratio(sum as f64, self.measured_ns as f64);
        let nr_cpus = self.nr_cpus as f64;
        let mean = per_ns(self.threads) / nr_cpus;
        let mean_of_square = per_ns(self.squared_threads) / nr_cpus;
        let square_of_mean = per_ns(self.square_of_threads) / nr_cpus / nr_cpus;
        let of_decisions = |count: u64| ratio(count as f64, self.nr_decisions as f64);
        Measures {
            measured_s: self.measured_ns as f64 / 1e9,
            nr_decisions: self.nr_decisions,
            demand_percent: per_ns(self.demand) / nr_cpus / 10.0,
            imbalance_percent: 100.0 * ratio(self.imbalance as f64, self.possible as f64),
            threads_deviation: (mean_of_square - square_of_mean).max(0.0).sqrt(),
            threads_max_over_mean: ratio(per_ns(self.threads_of_fullest), mean),
            shared_needlessly_percent: 100.0 * of_decisions(self.nr_shared_needlessly),
            thread_distance: self.thread_distances.mean(),
            fork_distance: self.fork_distances.mean(),
            short_of_memory_percent: self.short_of_memory.mean().map(|mean| 100.0 * mean),
            reads_mean: of_decisions(self.reads),
            reads_max: self.reads_max,
        }
    }
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.sum += value;
        self.count += 1;
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
