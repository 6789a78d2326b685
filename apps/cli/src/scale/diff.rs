//! `quartier scale diff`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use quartier_decide::verdict::{Compared, Comparison, STUDY_FORMAT};
use quartier_observe::json_complaint;

use super::report::Report;
use super::text::amount;
use crate::topo::source::{print, read_text};

const EXAMPLES: &str = "\
Example:
  quartier scale --json before.json -- ./server-bench
  quartier scale --json after.json -- ./server-bench-sharded
  quartier scale diff before.json after.json

Measured at different times: where the machine's load or clock may have changed in between, sweep both again.

Exit status: 0; 2 if a report could not be read.";

/// Options of `quartier scale diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The report (--json) from before
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The one from after
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        if before.study.unit != after.study.unit {
            bail!(
                "the one counts by the {}, the other by the {}: sweep both with the same --metric or --rate",
                before.study.unit,
                after.study.unit
            );
        }
        if before.study.is_modelled != after.study.is_modelled {
            bail!(
                "times of the one are measured, of the other modelled from what was counted in guests: sweep both with \
                 `quartier scale`, or both with `quartier lab scale`"
            );
        }
        let comparison = Comparison::of(&before.study, &after.study);
        print(&match self.json {
            true => serde_json::to_string_pretty(&comparison)? + "\n",
            false => text(&comparison),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = read_text(path)?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        anyhow::anyhow!(
            "{} is no report of `quartier scale --json`: {}",
            path.display(),
            json_complaint(&error)
        )
    })?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if let Some(format) = format.filter(|format| *format != u64::from(STUDY_FORMAT)) {
        bail!(
            "{} has format {format}, and {STUDY_FORMAT} is what this version reads: sweep again",
            path.display()
        );
    }
    serde_json::from_value(value)
        .map_err(|error| anyhow::anyhow!("{}", json_complaint(&error)))
        .with_context(|| format!("{} is no report of `quartier scale --json`", path.display()))
}

fn text(comparison: &Comparison) -> String {
    let mut text = comparison.sentences.join("\n") + "\n\n";
    let _ = writeln!(text, "{:>5}  {:>10}  {:>10}  {:>6}", "CPUs", "before", "after", "ratio");
    for Compared { nr_cpus, throughput, is_changed } in &comparison.points {
        let Some(of) = throughput else {
            let _ = writeln!(text, "{nr_cpus:>5}  {0:>10}  {0:>10}  {0:>6}", "–");
            continue;
        };
        let mark = if *is_changed { "" } else { "  within the noise" };
        let (before, after) = (amount(of.from) + "/s", amount(of.to) + "/s");
        let _ = writeln!(
            text,
            "{nr_cpus:>5}  {before:>10}  {after:>10}  {:>6.2}{mark}",
            of.to / of.from
        );
    }
    text
}
