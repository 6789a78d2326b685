//! Whose cost grew: every suspect is tested over all CPU counts of the sweep, and then each calling context of those that are named.

use std::collections::BTreeMap;

use super::culprit::{Context, Culprit};
use super::evidence::{Evidence, Place, context};
use super::growth::{Growth, Trend, growth, trend};
use super::judge::Lost;
use super::names::Waits;
use super::rest::{Rest, words};
use super::study::{Cost, Point, Run, Study};
use super::suspects::{Suspect, Suspects};

/// What explains less of the lost scaling is not named.
const SHARE_MIN: f64 = 0.1;
/// And less is not even told where nobody is named, nor are more than so many then.
const LITTLE_MIN: f64 = 0.02;
const LITTLE_TOLD_MAX: usize = 5;
/// Chance that a suspect is named, or scaling is called lost, for nothing.
pub const CHANCE_MAX: f64 = 0.05;
/// Of a culprit's contexts, those that are told.
const CONTEXTS_MAX: usize = 5;

/// By whose it is: what a unit of work costs, in each run of a point.
type Table<K> = BTreeMap<K, Vec<f64>>;

/// What of a study tells who costs what.
pub struct Costs<'a> {
    study: &'a Study,
    suspects: Suspects,
    /// Two runs or more, and all of them profiled.
    points: Vec<&'a Point>,
    /// The runs on the most CPUs.
    to: &'a Point,
    /// What one look of the clock is of a cost.
    look: f64,
}

/// Whose cost it is, and how it grew.
struct Tested<K> {
    whose: K,
    ends: Growth,
    trend: Trend,
    /// How probable it is that it grew so by chance, or anybody who grew more clearly did.
    chance: f64,
}

impl<'a> Costs<'a> {
    /// Of a study whose runs on the most CPUs are these.
    pub fn of(study: &'a Study, to: &'a Point) -> Self {
        let is_told = |point: &&Point| {
            point.runs.len() >= 2 && point.runs.iter().all(|run| run.profile.is_some())
        };
        let points: Vec<_> = study.points.iter().filter(is_told).collect();
        let looks = points.iter().flat_map(|point| &point.runs).filter_map(look_per_unit);
        let look = looks.fold(0.0, f64::max);
        Self { study, suspects: Suspects::of(study, to), points, to, look }
    }

    /// Everybody whose cost grew beyond the noise, whoever explains most first.
    pub fn grown(&self, lost: &Lost) -> Vec<(Suspect, Culprit)> {
        self.grown_by(lost, SHARE_MIN)
    }

    /// The same of those that explain too little to be named.
    pub fn grown_little(&self, lost: &Lost) -> Vec<(Suspect, Culprit)> {
        let mut little = self.grown_by(lost, LITTLE_MIN);
        little.truncate(LITTLE_TOLD_MAX);
        little
    }

    /// What is lost besides these.
    pub fn rest(&self, lost: &Lost, told: &[(Suspect, Culprit)]) -> Rest {
        let is_told = |suspect: &Suspect| told.iter().any(|(whose, _)| whose.has(suspect));
        let tables = self.tables(|cost| {
            let parts = self.suspects.parts(self.study, cost);
            let others = parts.into_iter().filter(|(whose, _)| !is_told(whose));
            others.map(|(whose, seconds)| (words(&whose), seconds)).collect()
        });
        let least = LITTLE_MIN * lost.per_unit_s.by();
        let grown = self.tested(&tables, least).into_iter().filter(|of| of.ends.by() >= least);
        let told_percent = told.iter().map(|(_, culprit)| culprit.share_percent).sum();
        Rest::of(grown.map(|of| (of.whose, of.ends)), lost, told_percent)
    }

    fn grown_by(&self, lost: &Lost, share_min: f64) -> Vec<(Suspect, Culprit)> {
        let least = share_min * lost.per_unit_s.by();
        let tables = self.tables(|cost| {
            let mut parts = self.suspects.parts(self.study, cost);
            // Nobody runs, and threads wait for each other: they take long to wake up, and no code is to be blamed.
            parts
                .retain(|(whose, _)| !matches!(whose, Suspect::Waits(Waits::Others | Waits::Lock)));
            let in_all = |(whose, seconds): &(Suspect, f64)| Some((whose.in_all()?, *seconds));
            let all: Vec<_> = parts.iter().filter_map(in_all).collect();
            parts.extend(all);
            parts
        });
        let held_up = held_up_per_unit(self.to);
        let grown = certain(self.tested(&tables, least), least);
        let named: Vec<Suspect> = grown.iter().map(|of| of.whose.clone()).collect();
        let grown = grown.into_iter().filter(|of| {
            // Who enters the kernel says more than what it is entered for by all together.
            !named.iter().any(|other| *other != of.whose && of.whose.has(other))
        });
        let grown = grown.filter(|of| {
            // A thread that others hold up comes last though its part is no larger.
            let by_chance = if let Suspect::Uneven(_) = of.whose { held_up } else { 0.0 };
            of.ends.by() >= by_chance
        });
        let mut culprits: Vec<_> =
            grown.map(|of| (of.whose.clone(), self.culprit(of, lost))).collect();
        culprits.sort_by(|(_, a), (_, b)| b.share_percent.total_cmp(&a.share_percent));
        culprits
    }

