//! The same story from a decision log: of a machine of that time, on which nothing is done.

use std::io::BufRead;

use anyhow::{anyhow, bail};
use quartier_decide::reporter::Reporter;
use quartier_decide::reporter::log::{LOG_FORMAT, Line};
use quartier_decide::reporter::told::Told;
use quartier_decide::reporter::view::{Decided, Explanation, View};
use quartier_model::{Nanos, Outcome, Plan, ProcessSeen, Refusal, Snapshot};
use quartier_observe::json_complaint;
use serde::Serialize;

use crate::replay::{no_beginning, other_format, other_machine};

/// Where in a log it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InLog {
    pub file: String,
    /// When the log was begun: seconds since 1970, in UTC.
    pub begun_unix_seconds: u64,
    /// The line in which the process was seen last; `None`: in none.
    pub line: Option<usize>,
    pub lines: usize,
    /// The last line had no end, and was left out.
    pub is_cut: bool,
}

/// Where a process was seen last, and what was decided of it then.
struct Last {
    snapshot: Snapshot,
    pid: u32,
    decided: Option<Decided>,
}

struct Reader {
    number: u32,
    found: InLog,
    reporter: Option<Reporter>,
    told: Told,
    last: Option<Last>,
    /// Of the last line.
    at: Nanos,
    applies: bool,
}

/// What a log says of the process with this number, or of that of the thread with it.
pub fn explain(
    mut log: impl BufRead,
    file: &str,
    number: u32,
) -> anyhow::Result<(Explanation, InLog)> {
    let mut reader = Reader {
        number,
        found: InLog { file: file.to_owned(), ..InLog::default() },
        reporter: None,
        told: Told::keeping(usize::MAX),
        last: None,
        at: Nanos(0),
        applies: false,
    };
    let mut text = Vec::new();
    while log.read_until(b'\n', &mut text)? > 0 {
        let nr = reader.found.lines + 1;
        match serde_json::from_slice(&text) {
            Ok(line) => reader.line(nr, line)?,
            // Whoever wrote it was killed, or is writing.
            Err(error) if error.is_eof() && !text.ends_with(b"\n") && nr > 1 => {
                reader.found.is_cut = true;
                break;
            }
            Err(error) => bail!("line {nr}: {}", json_complaint(&error)),
        }
        reader.found.lines = nr;
        text.clear();
    }
    reader.end()
}

impl Reader {
    fn line(&mut self, nr: usize, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Begin { format: LOG_FORMAT, machine, settings, state, unix_seconds } => {
                if self.reporter.as_ref().is_some_and(|before| *before.machine() != machine) {
                    self.forget();
                }
                self.found.begun_unix_seconds = unix_seconds;
                self.reporter = Some(Reporter::new(machine, settings, state));
                Ok(())
            }
            Line::Begin { format, .. } => Err(other_format(nr, format)),
            Line::Decided { snapshot, plan } => self.decided(nr, snapshot, &plan),
            Line::Outcome(outcome) if self.reporter.is_some() => {
                self.outcome(&outcome);
                Ok(())
            }
            Line::Outcome(_) => Err(no_beginning(nr)),
        }
    }

    fn decided(&mut self, nr: usize, snapshot: Snapshot, plan: &Plan) -> anyhow::Result<()> {
        let Some(reporter) = &self.reporter else { return Err(no_beginning(nr)) };
        if !snapshot.fits(reporter.machine()) {
            return Err(other_machine(nr));
        }
        // Another quartierd, which counts from its own beginning.
        if snapshot.at < self.at {
            self.forget();
        }
        self.at = snapshot.at;
        self.told.plan(&snapshot, plan);
        let has_thread =
            |seen: &ProcessSeen| seen.threads.iter().any(|thread| thread.id.id == self.number);
        let processes = || snapshot.processes.iter();
        let found = processes().find(|seen| seen.id.id == self.number);
        let found = found.or_else(|| processes().find(|seen| has_thread(seen)));
        if let Some(seen) = found {
            let (pid, decided) = (seen.id.id, self.told.decided(seen));
            self.found.line = Some(nr);
            self.last = Some(Last { snapshot, pid, decided });
        }
        Ok(())
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.at = self.at.max(outcome.at);
        self.applies |= outcome.refusal != Some(Refusal::DryRun);
        self.told.outcome(outcome);
    }

    fn forget(&mut self) {
        (self.told, self.last, self.at) = (Told::keeping(usize::MAX), None, Nanos(0));
        self.found.line = None;
    }

    fn end(self) -> anyhow::Result<(Explanation, InLog)> {
        let Some(reporter) = &self.reporter else { return Err(anyhow!("it is empty")) };
        let none = Last { snapshot: Snapshot::default(), pid: self.number, decided: None };
        let last = self.last.unwrap_or(none);
        let view = View::of(reporter, &self.told, self.applies, &last.snapshot);
        let mut explanation = Explanation::of(&view, &last.snapshot, last.pid);
        explanation.at = self.at;
        if let Some(process) = &mut explanation.process {
            process.decided = last.decided;
        }
        Ok((explanation, self.found))
    }
}
