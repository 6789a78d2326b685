//! Runs at every CPU count, taking turns.

use std::ffi::OsString;

use anyhow::bail;
use quartier_act::Program;
use quartier_decide::verdict::{Point, Study, fold};
use quartier_model::CpuList;
use quartier_observe::Host;

use super::guard::Guard;
use super::measure::{Measured, Outcome};
use super::metric::Metric;
use super::programs::{METRIC, Prepared};
use super::serve::{Served, load_cpus};

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
}

/// What came of it.
#[derive(Debug)]
pub struct Swept {
    pub study: Study,
    /// What went wrong, each thing once, with its remedy.
    pub complaints: Vec<String>,
}

impl Sweep {
    /// Every round visits every point once.
    pub fn run(&self, guard: &Guard) -> anyhow::Result<Swept> {
        let path = std::env::var_os("PATH");
        Program::find(&self.command[0], path.as_deref())?;
        if let Some(load) = &self.load {
            Program::find(&load.command[0], path.as_deref())?;
        }
        let points = self.sets.iter().map(|cpus| Point {
            nr_cpus: cpus.len() as u32,
            cpus: cpus.to_string(),
            runs: Vec::new(),
        });
        let study = Study {
            unit: self.metric.unit().to_owned(),
            points: points.collect(),
            ..Study::default()
        };
        let mut swept = Swept { study, complaints: Vec::new() };
        let shares = |load: &Load| {
            self.sets.iter().any(|cpus| load.cpus.iter().all(|cpu| cpus.contains(cpu)))
        };
        if self.load.as_ref().is_some_and(shares) {
            swept.complain(
                "on the most CPUs the load has none of its own and shares the server's: leave it some (--cpus)"
                    .to_owned(),
            );
        }
        for _ in 0..self.repeat {
            for (at, cpus) in self.sets.iter().enumerate() {
                match self.measure(cpus, guard) {
                    Ok(outcome) => swept.add(at, outcome),
                    Err(why) => {
                        let what = if self.load.is_some() { "server" } else { "command" };
                        swept.complain(format!("on {} CPUs the {what} {why}", cpus.len()));
                    }
                }
            }
        }
        if swept.study.points.iter().all(|point| point.runs.is_empty()) {
            bail!("no run succeeded: {}", swept.complaints.join("; "));
        }
        Ok(swept)
    }
}

impl Sweep {
    /// The most CPUs of a point.
    pub fn largest(&self) -> usize {
        self.sets.iter().map(CpuList::len).max().unwrap_or(1)
    }

    /// A program of the study's is what is measured; its load may run on these CPUs.
    pub fn measure_program(&mut self, prepared: &Prepared, cpus: &CpuList) -> anyhow::Result<()> {
        self.metric = Metric::count(METRIC)?;
        let is_server = prepared.program.is_server();
        self.command = prepared.words(if is_server { "serve" } else { "job" });
        self.load = is_server.then(|| Load { command: prepared.words("load"), cpus: cpus.clone() });
        Ok(())
    }

    fn measure(&self, cpus: &CpuList, guard: &Guard) -> Result<Outcome, String> {
        let measured = Measured {
            host: &self.host,
            online: &self.online,
            cpus,
            command: &self.command,
            metric: &self.metric,
            hertz: self.hertz,
            guard,
        };
        let Some(load) = &self.load else { return measured.run() };
        let load_cpus = load_cpus(&load.cpus, cpus);
        Served { server: measured, load: &load.command, load_cpus: &load_cpus }.run()
    }
}

impl Swept {
    fn add(&mut self, at: usize, outcome: Outcome) {
        let Outcome { mut run, recording, load_ns, unprofiled, complaint } = outcome;
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
            let profile = fold(&recording, self.study.points[at].nr_cpus, load_ns);
            run.profile = Some(self.study.adopt(profile, &recording));
        }
        self.study.points[at].runs.push(run);
    }

    /// Says something once.
    pub fn complain(&mut self, complaint: String) {
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }
}
