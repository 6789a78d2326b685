//! `quartier scale`.

pub mod allocations;
pub mod counted;
mod diff;
mod guard;
mod html;
pub mod measure;
pub mod metric;
pub mod programs;
pub mod report;
mod serve;
pub mod sweep;
mod text;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use quartier_act::affinity_of;
use quartier_decide::verdict::{Order, Outcome, cpu_order, default_counts};
use quartier_model::CpuList;
use quartier_observe::Host;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::numbers::number;
use crate::output::Output;
use crate::say;
use crate::topo::source::{is_dash, print};
use allocations::Allocations;
use guard::Guard;
use metric::Metric;
use programs::sanity::{self, Tried};
use programs::{Prepared, Program};
use report::Report;
use serve::Lasts;
use sweep::{Load, Sweep, Swept};

const EXAMPLES: &str = "\
Examples:
  quartier scale -- ./simulation --threads {cpus} input.dat
      A job that is the same each time, on 1, 2, 4, … CPUs; {cpus} becomes how many
  quartier scale --cpus 1,8,16 --order spread --repeat 7 -- ./job
      On these, one of each node first, each seven times
  quartier scale --metric 'processed ([0-9]+)' -- ./worker --seconds 5
      Work is what the program says it did; --rate for one that says how much each second
  quartier scale --rate '([0-9.]+) requests' --serve 'redis-server --port 7777' \\
      --load 'redis-benchmark -q -p 7777 -t get -n 200000'
      A server under load: it gets the CPUs that are counted, the load the others
  quartier scale --warm-up 10 --run 30 --rate '([0-9.]+) requests' --serve ... --load ...
      The load is repeated: for 10 s before anything is measured, and for 30 s then
  quartier scale --allocations -- ./job --threads {cpus}
      Memory that was allocated has a name too: that of the function that allocated it
  quartier scale --json report.json --html report.html -- make -j{cpus}
  quartier scale --sanity
      The study's seven programs, each once: which of them run here, and whether they do right
  quartier scale --program postgresql --html report.html
      One of them, started, checked, loaded, and stopped
  quartier scale diff before.json after.json

For more CPUs than this machine has: `quartier lab scale`, in guests, counted.

The command finds how many CPUs it has in its affinity (nproc), in {cpus} and in $QUARTIER_CPUS.
Runs of different CPU counts take turns, so what drifts in the machine drifts over all of them.

Exit status: 0 if there is a verdict, also that nothing is lost (--sanity: all programs do right); 1 if the runs
do not tell (--sanity: some programs are not here, or do wrong); 2 if the sweep could not be done;
128 and more if a signal ended it: the runs until then are reported, a second signal ends that too.";

/// Options of `quartier scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command_of: Option<Subcommand>,
    /// CPU counts to run on [default: 1, 2, 4, … and all]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_negative_numbers = true, value_parser = number(1..=8192u32))]
    cpus: Vec<u32>,
    /// Which CPUs come first: those that fill a core, cache, node (pack), or one of each (spread)
    #[arg(long, value_name = "ORDER", value_enum, default_value = "pack")]
    order: OrderOption,
    /// Use every hardware thread of a core, not only the first
    #[arg(long)]
    smt: bool,
    /// Runs at each CPU count
    #[arg(long, value_name = "N", default_value = "5", allow_negative_numbers = true, value_parser = number(1..=1000u32))]
    repeat: u32,
    /// The command prints how much work it did: the first group of this regular expression, the last time it matches
    #[arg(long, value_name = "REGEX", conflicts_with = "rate")]
    metric: Option<String>,
    /// The command prints how much work it did each second, likewise
    #[arg(long, value_name = "REGEX")]
    rate: Option<String>,
    /// The program is a server: started on the CPUs that are counted, loaded from the others, and ended
    #[arg(long, value_name = "CMD", requires = "load", conflicts_with = "command")]
    serve: Option<String>,
    /// What loads the server: once to warm it up (or until it answers), and once to measure; repeated by --warm-up and --run
    #[arg(long, value_name = "CMD", requires = "serve")]
    load: Option<String>,
    /// Of a server: once it answers it is loaded for so long before anything is measured [default: not again]
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["command", "sanity"], allow_negative_numbers = true,
          value_parser = number(0..=86_400u32))]
    warm_up: Option<u32>,
    /// Of a server: the load is repeated for at least so long, and what it did is added up [default: one load]
    #[arg(long = "run", value_name = "SECONDS", conflicts_with_all = ["command", "sanity"], allow_negative_numbers = true,
          value_parser = number(0..=86_400u32))]
    run_for: Option<u32>,
    /// Looks at running code each second on each CPU
    #[arg(long, value_name = "HERTZ", default_value = "499", allow_negative_numbers = true, value_parser = number(1..=10_000u32))]
    frequency: u32,
    /// Measure only, name nothing
    #[arg(long)]
    no_profile: bool,
    /// Name memory that was allocated, by the function that did: a library in the program notes each call
    #[arg(long, conflicts_with_all = ["no_profile", "sanity"])]
    allocations: bool,
    /// A program of the study's, from its Debian package, with all that it needs on a port and in a folder of its own
    #[arg(long, value_name = "NAME", value_enum, conflicts_with_all = ["command", "serve", "metric", "rate"])]
    program: Option<Program>,
    /// With a server of --program: one more line of its configuration (memcached: more options); may be repeated
    #[arg(long, value_name = "LINE", requires = "program", allow_hyphen_values = true,
          conflicts_with_all = ["command", "serve", "sanity"])]
    set: Vec<String>,
    /// Run each of the study's programs once (or the one of --program), and say which of them do right
    #[arg(long, conflicts_with_all = ["command", "serve", "metric", "rate", "html", "cpus", "repeat"])]
    sanity: bool,
    #[command(flatten)]
    reporting: ReportArgs,
    /// The command
    #[arg(value_name = "CMD", required_unless_present_any = ["serve", "program", "sanity"], last = true)]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Compare two reports: before a change, and after it
    Diff(diff::Args),
    /// Judge a saved report again, and write it as text, page or JSON
    Report(report::Args),
}