    fn culprit(&self, of: Tested<Suspect>, lost: &Lost) -> Culprit {
        let Tested { whose, ends, trend, chance } = of;
        let Place { class, function, line, object, context } =
            Evidence::of(self.study, &self.suspects, &whose, self.to).place(&whose);
        Culprit {
            class,
            function,
            line,
            object,
            context,
            contexts: self.contexts(&whose, ends.by(), lost),
            per_unit_s: ends,
            trend,
            confidence_percent: 100.0 * (1.0 - chance),
            share_percent: lost.share_percent(ends.by()),
            share_error_percent: lost.share_percent(ends.error),
        }
    }

    /// Where a suspect's cost grew, which grew by so much in all.
    fn contexts(&self, suspect: &Suspect, by: f64, lost: &Lost) -> Vec<Context> {
        let tables = self.tables(|cost| {
            let parts = self.suspects.parts(self.study, cost);
            let own = parts.into_iter().filter(|(whose, _)| suspect.has(whose));
            let seconds: f64 = own.map(|(_, seconds)| seconds).sum();
            if seconds > 0.0 { vec![(context(self.study, cost), seconds)] } else { Vec::new() }
        });
        let least = SHARE_MIN * by;
        let grown = certain(self.tested(&tables, least), least);
        let told = grown.into_iter().map(|Tested { whose, ends, trend, .. }| Context {
            stack: whose,
            share_percent: lost.share_percent(ends.by()),
            per_unit_s: ends,
            trend,
        });
        let mut contexts: Vec<_> = told.collect();
        contexts.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
        contexts.truncate(CONTEXTS_MAX);
        contexts
    }

    /// For each point.
    fn tables<K: Ord>(&self, parts: impl Fn(&Cost) -> Vec<(K, f64)>) -> Vec<Table<K>> {
        let table = |point: &&Point| {
            let mut table: Table<K> = Table::new();
            for (at, run) in point.runs.iter().enumerate() {
                for cost in run.profile.iter().flat_map(|profile| &profile.costs) {
                    for (whose, seconds) in parts(cost) {
                        let costs =
                            table.entry(whose).or_insert_with(|| vec![0.0; point.runs.len()]);
                        costs[at] += seconds / run.units;
                    }
                }
            }
            table
        };
        self.points.iter().map(table).collect()
    }

    /// Everybody who costs at least so much on the most CPUs: who costs less explains nothing, however it grew.
    fn tested<K: Ord + Clone>(&self, tables: &[Table<K>], least: f64) -> Vec<Tested<K>> {
        let test = |(whose, after): (&K, &Vec<f64>)| {
            let at_point = |(point, table): (&&Point, &Table<K>)| {
                let nothing = || vec![0.0; point.runs.len()];
                (point.nr_cpus, table.get(whose).cloned().unwrap_or_else(nothing))
            };
            let points: Vec<_> = self.points.iter().zip(tables).map(at_point).collect();
            let ends = growth(&points.first()?.1, after, self.look)?;
            let trend = (ends.to >= least).then(|| trend(&points, self.look))??;
            Some(Tested { whose: whose.clone(), ends, chance: trend.p, trend })
        };
        tables.last().into_iter().flatten().filter_map(test).collect()
    }
}

/// Those who grew by at least so much, and not by chance: neither over all CPU counts, by what is left of that probability where many
/// are tested, nor from the fewest to the most, as it is this difference that is said to be lost to them.
fn certain<K>(mut tested: Vec<Tested<K>>, least: f64) -> Vec<Tested<K>> {
    // Holm: the least probable of n must be n times as improbable, the next n − 1 times, and so on.
    tested.sort_by(|a, b| a.trend.p.total_cmp(&b.trend.p));
    let (nr, mut chance) = (tested.len(), 0.0_f64);
    for (at, of) in tested.iter_mut().enumerate() {
        chance = chance.max((of.trend.p * (nr - at) as f64).min(1.0));
        of.chance = chance;
    }
    tested.retain(|of| of.chance <= CHANCE_MAX && of.ends.p <= CHANCE_MAX && of.ends.by() >= least);
    tested
}

/// For how long CPUs may have waited for who was held up, by unit of work.
pub fn held_up_per_unit(point: &Point) -> f64 {
    let held_up = point.runs.iter().map(|run| run.held_up_s() / run.units);
    held_up.sum::<f64>() / point.runs.len().max(1) as f64
}

/// Seconds that one look of the clock stands for, by unit of work.
fn look_per_unit(run: &Run) -> Option<f64> {
    let profile = run.profile.as_ref().filter(|profile| profile.nr_samples > 0)?;
    Some(profile.ran_s / profile.nr_samples as f64 / run.units)
}
