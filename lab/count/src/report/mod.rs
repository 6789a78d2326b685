//! What a recording says about one phase of a program: the `--json` of a count.

mod levels;
mod modelled;
mod tally;

use quartier_memmodel::geometry::Geometry;
use quartier_memmodel::{Owner, Snapshot};
use serde::{Deserialize, Serialize};

pub use levels::{Level, LevelName, Service};
pub use modelled::{CpuTime, Modelled};
pub use tally::{Asked, ClassCommands, Commands, KindCommands, KindCounts, PairCommands, Tally};

use crate::lines::Lines;
use crate::looks::Executed;
use crate::recording::{
    CountMode, FORMAT, Machine, Mark, Moment, Places, Recording, RecordingError,
};
use crate::slices::Slice;
use crate::stalls::MemoryStalls;

/// Which part of a run a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// From its begin to its end.
    Whole,
    /// From the second thread on, until the last other thread has ended (thesis 5.3.4: the parallel
    /// phase alone).
    Parallel,
    /// The time of a server's load: all that was counted of it.
    Load,
}

/// What was counted in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Format of the report, as the recording's.
    pub format: u32,
    /// The command that was measured.
    pub command: Vec<String>,
    /// Which part of its run.
    pub phase: Phase,
    /// Instructions of the program in that part, on all CPUs.
    pub instructions: u64,
    /// The guest's nodes.
    pub machine: Machine,
    /// Release of the guest's kernel.
    pub kernel: String,
    /// Version of QEMU.
    pub qemu: String,
    /// How it was counted.
    pub mode: CountMode,
    /// The program's commands.
    pub program: Tally,
    /// Commands of everything else in the guest meanwhile, in none of the other numbers.
    pub rest: Tally,
    /// What each cache and TLB held for the program; those that the machine lacks are not listed.
    pub levels: Vec<Level>,
    /// What served the program where its private caches did not.
    pub service: Service,
    /// Modelled time. Not measured.
    pub modelled: Modelled,
    /// How long that part took in the guest, seconds; absent where the guest has no clock. Not a time of any machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_seconds: Option<f64>,
    /// The machine that was modelled, with the cost parameters that all modelled numbers follow from.
    pub geometry: Geometry,
    /// When the phases began and ended, instructions of the program; of the whole run.
    pub moments: Vec<MomentAt>,
    /// The whole run over time.
    pub slices: Vec<Slice>,
    /// Lines that CPUs took from each other in that part, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// Where CPUs waited for memory in that part, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<MemoryStalls>,
    /// Who takes lines from other CPUs in that part, by place alone, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<MemoryStalls>,
    /// Which code is executed in that part, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
    /// Commands for each unit of work that was done; absent: nobody said how much that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<PerUnit>,
    /// What a reader has to know: one sentence each.
    pub notes: Vec<String>,
}

/// Of the phase, for each unit of work of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerUnit {
    /// Units of work.
    pub units: f64,
    /// Instructions.
    pub instructions: f64,
    /// Commands that stayed on their node.
    pub local: f64,
    /// Commands that left it.
    pub remote: f64,
    /// Lines that CPUs took from each other; absent: not counted.
    pub lines_taken: Option<f64>,
    /// Modelled time of the phase on the CPU that has most of it, milliseconds; absent: nobody executed anything.
    pub modelled_ms: Option<f64>,
}

/// When something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MomentAt {
    /// What.
    pub at: Moment,
    /// Instructions of the program so far.
    pub instructions: u64,
}

/// Why a recording says nothing about a phase.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The program never began.
    #[error(
        "nothing was counted: the recording has no start, so the program never began; see what the \
         guest printed, and count again"
    )]
    NoStart,
    /// The guest ended before the program did.
    #[error(
        "the count is cut short: the recording has no end, so the guest ended before the program did; \
         see what the guest printed, and count again"
    )]
    NoEnd,
    /// There is no parallel phase.
    #[error(
        "there is no parallel phase: the program never began a second thread, or is a server under load; \
         ask for the whole run"
    )]
    NoSecondThread,
    /// Marks that cannot follow each other.
    #[error("this recording is damaged: its counts go backwards between two marks; count again")]
    Backwards,
    /// The recording contradicts itself.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl Phase {
    /// In a sentence: "in the …".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole run",
            Self::Parallel => "parallel phase",
            Self::Load => "time under load",
        }
    }
}

impl Report {
    /// Modelled time of the mean CPU of those that executed any of the program, milliseconds.
    #[must_use]
    pub fn mean_cpu_ms(&self) -> Option<f64> {
        let cycles = self.modelled.mean_busy_cycles()?;
        Some(modelled::milliseconds(cycles, &self.geometry))
    }

