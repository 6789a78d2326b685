//! The same program on more and more CPUs: modelled speed-up per policy (thesis figure 5.11).

use serde::{Deserialize, Serialize};

use super::{Policy, Spread};
use crate::numbers::of;
use crate::report::Report;

/// Runs of a policy on a number of CPUs, as they are handed in.
#[derive(Clone, Debug)]
pub struct SweepRuns {
    /// The policy.
    pub policy: Policy,
    /// CPUs that the program had.
    pub nr_cpus: u32,
    /// How it was set, as a reader would set it.
    pub detail: Option<String>,
    /// The runs, or why there is none.
    pub runs: Result<Vec<Report>, String>,
    /// What became of runs that are missing here.
    pub failed: Option<String>,
}

/// Modelled speed-up over CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The policy whose time all speed-ups are relative to: first touch, if it was run.
    pub base_policy: Policy,
    /// The CPUs it had then: the fewest that it was counted with.
    pub base_cpus: u32,
    /// That time, modelled, milliseconds.
    pub base_modelled_phase_ms: f64,
    /// A curve for each policy, in the order of [`Policy`].
    pub curves: Vec<SweepCurve>,
    /// Points that these curves lack.
    pub absent: Vec<AbsentPoint>,
}

/// A point without a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbsentPoint {
    /// The policy.
    pub policy: Policy,
    /// CPUs that the program would have had.
    pub nr_cpus: u32,
    /// Why there is none.
    pub why: String,
}

/// The curve of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepCurve {
    /// The policy.
    pub policy: Policy,
    /// By CPUs, upwards.
    pub points: Vec<SweepPoint>,
}

/// A policy on a number of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// CPUs that the program had.
    pub nr_cpus: u32,
    /// How the policy was set: by hand, the best way may depend on the CPUs.
    pub detail: Option<String>,
    /// Modelled time of the phase, milliseconds.
    pub modelled_phase_ms: Spread,
    /// How many times faster than the base, modelled; absent if no time was modelled.
    pub modelled_speedup: Option<Spread>,
}

impl Sweep {
    /// Absent without runs.
    pub(super) fn new(runs: &[SweepRuns]) -> Option<Self> {
        let mut curves: Vec<_> =
            Policy::ALL.into_iter().filter_map(|policy| SweepCurve::new(policy, runs)).collect();
        let base = curves.first()?;
        let base_policy = base.policy;
        let (base_cpus, base) = (base.points[0].nr_cpus, base.points[0].modelled_phase_ms);
        let alone = Spread { least: base.middle, greatest: base.middle, ..base };
        for point in curves.iter_mut().flat_map(|curve| &mut curve.points) {
            point.modelled_speedup = alone.ratio(&point.modelled_phase_ms);
        }
        let absent = absent(&curves, runs);
        Some(Self { base_policy, base_cpus, base_modelled_phase_ms: base.middle, curves, absent })
    }

    /// The most CPUs of any curve.
    #[must_use]
    pub fn cpus_max(&self) -> u32 {
        self.points().map(|point| point.nr_cpus).max().unwrap_or(1)
    }

    /// The points that curves lack, in sentences: one for all that have the same reason.
    #[must_use]
    pub fn absent_in_words(&self) -> Vec<String> {
        let mut reasons: Vec<(u32, &str, Vec<&str>)> = Vec::new();
        for AbsentPoint { policy, nr_cpus, why } in &self.absent {
            match reasons.iter_mut().find(|(cpus, known, _)| (*cpus, *known) == (*nr_cpus, why)) {
                Some((.., names)) => names.push(policy.name()),
                None => reasons.push((*nr_cpus, why, vec![policy.name()])),
            }
        }
        let words = |(nr_cpus, why, names): &(u32, &str, Vec<&str>)| {
            format!("{}: {why}", on(&names.join(", "), *nr_cpus))
        };
        reasons.iter().map(words).collect()
    }

    /// Every point of every curve.
    pub fn points(&self) -> impl Iterator<Item = &SweepPoint> {
        self.curves.iter().flat_map(|curve| &curve.points)
    }
}

impl SweepCurve {
    fn new(policy: Policy, runs: &[SweepRuns]) -> Option<Self> {
        let mut points: Vec<_> =
            runs.iter().filter(|runs| runs.policy == policy).filter_map(point).collect();
        points.sort_by_key(|point| point.nr_cpus);
        points.dedup_by_key(|point| point.nr_cpus);
        (!points.is_empty()).then_some(Self { policy, points })
    }
}

impl SweepRuns {
    /// In a sentence: `numad on 4 CPUs`.
    pub(super) fn name(&self) -> String {
        on(self.policy.name(), self.nr_cpus)
    }
}

fn on(names: &str, nr_cpus: u32) -> String {
    format!("{names} on {}", of(u64::from(nr_cpus), "CPU"))
}

/// A policy that has no curve at all is told elsewhere.
fn absent(curves: &[SweepCurve], runs: &[SweepRuns]) -> Vec<AbsentPoint> {
    let is_drawn = |policy| curves.iter().any(|curve| curve.policy == policy);
    let absent = |runs: &SweepRuns| {
        let why = match &runs.runs {
            Err(why) => why.clone(),
            Ok(_) if point(runs).is_none() => "no time could be modelled".to_owned(),
            Ok(_) => return None,
        };
        Some(AbsentPoint { policy: runs.policy, nr_cpus: runs.nr_cpus, why })
    };
    runs.iter().filter(|runs| is_drawn(runs.policy)).filter_map(absent).collect()
}

fn point(runs: &SweepRuns) -> Option<SweepPoint> {
    let reports = runs.runs.as_ref().ok()?;
    let modelled_phase_ms = Spread::of(reports.iter().map(|report| report.modelled.phase_ms))?;
    let (nr_cpus, detail) = (runs.nr_cpus, runs.detail.clone());
    Some(SweepPoint { nr_cpus, detail, modelled_phase_ms, modelled_speedup: None })
}
