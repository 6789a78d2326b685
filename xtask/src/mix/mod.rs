//! UNAS's own mix (seed 004, section 5): half of the processes compute, half use memory that is far from them. How soon
//! each policy brings them together, with how much moved, in guests.

mod drawing;
mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde::Deserialize;

/// What runs in the guest.
const MIX: &str = include_str!("mix.py");

/// How quartierd is configured there: a guest is some 30 times slower than a machine, so that looking at as many pages takes
/// 30 times the part of a CPU.
const CONFIG: &str = "monitor.pages_percent = 15\n";

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
    /// How long it is watched
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Runs of each policy
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Where the table, the drawings and all that was seen go
    #[arg(long, default_value = "docs/results/mix")]
    out: PathBuf,
}

/// Who brings threads and memory together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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
    fn daemon(self, built: &Path) -> anyhow::Result<Vec<OsString>> {
        Ok(match self {
            Self::Nothing | Self::NumaBalancing => Vec::new(),
            Self::Numad => vec![numad()?.into()],
            Self::Quartierd => {
                let program = built.with_file_name("quartierd").into_os_string();
                let config = built.with_file_name("mix.toml").into_os_string();
                let options =
                    ["--apply", "--journal", "/tmp/journal", "--log", "/tmp/log", "--config"];
                let options = options.map(OsString::from);
                [program].into_iter().chain(options).chain([config]).collect()
            }
        })
    }
}

/// As the command line has it, which the script hears too.
fn policy_word(policy: Policy) -> anyhow::Result<clap::builder::PossibleValue> {
    policy.to_possible_value().context("it has no name")
}

fn numad() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut programs = folders.map(|folder| folder.join("numad"));
    programs
        .find(|program| program.exists())
        .context("numad is not there: sh xtask/deps.sh results")
}

/// Where processes and their memory were at one time.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Look {
    seconds: f64,
    local_bytes: u64,
    resident_bytes: u64,
}

impl Look {
    fn local(&self) -> f64 {
        self.local_bytes as f64 / self.resident_bytes.max(1) as f64
    }
}

/// What was spent, and what was done meanwhile.
#[derive(Clone, Debug, Deserialize)]
struct End {
    least_bytes: u64,
    moved_bytes: u64,
    daemon_cpu_seconds: f64,
    /// Bogo operations of stress-ng by the kind of stress.
    work: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Look(Look),
    /// By the daemon, for people.
    Said(serde::de::IgnoredAny),
    End(End),
}

/// One run.
#[derive(Debug)]
struct Run {
    policy: Policy,
    looks: Vec<Look>,
    end: End,
}

impl Run {
    fn of(policy: Policy, said: &str) -> anyhow::Result<Self> {
        let (mut looks, mut end) = (Vec::new(), None);
        for line in said.lines().filter(|line| line.starts_with('{')) {
            match serde_json::from_str(line).with_context(|| format!("not understood: {line}"))? {
                Line::Look(look) => looks.push(look),
                Line::Said(_) => {}
                Line::End(last) => end = Some(last),
            }
        }
        ensure!(!looks.is_empty(), "nothing was looked at");
        Ok(Self { policy, looks, end: end.context("it did not end well")? })
    }

    /// When the goal was first reached, seconds; `None`: not at all.
    fn reached(&self) -> Option<f64> {
        self.looks.iter().find(|look| look.local() >= GOAL).map(|look| look.seconds)
    }

    fn last(&self) -> f64 {
        self.looks.last().map_or(0.0, Look::local)
    }
}

/// Runs the mix everywhere.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let quartier = crate::release_build()?;
    let quartier =
        quartier.canonicalize().context("there is no release build: run `make build`")?;
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let script = quartier.with_file_name("mix.py");
    fs::write(&script, MIX).context("cannot write what runs in the guest")?;
    fs::write(quartier.with_file_name("mix.toml"), CONFIG)
        .context("cannot write its configuration")?;
    for kernel in &args.kernels {
        for cpus_per_node in &args.cpus_per_node {
            let machine = format!("4x{cpus_per_node}-{kernel}");
            let mut runs = Vec::new();
            let mut said = String::new();
            for policy in &args.policies {
                let daemon = policy.daemon(&quartier)?;
                for nr in 1..=args.runs {
                    eprintln!("mix: {machine}: {}, run {nr} of {}", policy.name(), args.runs);
                    let text =
                        guest(&quartier, args, kernel, *cpus_per_node, &script, *policy, &daemon)
                            .with_context(|| format!("{machine}: {}", policy.name()))?;
                    said += &text;
                    runs.push(Run::of(*policy, &text)?);
                }
            }
            let path = |kind: &str| args.out.join(format!("{machine}.{kind}"));
            fs::write(path("jsonl"), said)?;
            let table = table::of(&runs);
            println!("{machine}\n{table}");
            fs::write(path("txt"), table)?;
            fs::write(path("svg"), drawing::of(&runs, &machine)?)?;
        }
    }
    Ok(())
}

fn guest(
    quartier: &Path,
    args: &Args,
    kernel: &str,
    cpus_per_node: u32,
    script: &Path,
    policy: Policy,
    daemon: &[OsString],
) -> anyhow::Result<String> {
    // Memory of all that use it is on the first node at first, with as much to spare.
    let node_mib = args.mib * cpus_per_node * 2 * 2 + 512;
    let output = Command::new(quartier)
        .args(["lab", "run", "--kernel", kernel, "--nodes", "4"])
        .args([
            "--cpus-per-node",
            &cpus_per_node.to_string(),
            "--mem",
            &format!("{}M", 4 * node_mib),
        ])
        .args(["--root", "--timeout", &(args.seconds + 900).to_string(), "--", "/usr/bin/python3"])
        .arg(script)
        .args([policy_word(policy)?.get_name(), &cpus_per_node.to_string(), "4"])
        .args([args.mib.to_string(), args.seconds.to_string()])
        .args(daemon)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run quartier")?;
    ensure!(output.status.success(), "the guest ended with {}", output.status);
    String::from_utf8(output.stdout).context("what it said is no text")
}

#[cfg(test)]
mod tests;
