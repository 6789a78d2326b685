//! UNAS's own mix (seed 004, section 5): half of the processes compute, half use memory that is far from them. How soon
//! each policy brings them together, with how much moved, in guests.

mod drawing;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Deserialize;

use crate::script::{self, Guest, Look, Script};

/// What runs in the guest.
const MIX: &str = include_str!("mix.py");

/// So many of all bytes local is what is to be reached.
const GOAL: f64 = 0.9;

/// Options of `cargo xtask mix`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernels
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', default_value = "6.1,7.3")]
    kernels: Vec<String>,
    /// CPUs of each of four nodes
    #[arg(long, value_name = "NR", value_delimiter = ',', default_value = "2,4")]
    cpus_per_node: Vec<u32>,
    /// Who mends it
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "nothing,numa-balancing,numad,quartierd"
    )]
    policies: Vec<Policy>,
    /// Memory of each process that is not to compute alone, MiB; numad looks at none below 300
    #[arg(long, default_value_t = 320)]
    mib: u32,
    /// How long each run is watched
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Runs of each policy
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Where the table, the drawings and all that was seen go; runs that are there stay
    #[arg(long, default_value = "docs/results/mix")]
    out: PathBuf,
}

/// Who brings threads and memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    Nothing,
    NumaBalancing,
    Numad,
    Quartierd,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::NumaBalancing => "kernel NUMA balancing",
            Self::Numad => "numad",
            Self::Quartierd => "quartierd",
        }
    }

    /// The daemon's command.
    fn daemon(self, script: &Script) -> anyhow::Result<Vec<OsString>> {
        Ok(match self {
            Self::Nothing | Self::NumaBalancing => Vec::new(),
            Self::Numad => vec![numad()?.into()],
            Self::Quartierd => script.quartierd()?,
        })
    }
}

fn numad() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut programs = folders.map(|folder| folder.join("numad"));
    programs
        .find(|program| program.exists())
        .context("numad is not there: sh xtask/deps.sh results")
}

/// What was spent, and what was done meanwhile.
#[derive(Clone, Debug, Deserialize)]
struct End {
    policy: Policy,
    least_bytes: u64,
    moved_bytes: u64,
    daemon_cpu_seconds: f64,
    /// Bogo operations of stress-ng by the kind of stress.
    work: BTreeMap<String, u64>,
}

/// One run.
#[derive(Debug)]
struct Run {
    looks: Vec<Look>,
    end: End,
}

impl Run {
    fn of(said: &str) -> anyhow::Result<Self> {
        let (looks, end) = script::read(said)?;
        ensure!(!looks.is_empty(), "nothing was looked at");
        Ok(Self { looks, end })
    }

    /// Those of a file, one after the other.
    fn all(said: &str) -> anyhow::Result<Vec<Self>> {
        let lines: Vec<&str> = said.split_inclusive('\n').collect();
        let runs = lines.split_inclusive(|line| line.starts_with("{\"end\""));
        runs.map(|lines| Self::of(&lines.concat())).collect()
    }

    fn policy(&self) -> Policy {
        self.end.policy
    }

    /// Bogo operations of a kind in a second.
    fn work(&self, kind: &str) -> Option<f64> {
        let seconds = self.looks.last()?.seconds.max(1.0);
        Some(*self.end.work.get(kind)? as f64 / seconds)
    }

    /// When the goal was first reached, seconds; `None`: not at all.
    fn reached(&self) -> Option<f64> {
        self.looks
            .iter()
            .find(|look| look.local().is_some_and(|local| local >= GOAL))
            .map(|look| look.seconds)
    }

    fn last(&self) -> Option<f64> {
        self.looks.last().and_then(Look::local)
    }
}

/// Runs the mix everywhere.
pub fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let script = Script::new("mix.py", MIX)?;
    for kernel in &args.kernels {
        for cpus_per_node in &args.cpus_per_node {
            let guest = Guest {
                kernel,
                cpus_per_node: *cpus_per_node,
                // Memory of all that use it is on the first node at first, with as much to spare.
                mib_per_node: args.mib * cpus_per_node * 2 * 2 + 512,
                timeout_s: args.seconds + 900,
            };
            run_in(args, &script, guest)?;
        }
    }
    Ok(())
}

/// All policies in one guest. Each run is kept when it has ended.
fn run_in(args: &Args, script: &Script, guest: Guest<'_>) -> anyhow::Result<()> {
    let name = guest.name();
    for policy in &args.policies {
        let word = policy.to_possible_value().context("it has no name")?;
        let numbers = [args.mib, args.seconds].map(|number| number.to_string());
        let words = [word.get_name()].into_iter().chain(numbers.iter().map(String::as_str));
        let words: Vec<_> = words.map(OsString::from).chain(policy.daemon(script)?).collect();
        for nr in 1..=args.runs {
            eprintln!("mix: {name}: {}, run {nr} of {}", policy.name(), args.runs);
            let said = script.run(guest, &words);
            let said = said.with_context(|| format!("{name}: {}", policy.name()))?;
            Run::of(&said)?;
            let file = args.out.join(format!("{name}.jsonl"));
            File::options().append(true).create(true).open(file)?.write_all(said.as_bytes())?;
        }
    }
    show(args, &name)
}

/// The table and the drawing of all runs that were kept.
fn show(args: &Args, machine: &str) -> anyhow::Result<()> {
    let path = |kind: &str| args.out.join(format!("{machine}.{kind}"));
    let runs = Run::all(&fs::read_to_string(path("jsonl"))?)
        .with_context(|| format!("{} is damaged: remove it", path("jsonl").display()))?;
    let table = table::of(&runs);
    println!("{machine}\n{table}");
    fs::write(path("txt"), table)?;
    fs::write(path("svg"), drawing::of(&runs, machine)?)?;
    Ok(())
}

#[cfg(test)]
mod tests;
