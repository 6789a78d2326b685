//! Timing of what takes about as long as reading the clock.
//!
//! The clock is the standard library's: on x86-64 the kernel reads the cycle counter for it without a
//! system call, and only after all earlier instructions. The crates that read the counter themselves
//! leave that fence out, so the end of a decision could run beside the reading.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::stats::{Percentiles, Sample, median};

/// So many operations are timed together for the mean.
pub const BATCH: usize = 16;

/// After so many operations the caches have what they will have.
pub const NR_WARM: usize = 4096;

/// Readings of the clock that its cost is the middle of.
const NR_READINGS: usize = 20_000;

/// However slow a case is, it is timed so often.
const TIMES_MIN: usize = 20;

/// A clock whose own cost is known.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What one timing of nothing says.
    pub cost_ns: f64,
}

/// How often a case is timed in one round.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Operations timed one by one, and again as many in batches.
    pub times: usize,
    /// After so long it is enough.
    pub budget: Duration,
}

impl Effort {
    fn is_enough(&self, times: usize, started: Instant) -> bool {
        times >= TIMES_MIN && started.elapsed() > self.budget
    }
}

impl Clock {
    /// Measures the cost of the clock.
    pub fn new() -> Self {
        let mut none = Self { cost_ns: 0.0 };
        let mut readings: Vec<_> = (0..NR_READINGS).map(|_| none.time(|| ()).0).collect();
        none.cost_ns = median(&mut readings);
        none
    }

    /// How long `once` takes, without the clock; and what it gives.
    pub fn time<R>(&self, once: impl FnOnce() -> R) -> (f64, R) {
        let start = Instant::now();
        let result = black_box(once());
        let elapsed_ns = start.elapsed().as_nanos() as f64;
        ((elapsed_ns - self.cost_ns).max(0.0), result)
    }

    /// Times an operation in batches, and one by one for the percentiles; before that it runs once for
    /// each number up to [`NR_WARM`] untimed. `once` is told a number; `undo` is not timed.
    pub fn sample<R>(
        &self,
        effort: Effort,
        mut once: impl FnMut(usize) -> R,
        mut undo: impl FnMut(R),
    ) -> Sample {
        let started = Instant::now();
        for nr in 0..NR_WARM {
            undo(black_box(once(nr)));
            if effort.is_enough(nr, started) {
                break;
            }
        }
        let mut batches = Vec::with_capacity(effort.times / BATCH);
        let mut results = Vec::with_capacity(BATCH);
        let started = Instant::now();
        for nr in 0..(effort.times / BATCH).max(1) {
            let (batch_ns, ()) = self.time(|| {
                results.extend((0..BATCH).map(|at| once(nr * BATCH + at)));
            });
            results.drain(..).for_each(&mut undo);
            batches.push(batch_ns / BATCH as f64);
            if effort.is_enough(BATCH * nr, started) {
                break;
            }
        }
        Sample { mean_ns: median(&mut batches), ..self.singles(effort, once, undo) }
    }

    /// The same, one by one only.
    pub fn singles<R>(
        &self,
        effort: Effort,
        mut once: impl FnMut(usize) -> R,
        mut undo: impl FnMut(R),
    ) -> Sample {
        let mut singles = Vec::with_capacity(effort.times);
        let started = Instant::now();
        for nr in 0..effort.times {
            let (single_ns, result) = self.time(|| once(nr));
            undo(result);
            singles.push(single_ns);
            if effort.is_enough(nr, started) {
                break;
            }
        }
        let each = Percentiles::of(&mut singles);
        Sample { mean_ns: each.p50_ns, each: Some(each), other_percent: None }
    }

    /// The mean of an operation that is worth no percentiles, `nr_parts` of it at each time.
    pub fn mean<R>(&self, effort: Effort, nr_parts: usize, once: impl FnMut(usize) -> R) -> Sample {
        self.mean_where(effort, nr_parts, || true, once)
    }

    /// The same of those times after which `counts` says that they count; NaN if none do.
    pub fn mean_where<R>(
        &self,
        effort: Effort,
        nr_parts: usize,
        mut counts: impl FnMut() -> bool,
        mut once: impl FnMut(usize) -> R,
    ) -> Sample {
        let started = Instant::now();
        let mut times = Vec::new();
        for nr in 0..effort.times.max(1) {
            let (time_ns, _) = self.time(|| once(nr));
            if counts() {
                times.push(time_ns / nr_parts as f64);
            }
            if started.elapsed() > effort.budget {
                break;
            }
        }
        Sample { mean_ns: median(&mut times), each: None, other_percent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_done_is_undone_and_the_budget_ends_it() {
        let effort = Effort { times: 1_000, budget: Duration::ZERO };
        let (mut done, mut undone) = (0, 0);
        let sample = Clock { cost_ns: 0.0 }.sample(effort, |_| done += 1, |()| undone += 1);
        assert_eq!(done, undone);
        assert!(done < 200, "{done}");
        assert!(sample.mean_ns >= 0.0 && sample.each.is_some());
    }

    #[test]
    fn nothing_takes_less_than_no_time() {
        assert_eq!(Clock { cost_ns: 1e12 }.time(|| 7), (0.0, 7));
    }
}