/// `--order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OrderOption {
    /// A core, a cache, a node is full before the next one is begun
    Pack,
    /// Of what is least used each time
    Spread,
}

impl From<OrderOption> for Order {
    fn from(option: OrderOption) -> Self {
        match option {
            OrderOption::Pack => Self::Pack,
            OrderOption::Spread => Self::Spread,
        }
    }
}

/// Where a report goes.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Write the report as JSON, with all that the verdict follows from (-: to the terminal or pipe, instead of text)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page: figures, profiles side by side, a differential flame graph
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Of resampling, where confidence comes from that [default: random, and said]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number(0..=u64::MAX))]
    seed: Option<u64>,
}

/// Files that can be written.
#[derive(Debug)]
pub struct Reporting {
    json: Option<Output>,
    is_json_printed: bool,
    html: Option<Output>,
    seed: u64,
}

impl ReportArgs {
    /// Opens all of them: what cannot be written is no reason to measure in vain.
    pub fn open(&self) -> anyhow::Result<Reporting> {
        let json = self.json.as_deref().filter(|path| !is_dash(path)).map(Output::open);
        Ok(Reporting {
            json: json.transpose()?,
            is_json_printed: self.json.as_deref().is_some_and(is_dash),
            html: self.html.as_deref().map(Output::open).transpose()?,
            seed: self.seed.map_or_else(random_seed, Ok)?,
        })
    }
}

impl Reporting {
    /// Of programs that were only tried.
    fn write_sanity(self, tried: &[Tried]) -> anyhow::Result<ExitCode> {
        let json = serde_json::to_string_pretty(tried)? + "\n";
        let text = if self.is_json_printed { json.clone() } else { sanity::text(tried) };
        print(&text)?;
        if let Some(file) = self.json {
            file.write(&json)?;
        }
        let all_right = tried.iter().all(|tried| tried.done.is_some());
        Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Judges what was measured, writes all of it, and gives the exit status.
    pub fn write(self, swept: Swept, command: &[OsString]) -> anyhow::Result<ExitCode> {
        let interrupted = swept.interrupted.map(|interrupted| {
            say::sentence(&interrupted.to_string());
            ExitCode::from(128 + interrupted.signal)
        });
        if let Some(status) = interrupted.filter(|_| !swept.has_runs()) {
            return Ok(status);
        }
        let report = Report::new(swept, command, self.seed);
        // A guest's has a million stacks: each on a line of its own for every part of it, it would be three times as large.
        let json = serde_json::to_string(&report)? + "\n";
        if let Some(html) = self.html {
            html.write(&html::page(&report))?;
        }
        let text = if self.is_json_printed { json.clone() } else { text::print(&report) };
        print(&text)?;
        if let Some(file) = self.json {
            file.write(&json)?;
        }
        Ok(interrupted.unwrap_or(match report.verdict.outcome {
            Outcome::Scales | Outcome::Loses => ExitCode::SUCCESS,
            Outcome::Unknown => ExitCode::FAILURE,
        }))
    }
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command_of {
            Some(Subcommand::Diff(args)) => return args.run(),
            Some(Subcommand::Report(args)) => return args.run(),
            None => {}
        }
        let reporting = self.reporting.open()?;
        if self.sanity {
            return reporting.write_sanity(&self.sanity()?);
        }
        if let Some(program) = self.program
            && !program.is_server()
            && (self.warm_up.is_some() || self.run_for.is_some())
        {
            bail!(
                "{} does a job and ends, and --warm-up and --run are for servers: leave them out",
                program.word()
            );
        }
        let mut sweep = self.sweep()?;
        let Some(program) = self.program else {
            let guard = Guard::new(None).context("sh could not be started")?;
            return reporting.write(sweep.run(&guard)?, &sweep.command);
        };
        // What does wrong is not worth being measured; it stays there until all is.
        let named = program.named(&self.set)?;
        let prepared = Prepared::new(program, &self.set)?;
        say::sentence(&format!("{} is prepared, and tried once", program.word()));
        if let Err(why) = prepared.try_once(sweep.largest()) {
            bail!("{} does not run as it should: {why}", program.word());
        }
        sweep.measure_program(&prepared, &allowed()?, self.lasts())?;
        reporting.write(sweep.run(prepared.guard())?, &named)
    }

