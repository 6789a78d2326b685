//! `quartier undo`: takes back what a `quartierd` did that could not do so itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use quartier_act::scheduler::{HoldError, Scheduler, Undone};
use quartier_model::{NoCpuset, Outcome, Refusal, TaskId};
use quartier_observe::Host;
use quartier_observe::damon::stop_left_behind;
use quartier_observe::tasks::movable_of;
use serde::Serialize;

use crate::say;
use crate::topo::source::print;

/// Exit status when something could not be taken back.
const STATUS_NOT_ALL: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  quartier undo                  after a quartierd that was killed
  quartier undo --json | jq '.outcomes[].moved'

A quartierd that runs takes everything back itself when it is stopped. Threads get the affinity again that
they had, and control groups the CPUs, unless somebody has set others since; each page that was moved goes
back to the node where it was first, and no other page.

Exit status: 0 if everything was taken back; 1 if not all was; 2 if there is no usable journal.";

/// Options of `quartier undo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What quartierd wrote down
    #[arg(long, value_name = "FILE", default_value = "/var/lib/quartier/journal")]
    journal: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was taken back.
#[derive(Debug, Serialize)]
struct Report {
    threads_let_go: usize,
    threads_refused: Vec<Refused>,
    groups_widened: usize,
    groups_refused: Vec<GroupRefused>,
    outcomes: Vec<Outcome>,
}

/// A thread that was not let go.
#[derive(Debug, Serialize)]
struct Refused {
    thread: TaskId,
    why: &'static str,
}

/// A control group whose cpuset is still as we narrowed it.
#[derive(Debug, Serialize)]
struct GroupRefused {
    group: String,
    why: NoCpuset,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if stop_left_behind(Path::new("/")) {
            say::sentence("stopped DAMON, which a quartierd had left running");
        }
        let undone = match self.journal.exists() {
            true => undo(&self.journal)?,
            false => Undone::default(),
        };
        let report = Report::new(&undone);
        if self.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            print(&report.text())?;
        }
        let is_all = report.threads_refused.is_empty()
            && report.groups_refused.is_empty()
            && report.outcomes.iter().all(Outcome::is_settled);
        Ok(if is_all { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NOT_ALL) })
    }
}

fn undo(journal: &Path) -> anyhow::Result<Undone> {
    let machine = Host::live().machine().context("cannot read this machine")?;
    let mut scheduler = Scheduler::open(machine, journal)?;
    let progress = |left| say::sentence(&format!("moving the pages of {left} processes back"));
    Ok(scheduler.undo(|process| movable_of(Path::new("/"), process.id), progress)?)
}

impl Report {
    fn new(undone: &Undone) -> Self {
        let refused = |(thread, error): &(TaskId, HoldError)| {
            let why = match error {
                HoldError::SetBySomebody => "somebody has set its affinity since",
                HoldError::NotPermitted => "not permitted: needs CAP_SYS_NICE",
                HoldError::Cpuset => "its cpuset leaves it none of the CPUs it had",
                HoldError::Ended => return None,
            };
            Some(Refused { thread: *thread, why })
        };
        let threads_refused: Vec<_> = undone.refused.iter().filter_map(refused).collect();
        Self {
            threads_let_go: undone.threads - threads_refused.len(),
            threads_refused,
            groups_widened: undone.groups - undone.groups_refused.len(),
            groups_refused: undone
                .groups_refused
                .iter()
                .map(|(group, why)| GroupRefused { group: group.clone(), why: *why })
                .collect(),
            outcomes: undone.outcomes.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{} threads let go\n", self.threads_let_go);
        for Refused { thread, why } in &self.threads_refused {
            text += &format!("thread {thread} is not: {why}\n");
        }
        if self.groups_widened > 0 {
            text += &format!("{} control groups have their CPUs back\n", self.groups_widened);
        }
        for GroupRefused { group, why } in &self.groups_refused {
            text += &format!("the cpuset of {group} stays narrow: {why}\n");
        }
        for outcome in &self.outcomes {
            if outcome.refusal == Some(Refusal::Ended) {
                text += &format!("process {} has ended\n", outcome.process);
                continue;
            }
            text += &format!("process {}: {} moved back", outcome.process, outcome.moved);
            if outcome.stayed.0 > 0 {
                text += &format!(", {} could not be", outcome.stayed);
            }
            text += "\n";
        }
        text
    }
}
