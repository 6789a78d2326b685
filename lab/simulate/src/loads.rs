//! Loads of several shapes: programs that start, fork, create threads and end.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use crate::random::Random;
use crate::trace::{Creation, Life, ThreadIndex, Trace};

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Programs of a few threads; the CPUs are busy to 70 %.
    Steady,
    /// Programs that create 64 threads at once; busy to 75 %, now and then with more threads than
    /// CPUs.
    Bursts,
    /// Half as much again as there are CPUs.
    Overload,
    /// Many small processes that mostly sleep: more threads than CPUs, which are busy to 70 %.
    Small,
}

/// Why a text is no load.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no load: write steady, bursts, overload or small")]
pub struct LoadError(String);

/// What a load is made of.
struct Pattern {
    /// CPU time that is demanded, of what there is.
    demand_percent: u64,
    /// Threads that mostly sleep.
    sleepers_percent: u64,
    /// Threads that a program creates, beside its first.
    nr_threads: RangeInclusive<u64>,
    /// Processes that it forks.
    nr_forks: RangeInclusive<u64>,
    /// Threads that each of these creates.
    nr_threads_of_fork: RangeInclusive<u64>,
    /// The shortest life of a process, and how many octaves the longest is above it.
    life_ns: u64,
    life_octaves: u64,
    /// Mean time between two creations of a program.
    gap_ns: u64,
}

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A thread that mostly sleeps wants between so many permille of a CPU.
const SLEEPER_PERMILLE: (u64, u64) = (20, 200);
/// So much memory at least does a thread touch first (8 MiB), and at most this many octaves more.
const PAGES: (u64, u64) = (2048, 5);
/// So many threads end with their process; the others before.
const JOINED_PERCENT: u64 = 50;

impl Load {
    /// Every load.
    pub const ALL: [Self; 4] = [Self::Steady, Self::Bursts, Self::Overload, Self::Small];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Bursts => "bursts",
            Self::Overload => "overload",
            Self::Small => "small",
        }
    }

    fn pattern(self) -> Pattern {
        let steady = Pattern {
            demand_percent: 70,
            sleepers_percent: 10,
            nr_threads: 0..=14,
            nr_forks: 0..=2,
            nr_threads_of_fork: 0..=4,
            life_ns: 40 * MS,
            life_octaves: 6,
            gap_ns: MS,
        };
        match self {
            Self::Steady => steady,
            Self::Bursts => Pattern {
                demand_percent: 75,
                sleepers_percent: 20,
                nr_threads: 64..=64,
                nr_forks: 0..=0,
                gap_ns: 10 * US,
                ..steady
            },
            Self::Overload => Pattern { demand_percent: 150, sleepers_percent: 20, ..steady },
            Self::Small => Pattern {
                sleepers_percent: 60,
                nr_threads: 0..=1,
                nr_forks: 2..=8,
                nr_threads_of_fork: 0..=1,
                life_octaves: 5,
                ..steady
            },
        }
    }

    /// So many events for a machine of so many CPUs: half of them start a thread, half end one. The
    /// first quarter of the starts fills the machine and is not measured.
    ///
    /// # Panics
    /// If there is no CPU.
    #[must_use]
    pub fn trace(self, nr_cpus: usize, nr_events: u64, seed: u64) -> Trace {
        assert!(nr_cpus > 0, "a machine has a CPU");
        let pattern = self.pattern();
        let nr_threads = (nr_events / 2).max(1) as usize;
        let mut random = Random::new(seed, self as u64);
        let (mut lives, mut programs) = (Vec::new(), Vec::new());
        while lives.len() < nr_threads {
            programs.push(lives.len());
            pattern.add_program(&mut random, &mut lives);
        }
        // Creators come first, so what is left has all of its creators.
        lives.truncate(nr_threads);
        let mean_gap_ns = pattern.mean_gap_ns(&lives, programs.len(), nr_cpus);
        programs.push(nr_threads);
        let mut now_ns = 0;
        for program in programs.windows(2) {
            now_ns += random.exponential(mean_gap_ns);
            for life in &mut lives[program[0]..program[1]] {
                life.start_ns += now_ns;
                life.end_ns += now_ns;
            }
        }
        let mut starts: Vec<_> = lives.iter().map(|life| life.start_ns).collect();
        starts.sort_unstable();
        let full_ns = starts[nr_threads / 4];
        Trace::new(lives, full_ns..now_ns.max(full_ns + 1))
    }
}

