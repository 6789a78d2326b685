//! Code that looks found executing and stalling, in seconds and by CPU.

use quartier_count::{ExecutedOn, ExecutedPlace, Phase, Report};

use super::busiest::{Ran, idle_beside};
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
    counts_alone: bool,
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
            counts_alone: counts_alone(report),
        }
    }

    /// So many instructions and stalls that were found.
    fn seconds(&self, instructions: u64, stall_cycles: u64) -> f64 {
        self.each_s * instructions as f64 + self.each_stall_s * stall_cycles as f64
    }

    /// How long a place ran in all.
    pub fn ran_s(&self, place: &ExecutedPlace) -> f64 {
        self.seconds(place.instructions, place.modelled_stall_cycles)
    }

    fn alone_s(&self, place: &ExecutedPlace) -> f64 {
        place.cpus.iter().map(|on| self.alone_part(on) * self.on(on)).sum()
    }

    /// Of what a CPU executed, what it did alone.
    fn alone_part(&self, on: &ExecutedOn) -> f64 {
        let all = on.instructions + on.modelled_stall_cycles;
        if self.counts_alone && all > 0 { on.alone as f64 / all as f64 } else { 0.0 }
    }

    fn on(&self, on: &ExecutedOn) -> f64 {
        self.seconds(on.instructions, on.modelled_stall_cycles)
    }

    /// What ran beside others, below its program if that is known.
    fn ran<'a>(&self, place: &'a ExecutedPlace) -> Ran<'a> {
        let program = place.program.as_deref().map(|program| (Some(program), None));
        let callers = place.callers.iter().rev();
        let callers =
            callers.map(|code| (Some(code.function.as_str()), Some(code.module.as_str())));
        let path = program.into_iter().chain(callers);
        let path = path.chain([(place.function.as_deref(), place.module.as_deref())]).collect();
        let on = |on: &ExecutedOn| (on.cpu, (1.0 - self.alone_part(on)) * self.on(on));
        Ran { path, cpus: place.cpus.iter().map(on).collect() }
    }

    /// Of the idle time of so many CPUs what each place is charged with.
    pub fn idle_s(&self, report: &Report, clock: &Clock, nr_cpus: u32, idle_s: f64) -> Vec<f64> {
        let all: Vec<Ran<'_>> = places(report).map(|place| self.ran(place)).collect();
        // While one runs alone all others are idle.
        let beside_alone_s = (f64::from(nr_cpus.max(1)) - 1.0) * clock.alone_s;
        let beside_alone_s = beside_alone_s.min(idle_s);
        let all_alone_s: Vec<f64> = places(report).map(|place| self.alone_s(place)).collect();
        let found_s: f64 = all_alone_s.iter().sum();
        let each = if found_s > 0.0 { beside_alone_s / found_s } else { 0.0 };
        let mut charged = idle_beside(&all, clock.busiest, nr_cpus, idle_s - each * found_s);
        for (idle_s, alone_s) in charged.iter_mut().zip(&all_alone_s) {
            *idle_s += each * alone_s;
        }
        charged
    }
}

/// Whether what a CPU does alone is one after the other: of a server others may run its clients meanwhile.
fn counts_alone(report: &Report) -> bool {
    report.phase != Phase::Load
}

/// How long a run takes at least.
pub struct Clock {
    pub wall_s: f64,
    /// While one CPU ran the program and no other one did, whichever that was.
    pub alone_s: f64,
    /// The CPU that has most to do beside others.
    pub busiest: u16,
}

impl Clock {
    /// What CPUs do alone is done one after the other; beside each other they take as long as the one that has most. When
    /// guests' CPUs take turns nobody sees who is alone.
    pub fn of(report: &Report) -> Self {
        let executed = report.executed.as_ref().filter(|_| counts_alone(report));
        let alone_cycles = |cpu| executed.and_then(|executed| executed.alone_cycles.get(&cpu));
        let mut clock = Self { wall_s: 0.0, alone_s: 0.0, busiest: 0 };
        let mut most_s = 0.0;
        for cpu in &report.modelled.cpus {
            let number = cpu.cpu as u16;
            let alone = alone_cycles(number).copied().unwrap_or_default().min(cpu.modelled_cycles);
            let beside_s = seconds((cpu.modelled_cycles - alone) as f64, &report.geometry);
            clock.alone_s += seconds(alone as f64, &report.geometry);
            if beside_s > most_s {
                (most_s, clock.busiest) = (beside_s, number);
            }
        }
        clock.wall_s = clock.alone_s + most_s;
        clock
    }
}
