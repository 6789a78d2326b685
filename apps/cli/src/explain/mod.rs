//! `quartier explain`: what was seen of a process, with which factors, what was decided and what came of it.

mod from_log;
pub mod story;
#[cfg(test)]
mod tests;
pub mod words;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use quartier_decide::reporter::view::Explanation;
use serde::Serialize;

use crate::daemon_client::{Daemon, Where};
use crate::numbers::number;
use crate::say;
use crate::topo::source::print;
use from_log::InLog;
use story::Story;

/// Exit status when the process was not seen.
const STATUS_NOT_SEEN: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  quartier explain 4711                  what quartierd sees of process 4711, and why it is where it is
  quartier explain $(pgrep -o mysqld) --json | jq .process.factors
  quartier explain --log decisions.jsonl 4711
                                         the same from what a quartierd wrote down with --log

The number of a thread does as well: its process is explained. With --log nothing is asked or done here, whatever
machine the log is of.

Exit status: 0; 1 if the process was not seen, with the reason; 2 if no quartierd answers, or the file is no log.";

/// Options of `quartier explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The number of a process, or of one of its threads
    #[arg(allow_negative_numbers = true, value_parser = number(1..=i32::MAX as u32))]
    pid: u32,

    /// Explain it from a decision log, and ask no quartierd
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    #[command(flatten)]
    at: Where,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where an explanation is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A quartierd that runs.
    Live,
    /// What one wrote down.
    Log(InLog),
}

/// As JSON.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// The log that it is from; null: a quartierd that runs.
    replayed: Option<&'a InLog>,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (explanation, origin) = match &self.log {
            Some(log) => explain_log(log, self.pid)?,
            None => (Daemon::new(self.at.daemon).explanation(self.pid)?, Origin::Live),
        };
        if let Origin::Log(InLog { is_cut: true, lines, .. }) = &origin {
            say::sentence(&format!("the log's line {} has no end and was left out", lines + 1));
        }
        let is_seen = explanation.process.is_some();
        if self.json {
            let replayed = match &origin {
                Origin::Live => None,
                Origin::Log(found) => Some(found),
            };
            let report = Report { replayed, explanation: &explanation };
            print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            print(&Story::of(&explanation, self.pid, &origin).styled())?;
        }
        Ok(if is_seen { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NOT_SEEN) })
    }
}

fn explain_log(path: &Path, number: u32) -> anyhow::Result<(Explanation, Origin)> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the log {name}"))?;
    let explained = from_log::explain(BufReader::new(file), &name.to_string(), number);
    let (explanation, found) = explained.with_context(|| format!("{name} is no log"))?;
    Ok((explanation, Origin::Log(found)))
}

impl Origin {
    fn text(&self) -> String {
        match self {
            Self::Live => "quartierd".to_owned(),
            Self::Log(InLog { file, line, lines, .. }) => match line {
                Some(line) => format!(
                    "REPLAYED: as line {line} of {lines} of the log {file} has it; nothing is done on any machine"
                ),
                None => format!("REPLAYED: the log {file}"),
            },
        }
    }
}
