//! The seed's own claim: what is slow is not the operating system's choice. One experiment for each environment, side by side.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::{COUNTED, Experiment};
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

/// For each variant the light service's p95, by environment and heavy clients, and how far apart they are.
pub fn of(experiments: &[Named]) -> String {
    let mut out = String::new();
    let mut heavy: Vec<_> = experiments.iter().flat_map(|(_, of)| of.heavy()).collect();
    heavy.sort_unstable();
    heavy.dedup();
    let mut variants: Vec<_> = experiments.iter().flat_map(|(_, of)| of.variants()).collect();
    variants.sort_unstable();
    variants.dedup();
    for variant in variants {
        let _ = write!(out, "{variant}: light p95, ms\n{:<22}", "heavy");
        heavy.iter().for_each(|nr| _ = write!(out, "  {nr:>9}"));
        out.push('\n');
        for (name, experiment) in experiments {
            let _ = write!(out, "{name:<22}");
            for nr in &heavy {
                let cell = range::words(&p95(experiment, variant, *nr), 0);
                let _ = write!(out, "  {:>9}", cell.unwrap_or_else(|| "–".to_owned()));
            }
            out.push('\n');
        }
        let _ = write!(out, "{:<22}", "greatest over least");
        for nr in &heavy {
            let cell = apart(experiments, variant, *nr).map(|apart| format!("{apart:.2}"));
            let _ = write!(out, "  {:>9}", cell.unwrap_or_else(|| "–".to_owned()));
        }
        out += "\n\n";
    }
    let _ = writeln!(
        out,
        "Greatest over least: of the environments' medians. Ours are to be within {:.0} % of each other.",
        100.0 * APART_MAX
    );
    out
}

fn p95(experiment: &Experiment, variant: &str, heavy: u32) -> Vec<f64> {
    experiment.runs("closed", variant, "light", heavy).filter_map(|run| run.p95_ms).collect()
}

/// `None` where fewer than two environments have it.
fn apart(experiments: &[Named], variant: &str, heavy: u32) -> Option<f64> {
    let median = |experiment: &Experiment| range::median(&p95(experiment, variant, heavy));
    let medians: Vec<_> = experiments.iter().filter_map(|(_, of)| median(of)).collect();
    let least = medians.iter().copied().reduce(f64::min)?;
    let greatest = medians.iter().copied().reduce(f64::max)?;
    (medians.len() > 1).then(|| greatest / least)
}