    /// How many times the modelled time the guest took.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        let modelled_ms = self.modelled.phase_ms.filter(|ms| *ms > 0.0)?;
        Some(1000.0 * self.guest_seconds? / modelled_ms)
    }

    /// What a recording says about a phase.
    ///
    /// # Errors
    /// The phase is not in the recording (absent is not zero), or the recording contradicts itself.
    pub fn new(recording: &Recording, phase: Phase) -> Result<Self, ReportError> {
        recording.check()?;
        let phase = match phase {
            Phase::Whole if recording.under_load => Phase::Load,
            phase => phase,
        };
        let mut notes = recording.notes.clone();
        let (from, to) = bounds(recording, phase, &mut notes)?;
        let counted = to.snapshot.since(&from.snapshot).ok_or(ReportError::Backwards)?;
        let instructions =
            to.instructions.checked_sub(from.instructions).ok_or(ReportError::Backwards)?;
        let Found { lines, stalls, moves, executed } = found(recording, phase, &mut notes);
        let moments = recording
            .marks
            .iter()
            .map(|mark| MomentAt { at: mark.at, instructions: mark.instructions });
        let mut report = Self {
            format: FORMAT,
            command: recording.command.clone(),
            phase,
            instructions,
            machine: recording.machine.clone(),
            kernel: recording.kernel.clone(),
            qemu: recording.qemu.clone(),
            mode: mode(recording.mode, &counted),
            program: Tally::new(&counted.program, &counted),
            rest: Tally::new(&counted.rest, &counted),
            levels: levels::of(&counted),
            service: Service::of(&counted.program),
            modelled: Modelled::new(&counted),
            guest_seconds: seconds_between(from, to),
            moments: moments.collect(),
            slices: recording.slices.clone(),
            lines,
            stalls,
            moves,
            executed,
            per_unit: None,
            notes,
            geometry: counted.geometry,
        };
        report.per_unit = recording.units.and_then(|units| report.for_each(units));
        Ok(report)
    }

    /// `None`: none were done, or too many for a number.
    fn for_each(&self, units: f64) -> Option<PerUnit> {
        let each = |nr: u64| nr as f64 / units;
        (units > 0.0 && units.is_finite()).then(|| PerUnit {
            units,
            instructions: each(self.instructions),
            local: each(self.program.commands.local),
            remote: each(self.program.commands.remote),
            lines_taken: self.lines.as_ref().map(|lines| each(lines.taken)),
            modelled_ms: self.modelled.phase_ms.map(|ms| ms / units),
        })
    }

    /// The command as one line.
    #[must_use]
    pub fn command_line(&self) -> String {
        crate::words::command_line(&self.command)
    }

    /// Where the phase lies in the run: instructions of the program at its begin and end.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        let at = |wanted: Moment| {
            self.moments.iter().find(|moment| moment.at == wanted).map(|moment| moment.instructions)
        };
        let from = match self.phase {
            Phase::Whole | Phase::Load => at(Moment::Start)?,
            Phase::Parallel => at(Moment::FirstThread)?,
        };
        Some((from, from.saturating_add(self.instructions)))
    }
}

/// How a phase was counted: the error of a sample is the phase's own, two standard errors, if there is
/// enough to tell.
fn mode(of_run: CountMode, counted: &Snapshot) -> CountMode {
    let CountMode::Sampled { one_in, error_percent } = of_run else { return of_run };
    let of_phase = counted.q_standard_error(Owner::Program).filter(|_| counted.sets_one_in > 1);
    let error_percent = of_phase.map_or(error_percent, |error| (200.0 * error).min(100.0));
    CountMode::Sampled { one_in, error_percent }
}

/// Where CPUs lost time in a phase, as far as it is known.
#[derive(Default)]
struct Found {
    lines: Option<Lines>,
    stalls: Option<MemoryStalls>,
    moves: Option<MemoryStalls>,
    executed: Option<Executed>,
}

fn found(recording: &Recording, phase: Phase, notes: &mut Vec<String>) -> Found {
    match (phase, recording.parallel.clone()) {
        (Phase::Whole | Phase::Load, _) => Found {
            lines: recording.lines.clone(),
            stalls: recording.stalls.clone(),
            moves: recording.moves.clone(),
            executed: recording.executed.clone(),
        },
        (Phase::Parallel, Some(Places { lines, stalls, moves, executed })) => {
            Found { lines: Some(lines), stalls: Some(stalls), moves, executed }
        }
        (Phase::Parallel, None) => {
            if recording.lines.is_some() {
                notes.push(
                    "Which lines CPUs took from each other, and where they waited for memory, is not known of the parallel phase alone in \
                     this recording: ask for the whole run, or count again."
                        .to_owned(),
                );
            }
            Found::default()
        }
    }
}

/// The marks between which a phase lies.
fn bounds<'a>(
    recording: &'a Recording,
    phase: Phase,
    notes: &mut Vec<String>,
) -> Result<(&'a Mark, &'a Mark), ReportError> {
    let start = recording.mark(Moment::Start).ok_or(ReportError::NoStart)?;
    let end = recording.mark(Moment::End);
    match phase {
        Phase::Whole | Phase::Load => Ok((start, end.ok_or(ReportError::NoEnd)?)),
        Phase::Parallel => {
            let from = recording.mark(Moment::FirstThread).ok_or(ReportError::NoSecondThread)?;
            if let Some(to) = recording.mark(Moment::LastThreadEnded) {
                return Ok((from, to));
            }
            notes.push(
                "The program ended with several threads: its parallel phase goes on to its end."
                    .to_owned(),
            );
            Ok((from, end.ok_or(ReportError::NoEnd)?))
        }
    }
}

/// What passed between two marks, if both know the time.
fn seconds_between(from: &Mark, to: &Mark) -> Option<f64> {
    Some((to.guest_seconds? - from.guest_seconds?).max(0.0))
}

/// Sums what would need more than 64 bits only in a recording that [`Recording::check`] refuses.
fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}
