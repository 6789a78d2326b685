//! What a run costs before the program begins, and what a thread and an idle process cost.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;

use crate::cases::Programs;
use crate::stats::Spread;

/// Times, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Costs {
    /// Start to end of whole runs of small programs.
    pub starts: Vec<Start>,
    /// Threads, without and with placement.
    pub threads: Vec<Threads>,
    /// CPU time of an idle marked process per second, with its helper; unknown without a helper.
    pub idle_cpu_ns_per_s: Option<f64>,
}

/// A program alone and under `quartier run`, alternately.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    /// What was run.
    pub name: String,
    /// Alone.
    pub alone_ns: Spread,
    /// Under `quartier run`.
    pub under_ns: Spread,
    /// The difference, pair by pair.
    pub extra_ns: Spread,
}

/// Creation of threads.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    /// `alone` or `under quartier run`.
    pub name: &'static str,
    /// The process's first `pthread_create`.
    pub first_create_ns: Spread,
    /// A later one.
    pub create_ns: Spread,
    /// The same with `pthread_join`.
    pub create_join_ns: Spread,
}

/// A program linked statically that every Debian has.
const STATIC_PROGRAM: &str = "/sbin/ldconfig";

/// Measures all of it.
pub fn measure(programs: &Programs, rounds: usize, starts: usize) -> anyhow::Result<Costs> {
    let mut found = vec![
        start(programs, "dynamic, runtime loaded (--force)", &["true"], true, starts)?,
        start(programs, "dynamic, as it is here", &["true"], false, starts)?,
    ];
    if Path::new(STATIC_PROGRAM).exists() {
        let command = [STATIC_PROGRAM, "--version"];
        found.push(start(programs, "static (runs as it is)", &command, true, starts)?);
    }
    Ok(Costs {
        starts: found,
        threads: threads(programs, rounds)?,
        idle_cpu_ns_per_s: idle(programs)?,
    })
}

fn start(
    programs: &Programs,
    name: &str,
    program: &[&str],
    force: bool,
    count: usize,
) -> anyhow::Result<Start> {
    let mut alone = Command::new(program[0]);
    alone.args(&program[1..]);
    let mut under = Command::new(&programs.quartier);
    under.args(["run", "--quiet"]).args(force.then_some("--force")).arg("--").args(program);
    let (mut alone_ns, mut under_ns) = (Vec::new(), Vec::new());
    for _ in 0..count {
        alone_ns.push(time(&mut alone)?);
        under_ns.push(time(&mut under)?);
    }
    let extra: Vec<_> =
        under_ns.iter().zip(&alone_ns).map(|(under, alone)| under - alone).collect();
    Ok(Start {
        name: name.to_owned(),
        alone_ns: Spread::of(&alone_ns),
        under_ns: Spread::of(&under_ns),
        extra_ns: Spread::of(&extra),
    })
}

fn time(command: &mut Command) -> anyhow::Result<f64> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(began.elapsed().as_nanos() as f64)
}

fn threads(programs: &Programs, rounds: usize) -> anyhow::Result<Vec<Threads>> {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (quartier, samples) in [false, true].into_iter().zip(&mut samples) {
            samples.push(programs.other("threads", quartier, &[])?);
        }
    }
    let names = ["alone", "under quartier run"];
    let spread = |(name, samples): (_, &Vec<crate::child::Other>)| {
        let of = |field: fn(&crate::child::Other) -> f64| {
            Spread::of(&samples.iter().map(field).collect::<Vec<_>>())
        };
        Threads {
            name,
            first_create_ns: of(|sample| sample.first_create_ns),
            create_ns: of(|sample| sample.create_ns),
            create_join_ns: of(|sample| sample.create_join_ns),
        }
    };
    Ok(names.into_iter().zip(&samples).map(spread).collect())
}

fn idle(programs: &Programs) -> anyhow::Result<Option<f64>> {
    let sample = programs.other("idle", true, &["--mib=64".to_owned()])?;
    Ok(sample.idle_helper_cpu_ns.map(|helper| helper + sample.idle_cpu_ns))
}