impl Pattern {
    /// Mean time between two of these programs with which they make up the demand.
    fn mean_gap_ns(&self, lives: &[Life], nr_programs: usize, nr_cpus: usize) -> u64 {
        let demand = |life: &Life| {
            u128::from(life.end_ns - life.start_ns) * u128::from(life.demand_permille)
        };
        let of_program = lives.iter().map(demand).sum::<u128>() / nr_programs as u128;
        let per_ns = u128::from(self.demand_percent) * nr_cpus as u128 * 10;
        (of_program / per_ns).max(1) as u64
    }

    /// A program that starts at 0.
    fn add_program(&self, random: &mut Random, lives: &mut Vec<Life>) {
        let first = self.add_process(random, Creation::Exec, 0, &self.nr_threads, lives);
        let end_ns = lives[first.index()].end_ns;
        let mut at_ns = 0;
        for _ in 0..draw(random, &self.nr_forks) {
            at_ns += random.exponential(self.gap_ns);
            if at_ns >= end_ns {
                break;
            }
            let creation = Creation::Fork(first);
            self.add_process(random, creation, at_ns, &self.nr_threads_of_fork, lives);
        }
    }

    fn add_process(
        &self,
        random: &mut Random,
        creation: Creation,
        start_ns: u64,
        nr_threads: &RangeInclusive<u64>,
        lives: &mut Vec<Life>,
    ) -> ThreadIndex {
        let first = ThreadIndex(lives.len() as u32);
        let end_ns = start_ns + random.over_octaves(self.life_ns, self.life_octaves);
        lives.push(self.life(random, creation, start_ns, end_ns));
        let mut at_ns = start_ns;
        for _ in 0..draw(random, nr_threads) {
            at_ns += random.exponential(self.gap_ns);
            if at_ns >= end_ns {
                break;
            }
            let is_joined = random.percent(JOINED_PERCENT);
            let end_ns = if is_joined { end_ns } else { random.between(at_ns + 1, end_ns) };
            lives.push(self.life(random, Creation::Thread(first), at_ns, end_ns));
        }
        first
    }

    fn life(&self, random: &mut Random, creation: Creation, start_ns: u64, end_ns: u64) -> Life {
        let is_sleeper = random.percent(self.sleepers_percent);
        let (least, most) = SLEEPER_PERMILLE;
        let demand_permille = if is_sleeper { random.between(least, most) } else { 1000 };
        let nr_pages = random.over_octaves(PAGES.0, PAGES.1);
        Life { creation, start_ns, end_ns, demand_permille, nr_pages }
    }
}

fn draw(random: &mut Random, range: &RangeInclusive<u64>) -> u64 {
    random.between(*range.start(), *range.end())
}

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || LoadError(text.chars().take(80).collect());
        Self::ALL.into_iter().find(|load| load.name() == text).ok_or_else(unknown)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean demand while it is measured, in percent of the CPUs.
    fn demand_percent(trace: &Trace, nr_cpus: u64) -> u64 {
        let measured = &trace.measured_ns;
        let inside = |life: &Life| {
            life.end_ns.min(measured.end).saturating_sub(life.start_ns.max(measured.start))
        };
        let demand: u64 = trace.lives.iter().map(|l| inside(l) * l.demand_permille).sum();
        demand / (measured.end - measured.start) / nr_cpus / 10
    }

    #[test]
    fn a_load_demands_what_its_name_says() {
        for (load, expected) in Load::ALL.into_iter().zip([70, 75, 150, 70]) {
            let trace = load.trace(512, 40_000, 1);
            assert_eq!(trace.events.len(), 40_000);
            let percent = demand_percent(&trace, 512);
            assert!((expected - 12..expected + 12).contains(&percent), "{load}: {percent} %");
        }
    }

    #[test]
    fn seeds_differ() {
        assert_eq!(Load::Steady.trace(8, 100, 1), Load::Steady.trace(8, 100, 1));
        assert_ne!(Load::Steady.trace(8, 100, 1), Load::Steady.trace(8, 100, 2));
    }
}
