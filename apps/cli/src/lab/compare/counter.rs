//! Counts one run after the other: each becomes a result or a reason, and none ends the others.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use quartier_count::numbers::of;
use quartier_count::{AS_IT_IS, CountedRun, Phase, Policy, Recording, Report};
use quartier_lab::Request;

use super::journal::Journal;
use super::point::Point;
use super::policies::Way;
use crate::interrupts::Interrupts;
use crate::lab::counting::Counting;
use crate::lab::guest::SLOWEST;
use crate::lab::one_run::count_once;
use crate::lab::progress;

/// Everything that runs have in common, and what came of those so far.
pub struct Counter {
    /// Without a command.
    pub request: Request,
    pub command: Vec<OsString>,
    pub counting: Counting,
    pub phase: Phase,
    /// The guests' consoles, one after the other.
    pub console: Option<Shared>,
    pub journal: Option<Journal>,
    /// Runs that there will be, at most.
    pub nr_planned: usize,
    /// Runs that were begun, or will not be.
    pub nr_begun: usize,
    pub runs: Vec<CountedRun>,
    pub interrupts: Interrupts,
}

impl Counter {
    /// Tries each way to set a policy once, and counts the best `nr_runs` times in all.
    pub fn count_policy(
        &mut self,
        policy: Policy,
        point: &Point,
        ways: Result<Vec<Way>, String>,
        nr_runs: usize,
    ) -> anyhow::Result<()> {
        let ways = match ways {
            Ok(ways) => ways,
            Err(absent) => {
                progress(&format!("{}: not counted: {absent}", policy.name()));
                return self.add((policy, None, point.nr_cpus), Err(absent));
            }
        };
        let end = self.nr_begun + ways.len() + nr_runs - 1;
        let first = self.runs.len();
        for way in &ways {
            self.count(policy, point, way)?;
        }
        let unbound = if policy == Policy::Hand { self.unbound(point) } else { Vec::new() };
        for run in unbound.iter().take(1) {
            self.add_again(*run)?;
        }
        let best = CountedRun::best(&self.runs[first..]).map(|run| run.detail.clone());
        if matches!(&best, Some(Some(detail)) if detail == AS_IT_IS) {
            for run in unbound.iter().take(nr_runs).skip(1) {
                self.add_again(*run)?;
            }
        }
        let best = best.and_then(|detail| ways.iter().find(|way| way.shown() == detail));
        while let Some(way) = best.filter(|_| self.nr_begun < end) {
            self.count(policy, point, way)?;
            // What fails once mostly does again, and may take long to.
            if self.runs.last().is_some_and(|run| run.outcome.is_err()) {
                break;
            }
        }
        self.nr_begun = end;
        Ok(())
    }

    /// How many times its modelled time the command takes in the guest: one run under first touch, of which nothing else
    /// is kept.
    pub fn slowdown(&mut self, point: &Point) -> anyhow::Result<u32> {
        self.interrupts.check()?;
        progress("a run to find out how much slower the guest is");
        self.request.slow_clocks = 1;
        let counted = self.run(point, &Way::as_it_is());
        self.interrupts.check()?;
        let slowdown = self.report(counted?).and_then(|report| {
            report.slowdown().ok_or_else(|| "no CPU executed any of the program".to_owned())
        });
        match slowdown {
            // As casts go: never below 0.
            Ok(times) => {
                let times = (times.round() as u32).clamp(1, SLOWEST);
                progress(&format!("clocks wait {times} times as long"));
                Ok(times)
            }
            Err(why) => bail!(
                "cannot tell how much slower the guest is: {why}; give --slow-clocks a number instead of auto"
            ),
        }
    }

    /// Runs under first touch: by hand as well, of somebody who binds nothing.
    fn unbound(&self, point: &Point) -> Vec<usize> {
        let is_one = |run: &CountedRun| {
            (run.policy, run.nr_cpus) == (Policy::FirstTouch, point.nr_cpus) && run.outcome.is_ok()
        };
        (0..self.runs.len()).filter(|at| is_one(&self.runs[*at])).collect()
    }

    /// Takes one of them for a placement by hand.
    fn add_again(&mut self, at: usize) -> anyhow::Result<()> {
        let (policy, detail) = (Policy::Hand, Some(AS_IT_IS.to_owned()));
        let run = CountedRun { policy, detail, ..self.runs[at].clone() };
        if let Some(journal) = &mut self.journal {
            journal.add_again((policy, run.detail.clone(), run.nr_cpus), at)?;
        }
        self.runs.push(run);
        Ok(())
    }

    /// What is left of runs that were interrupted.
    pub fn kept(&self) -> String {
        let (counted, planned) = (self.runs.len(), self.nr_planned);
        let runs = format!("ended by a signal; {counted} of {planned} runs had ended");
        match &self.journal {
            Some(journal) => {
                let folder = journal.folder().display();
                format!("{runs}, and `quartier lab compare --from {folder}` reports on them")
            }
            None => format!("{runs}, and are lost: --recordings keeps them"),
        }
    }

    /// One run.
    fn count(&mut self, policy: Policy, point: &Point, way: &Way) -> anyhow::Result<()> {
        self.interrupts.check()?;
        self.nr_begun += 1;
        let fewer = (!point.is_all).then(|| of(u64::from(point.nr_cpus), "CPU"));
        let cpus = fewer.map_or_else(String::new, |cpus| format!(" on {cpus}"));
        let detail = way.shown().filter(|shown| shown != policy.name());
        let detail = detail.map_or_else(String::new, |shown| format!(" ({shown})"));
        let what = format!("{}{cpus}{detail}", policy.name());
        let title = format!("run {} of {}: {what}", self.nr_begun, self.nr_planned);
        progress(&title);
        if let Some(console) = &mut self.console {
            let _ = writeln!(console, "quartier: {title}");
        }
        let counted = self.run(point, way);
        self.interrupts.check()?;
        let counted = counted?;
        if let Err(why) = &counted {
            progress(&format!("{what}: not counted: {why}"));
        }
        self.add((policy, way.shown(), point.nr_cpus), counted)
    }

    fn add(
        &mut self,
        (policy, detail, nr_cpus): (Policy, Option<String>, u32),
        counted: Result<Recording, String>,
    ) -> anyhow::Result<()> {
        if let Some(journal) = &mut self.journal {
            let outcome = counted.as_ref().map_err(String::as_str);
            journal.add((policy, detail.clone(), nr_cpus), outcome)?;
        }
        let outcome = self.report(counted);
        self.runs.push(CountedRun { policy, detail, nr_cpus, outcome });
        Ok(())
    }

    /// What a run says about the phase, or why nothing.
    fn report(&self, counted: Result<Recording, String>) -> Result<Report, String> {
        Report::new(&counted?, self.phase).map_err(|error| error.to_string())
    }

    /// Gives what was counted, or why this run failed; an error is one that all others would have too.
    fn run(&self, point: &Point, way: &Way) -> anyhow::Result<Result<Recording, String>> {
        let mut request = self.request.clone();
        request.command = point.told(way.command(&self.command));
        request.kernel_args.push(way.kernel_arg().to_owned());
        request.beside = way.beside();
        if !point.is_all {
            request.cpus = point.cpus.clone();
        }
        let console = self.console.clone().map(|console| Box::new(console) as _);
        count_once(&self.counting, request, Box::new(io::sink()), console)
    }
}

/// A stream with several owners.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Box<dyn Write + Send>>>);

impl Shared {
    pub fn new(stream: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }
}

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
