//! `quartier lab compare`.

mod counter;
mod journal;
mod point;
mod policies;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use quartier_count::{CompareError, Comparison, CountedRun, Policy, html, svg, text};
use quartier_lab::CPUS_MAX;

use super::counting::{Counting, CountingArgs, words};
use super::guest::{GuestArgs, SlowClocks};
use super::outputs::{OutputArgs, Shown};
use crate::interrupts::{Interrupted, Interrupts};
use crate::numbers::number;
use crate::say;
use crate::topo::source::print;
use counter::{Counter, Shared};
use journal::Journal;
use point::Point;
use policies::{ByHand, PolicyOption};

/// Exit status where nothing could be counted under any policy.
const STATUS_NOTHING: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  quartier lab compare --phase parallel --html compare.html -- ./program
      Under first touch, interleave, NUMA balancing, numad, by hand, under Quartier, and under Quartier
      with NUMA balancing on: twice each
  quartier lab compare --policies first-touch,quartier --runs 5 -- ./program
  quartier lab compare --cpus-per-node 4 --sweep 1,4,8 --html compare.html -- ./program -t{cpus}
      Also on 1, 4 and 8 of the 16 CPUs: a curve of speed-up for each policy
  quartier lab compare --slow-clocks auto -- ./program
      Clocks wait as many times longer as the program does, as if it ran on a machine
  quartier lab compare --hand 'numactl --cpunodebind=0,1 --membind=0,1' -- ./program
      The best placement by hand is one of those given; else one that is found by trying
  quartier lab compare --hand-instead './program --first-touch-in-threads' -- ./program
      A program that was placed by hand inside competes too
  quartier lab compare --recordings counted -- ./program
  quartier lab compare --from counted --html compare.html
      Keep every run as it ends; look at them again later, also if not all were counted";

/// Options of `quartier lab compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    counting: CountingArgs,
    /// Policies to try [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policies: Vec<PolicyOption>,
    #[command(flatten)]
    by_hand: ByHand,
    /// Runs of each policy: threads meet differently each time
    #[arg(long, value_name = "N", default_value = "2", allow_negative_numbers = true,
          value_parser = number(1..=100u32), conflicts_with = "from")]
    runs: u32,
    /// Count with so many of the guest's CPUs too, for curves of speed-up; nodes are filled in turn
    ///
    /// The program sees that it has so many. `{cpus}` in a word of the command becomes their number.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = number(1..=CPUS_MAX as u32), conflicts_with = "from")]
    sweep: Vec<u32>,
    /// Keep every run in this new folder as it ends, for --from
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    recordings: Option<PathBuf>,
    /// Report on the runs in this folder; nothing is run
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "GuestArgs", "Counted"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "from", value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let outputs = self.outputs.open()?;
        let comparison = match self.comparison() {
            Ok(comparison) => comparison,
            Err(error) => return status_of(error),
        };
        let report = &comparison;
        let (page, drawings, text) = (html::comparison, svg::comparison, text::comparison);
        outputs.write(&Shown { report, page, drawings, text }, print)?;
        Ok(ExitCode::SUCCESS)
    }

    fn comparison(&self) -> anyhow::Result<Comparison> {
        let (command, nr_cpus, runs) = match &self.from {
            None => self.count()?,
            Some(folder) => {
                let (head, mut runs) = journal::read(folder, self.counting.phase())?;
                runs.retain(|run| self.wanted().contains(&run.policy));
                (head.command, head.nr_cpus, runs)
            }
        };
        Ok(Comparison::of_runs(command, nr_cpus, runs)?)
    }

    /// The policies to try.
    fn wanted(&self) -> Vec<Policy> {
        let is_wanted = |policy: &Policy| {
            let mut some = self.policies.iter();
            self.policies.is_empty() || some.any(|option| Policy::from(*option) == *policy)
        };
        Policy::ALL.into_iter().filter(is_wanted).collect()
    }

    /// Counts everything: the command, the guest's CPUs, and what came of each run.
    fn count(&self) -> anyhow::Result<(Vec<String>, u32, Vec<CountedRun>)> {
        let counting = Counting::new(&self.counting, &self.guest)?;
        let topology = self.guest.topology()?;
        let (points, nr_cpus) = (point::points(&topology, &self.sweep)?, topology.nr_cpus() as u32);
        if self.guest.slow_clocks == SlowClocks::Auto && counting.is_repeatable() {
            bail!(
                "with --repeatable an instruction is a nanosecond: give --slow-clocks a number, not auto"
            );
        }
        let request = self.guest.request_with(&self.command, 1)?;
        let begin = |folder: &PathBuf| Journal::begin(folder, words(&self.command), nr_cpus);
        let mut counter = Counter {
            request,
            command: self.command.clone(),
            counting,
            phase: self.counting.phase(),
            console: self.guest.console()?.map(Shared::new),
            journal: self.recordings.as_ref().map(begin).transpose()?,
            nr_planned: points.iter().map(|point| self.nr_runs(point)).sum(),
            nr_begun: 0,
            runs: Vec::new(),
            interrupts: Interrupts::new()?,
        };
        let counted = points.iter().try_for_each(|point| self.count_at(&mut counter, point));
        counted.map_err(|error| match error.downcast_ref::<Interrupted>() {
            Some(_) => error.context(counter.kept()),
            None => error,
        })?;
        Ok((words(&self.command), nr_cpus, counter.runs))
    }

    /// All policies with so many CPUs.
    fn count_at(&self, counter: &mut Counter, point: &Point) -> anyhow::Result<()> {
        let slow_clocks = self.slow_clocks(counter, point)?;
        for policy in self.wanted() {
            let ways = policies::ways(policy, &self.by_hand, point, slow_clocks);
            counter.count_policy(policy, point, ways, self.runs as usize)?;
        }
        Ok(())
    }

    /// How many times as long clocks wait from now on.
    fn slow_clocks(&self, counter: &mut Counter, point: &Point) -> anyhow::Result<u32> {
        counter.request.slow_clocks = match self.guest.slow_clocks {
            SlowClocks::Times(times) => times,
            SlowClocks::Auto => counter.slowdown(point)?,
        };
        Ok(counter.request.slow_clocks)
    }

    /// Runs with so many CPUs, at most.
    fn nr_runs(&self, point: &Point) -> usize {
        let of = |policy| match policies::ways(policy, &self.by_hand, point, 1) {
            Ok(ways) => ways.len() + self.runs as usize - 1,
            Err(_) => 0,
        };
        self.wanted().into_iter().map(of).sum()
    }
}

/// The end of a comparison that is none: its sentence, and its exit status.
fn status_of(error: anyhow::Error) -> anyhow::Result<ExitCode> {
    let status = match (error.downcast_ref::<Interrupted>(), error.downcast_ref::<CompareError>()) {
        (Some(interrupted), _) => 128 + interrupted.signal,
        (_, Some(CompareError::Nothing(_))) => STATUS_NOTHING,
        _ => return Err(error),
    };
    say::sentence(&error.to_string());
    Ok(ExitCode::from(status))
}
