//! What threads do while they have no CPU: thread time for each unit, by what they wait for.

use std::fmt::Write;

use quartier_decide::verdict::{Point, Run, Waits};

use super::{aligned, amount, duration, median, unknown};
use crate::scale::report::Report;

const COLUMNS: [(&str, Waits); 6] = [
    ("lock", Waits::Lock),
    ("others", Waits::Others),
    ("disk", Waits::Disk),
    ("peers", Waits::Peer),
    ("time", Waits::Time),
    ("unknown", Waits::Unknown),
];

/// Of runs that were profiled; where waits were not seen there is nothing to tell.
pub fn table(text: &mut String, report: &Report) {
    let runs = || report.study.points.iter().flat_map(|point| &point.runs);
    let is_seen = |run: &Run| {
        run.profile.as_ref().is_some_and(|profile| profile.queued_s.is_some())
            || COLUMNS.iter().any(|(_, waits)| waited_s(run, *waits) > Some(0.0))
    };
    if !runs().any(is_seen) {
        return;
    }
    let mut head = vec!["CPUs".to_owned(), "queued".to_owned()];
    head.extend(COLUMNS.map(|(name, _)| name.to_owned()));
    head.extend(["preempted", "disk faults"].map(str::to_owned));
    let rows = std::iter::once(head).chain(report.study.points.iter().map(row));
    aligned(text, &rows.collect::<Vec<_>>());
    let _ = writeln!(
        text,
        "off the CPUs, thread time for each {}: queued for a CPU (made, woken, or taken off one), waiting for locks, other \
         threads, disks, peers, time; preempted, disk faults: of a run",
        report.study.unit
    );
}

fn row(point: &Point) -> Vec<String> {
    let middle =
        |of: &dyn Fn(&Run) -> Option<f64>| median(point.runs.iter().filter_map(of).collect());
    let time = |seconds: Option<f64>| seconds.map_or_else(unknown, duration);
    let number = |number: Option<f64>| number.map_or_else(unknown, amount);
    let mut row = vec![point.nr_cpus.to_string()];
    row.push(time(middle(&|run| Some(run.profile.as_ref()?.queued_s? / run.units))));
    row.extend(
        COLUMNS.map(|(_, waits)| time(middle(&|run| Some(waited_s(run, waits)? / run.units)))),
    );
    row.push(number(middle(&|run| Some(run.nr_preemptions? as f64))));
    row.push(number(middle(&|run| Some(run.nr_disk_faults? as f64))));
    row
}

/// Absent: it was not profiled.
fn waited_s(run: &Run, waits: Waits) -> Option<f64> {
    let costs = run.profile.as_ref()?.costs.iter();
    Some(costs.filter(|cost| cost.waits == Some(waits)).map(|cost| cost.waited_s).sum())
}

#[cfg(test)]
mod tests {
    use quartier_decide::verdict::{Cost, Profile, Study};

    use super::*;
    use crate::scale::sweep::Swept;

    fn told(runs: Vec<Run>) -> String {
        let point = Point { nr_cpus: 2, cpus: "0-1".to_owned(), runs };
        let study = Study { unit: "page".to_owned(), points: vec![point], ..Study::default() };
        let report = Report::new(
            Swept { study, complaints: Vec::new(), interrupted: None },
            &["a".into()],
            1,
        );
        let mut text = String::new();
        table(&mut text, &report);
        text
    }

    #[test]
    fn who_waits_is_told_by_what_for_and_what_is_not_known_is_a_dash() {
        let cost = |waits, waited_s| Cost { waits: Some(waits), waited_s, ..Cost::default() };
        let costs = vec![cost(Waits::Lock, 3.0), cost(Waits::Lock, 1.0), cost(Waits::Disk, 0.5)];
        let profile = Profile { costs, ..Profile::default() };
        let run = Run {
            units: 100.0,
            nr_preemptions: Some(7),
            profile: Some(profile.clone()),
            ..Run::default()
        };
        let text = told(vec![run.clone()]);
        let row: Vec<_> = text.lines().nth(1).unwrap().split("  ").map(str::trim).collect();
        let row: Vec<_> = row.into_iter().filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            row,
            ["2", "–", "40.0 ms", "0", "5.00 ms", "0", "0", "0", "7.00", "–"],
            "{text}"
        );
        let profile = Profile { queued_s: Some(0.2), ..profile };
        let text = told(vec![Run { profile: Some(profile), ..run.clone() }]);
        assert!(text.lines().nth(1).unwrap().contains("2.00 ms"), "{text}");
        assert_eq!(told(vec![Run { profile: None, ..run }]), "", "nothing was seen");
    }
}
