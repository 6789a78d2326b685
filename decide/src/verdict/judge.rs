//! The verdict: what was lost between the fewest CPUs and the most, and to whom.

use serde::{Deserialize, Serialize};

use super::cause::Class;
use super::culprit::{Culprit, is_spent};
use super::grown::{CHANCE_MAX, Costs, held_up_per_unit};
use super::growth::{Growth, growth};
use super::names::is_interrupt;
use super::rest::Rest;
use super::study::{Clock, Point, Run, Study};
use super::suspects::{Suspect, Suspects};

/// Scaling lost below this part of the CPU time is none that anybody should act on.
const LOST_MIN: f64 = 0.05;
/// Of the CPU time that others took at a point: beyond, it is said.
const STOLEN_NOTED: f64 = 0.05;

/// In a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A unit of work costs the same on many CPUs as on few.
    Scales,
    /// It costs more, beyond the noise.
    Loses,
    /// The runs do not tell.
    Unknown,
}

/// CPU time lost for each unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// CPUs of the runs compared with.
    pub from_cpus: u32,
    /// CPUs of the runs judged.
    pub to_cpus: u32,
    /// CPU seconds for each unit: used or idle, but for what others on the machine took.
    pub per_unit_s: Growth,
    /// Part of the CPU time on the most CPUs that is lost, percent.
    pub percent: f64,
}

impl Lost {
    /// So much time for each unit, as a part of all that is lost.
    pub fn share_percent(&self, seconds: f64) -> f64 {
        100.0 * seconds / self.per_unit_s.by()
    }
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// Absent: the runs do not tell.
    pub lost: Option<Lost>,
    /// Whoever explains most of it first.
    pub culprits: Vec<Culprit>,
    /// Places that cost more, without a cause that could be seen; or, where nobody has enough of what is lost to be named, those that have most.
    pub undetermined: Vec<Culprit>,
    /// All that is lost besides; absent: nothing is lost, or it was not looked at which code runs, or it was judged by an older Quartier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// In sentences.
    pub sentences: Vec<String>,
    /// What limits what is said.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Judges a study.
    #[must_use]
    pub fn of(study: &Study) -> Self {
        let mut verdict = Self {
            outcome: Outcome::Unknown,
            lost: None,
            culprits: Vec::new(),
            undetermined: Vec::new(),
            rest: None,
            sentences: Vec::new(),
            notes: notes(study),
        };
        match lost(study) {
            Err(why) => verdict.sentences.push(why),
            Ok((lost, from, to)) => {
                verdict.lost = Some(lost);
                verdict.outcome = outcome(&lost);
                let is_excused =
                    verdict.outcome == Outcome::Loses && is_excused(study, &lost, from, to);
                if is_excused {
                    verdict.outcome = Outcome::Unknown;
                    verdict.sentences.push(excuse(&lost));
                } else {
                    verdict.sentences.push(headline(&lost, verdict.outcome, study));
                }
                if verdict.outcome == Outcome::Loses {
                    verdict.name(study, &lost, from, to);
                }
            }
        }
        verdict
    }

    fn name(&mut self, study: &Study, lost: &Lost, from: &Point, to: &Point) {
        let is_profiled = |point: &Point| point.runs.iter().all(|run| run.profile.is_some());
        if !is_profiled(from) || !is_profiled(to) {
            self.sentences.push("Nothing is named, because runs were not profiled.".to_owned());
            return;
        }
        let costs = Costs::of(study, to);
        let mut told = costs.grown(lost);
        let is_spread = told.is_empty();
        if is_spread {
            told = costs.grown_little(lost);
        }
        self.rest = Some(costs.rest(lost, &told));
        let told = told.into_iter().map(|(_, culprit)| culprit);
        if is_spread {
            self.undetermined = told.collect();
            self.sentences.push(spread(&self.undetermined));
            return;
        }
        (self.culprits, self.undetermined) = told.partition(|culprit| culprit.class.is_some());
        self.sentences.extend(self.culprits.iter().take(2).map(Culprit::sentence));
        if let Some(first) = self.culprits.first().and_then(|culprit| culprit.class) {
            let busy = load_busy_percent(to).filter(|_| first == Class::ClientLimited);
            let busy = busy.map_or_else(String::new, |percent| {
                format!(" (the CPUs that loaded it were busy for {percent:.0} % of the time)")
            });
            self.sentences.push(format!("Known cure: {}{busy}.", first.cure()));
        } else if let Some(place) = self.undetermined.first() {
            self.sentences.push(nothing_named(place, study));
        }
    }
}

