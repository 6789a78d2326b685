//! Two profiles side by side, as the study of seed 001 showed them, and what a unit costs besides.

use std::collections::BTreeMap;

use quartier_decide::verdict::{Point, Waits, site};

use super::super::report::Report;
use super::super::text::duration;
use super::page::Page;

/// Functions that are shown.
const SHOWN: usize = 15;

/// Adds the table.
pub fn side_by_side(page: &mut Page, report: &Report, from: &Point, to: &Point) {
    let (before, after) = (by_function(report, from), by_function(report, to));
    if after.is_empty() {
        return;
    }
    let of =
        |table: &BTreeMap<String, f64>, name: &str| table.get(name).copied().unwrap_or_default();
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    // By growth, not by share: what slows all others down has a small share itself.
    names.sort_by(|a, b| {
        let growth = |name: &str| of(&after, name) - of(&before, name);
        growth(b).total_cmp(&growth(a))
    });
    page.words("h2", "Two profiles side by side, by growth");
    let share = |table: &BTreeMap<String, f64>, name: &str| {
        let all: f64 = table.values().sum();
        format!("{:.1} %", 100.0 * of(table, name) / all.max(f64::MIN_POSITIVE))
    };
    let row = |name: &&String| {
        vec![
            (*name).clone(),
            share(&before, name),
            share(&after, name),
            duration(of(&before, name)),
            duration(of(&after, name)),
            duration(of(&after, name) - of(&before, name)),
        ]
    };
    let (few, many) = (from.nr_cpus, to.nr_cpus);
    let columns = [
        "function".to_owned(),
        format!("share on {few}"),
        format!("share on {many}"),
        format!("each {} on {few}", report.study.unit),
        format!("on {many}"),
        "growth".to_owned(),
    ];
    page.table(&columns.each_ref().map(String::as_str), names.iter().take(SHOWN).map(row));
}

/// Running time for each unit, mean over the runs, by the innermost function.
fn by_function(report: &Report, point: &Point) -> BTreeMap<String, f64> {
    let mut table = BTreeMap::new();
    for run in &point.runs {
        for cost in run.profile.iter().flat_map(|profile| &profile.costs) {
            if let Some(leaf) = report.study.stack(cost).next_back().filter(|_| cost.ran_s > 0.0) {
                let name = format!("{} ({})", leaf.function, leaf.module);
                *table.entry(name).or_default() += cost.ran_s / run.units / point.runs.len() as f64;
            }
        }
    }
    table
}

/// Adds what threads wait for, and where most.
pub fn waits(page: &mut Page, report: &Report, from: &Point, to: &Point) {
    let (before, after) = (by_cause(report, from), by_cause(report, to));
    if after.is_empty() {
        return;
    }
    page.words("h2", "What threads wait for");
    let rows = after.iter().map(|(waits, (seconds, sites))| {
        let most = sites.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(site, _)| site.clone());
        let before = before.get(waits).map_or(0.0, |(seconds, _)| *seconds);
        vec![
            waits.words().to_owned(),
            duration(before),
            duration(*seconds),
            most.unwrap_or_default(),
        ]
    });
    let (few, many) = (from.nr_cpus, to.nr_cpus);
    let columns = [
        "for",
        &format!("threads’ time for each {} on {few}", report.study.unit),
        &format!("on {many}"),
        "most of it in",
    ];
    page.table(&columns, rows);
}

/// Seconds that threads waited for each unit, mean over the runs, and by the function that does.
fn by_cause(report: &Report, point: &Point) -> BTreeMap<Waits, (f64, BTreeMap<String, f64>)> {
    let mut table: BTreeMap<Waits, (f64, BTreeMap<String, f64>)> = BTreeMap::new();
    for run in &point.runs {
        for cost in run.profile.iter().flat_map(|profile| &profile.costs) {
            let Some(waits) = cost.waits.filter(|_| cost.waited_s > 0.0) else { continue };
            let seconds = cost.waited_s / run.units / point.runs.len() as f64;
            let (all, sites) = table.entry(waits).or_default();
            *all += seconds;
            *sites.entry(site(report.study.stack(cost))).or_default() += seconds;
        }
    }
    table
}
