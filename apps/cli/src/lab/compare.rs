//! `quartier lab compare`.

mod policies;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, bail};
use quartier_count::{Comparison, Policy, PolicyRuns, Report, html, svg, text};
use quartier_lab::{Input, capture};

use super::counting::{Counting, CountingArgs, words};
use super::guest::GuestArgs;
use super::outputs::{OutputArgs, Shown};
use crate::numbers::number;
use crate::topo::source::print;
use policies::{PolicyOption, Way};

const EXAMPLES: &str = "\
Examples:
  quartier lab compare --phase parallel --html compare.html -- ./program
      Under first touch, interleave, NUMA balancing, numad, by hand and under Quartier, twice each
  quartier lab compare --policies first-touch,quartier --runs 5 -- ./program
  quartier lab compare --hand 'numactl --cpunodebind=0,1 --membind=0,1' -- ./program
      The best placement by hand is one of those given; else one that is found by trying";

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
    /// What to put before the command to place it by hand; may be repeated, and the best counts
    #[arg(long, value_name = "WORDS")]
    hand: Vec<String>,
    /// Runs of each policy: threads meet differently each time
    #[arg(long, value_name = "N", default_value = "2", allow_negative_numbers = true,
          value_parser = number(1..=100u32))]
    runs: u32,
    #[command(flatten)]
    outputs: OutputArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let outputs = self.outputs.open()?;
        let counting = Counting::new(&self.counting, &self.guest)?;
        let wanted = match self.policies.as_slice() {
            [] => Policy::ALL.to_vec(),
            some => Policy::ALL
                .into_iter()
                .filter(|policy| some.iter().any(|option| Policy::from(*option) == *policy))
                .collect(),
        };
        let mut runs = Vec::new();
        for policy in wanted {
            runs.push(self.runs_of(policy, &counting)?);
        }
        let report = &Comparison::new(words(&self.command), runs, Vec::new())?;
        let (page, drawings, text) = (html::comparison, svg::comparison, text::comparison);
        print(&outputs.write(&Shown { report, page, drawings, text })?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// All runs of a policy; of several ways to set it, those of the best.
    fn runs_of(&self, policy: Policy, counting: &Counting) -> anyhow::Result<PolicyRuns> {
        let mut best: Option<(f64, Way, Vec<Report>)> = None;
        let ways = match policies::ways(policy, &self.hand) {
            Ok(ways) => ways,
            Err(absent) => return Ok(PolicyRuns { policy, detail: None, runs: Err(absent) }),
        };
        for way in ways {
            let mut reports = Vec::new();
            for run in 1..=self.runs {
                let shown = way.shown().unwrap_or_else(|| "as it is".to_owned());
                super::progress(&format!(
                    "{} ({shown}), run {run} of {}",
                    policy.name(),
                    self.runs
                ));
                reports.push(self.run_once(&way, counting)?);
            }
            let time = |report: &Report| report.modelled.phase_ms.unwrap_or(f64::INFINITY);
            let mean = reports.iter().map(time).sum::<f64>() / reports.len() as f64;
            if best.as_ref().is_none_or(|(least, ..)| mean < *least) {
                best = Some((mean, way, reports));
            }
        }
        let (_, way, reports) = best.context("there is no way to set this policy")?;
        Ok(PolicyRuns { policy, detail: way.shown(), runs: Ok(reports) })
    }

    fn run_once(&self, way: &Way, counting: &Counting) -> anyhow::Result<Report> {
        let command = way.command(&self.command);
        let mut request = self.guest.request(&command)?;
        request.kernel_args.push(way.kernel_arg().to_owned());
        request.beside = way.beside();
        let mut errors = Vec::new();
        let (recording, ran) = counting.count(request, |request| {
            let captured = capture(request, Input::Null)?;
            errors = captured.stderr;
            Ok(captured.report)
        })?;
        if ran.exit_status != 0 {
            bail!(
                "the command ended with status {} ({}): {}",
                ran.exit_status,
                way.shown().unwrap_or_else(|| "as it is".to_owned()),
                last_line(&errors)
            );
        }
        Ok(Report::new(&recording, self.counting.phase())?)
    }
}

/// What a program that failed said last.
fn last_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").trim().to_owned()
}