/// Of the place that costs most more, without a cause that was seen.
fn nothing_named(place: &Culprit, study: &Study) -> String {
    let Culprit { function, share_percent, .. } = place;
    if is_spent(function) {
        return format!(
            "Nothing is named: {share_percent:.0} % of what is lost is {function}, and which code or variable that is of was not counted."
        );
    }
    if is_interrupt(function) {
        return format!(
            "Nothing is named: {share_percent:.0} % of what is lost are {function}, and what brought those about was not seen."
        );
    }
    if study.is_modelled {
        let object = with_object(place);
        return format!(
            "Nothing is named: `{function}`{object} takes longer for each unit ({share_percent:.0} % of what is lost), but neither a line that \
             CPUs take from each other all the time nor memory that is far or busy explains it: it executes more, or caches hold less of what \
             each unit uses."
        );
    }
    format!(
        "Nothing is named: `{function}` costs more for each unit ({share_percent:.0} % of what is lost), but neither waiting nor a \
         shared variable was seen there, and whether caches, memory bandwidth, remote memory or the clock of \
         the CPUs slow it down takes hardware counters."
    )
}

fn with_object(place: &Culprit) -> String {
    place.object.as_ref().map_or_else(String::new, |object| format!(" with `{object}`"))
}

/// Of places none of which has enough of it to be named.
fn spread(little: &[Culprit]) -> String {
    if little.is_empty() {
        return "Nothing is named: no place's cost grew beyond the noise of the runs. More of them (--repeat), or \
                longer ones, tell more."
            .to_owned();
    }
    let place =
        |of: &Culprit| format!("`{}`{} ({:.0} %)", of.function, with_object(of), of.share_percent);
    format!(
        "Nothing is named: what is lost is spread over places none of which has a tenth of it. Of those that certainly cost more the largest \
         are {}.",
        little.iter().map(place).collect::<Vec<_>>().join(", ")
    )
}

