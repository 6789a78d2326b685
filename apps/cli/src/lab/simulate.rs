//! `quartier lab simulate`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use quartier_model::NODES_MAX;
use quartier_simulate::loads::Load;
use quartier_simulate::machines::{MachineSpec, Shape};
use quartier_simulate::period::Period;
use quartier_simulate::report::{Plan, Report};
use quartier_simulate::{chart, text};

use crate::numbers::number;
use crate::output::Output;
use crate::say;
use crate::topo::source::{is_dash, print};

const EXAMPLES: &str = "\
Examples:
  quartier lab simulate
      A mesh of 1024 nodes under a steady load, U and M every 10 ms
  quartier lab simulate --all --svg all.svg
      Every machine, load and period: a table, and a drawing
  quartier lab simulate --machine uneven --load bursts --load small --period 1ms --period 1s
      Some of them
  quartier lab simulate --machine mesh:64 --events 10000 --seed 7 --json
      A mesh of 64 nodes, for a script

Machines: uniform, mesh, sockets and uneven, of 1024 nodes or as many as follow a colon; or as
`quartier topo --synthetic` takes them, such as 8x8.
Loads: steady, bursts, overload and small.

The same options give the same result, on any machine. Nothing of this one is read.";

/// Progress is told from then on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options of `quartier lab simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A machine to decide for; may be repeated [default: mesh]
    #[arg(long, value_name = "NAME|SPEC", allow_hyphen_values = true)]
    machine: Vec<MachineSpec>,
    /// A load to place; may be repeated [default: steady]
    #[arg(long, value_name = "NAME")]
    load: Vec<Load>,
    /// How often U and M are renewed; may be repeated [default: 10ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    period: Vec<Period>,
    /// Threads that start, and threads that end, in each run
    #[arg(
        long, value_name = "N", default_value_t = 100_000, allow_negative_numbers = true,
        value_parser = number(100..=10_000_000u64)
    )]
    events: u64,
    /// Where all random numbers come from
    #[arg(
        long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
        value_parser = number(0..=u64::MAX)
    )]
    seed: u64,
    /// Every machine, load and period, where none is given
    #[arg(long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Also write a drawing (-: instead of the table)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let draws_only = self.svg.as_deref().is_some_and(is_dash);
        if draws_only && self.json {
            bail!("--json and --svg - both want the standard output: give the drawing a file");
        }
        let drawing = self.svg.as_deref().filter(|path| !is_dash(path)).map(Output::open);
        let drawing = drawing.transpose()?;
        let progress = Progress::new(self.plan());
        let report = progress.plan.run(|nr_done, what| progress.tell(nr_done, what));
        progress.clear();
        let report = report?;
        if draws_only {
            print(&chart::draw(&report))?;
            return Ok(ExitCode::SUCCESS);
        }
        // Both are tried: a full disk is no reason to lose the table.
        let is_drawn = drawing.map_or(Ok(()), |drawing| drawing.write(&chart::draw(&report)));
        print(&self.printed(&report)?)?;
        is_drawn.map(|()| ExitCode::SUCCESS)
    }

    fn plan(&self) -> Plan {
        let mesh = || MachineSpec::Shape(Shape::Mesh, NODES_MAX);
        Plan {
            machines: self.given_or(&self.machine, MachineSpec::all(), mesh),
            loads: self.given_or(&self.load, Load::ALL.into(), || Load::Steady),
            periods: self.given_or(&self.period, Period::ALL.into(), || Period::from_ms(10)),
            nr_events: self.events,
            seed: self.seed,
        }
    }

    fn given_or<T: Clone>(&self, given: &[T], all: Vec<T>, one: impl Fn() -> T) -> Vec<T> {
        match (given, self.all) {
            ([], true) => all,
            ([], false) => vec![one()],
            (given, _) => given.to_vec(),
        }
    }

    fn printed(&self, report: &Report) -> anyhow::Result<String> {
        Ok(if self.json {
            serde_json::to_string_pretty(report)? + "\n"
        } else {
            text::table(report)
        })
    }
}

/// One line on a terminal that is written over.
struct Progress {
    plan: Plan,
    started: Instant,
    is_seen: bool,
}

impl Progress {
    fn new(plan: Plan) -> Self {
        Self { plan, started: Instant::now(), is_seen: io::stderr().is_terminal() }
    }

    fn is_told(&self) -> bool {
        self.is_seen && self.started.elapsed() >= PATIENCE
    }

    fn tell(&self, nr_done: usize, what: &str) {
        if self.is_told() {
            let nr_runs = self.plan.nr_runs();
            say::text(&format!("\r\x1b[Kquartier: run {} of {nr_runs}: {what}", nr_done + 1));
        }
    }

    fn clear(&self) {
        if self.is_told() {
            say::text("\r\x1b[K");
        }
    }
}
