//! What a sweep is reported as, and `quartier scale report`, which judges once more what was saved.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use quartier_decide::verdict::{STUDY_FORMAT, Scalability, Study, Verdict, scalability};
use quartier_observe::json_complaint;
use serde::{Deserialize, Serialize};

use super::ReportArgs;
use super::sweep::Swept;
use crate::topo::source::read_text;

/// A report, as it is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub format: u32,
    pub command: Vec<String>,
    pub verdict: Verdict,
    /// The Universal Scalability Law; absent: there are too few points.
    pub scalability: Option<Scalability>,
    /// What could not be done, with the remedy.
    pub complaints: Vec<String>,
    /// What all of it follows from.
    pub study: Study,
}

impl Report {
    /// Judges what was measured.
    pub fn new(swept: Swept, command: &[OsString], seed: u64) -> Self {
        let Swept { study, complaints, .. } = swept;
        let rates = |point: &quartier_decide::verdict::Point| {
            (point.nr_cpus, point.runs.iter().map(|run| run.throughput()).collect::<Vec<_>>())
        };
        let rates: Vec<_> = study.points.iter().map(rates).collect();
        Self {
            format: STUDY_FORMAT,
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            verdict: Verdict::of(&study),
            scalability: scalability(&rates, seed),
            complaints,
            study,
        }
    }

    /// One that was saved.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
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
}

const EXAMPLES: &str = "\
Example:
  quartier scale --json saved.json -- ./server-bench
  quartier scale report saved.json --html page.html

Exit status: as of the sweep; 2 if the report could not be read.";

/// Options of `quartier scale report`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A report that was saved (--json)
    #[arg(value_name = "REPORT")]
    report: PathBuf,
    #[command(flatten)]
    reporting: ReportArgs,
}

impl Args {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        // It may be written where it was read.
        let Report { command, complaints, study, .. } = Report::read(&self.report)?;
        let command: Vec<OsString> = command.into_iter().map(Into::into).collect();
        self.reporting.open()?.write(Swept { study, complaints, interrupted: None }, &command)
    }
}
