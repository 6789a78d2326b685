//! The result: every case with its spread and its ratios, and what became of the targets.

use serde::Serialize;

use crate::cases::{Case, Counted, GROWING_BLOCK, LARGEST_BLOCK, Method, TARGET_BLOCK};
use crate::child::Sample;
use crate::startup::Costs;
use crate::stats::Spread;

/// All measurements of one case, one entry per round.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub case: Case,
    /// What it found.
    pub samples: Vec<(Sample, Option<Counted>)>,
}

/// One line of the result; nanoseconds per 4 KiB page.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The case.
    pub name: String,
    /// Touching threads.
    pub threads: usize,
    /// Marking.
    pub mark_ns: Spread,
    /// The first touch afterwards.
    pub touch_ns: Spread,
    /// Both together.
    pub sum_ns: Spread,
    /// The sum over that of a first touch in the same round.
    pub to_first_touch: Spread,
    /// The sum over that of `mprotect`+`move_pages` at 64 KiB in the same round.
    pub to_classic: Spread,
    /// A touch once nothing is left to be caught.
    pub again_ns: Spread,
    /// The very first touch of a process's memory, before its warm-up.
    pub cold_ns: Spread,
    /// Whether system calls can read a caught page, where that was tried.
    pub kernel_access: Option<bool>,
    /// CPU time of the sum, with the helper's.
    pub cpu_ns: Spread,
    /// That over the CPU time of a first touch in the same round.
    pub cpu_to_first_touch: Spread,
    /// How often the helper slept, per page (median).
    pub helper_sleeps: Option<f64>,
    /// What the runtime counted in the last round.
    pub counted: Option<Counted>,
}

/// A target and what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// In words.
    pub name: &'static str,
    /// Touching threads.
    pub threads: usize,
    /// The bound.
    pub bound: f64,
    /// What was measured.
    pub ratio: Spread,
    /// Whether the median keeps the bound.
    pub met: bool,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// Size of the memory in MiB.
    pub mib: usize,
    /// How often every case was run.
    pub rounds: usize,
    /// Memory nodes that the kernel shows.
    pub nodes: usize,
    /// The cases.
    pub lines: Vec<Line>,
    /// The targets.
    pub targets: Vec<Target>,
    /// Cost of a run, of threads and of an idle process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
}

impl Measured {
    fn values(&self, field: impl Fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(|(sample, _)| field(sample)).collect()
    }

    fn sums(&self) -> Vec<f64> {
        self.values(|sample| sample.mark_ns + sample.touch_ns)
    }

    fn median_of(&self, field: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<_> = self.samples.iter().filter_map(|(sample, _)| field(sample)).collect();
        (!values.is_empty()).then(|| Spread::of(&values).median)
    }
}

/// The lines of all cases.
pub fn lines(all: &[Measured]) -> Vec<Line> {
    all.iter().map(|measured| line(all, measured)).collect()
}

fn line(all: &[Measured], measured: &Measured) -> Line {
    let sums = measured.sums();
    let to = |method| Spread::of_ratios(&sums, &sums_of(all, method, measured.case.threads));
    let cpu = measured.values(|sample| sample.cpu_ns);
    let first = find(all, Method::FirstTouch, measured.case.threads);
    let first_cpu = first.map(|first| first.values(|sample| sample.cpu_ns)).unwrap_or_default();
    let samples = &measured.samples;
    let accesses: Vec<_> = samples.iter().filter_map(|(sample, _)| sample.kernel_access).collect();
    Line {
        name: measured.case.name(),
        threads: measured.case.threads,
        mark_ns: Spread::of(&measured.values(|sample| sample.mark_ns)),
        touch_ns: Spread::of(&measured.values(|sample| sample.touch_ns)),
        sum_ns: Spread::of(&sums),
        to_first_touch: to(Method::FirstTouch),
        to_classic: to(Method::Classic { block: TARGET_BLOCK }),
        again_ns: Spread::of(&measured.values(|sample| sample.again_ns)),
        cold_ns: Spread::of(&measured.values(|sample| sample.cold_ns)),
        kernel_access: (!accesses.is_empty()).then(|| accesses.iter().all(|access| *access)),
        cpu_ns: Spread::of(&cpu),
        cpu_to_first_touch: Spread::of_ratios(&cpu, &first_cpu),
        helper_sleeps: measured.median_of(|sample| sample.helper_sleeps),
        counted: samples.last().and_then(|(_, counted)| *counted),
    }
}

fn find(all: &[Measured], method: Method, threads: usize) -> Option<&Measured> {
    let case = Case { method, threads };
    all.iter().find(|measured| measured.case == case)
}

fn sums_of(all: &[Measured], method: Method, threads: usize) -> Vec<f64> {
    find(all, method, threads).map(Measured::sums).unwrap_or_default()
}

/// The targets, for each number of threads.
pub fn targets(all: &[Measured], threads: &[usize]) -> Vec<Target> {
    let next_touch = |block, block_max, copy| Method::NextTouch { block, block_max, copy };
    let fixed = next_touch(TARGET_BLOCK, TARGET_BLOCK, true);
    let [growing, local] = [true, false].map(|copy| next_touch(GROWING_BLOCK, LARGEST_BLOCK, copy));
    let classic = Method::Classic { block: TARGET_BLOCK };
    let mut targets = Vec::new();
    for &threads in threads {
        let ratio =
            |of, to| Spread::of_ratios(&sums_of(all, of, threads), &sums_of(all, to, threads));
        let mut add = |name, bound, ratio: Spread, met: fn(f64, f64) -> bool| {
            if !ratio.median.is_nan() {
                let met = met(ratio.median, bound);
                targets.push(Target { name, threads, bound, ratio, met });
            }
        };
        let first = Method::FirstTouch;
        add("fixed 64K <= 1.5 x first touch", 1.5, ratio(fixed, first), |a, b| a <= b);
        add("growing <= 0.6 x first touch", 0.6, ratio(growing, first), |a, b| a <= b);
        add("mprotect+move_pages 64K >= 3 x growing", 3.0, ratio(classic, growing), |a, b| a >= b);
        add("the same, neither moving (one node)", 3.0, ratio(classic, local), |a, b| a >= b);
    }
    targets
}
