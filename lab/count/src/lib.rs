//! What was counted in a guest, for people: recordings, reports of one run, comparisons of several.
//!
//! The instrument writes a [`Recording`]; `quartier lab count` makes a [`Report`] of a phase of it,
//! `quartier lab compare` a [`Comparison`] of many. With the feature `render` each becomes text for a
//! terminal (`text`), drawings (`svg`) and a page (`html`). The instrument does without: it
//! lives inside QEMU.
//!
//! Counts are counted; times are *modelled*, and wherever one is shown the word and the parameters
//! stand beside it. What is absent stays absent: no commands is no share of 0 %.
#![forbid(unsafe_code)]

mod codes;
pub mod compare;
mod handovers;
#[cfg(feature = "render")]
pub mod html;
mod lines;
mod looks;
pub mod numbers;
mod recording;
mod report;
mod slices;
mod stalls;
#[cfg(feature = "render")]
pub mod svg;
mod taken;
#[cfg(feature = "render")]
pub mod text;
pub mod words;

pub use compare::{
    AS_IT_IS, CompareError, Comparison, CountedRun, Policy, PolicyRuns, SweepRuns, Trial,
};
pub use handovers::{Allocation, Handed, Handovers};
pub use lines::{CodePlace, ContendedLine, Lines, Naming, Nature, Taker, Word, most_contended};
pub use looks::{
    CYCLES_PER_LOOK, Doing, Executed, ExecutedOn, ExecutedPlace, INSTRUCTIONS_PER_LOOK, Looked,
    Looks, most_executed,
};
pub use recording::{CountMode, FORMAT, Machine, Mark, Moment, Places, Recording, RecordingError};
pub use report::{
    Asked, ClassCommands, Commands, CpuTime, KindCommands, KindCounts, Level, LevelName, Modelled,
    MomentAt, PairCommands, PerUnit, Phase, Report, ReportError, Service, Tally,
};
pub use slices::{SLICES_MAX, Slice, Slices};
pub use stalls::{MemoryStalls, Stalled, StalledPlace, Stalls, Waited, most_stalled};
pub use taken::{
    Circumstances, Ending, Noted, NotedByPhase, Taken, TakenError, Translations, instructions,
};