/// Of a server's load, in the mean.
fn load_busy_percent(point: &Point) -> Option<f64> {
    let known: Vec<_> = point.runs.iter().filter_map(|run| run.load_busy_percent).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// What was lost, and the points that say so.
fn lost(study: &Study) -> Result<(Lost, &Point, &Point), String> {
    let mut points = study.points.iter().filter(|point| !point.runs.is_empty());
    let (from, to) = (points.next(), points.next_back());
    let (Some(from), Some(to)) = (from, to) else {
        return Err("There are no runs at two CPU counts, so nothing can be compared: give --cpus two that the \
                    command succeeds on."
            .to_owned());
    };
    let capacities = |point: &Point| -> Vec<f64> {
        point.runs.iter().filter_map(|run| run.capacity_per_unit(point.nr_cpus)).collect()
    };
    let Some(per_unit_s) = growth(&capacities(from), &capacities(to), 0.0) else {
        return Err("One run at each CPU count says nothing about the noise, so nothing is concluded: --repeat 3 or \
                    more."
            .to_owned());
    };
    let percent = 100.0 * per_unit_s.by() / per_unit_s.to;
    Ok((Lost { from_cpus: from.nr_cpus, to_cpus: to.nr_cpus, per_unit_s, percent }, from, to))
}

fn outcome(lost: &Lost) -> Outcome {
    let by = lost.per_unit_s.by();
    let least = (by - lost.per_unit_s.error) / lost.per_unit_s.to;
    let greatest = (by + lost.per_unit_s.error) / lost.per_unit_s.to;
    if lost.per_unit_s.p < CHANCE_MAX && least > 0.0 && by / lost.per_unit_s.to >= LOST_MIN {
        Outcome::Loses
    } else if greatest < 2.0 * LOST_MIN {
        Outcome::Scales
    } else {
        Outcome::Unknown
    }
}

/// Whether what was lost is CPUs that waited for threads which others may have held up.
fn is_excused(study: &Study, lost: &Lost, from: &Point, to: &Point) -> bool {
    let suspects = Suspects::of(study, to);
    let of_run = |run: &Run| -> f64 {
        let costs = run.profile.iter().flat_map(|profile| &profile.costs);
        let parts = costs.flat_map(|cost| suspects.parts(study, cost));
        let uneven = parts.filter(|(suspect, _)| matches!(suspect, Suspect::Uneven(_)));
        uneven.map(|(_, seconds)| seconds / run.units).sum()
    };
    let uneven =
        |point: &Point| point.runs.iter().map(of_run).sum::<f64>() / point.runs.len() as f64;
    let excused = (uneven(to) - uneven(from)).min(held_up_per_unit(to));
    lost.per_unit_s.by() - excused < LOST_MIN * lost.per_unit_s.to
}

fn excuse(lost: &Lost) -> String {
    format!(
        "On {} CPUs {:.0} % of the CPU time passed while CPUs waited for threads that others on this machine may have \
         held up: a quieter machine tells whether it is lost.",
        lost.to_cpus, lost.percent
    )
}

fn headline(lost: &Lost, outcome: Outcome, study: &Study) -> String {
    let Lost { from_cpus, to_cpus, per_unit_s, percent } = lost;
    let error = 100.0 * per_unit_s.error / per_unit_s.to;
    let (unit, modelled) = (&study.unit, if study.is_modelled { "modelled " } else { "" });
    match outcome {
        Outcome::Loses => format!(
            "On {to_cpus} CPUs each {unit} takes {:.2} times the {modelled}CPU time that it takes on {from_cpus}: {percent:.0} % \
             (±{error:.0}) of the {to_cpus} CPUs' time is lost.",
            per_unit_s.to / per_unit_s.from
        ),
        Outcome::Scales => format!(
            "It scales: on {to_cpus} CPUs each {unit} takes {:.2} times the {modelled}CPU time that it takes on {from_cpus} \
             (±{:.2}).",
            per_unit_s.to / per_unit_s.from,
            per_unit_s.error / per_unit_s.from
        ),
        Outcome::Unknown => format!(
            "The runs differ too much to tell: on {to_cpus} CPUs {percent:.0} % (±{error:.0}) of the CPU time may be \
             lost. More runs (--repeat), longer ones, or a quieter machine tell more."
        ),
    }
}

fn notes(study: &Study) -> Vec<String> {
    let mut notes = Vec::new();
    if study.is_modelled {
        notes.push(
            "Times are modelled from what was counted in guests, not measured. A run takes as long as what CPUs do alone, \
             and then the CPU that has most to do beside others; what threads sleep for is not in it."
                .to_owned(),
        );
    }
    for point in &study.points {
        let stolen: f64 = point.runs.iter().filter_map(Run::stolen_s).sum();
        let all: f64 = point.runs.iter().map(|run| run.wall_s * f64::from(point.nr_cpus)).sum();
        if stolen > STOLEN_NOTED * all {
            let host: f64 = point.runs.iter().flat_map(|run| &run.host_stolen_s).sum();
            let or_host = if host > 0.0 { " and on its host" } else { "" };
            notes.push(format!(
                "Others on this machine{or_host} took {:.0} % of the CPU time on {} CPUs; it is left out of account, but a \
                 quieter machine tells more.",
                100.0 * stolen / all,
                point.nr_cpus
            ));
        }
    }
    let profiles =
        || study.points.iter().flat_map(|point| &point.runs).filter_map(|run| run.profile.as_ref());
    // Of the other one it is told why.
    if profiles().any(|profile| profile.clock == Some(Clock::Cycles)) {
        notes.push(format!("Running code was looked at by {}.", Clock::Cycles.words()));
    }
    let nr_lost: u64 = profiles().map(|profile| profile.nr_lost).sum();
    if nr_lost > 0 {
        notes.push(format!(
            "{nr_lost} records were lost because nobody could take them in time: shares may be off; --frequency 99 \
             takes fewer."
        ));
    }
    notes
}
