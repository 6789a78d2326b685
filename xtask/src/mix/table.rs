//! The table of a mix: by policy, when the goal was reached, and at what price.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{GOAL, Policy, Run};
use crate::range;

const MIB: f64 = (1 << 20) as f64;

/// A line for each policy: least to greatest of its runs.
pub fn of(runs: &[Run]) -> String {
    let mut by_policy = BTreeMap::<Policy, Vec<&Run>>::new();
    runs.iter().for_each(|run| by_policy.entry(run.policy()).or_default().push(run));
    let mut out = format!(
        "{:<22} {:>4}  {:>18}  {:>14}  {:>14}  {:>16}  {:>12}  work done\n",
        "policy",
        "runs",
        format!("{:.0} % local after, s", 100.0 * GOAL),
        "local at the end",
        "moved, MiB",
        "÷ least possible",
        "daemon, CPU s",
    );
    let first = by_policy.values().next().cloned().unwrap_or_default();
    for (policy, runs) in &by_policy {
        let _ = writeln!(
            out,
            "{:<22} {:>4}  {:>18}  {:>14}  {:>14}  {:>16}  {:>12}  {}",
            policy.name(),
            runs.len(),
            reached(runs),
            spread(runs, 0, " %", |run| Some(100.0 * run.last()?)),
            spread(runs, 0, "", |run| Some(run.end.moved_bytes as f64 / MIB)),
            spread(runs, 2, "", |run| {
                let least = run.end.least_bytes;
                (least > 0).then(|| run.end.moved_bytes as f64 / least as f64)
            }),
            spread(runs, 1, "", |run| Some(run.end.daemon_cpu_seconds)),
            work(runs, &first),
        );
    }
    out += "\nMoved: all pages that the kernel migrated. Least possible: the memory of as many processes as cannot run on the\n\
            node where all memory was filled. Work done: bogo operations of stress-ng a second beside those of the first line.\n";
    out
}

/// Not reached is not a time.
fn reached(runs: &[&Run]) -> String {
    let times: Vec<f64> = runs.iter().filter_map(|run| run.reached()).collect();
    match range::words(&times, 0) {
        None => "never".to_owned(),
        Some(words) if times.len() == runs.len() => words,
        Some(words) => format!("{words}; {} never", runs.len() - times.len()),
    }
}

fn spread(runs: &[&Run], digits: usize, unit: &str, of: impl Fn(&Run) -> Option<f64>) -> String {
    let numbers: Option<Vec<f64>> = runs.iter().map(|run| of(run)).collect();
    let words = numbers.and_then(|numbers| range::words(&numbers, digits));
    words.map_or_else(|| "–".to_owned(), |words| words + unit)
}

/// Of each kind of work, the mean beside that of the first policy.
fn work(runs: &[&Run], first: &[&Run]) -> String {
    let mean = |runs: &[&Run], kind: &str| {
        runs.iter().filter_map(|run| run.work(kind)).sum::<f64>() / runs.len() as f64
    };
    let kinds = first.iter().flat_map(|run| run.end.work.keys());
    let kinds: std::collections::BTreeSet<_> = kinds.collect();
    let words: Vec<_> = kinds
        .into_iter()
        .map(|kind| format!("{kind} {:.2}×", mean(runs, kind) / mean(first, kind)))
        .collect();
    words.join(", ")
}
