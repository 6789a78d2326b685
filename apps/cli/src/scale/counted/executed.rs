//! Code that looks found executing and stalling, in seconds and by CPU.

use quartier_count::{ExecutedOn, ExecutedPlace, Report};

use super::busiest::Ran;
use super::seconds;

/// All of it.
pub fn places(report: &Report) -> impl Iterator<Item = &ExecutedPlace> {
    report.executed.iter().flat_map(|executed| &executed.most)
}

/// How long code ran that was found by looks: these are a sample, and may find a little more than there was.
pub struct Executed {
    /// An instruction takes so long, and a cycle that was found stalling.
    each_s: f64,
    each_stall_s: f64,
    /// All that was found.
    pub instructions_s: f64,
    pub stalls_s: f64,
}

impl Executed {
    /// Of instructions and stalls that take so long.
    pub fn of(report: &Report, instructions_s: f64, stalls_s: f64) -> Self {
        let found: u64 = places(report).map(|place| place.instructions).sum();
        let stalled: u64 = places(report).map(|place| place.modelled_stall_cycles).sum();
        let each_s = instructions_s / found.max(report.instructions).max(1) as f64;
        let each_stall_s = seconds(1.0, &report.geometry).min(stalls_s / stalled.max(1) as f64);
        Self {
            each_s,
            each_stall_s,
            instructions_s: each_s * found as f64,
            stalls_s: each_stall_s * stalled as f64,
        }
    }

    /// So many instructions and stalls that were found.
    pub fn seconds(&self, instructions: u64, stall_cycles: u64) -> f64 {
        self.each_s * instructions as f64 + self.each_stall_s * stall_cycles as f64
    }

    /// Below its program, if that is known.
    pub fn ran<'a>(&self, place: &'a ExecutedPlace) -> Ran<'a> {
        let program = place.program.as_deref().map(|program| (Some(program), None));
        let callers = place.callers.iter().rev();
        let callers =
            callers.map(|code| (Some(code.function.as_str()), Some(code.module.as_str())));
        let path = program.into_iter().chain(callers);
        let path = path.chain([(place.function.as_deref(), place.module.as_deref())]).collect();
        let on =
            |on: &ExecutedOn| (on.cpu, self.seconds(on.instructions, on.modelled_stall_cycles));
        Ran { path, cpus: place.cpus.iter().map(on).collect() }
    }
}
