//! `quartier replay`: decides once more over what `quartierd` saw, and says whether it would decide the same.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use quartier_decide::reporter::log::{LOG_FORMAT, Line, Replay, Replayed};
use quartier_model::Plan;
use quartier_observe::json_complaint;
use serde::Serialize;

use crate::topo::source::print;

/// Exit status when a plan differs.
const STATUS_DIFFERS: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  quartierd --log decisions.jsonl        write what is seen and decided
  quartier replay decisions.jsonl        decide once more
  quartier replay decisions.jsonl --json | jq '.differs[].now.steps'

Nothing is moved, whatever machine the log is of.

Exit status: 0 if all plans are the same, to the last digit; 1 if one differs; 2 if this is no log.";

/// Options of `quartier replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A decision log
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What became of a log.
#[derive(Debug, Default, Serialize)]
struct Report {
    lines: usize,
    plans: usize,
    differs: Vec<Differs>,
}

/// A plan that is another one today.
#[derive(Debug, Serialize)]
struct Differs {
    line: usize,
    now: Plan,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let name = self.file.display();
        let file = File::open(&self.file).with_context(|| format!("cannot read the log {name}"))?;
        let report = replay(BufReader::new(file)).with_context(|| format!("{name} is no log"))?;
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            print(&report.text())?;
        }
        let is_same = report.differs.is_empty();
        Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(STATUS_DIFFERS) })
    }
}

fn replay(lines: impl BufRead) -> anyhow::Result<Report> {
    let (mut report, mut replay) = (Report::default(), Replay::default());
    for line in lines.split(b'\n') {
        report.lines += 1;
        let number = report.lines;
        let line: Line = serde_json::from_slice(&line?)
            .map_err(|error| anyhow!("line {number}: {}", json_complaint(&error)))?;
        match replay.line(line) {
            Replayed::Other => {}
            Replayed::Same => report.plans += 1,
            Replayed::Differs(now) => {
                report.plans += 1;
                report.differs.push(Differs { line: number, now: *now });
            }
            Replayed::NoBeginning => return Err(no_beginning(number)),
            Replayed::OtherFormat(found) => return Err(other_format(number, found)),
            Replayed::OtherMachine => return Err(other_machine(number)),
        }
    }
    anyhow::ensure!(report.lines > 0, "it is empty");
    Ok(report)
}

pub fn no_beginning(line: usize) -> anyhow::Error {
    anyhow!("line {line}: nothing before it says which machine this was")
}

pub fn other_format(line: usize, found: u32) -> anyhow::Error {
    anyhow!(
        "line {line}: it has format {found}, and this quartier reads format {LOG_FORMAT}: \
         use the quartier that is of the same version as the quartierd that wrote it"
    )
}

pub fn other_machine(line: usize) -> anyhow::Error {
    anyhow!("line {line}: it names nodes or CPUs that the machine of this log has not")
}

impl Report {
    fn text(&self) -> String {
        let mut text = format!("{} plans decided once more, ", self.plans);
        match self.differs.len() {
            0 => text += "all the same\n",
            nr => {
                text += &format!("{nr} of them otherwise: lines ");
                let lines: Vec<_> = self.differs.iter().map(|it| it.line.to_string()).collect();
                text += &lines.join(", ");
                text += "\n";
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        format!("{:#}", replay(text.as_bytes()).unwrap_err())
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        assert_eq!(complaint(""), "it is empty");
        assert!(complaint("{}\n").starts_with("line 1: "));
        let decided = "{\"outcome\":{\"at\":0,\"process\":{\"id\":1,\"start_ticks\":1},\
                       \"threads_held\":0,\"threads_left\":0,\"moved\":0,\"stayed\":0,\"refusal\":null}}\n";
        assert!(complaint(decided).starts_with("line 1: nothing before it says"));
    }
}
