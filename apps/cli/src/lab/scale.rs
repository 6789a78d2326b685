//! `quartier lab scale`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use quartier_count::Report;
use quartier_decide::verdict::cpu_order;
use quartier_lab::{CPUS_MAX, Request};
use quartier_model::CpuList;

use super::counting::{Counting, NOTHING_TOLD, PhaseOption};
use super::guest::GuestArgs;
use super::one_run::{LastBytes, PRINTED_MAX, count_once};
use super::progress;
use crate::interrupts::Interrupts;
use crate::numbers::number;
use crate::scale::measure::told;
use crate::scale::metric::Metric;
use crate::scale::programs::in_guests::InGuests;
use crate::scale::programs::{METRIC, Program};
use crate::scale::sweep::{Swept, Visit};
use crate::scale::{OrderOption, ReportArgs, counted, counts};

const EXAMPLES: &str = "\
Examples:
  quartier lab scale --nodes 4 --cpus-per-node 8 --cpus 1,4,8,16,32 -- ./simulation --threads {cpus}
      A job that is the same each time, on 1 to 32 CPUs; {cpus} becomes how many
  quartier lab scale --phase parallel --metric 'processed ([0-9]+)' -- ./worker --threads {cpus}
      Work is what the program says it did; how long it takes to start, with one thread, does not count
  quartier lab scale --load 'redis-benchmark -q -t incr -n 5000' -- redis-server --save ''
      A server while it is loaded, on the CPUs that are counted; the load has all of them
  quartier lab scale --allocations -- ./job --threads {cpus}
      Memory that was allocated has a name too: that of the function that allocated it
  quartier lab scale --program exim --kernel 6.12 --cpus-per-node 8 --cpus 4,8,16,32
      One of the study's seven programs (`quartier scale --sanity` says which are here): prepared here, with less to do
      than on a machine's CPUs, and brought into each guest's memory before anything is counted
  quartier lab scale --json before.json --html before.html -- ./job
  quartier scale diff before.json after.json

Jobs should be small: a counted guest works some hundred times slower than a machine. The command finds how many CPUs
it has in its affinity (nproc), in {cpus} and in $QUARTIER_CPUS.

Exit status: 0 if there is a verdict, also that nothing is lost; 1 if the runs do not tell;
2 if the sweep could not be done; 128 and more if a signal ended it, which reports the runs until then.";

/// Options of `quartier lab scale`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    guest: GuestArgs,
    /// CPU counts to run on [default: 1, 2, 4, … and all that the guest has]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', allow_negative_numbers = true,
          value_parser = number(1..=CPUS_MAX as u32))]
    cpus: Vec<u32>,
    /// Which CPUs come first: those that fill a node (pack), or one of each (spread)
    #[arg(long, value_name = "ORDER", value_enum, default_value = "pack")]
    order: OrderOption,
    /// Runs at each CPU count: threads meet differently each time
    #[arg(long, value_name = "N", default_value = "3", allow_negative_numbers = true, value_parser = number(1..=100u32))]
    repeat: u32,
    /// The command prints how much work it did: the first group of this regular expression, the last time it matches
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// CMD is a server: once it listens, run this shell command line, count the server meanwhile, then stop it
    #[arg(long, value_name = "LINE")]
    load: Option<OsString>,
    /// Name memory that was allocated, by the function that did: a library in the program tells of each call
    #[arg(long)]
    allocations: bool,
    /// With --load: the server can be loaded once this shell command line succeeds [default: once it listens]
    #[arg(long, value_name = "LINE", requires = "load")]
    ready: Option<OsString>,
    /// What counts of a run: all of it, or from its second thread on, without its start
    #[arg(long, value_name = "PHASE", default_value = "whole")]
    phase: PhaseOption,
    /// What is modelled: `server`, `tsar`, or a file (docs/lab.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "server")]
    geometry: String,
    /// A program of the study's, from its Debian package, with its load if it is a server
    #[arg(long, value_name = "NAME", value_enum, conflicts_with_all = ["command", "metric", "load", "phase"])]
    program: Option<Program>,
    /// With a server of --program: one more line of its configuration (memcached: more options); may be repeated
    #[arg(
        long,
        value_name = "LINE",
        requires = "program",
        allow_hyphen_values = true,
        conflicts_with = "command"
    )]
    set: Vec<String>,
    #[command(flatten)]
    reporting: ReportArgs,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "program", value_name = "CMD")]
    command: Vec<OsString>,
}

/// How much slower time passes in guests: of what CPUs take from each other ticks had two thirds otherwise.
const SLOW_TIME: u32 = 50;

