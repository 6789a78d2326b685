//! Runs at every CPU count, taking turns.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::bail;
use quartier_act::Program;
use quartier_decide::verdict::{Clock, Point, Study, fold};
use quartier_model::CpuList;
use quartier_observe::{Host, profile};

use super::allocations::{Allocations, NOTHING_NOTED, Table};
use super::guard::Guard;
use super::measure::{Measured, Outcome};
use super::metric::Metric;
use super::programs::{METRIC, Prepared};
use super::serve::{Lasts, Served, load_cpus};
use crate::interrupts::{Interrupted, Interrupts};
use crate::say;

/// What takes no longer says nothing of how far it is, unless somebody may be looking.
const QUIET: Duration = Duration::from_secs(2);

/// What to run, and where.
#[derive(Debug)]
pub struct Sweep {
    pub host: Host,
    pub online: CpuList,
    /// One for each point, ascending.
    pub sets: Vec<CpuList>,
    pub repeat: u32,
    pub metric: Metric,
    pub hertz: Option<u32>,
    /// Memory that is allocated is named too.
    pub allocations: Option<Allocations>,
    pub command: Vec<OsString>,
    /// The command is a server, under this load.
    pub load: Option<Load>,
}

/// What asks a server.
#[derive(Debug)]
pub struct Load {
    pub command: Vec<OsString>,
    /// Where it may run.
    pub cpus: CpuList,
    pub lasts: Lasts,
}

/// What came of it.
#[derive(Debug)]
pub struct Swept {
    pub study: Study,
    /// What went wrong, each thing once, with its remedy.
    pub complaints: Vec<String>,
    /// A signal ended it before all runs were done.
    pub interrupted: Option<Interrupted>,
}

/// A point's turn.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// Which point of the study.
    pub at: usize,
    pub cpus: &'a CpuList,
}

impl Sweep {
    pub fn run(&self, guard: &Guard) -> anyhow::Result<Swept> {
        let path = std::env::var_os("PATH");
        let program = Program::find(&self.command[0], path.as_deref())?;
        if let Some(load) = &self.load {
            Program::find(&load.command[0], path.as_deref())?;
        }
        let mut swept = Swept::new(self.metric.unit(), &self.sets);
        let shares = |load: &Load| {
            self.sets.iter().any(|cpus| load.cpus.iter().all(|cpu| cpus.contains(cpu)))
        };
        if self.load.as_ref().is_some_and(shares) {
            swept.complain(
                "on the most CPUs the load has none of its own and shares the server's: leave it some (--cpus)"
                    .to_owned(),
            );
        }
        let allocations = self.allocations(&program, &mut swept);
        let visit = |swept: &mut Swept, Visit { at, cpus }: Visit<'_>| {
            let table = allocations.and_then(|allocations| swept.table(allocations));
            match self.measure(cpus, table.as_ref(), guard) {
                Ok(outcome) => {
                    if table.is_some_and(|table| !table.has_notes()) {
                        swept.complain(NOTHING_NOTED.to_owned());
                    }
                    swept.add(at, outcome);
                }
                Err(why) => {
                    let what = if self.load.is_some() { "server" } else { "command" };
                    swept.complain(format!("on {} CPUs the {what} {why}", cpus.len()));
                }
            }
            Ok(())
        };
        let in_rounds =
            |interrupts: &_| swept.in_rounds(&self.sets, self.repeat, interrupts, visit);
        Interrupts::during(|| guard.end_all(), in_rounds)??;
        Ok(swept)
    }
}

impl Sweep {
    /// Who notes what a program allocates, if that is asked for and something can be loaded into it.
    fn allocations(&self, program: &Program, swept: &mut Swept) -> Option<&Allocations> {
        let allocations = self.allocations.as_ref()?;
        let Some(obstacle) = program.obstacle else { return Some(allocations) };
        let program = program.path.display();
        swept.complain(format!("memory that `{program}` allocates has no names: {obstacle}"));
        None
    }

    /// The most CPUs of a point.
    pub fn largest(&self) -> usize {
        self.sets.iter().map(CpuList::len).max().unwrap_or(1)
    }

    /// A program of the study's is what is measured; its load may run on these CPUs.
    pub fn measure_program(
        &mut self,
        prepared: &Prepared,
        cpus: &CpuList,
        lasts: Lasts,
    ) -> anyhow::Result<()> {
        self.metric = Metric::count(METRIC)?;
        let is_server = prepared.program.is_server();
        self.command = prepared.words(if is_server { "serve" } else { "job" });
        let command = prepared.words("load");
        self.load = is_server.then(|| Load { command, cpus: cpus.clone(), lasts });
        Ok(())
    }

