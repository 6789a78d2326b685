//! Two studies of a program, before and after a change.

use serde::{Deserialize, Serialize};

use super::growth::{Growth, growth};
use super::judge::Verdict;
use super::study::{Point, Run, Study};

/// A change that is as probable by chance is none.
const CHANCE_MAX: f64 = 0.05;

/// What a change changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// CPU counts that both have.
    pub points: Vec<Compared>,
    /// In sentences.
    pub sentences: Vec<String>,
}

/// Runs on so many CPUs, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// CPUs.
    pub nr_cpus: u32,
    /// Units each second; absent: there are not two runs each.
    pub throughput: Option<Growth>,
    /// Better or worse, beyond the noise.
    pub is_changed: bool,
    /// CPU seconds used for each unit, without what CPUs had nothing to do; absent: not known.
    pub cpu_per_unit_s: Option<Growth>,
    /// More or less, beyond the noise.
    pub is_cpu_changed: bool,
}

impl Comparison {
    /// Compares two studies.
    #[must_use]
    pub fn of(before: &Study, after: &Study) -> Self {
        let points: Vec<_> = before
            .points
            .iter()
            .filter_map(|point| {
                let other = after.points.iter().find(|other| other.nr_cpus == point.nr_cpus)?;
                Some(compared(point, other))
            })
            .collect();
        let mut sentences = vec![headline(&points)];
        sentences.extend(points.last().and_then(|last| cpu_time(last, before)));
        sentences.extend(culprits(&Verdict::of(before), &Verdict::of(after)));
        Self { points, sentences }
    }
}

fn compared(before: &Point, after: &Point) -> Compared {
    let rates = |point: &Point| point.runs.iter().map(Run::throughput).collect::<Vec<_>>();
    let used =
        |point: &Point| point.runs.iter().filter_map(Run::cpu_per_unit_s).collect::<Vec<_>>();
    let throughput = growth(&rates(before), &rates(after), 0.0);
    let cpu_per_unit_s = growth(&used(before), &used(after), 0.0);
    // In either direction, so half of the chance for each.
    let is_beyond = |of: Growth| of.p.min(1.0 - of.p) < CHANCE_MAX / 2.0;
    Compared {
        nr_cpus: before.nr_cpus,
        throughput,
        is_changed: throughput.is_some_and(is_beyond),
        cpu_per_unit_s,
        is_cpu_changed: cpu_per_unit_s.is_some_and(is_beyond),
    }
}

/// Where throughput is within the noise of idle CPUs, what a unit costs may not be.
fn cpu_time(last: &Compared, study: &Study) -> Option<String> {
    let Compared { nr_cpus, cpu_per_unit_s: Some(of), is_cpu_changed: true, .. } = last else {
        return None;
    };
    let modelled = if study.is_modelled { "modelled " } else { "" };
    Some(format!(
        "There each {} takes {:.2} times the {modelled}CPU time (±{:.2}) on {nr_cpus} CPUs, idle time left out.",
        study.unit,
        of.to / of.from,
        of.error / of.from
    ))
}

fn headline(points: &[Compared]) -> String {
    let Some(Compared { nr_cpus, throughput, is_changed, .. }) = points.last() else {
        return "The two have no CPU count in common, so nothing can be compared: give both sweeps the same --cpus."
            .to_owned();
    };
    match throughput {
        None => "One run each says nothing about the noise, so nothing is concluded: --repeat 3 or more.".to_owned(),
        Some(of) if *is_changed => {
            let better = if of.by() > 0.0 { "more" } else { "less" };
            format!(
                "On {nr_cpus} CPUs the second does {:.2} times the work of the first in the same time (±{:.2}): {better}.",
                of.to / of.from,
                of.error / of.from
            )
        }
        Some(of) => format!(
            "On {nr_cpus} CPUs no difference beyond the noise: {:.2} times the work in the same time (±{:.2}).",
            of.to / of.from,
            of.error / of.from
        ),
    }
}

fn culprits(before: &Verdict, after: &Verdict) -> Vec<String> {
    let name = |verdict: &Verdict| -> Vec<String> {
        let object = |object: &Option<String>| {
            object.as_ref().map_or_else(String::new, |name| format!(", `{name}`"))
        };
        let all = verdict.culprits.iter();
        all.map(|of| {
            format!(
                "{} in `{}`{}",
                of.class.map_or("loss", |class| class.name()),
                of.function,
                object(&of.object)
            )
        })
        .collect()
    };
    let (first, second) = (name(before), name(after));
    let only = |of: &[String], not: &[String]| {
        of.iter().filter(|name| !not.contains(name)).cloned().collect::<Vec<_>>().join("; ")
    };
    let mut sentences = Vec::new();
    for (which, names) in [("Gone", only(&first, &second)), ("New", only(&second, &first))] {
        if !names.is_empty() {
            sentences.push(format!("{which}: {names}."));
        }
    }
    let both: Vec<_> = first.iter().filter(|name| second.contains(name)).cloned().collect();
    if !both.is_empty() {
        sentences.push(format!("Named in both: {}.", both.join("; ")));
    }
    if let (Some(first), Some(second)) = (before.lost, after.lost) {
        sentences.push(format!(
            "Lost scaling: {:.0} % before (on {} CPUs), {:.0} % after (on {}).",
            first.percent, first.to_cpus, second.percent, second.to_cpus
        ));
    }
    sentences
}
