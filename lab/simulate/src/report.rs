//! All choosers on the same machines, loads and seeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quartier_decide::dqdt::Allowed;
use quartier_decide::policy::visits_max;
use serde::Serialize;

use crate::choosers::ChooserName;
use crate::clock::Stage;
use crate::loads::Load;
use crate::machines::{MachineError, MachineSpec};
use crate::measures::Measures;
use crate::period::Period;
use crate::trace::Trace;

/// The version of the serialised form; raised when a reader of the old form would go wrong.
pub const REPORT_FORMAT: u32 = 1;

/// What to compare on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Machines.
    pub machines: Vec<MachineSpec>,
    /// Loads, on each machine.
    pub loads: Vec<Load>,
    /// Periods of the refresh, for choosers that read what is refreshed.
    pub periods: Vec<Period>,
    /// Events of each run.
    pub nr_events: u64,
    /// Where all random numbers come from.
    pub seed: u64,
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// The plan's.
    pub seed: u64,
    /// The plan's.
    pub nr_events: u64,
    /// The machines.
    pub machines: Vec<Simulated>,
    /// The runs, by machine, load, chooser and period.
    pub runs: Vec<Run>,
}

/// A machine that was simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// As it was asked for.
    pub name: String,
    /// Its nodes.
    pub nr_nodes: usize,
    /// Its CPUs.
    pub nr_cpus: usize,
    /// Levels of its tree above the leaves.
    pub tree_height: u8,
    /// Clusters that a decision reads at most.
    pub visits_max: u32,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The name of the machine.
    pub machine: String,
    /// The load.
    pub load: Load,
    /// Who chose.
    pub chooser: ChooserName,
    /// The period, where it matters.
    pub period_ns: Option<Period>,
    /// What was measured.
    pub measures: Measures,
}

/// A chooser, with a period where it matters.
type Competitor = (ChooserName, Option<Period>);

impl Plan {
    /// How many runs it has.
    #[must_use]
    pub fn nr_runs(&self) -> usize {
        self.machines.len() * self.loads.len() * self.competitors().len()
    }

    fn competitors(&self) -> Vec<Competitor> {
        let with_periods = |name: ChooserName| match name.reads_refreshed() {
            true => self.periods.iter().map(|&period| (name, Some(period))).collect(),
            false => vec![(name, None)],
        };
        ChooserName::ALL.into_iter().flat_map(with_periods).collect()
    }

    /// Runs everything, on as many CPUs as there are; that changes nothing in the result. `progress` is
    /// told how many runs are done and what begins.
    ///
    /// # Errors
    /// When there is no such machine; before anything runs.
    pub fn run(&self, progress: impl Fn(usize, &str) + Sync) -> Result<Report, MachineError> {
        let machines = self.machines.iter().map(|spec| Ok((spec.to_string(), spec.machine()?)));
        let machines: Vec<_> = machines.collect::<Result<_, MachineError>>()?;
        let mut report = Report {
            format: REPORT_FORMAT,
            seed: self.seed,
            nr_events: self.nr_events,
            machines: Vec::new(),
            runs: Vec::new(),
        };
        for (name, machine) in machines {
            progress(report.runs.len(), &format!("{name}: tree"));
            let stage = Stage::new(machine);
            report.machines.push(Simulated::new(&name, &stage));
            for &load in &self.loads {
                let trace = load.trace(stage.tree().nr_cpus(), self.nr_events, self.seed);
                let nr_done = report.runs.len();
                let begins = |at: usize, what: &str| progress(nr_done + at, what);
                report.runs.extend(self.compare(&stage, &name, load, &trace, begins));
            }
        }
        Ok(report)
    }

    /// All competitors on one trace, in their order.
    fn compare(
        &self,
        stage: &Stage,
        machine: &str,
        load: Load,
        trace: &Trace,
        begins: impl Fn(usize, &str) + Sync,
    ) -> Vec<Run> {
        let competitors = self.competitors();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&competitor) = competitors.get(at) else { return done };
                begins(at, &format!("{machine}, {load}, {}", competitor.0));
                done.push((at, self.one(stage, machine, load, trace, competitor)));
            }
        };
        let nr_workers = thread::available_parallelism().map_or(1, usize::from);
        let mut runs: Vec<(usize, Run)> = thread::scope(|scope| {
            let workers: Vec<_> = (0..nr_workers).map(|_| scope.spawn(work)).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, Vec<(usize, Run)>>| {
                worker.join().expect("a run does not panic")
            };
            workers.into_iter().flat_map(join).collect()
        });
        runs.sort_unstable_by_key(|(at, _)| *at);
        runs.into_iter().map(|(_, run)| run).collect()
    }

    fn one(
        &self,
        stage: &Stage,
        machine: &str,
        load: Load,
        trace: &Trace,
        (name, period): Competitor,
    ) -> Run {
        let allowed = Allowed::all(stage.tree());
        let mut chooser = name.chooser(&allowed, stage.free_pages_min(), self.seed);
        let outcome = stage.run(trace, chooser.as_mut(), period);
        debug_assert_eq!(outcome.nr_left, 0);
        Run {
            machine: machine.to_owned(),
            load,
            chooser: name,
            period_ns: period,
            measures: outcome.measures,
        }
    }
}

impl Report {
    /// The runs of one machine and load.
    #[must_use]
    pub fn of(&self, machine: &str, load: Load) -> Vec<&Run> {
        let is_of = |run: &&Run| run.machine == machine && run.load == load;
        self.runs.iter().filter(is_of).collect()
    }

    /// What the oracle reached on the machine and load of a run.
    #[must_use]
    pub fn oracle_of(&self, run: &Run) -> Option<&Measures> {
        let mut others = self.of(&run.machine, run.load).into_iter();
        Some(&others.find(|other| other.chooser == ChooserName::Oracle)?.measures)
    }

    /// The loads, in the order of the runs.
    #[must_use]
    pub fn loads(&self) -> Vec<Load> {
        let is_run = |load: &Load| self.runs.iter().any(|run| run.load == *load);
        Load::ALL.into_iter().filter(is_run).collect()
    }
}

impl Simulated {
    fn new(name: &str, stage: &Stage) -> Self {
        let tree = stage.tree();
        Self {
            name: name.to_owned(),
            nr_nodes: tree.nr_nodes(),
            nr_cpus: tree.nr_cpus(),
            tree_height: tree.height(),
            visits_max: visits_max(tree),
        }
    }
}
