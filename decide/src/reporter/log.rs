//! What a Reporter was told and what it decided, line by line; and whether it would decide the same again.

use quartier_model::{Machine, Outcome, Plan, Snapshot, Trigger};
use serde::{Deserialize, Serialize};

use super::{Reporter, Settings, State};

/// The version of the lines; raised when an older reader would go wrong.
pub const LOG_FORMAT: u32 = 6;

/// A line of a decision log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant)] // Lines are made one at a time.
pub enum Line {
    /// What follows was decided for this machine, by whoever knew this. Every file begins so.
    Begin {
        /// [`LOG_FORMAT`].
        format: u32,
        /// Seconds since 1970, in UTC, for people.
        unix_seconds: u64,
        /// Which.
        machine: Machine,
        /// What was set.
        settings: Settings,
        /// What was remembered.
        state: State,
    },
    /// Something made the Reporter look, and this is what it decided.
    Decided {
        /// What it saw.
        snapshot: Snapshot,
        /// What it wants done.
        plan: Plan,
    },
    /// What came of a step.
    Outcome(Outcome),
}

/// Decides again, line after line.
#[derive(Debug, Default)]
pub struct Replay {
    reporter: Option<Reporter>,
}

/// What a line was.
#[derive(Debug)]
pub enum Replayed {
    /// No decision.
    Other,
    /// The same plan as then.
    Same,
    /// Another plan than then.
    Differs(Box<Plan>),
    /// A decision or an outcome before any beginning.
    NoBeginning,
    /// A log of another version.
    OtherFormat(u32),
    /// A snapshot with nodes or CPUs that the machine has not.
    OtherMachine,
}

impl Replay {
    /// Decides once more. Numbers have to be read from the log exactly as they were written.
    pub fn line(&mut self, line: Line) -> Replayed {
        match (line, &mut self.reporter) {
            (Line::Begin { format: LOG_FORMAT, machine, settings, state, .. }, _) => {
                let machine = machine.saved_as("decision log");
                self.reporter = Some(Reporter::new(machine, settings, state));
                Replayed::Other
            }
            (Line::Outcome(outcome), Some(reporter)) => {
                reporter.outcome(&outcome);
                Replayed::Other
            }
            (Line::Begin { format, .. }, _) => Replayed::OtherFormat(format),
            (Line::Decided { snapshot, .. }, Some(reporter))
                if !snapshot.fits(reporter.machine()) =>
            {
                Replayed::OtherMachine
            }
            (Line::Decided { snapshot, plan: then }, Some(reporter)) => {
                let triggers: Vec<Trigger> = then.triggers.clone();
                let now = reporter.plan(triggers, &snapshot);
                if now == then { Replayed::Same } else { Replayed::Differs(Box::new(now)) }
            }
            (_, None) => Replayed::NoBeginning,
        }
    }
}
