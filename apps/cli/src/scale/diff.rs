//! `quartier scale diff`.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use quartier_decide::verdict::{Compared, Comparison};

use super::report::Report;
use super::text::amount;
use crate::topo::source::print;

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
        let (before, after) = (Report::read(&self.before)?, Report::read(&self.after)?);
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