    fn measure(
        &self,
        cpus: &CpuList,
        table: Option<&Table<'_>>,
        guard: &Guard,
    ) -> Result<Outcome, String> {
        let measured = Measured {
            host: &self.host,
            online: &self.online,
            cpus,
            command: &self.command,
            metric: &self.metric,
            hertz: self.hertz,
            table,
            guard,
        };
        let Some(load) = &self.load else { return measured.run() };
        let load_cpus = load_cpus(&load.cpus, cpus);
        let (load, lasts) = (&load.command, load.lasts);
        Served { server: measured, load, load_cpus: &load_cpus, lasts }.run()
    }
}

impl Swept {
    /// Nothing yet, of runs on these CPUs.
    pub fn new(unit: &str, sets: &[CpuList]) -> Self {
        let points = sets.iter().map(|cpus| Point {
            nr_cpus: cpus.len() as u32,
            cpus: cpus.to_string(),
            runs: Vec::new(),
        });
        let study = Study { unit: unit.to_owned(), points: points.collect(), ..Study::default() };
        Self { study, complaints: Vec::new(), interrupted: None }
    }

    /// Every round visits every point once, so that what drifts in the machine drifts over all of them; until a signal comes. An error,
    /// if none came and no visit left a run.
    pub fn in_rounds(
        &mut self,
        sets: &[CpuList],
        nr_rounds: u32,
        interrupts: &Interrupts,
        mut visit: impl FnMut(&mut Self, Visit<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let nr_visits = sets.len() * nr_rounds as usize;
        for nr in 0..nr_visits {
            let at = nr % sets.len();
            let takes_long = self.study.is_modelled || began.elapsed() >= QUIET;
            if takes_long || std::io::stderr().is_terminal() {
                say::sentence(&format!("run {} of {nr_visits}: {} CPUs", nr + 1, sets[at].len()));
            }
            let (nr_runs, nr_complaints) =
                (self.study.points[at].runs.len(), self.complaints.len());
            let visited = visit(self, Visit { at, cpus: &sets[at] });
            if let Err(interrupted) = interrupts.check() {
                // What became of that one says nothing.
                self.study.points[at].runs.truncate(nr_runs);
                self.complaints.truncate(nr_complaints);
                let what =
                    format!("{interrupted} after {nr} of {nr_visits} runs: this is of those");
                self.complain(what);
                self.interrupted = Some(interrupted);
                return Ok(());
            }
            visited?;
        }
        if !self.has_runs() {
            bail!("no run succeeded: {}", self.complaints.join("; "));
        }
        Ok(())
    }

    pub fn has_runs(&self) -> bool {
        self.study.points.iter().any(|point| !point.runs.is_empty())
    }

    fn add(&mut self, at: usize, outcome: Outcome) {
        let Outcome { mut run, recording, clock, load_ns, unprofiled, complaint } = outcome;
        complaint.into_iter().for_each(|complaint| self.complain(complaint));
        if let Some(why) = unprofiled {
            self.complain(format!("nothing is named, because {why}"));
        }
        if let Some(recording) = recording {
            if recording.is_user_only {
                self.complain(
                    "the kernel and where it waits are not to be seen, so threads are looked at every 10 ms and its time \
                     is charged to user code: run as root, or sysctl kernel.perf_event_paranoid=1"
                        .to_owned(),
                );
            }
            let is_kernel_named = recording.frames.iter().all(|frame| frame.function != "kernel");
            if !is_kernel_named {
                self.complain(
                    "the kernel hides the names of its functions: run as root, or sysctl kernel.kptr_restrict=0"
                        .to_owned(),
                );
            }
            let mut profile = fold(&recording, self.study.points[at].nr_cpus, load_ns);
            profile.clock = clock.map(|clock| match clock {
                profile::Clock::Cycles => Clock::Cycles,
                profile::Clock::Software(_) => Clock::Software,
            });
            if let Some(clock @ profile::Clock::Software(_)) = clock {
                self.complain(format!(
                    "running code was looked at by {clock}; what the kernel does with interrupts held off is seen where that ends"
                ));
            }
            run.profile = Some(self.study.adopt(profile, &recording));
        }
        self.study.points[at].runs.push(run);
    }

    /// A table for the next run, if one can be had.
    fn table<'a>(&mut self, allocations: &'a Allocations) -> Option<Table<'a>> {
        allocations.table().map_err(|why| self.complain(why)).ok()
    }

    /// Says something once.
    pub fn complain(&mut self, complaint: String) {
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }
}
