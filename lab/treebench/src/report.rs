//! The result: every case with its spread and its ratio.

use serde::{Deserialize, Serialize};

use crate::cases::{Bench, Case, Outcome, Part};
use crate::clock::BATCH;
use crate::stats::{Percentiles, Spread};
use crate::targets::{self, Target};

/// One case in all rounds.
pub struct Measured {
    /// Which.
    pub case: Case,
    /// What it found in each.
    pub outcomes: Vec<Outcome>,
}

/// One line of the result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Where it belongs.
    pub part: Part,
    /// The case.
    pub name: String,
    /// Of one operation, from operations timed together.
    pub mean_ns: Option<Spread>,
    /// Of operations timed one by one.
    pub each: Option<Percentiles<Spread>>,
    /// The mean over that of another case in the same round.
    pub ratio: Option<Spread>,
    /// That other case.
    pub compared_to: Option<String>,
    /// The line of the plot that it is a point of, and the height of its tree.
    pub point: Option<(String, u32)>,
    /// Of the time, how much the thread beside it really ran.
    pub other_percent: Option<Spread>,
    /// Why it is not known, and what to do about it.
    pub unknown: Option<String>,
}

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// How often every case was run.
    pub rounds: u32,
    /// What the clock costs, which is subtracted from each timing.
    pub clock_cost_ns: f64,
    /// Operations that are timed together for a mean.
    pub batch: usize,
    /// CPUs of this machine that were used: for what is measured, and for what runs beside it.
    pub host_cpus: (Option<usize>, Option<usize>),
    /// Version of hwloc's interface, where it is there.
    pub hwloc_api_version: Option<u32>,
    /// The cases.
    pub lines: Vec<Line>,
    /// The targets.
    pub targets: Vec<Target>,
}

impl Report {
    /// The result of so many rounds.
    pub fn new(bench: &Bench, rounds: u32, all: &[Measured]) -> Self {
        let lines: Vec<_> = all.iter().map(|measured| line(all, measured)).collect();
        Self {
            format: 1,
            rounds,
            clock_cost_ns: bench.clock.cost_ns,
            batch: BATCH,
            host_cpus: (bench.host.first, bench.host.other),
            hwloc_api_version: bench.hwloc.as_ref().ok().map(|hwloc| hwloc.api_version),
            targets: targets::targets(&lines),
            lines,
        }
    }
}

impl Measured {
    fn means(&self) -> Vec<f64> {
        let mean = |outcome: &Outcome| match outcome {
            Outcome::Measured(sample) => sample.mean_ns,
            Outcome::Unknown(_) => f64::NAN,
        };
        self.outcomes.iter().map(mean).collect()
    }
}

fn line(all: &[Measured], measured: &Measured) -> Line {
    let Measured { case, outcomes } = measured;
    let mut each = Vec::new();
    let mut other_percents = Vec::new();
    let mut unknown = None;
    for outcome in outcomes {
        match outcome {
            Outcome::Measured(sample) => {
                each.extend(sample.each);
                other_percents.extend(sample.other_percent);
            }
            Outcome::Unknown(why) => unknown = Some(why.clone()),
        }
    }
    let means = measured.means();
    let is_known = unknown.is_none() && !means.is_empty();
    let other = all.iter().find(|other| Some(&other.case.name) == case.compared_to.as_ref());
    let ratio = other.map(|other| Spread::of_ratios(&means, &other.means()));
    Line {
        part: case.part,
        name: case.name.clone(),
        mean_ns: is_known.then(|| Spread::of(&means)),
        each: (is_known && !each.is_empty()).then(|| Percentiles::<Spread>::over(&each)),
        ratio: ratio.filter(|ratio| is_known && !ratio.median.is_nan()),
        compared_to: case.compared_to.clone(),
        point: case.point.map(|(line, height)| (line.to_owned(), height)),
        other_percent: (!other_percents.is_empty()).then(|| Spread::of(&other_percents)),
        unknown,
    }
}