/// All that runs need.
struct Prepared {
    counting: Counting,
    /// Of each run, but for its CPUs.
    request: Request,
    /// What guests are given, for as long as there are any.
    _program: Option<InGuests>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let reporting = self.reporting.open()?;
        let named = self.named()?;
        reporting.write(self.sweep()?, &named)
    }

    fn sweep(&self) -> anyhow::Result<Swept> {
        let metric = self.metric()?;
        let sets = self.sets()?;
        let Prepared { counting, request, _program } = self.prepare()?;
        let mut swept = Swept::new(metric.unit(), &sets);
        swept.study.is_modelled = true;
        // Guests hear of signals themselves, and end.
        let interrupts = Interrupts::new()?;
        swept.in_rounds(&sets, self.repeat, &interrupts, |swept, Visit { at, cpus }| {
            match self.count(&counting, &request, cpus, &metric)? {
                Ok((report, units)) => {
                    if report.notes.iter().any(|note| note == NOTHING_TOLD) {
                        swept.complain(NOTHING_TOLD.to_owned());
                    }
                    counted::add(&mut swept.study, at, &report, units);
                }
                Err(why) => swept.complain(format!("on {} CPUs {why}", cpus.len())),
            }
            Ok(())
        })?;
        Ok(swept)
    }

    /// What the report is of.
    fn named(&self) -> anyhow::Result<Vec<OsString>> {
        self.program.map_or_else(|| Ok(self.command.clone()), |program| program.named(&self.set))
    }

    fn metric(&self) -> anyhow::Result<Metric> {
        let regex = self.program.map(|_| METRIC).or(self.metric.as_deref());
        regex.map_or(Ok(Metric::Job), Metric::count)
    }

    /// A program of the study's last, as that takes seconds: what cannot be counted is refused before.
    fn prepare(&self) -> anyhow::Result<Prepared> {
        let counting = |load| {
            let how = (self.geometry.clone(), self.allocations);
            Counting::of_lines(how, load, self.phase, &self.guest)
        };
        let request = |command: &[OsString]| -> anyhow::Result<Request> {
            let slow_time = self.guest.slow_time_or(SLOW_TIME)?;
            Ok(Request { slow_time, ..self.guest.request(command)? })
        };
        let without = counting(self.load.clone())?.once_ready(self.ready.clone());
        let Some(program) = self.program else {
            let request = request(&self.command)?;
            return Ok(Prepared { counting: without, request, _program: None });
        };
        let mut request = request(&["sh".into()])?;
        progress(&format!("{} is prepared, and tried once", program.word()));
        let program = InGuests::new(program, &self.set)?;
        (request.command, request.beside) = (program.command(), program.beside());
        let counting = counting(program.load())?.once_ready(program.ready());
        Ok(Prepared { counting, request, _program: Some(program) })
    }

    /// The CPUs of each point, ascending.
    fn sets(&self) -> anyhow::Result<Vec<CpuList>> {
        let topology = self.guest.topology()?;
        let machine = topology.machine();
        let all = machine.cpus().iter().map(|cpu| cpu.os_id.0).collect();
        let order = cpu_order(machine, &all, self.order.into(), true);
        let nr_cpus = order.len() as u32;
        let counts = counts(&self.cpus, nr_cpus);
        if let Some(many) = counts.iter().find(|count| **count > nr_cpus) {
            bail!(
                "{many} CPUs are more than the {nr_cpus} of the guest: give smaller --cpus, or more --nodes or \
                 --cpus-per-node"
            );
        }
        if counts.len() < 2 {
            bail!("scaling is seen between two CPU counts, and this is one: give --cpus two");
        }
        let set = |count: u32| order[..count as usize].iter().copied().collect();
        Ok(counts.into_iter().map(set).collect())
    }

    /// One run: what was counted, and the work that was done; or why there is nothing.
    fn count(
        &self,
        counting: &Counting,
        request: &Request,
        cpus: &CpuList,
        metric: &Metric,
    ) -> anyhow::Result<Result<(Report, f64), String>> {
        let mut request = request.clone();
        request.command = told(&request.command, cpus.len());
        request.environment.push(("QUARTIER_CPUS".into(), cpus.len().to_string().into()));
        request.cpus = cpus.clone();
        let printed = LastBytes::new(PRINTED_MAX);
        let recording = count_once(counting, request, Box::new(printed.clone()), None)?;
        Ok(recording.and_then(|recording| {
            let report =
                Report::new(&recording, self.phase.into()).map_err(|error| error.to_string())?;
            let units = metric.units(&printed.text(), 0.0)?;
            Ok((report, units))
        }))
    }
}