    fn lasts(&self) -> Lasts {
        let seconds = |asked: Option<u32>| Duration::from_secs(asked.unwrap_or_default().into());
        Lasts { warm_up: seconds(self.warm_up), run: seconds(self.run_for) }
    }

    /// Each once, on all CPUs that may be used.
    fn sanity(&self) -> anyhow::Result<Vec<Tried>> {
        let nr_cpus = allowed()?.len();
        let programs =
            self.program.map_or_else(|| Program::value_variants().to_vec(), |one| vec![one]);
        Ok(programs
            .into_iter()
            .map(|program| {
                say::sentence(&format!("{} is tried", program.word()));
                Tried::of(program, nr_cpus)
            })
            .collect())
    }

    fn sweep(&self) -> anyhow::Result<Sweep> {
        let host = Host::live();
        let machine = host.machine()?;
        let allowed = allowed()?;
        let cpus = cpu_order(&machine, &allowed, self.order.into(), self.smt);
        let nr_cpus = cpus.len() as u32;
        let counts = counts(&self.cpus, nr_cpus);
        if let Some(many) = counts.iter().find(|count| **count > nr_cpus) {
            let smt = if self.smt { "" } else { ", or --smt to count hardware threads too" };
            bail!(
                "{many} CPUs are more than the {nr_cpus} that may be used here: give --cpus at most {nr_cpus}{smt}; \
                 `quartier lab scale` counts on guests with more"
            );
        }
        if counts.len() < 2 {
            bail!(
                "scaling is seen between two CPU counts, and this is one: give --cpus two, on a machine (or in an \
                 affinity) of two CPUs or more"
            );
        }
        let metric = match (&self.metric, &self.rate) {
            (Some(regex), _) => Metric::count(regex)?,
            (None, Some(regex)) => Metric::rate(regex)?,
            (None, None) => Metric::Job,
        };
        let load = self.load.as_deref().map(|load| serve::words("--load", load)).transpose()?;
        let lasts = self.lasts();
        let load = load.map(|command| Load { command, cpus: allowed, lasts });
        Ok(Sweep {
            host,
            online: machine.cpus().iter().filter(|cpu| cpu.online).map(|cpu| cpu.os_id.0).collect(),
            sets: counts
                .iter()
                .map(|count| cpus[..*count as usize].iter().copied().collect())
                .collect(),
            repeat: self.repeat,
            metric,
            hertz: (!self.no_profile).then_some(self.frequency),
            allocations: self.allocations.then(Allocations::new).transpose()?,
            command: self.server()?,
            load,
        })
    }
}

impl Args {
    /// What is measured: the command, or the server.
    fn server(&self) -> anyhow::Result<Vec<OsString>> {
        match &self.serve {
            Some(serve) => serve::words("--serve", serve),
            None => Ok(self.command.clone()),
        }
    }
}

fn allowed() -> anyhow::Result<CpuList> {
    affinity_of(0).context(
        "the CPUs that may be used are not known: the kernel does not say this process's affinity",
    )
}

/// The CPU counts that are asked for, ascending, or else those that suit so many CPUs.
pub fn counts(asked: &[u32], nr_cpus: u32) -> Vec<u32> {
    let mut counts = if asked.is_empty() { default_counts(nr_cpus) } else { asked.to_vec() };
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn random_seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
