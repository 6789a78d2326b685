//! The seed's own claim: what is slow is not the operating system's choice. One experiment for each environment, side by side.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::table::light_p95;
use super::{COUNTED, Experiment, baseline, decider};
use crate::range;

/// Ours are to be within this of each other.
const APART_MAX: f64 = 0.15;

/// An environment's name, and what was counted there.
pub type Named = (String, Experiment);

/// Every folder of results in a folder.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Named>> {
    let mut found = Vec::new();
    let cannot = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let Ok(text) = fs::read_to_string(entry.path().join(COUNTED)) else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name.clone(), Experiment::parse(&text).context(name)?));
    }
    ensure!(found.len() > 1, "{} has no two experiments in folders of their own", folder.display());
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// What is compared across environments: nobody's decision, then ours.
const DECIDERS: [&str; 6] = ["unmodified", "fair", "weighted", "priority", "protect", "curve"];

/// For each policy the light service's p95, by environment, server and heavy clients, and how far apart they are.
pub fn of(experiments: &[Named]) -> String {
    let mut out = String::new();
    let mut heavy: Vec<_> = experiments.iter().flat_map(|(_, of)| of.heavy()).collect();
    heavy.sort_unstable();
    heavy.dedup();
    for policy in DECIDERS {
        let rows = rows(experiments, policy);
        if rows.is_empty() {
            continue;
        }
        let _ = write!(out, "{:<34}", format!("{policy}: light p95, ms; heavy"));
        heavy.iter().for_each(|nr| _ = write!(out, "  {nr:>9}"));
        out.push('\n');
        for (name, experiment, variant) in &rows {
            let cells = |nr| range::words(&light_p95(experiment, variant, nr), 0);
            row(&mut out, name, &heavy, cells);
        }
        row(&mut out, "greatest over least", &heavy, |nr| {
            apart(&rows, nr).map(|apart| format!("{apart:.2}"))
        });
        if policy != "unmodified" {
            row(&mut out, "", &heavy, |nr| {
                let verdict = if apart(&rows, nr)? <= 1.0 + APART_MAX { "met" } else { "missed" };
                Some(verdict.to_owned())
            });
        }
        if policy == "protect" {
            row(&mut out, "greatest over its target", &heavy, |nr| {
                over_target(&rows, nr).map(|over| format!("{over:.2}"))
            });
            row(&mut out, "", &heavy, |nr| {
                let verdict = if over_target(&rows, nr)? <= 1.0 { "met" } else { "missed" };
                Some(verdict.to_owned())
            });
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "Greatest over least: of the medians. Ours are to be within {:.0} % of each other. `protect` holds a p95 to at most its target, \
         and may stay below.",
        100.0 * APART_MAX
    );
    out
}

fn row(out: &mut String, name: &str, heavy: &[u32], cell: impl Fn(u32) -> Option<String>) {
    let _ = write!(out, "{name:<34}");
    for nr in heavy {
        let _ = write!(out, "  {:>9}", cell(*nr).unwrap_or_else(|| "–".to_owned()));
    }
    out.push('\n');
}

type Row<'a> = (String, &'a Experiment, &'static str);

/// Where a policy was counted: environment and server, the experiment, and how the variant is called there.
fn rows<'a>(experiments: &'a [Named], policy: &str) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for (name, experiment) in experiments {
        for variant in experiment.variants() {
            if decider(variant) == policy {
                let server = match baseline(variant) {
                    "unmodified" => "tomcat",
                    other => other,
                };
                rows.push((format!("{name}, {server}"), experiment, variant));
            }
        }
    }
    rows
}

/// `None` where fewer than two have it.
fn apart(rows: &[Row<'_>], heavy: u32) -> Option<f64> {
    let median = |(_, of, variant): &Row<'_>| range::median(&light_p95(of, variant, heavy));
    let medians: Vec<_> = rows.iter().filter_map(median).collect();
    let least = medians.iter().copied().reduce(f64::min)?;
    let greatest = medians.iter().copied().reduce(f64::max)?;
    (medians.len() > 1).then(|| greatest / least)
}

/// Of the medians, the greatest beside what it was held to there. `None` where nothing was held.
fn over_target(rows: &[Row<'_>], heavy: u32) -> Option<f64> {
    let over = |(_, of, variant): &Row<'_>| {
        let held: Vec<_> = of.held(variant).map(|held| held.at(heavy)).collect();
        Some(range::median(&light_p95(of, variant, heavy))? / range::median(&held)?)
    };
    rows.iter().filter_map(over).reduce(f64::max)
}
