//! `quartier scale diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use quartier_decide::verdict::{Compared, Comparison, Growth};

use super::report::Report;
use super::text::{aligned, amount, duration};
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

const COLUMNS: [&str; 8] =
    ["CPUs", "before", "after", "ratio", "", "CPU time before", "after", "ratio"];

fn text(comparison: &Comparison) -> String {
    let mut text = comparison.sentences.join("\n") + "\n\n";
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(comparison.points.iter().map(row));
    aligned(&mut text, &rows);
    text += "before, after: units each second; CPU time: for each unit, idle time left out; ~: within the noise\n";
    text
}

fn row(point: &Compared) -> Vec<String> {
    let Compared { nr_cpus, throughput, is_changed, cpu_per_unit_s, is_cpu_changed } = point;
    let cells = |of: &Option<Growth>, is_changed: bool, told: fn(f64) -> String| {
        let mark = if is_changed { "" } else { "~" };
        of.map_or_else(
            || ["–", "–", "–"].map(str::to_owned),
            |of| [told(of.from), told(of.to), format!("{mark}{:.2}", of.to / of.from)],
        )
    };
    let mut row = vec![nr_cpus.to_string()];
    row.extend(cells(throughput, *is_changed, |rate| amount(rate) + "/s"));
    row.push(String::new());
    row.extend(cells(cpu_per_unit_s, *is_cpu_changed, duration));
    row
}
