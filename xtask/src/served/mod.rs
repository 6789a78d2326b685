//! A real application behind stock web servers and behind copies of one, the cures of seed 000 added one at a time: what leaves
//! its node for each page, what CPUs take from each other, and pages per modelled second, counted in guests.

mod drawing;
mod guest;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use quartier_count::numbers::grouped;
use serde::{Deserialize, Serialize};

use guest::Guests;
use table::Results;

use crate::guest_runs;

const NR_NODES: u32 = 4;

const COUNTED: &str = "counted.jsonl";

/// Options of `cargo xtask served`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CPUs of each of four nodes
    #[arg(long, value_name = "NR", value_delimiter = ',', default_value = "4,2")]
    cpus_per_node: Vec<u32>,
    /// Whether a client keeps its connection
    #[arg(long, value_enum, value_delimiter = ',', default_value = "keep-alive,short")]
    connections: Vec<Connections>,
    /// Who serves
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Variant::ALL)]
    variants: Vec<Variant>,
    /// Runs of each
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Clients on each CPU
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Pages that each of them asks for
    #[arg(long, default_value_t = 8)]
    pages: u32,
    /// Tell which of the kernel's functions take lines from other CPUs, instead; it takes longer
    #[arg(long)]
    lines: bool,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// Count nothing; make the table anew of what was counted before
    #[arg(long)]
    again: bool,
    /// Keep all that guests tell in this folder, and take from there what is there: nothing is run for that
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// Where the table and all that was counted go; runs that are there stay
    #[arg(long, default_value = "docs/results/served")]
    out: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Whether a client keeps its connection for all that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Connections {
    KeepAlive,
    Short,
}

/// Who serves: stock servers, then ours with the cures added one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Variant {
    /// What `apt-get install apache2 php` gives
    ApachePreforkModPhp,
    /// The same with a listening socket for each CPU
    ApacheBuckets,
    /// Apache and PHP-FPM, as one: what a recipe of ours has on each node
    ApacheEventFpm,
    NginxFpm,
    /// A copy on each node, connections by the kernel's hashing
    Copies,
    /// And each connection to the copy on the node that received it
    CopiesSteered,
    /// And the application's files on each node
    CopiesSteeredRoots,
}

impl Variant {
    const ALL: [Self; 7] = [
        Self::ApachePreforkModPhp,
        Self::ApacheBuckets,
        Self::ApacheEventFpm,
        Self::NginxFpm,
        Self::Copies,
        Self::CopiesSteered,
        Self::CopiesSteeredRoots,
    ];

    /// In tables.
    fn name(self) -> &'static str {
        match self {
            Self::ApachePreforkModPhp => "Apache, mod_php (stock)",
            Self::ApacheBuckets => "the same, ListenCoresBucketsRatio",
            Self::ApacheEventFpm => "Apache event, PHP-FPM",
            Self::NginxFpm => "nginx, PHP-FPM",
            Self::Copies => "serve: copies",
            Self::CopiesSteered => "serve: and steering",
            Self::CopiesSteeredRoots => "serve: and --copy-root",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |word| f.write_str(word.get_name()))
    }
}

impl Connections {
    fn name(self) -> &'static str {
        match self {
            Self::KeepAlive => "connections that are kept",
            Self::Short => "a connection for each page",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::Short => "short",
        }
    }
}

/// What a guest is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Task {
    cpus_per_node: u32,
    connections: Connections,
    variant: Variant,
    /// Which of the runs that are alike, from 1.
    run: u32,
    /// On each CPU, and what each asks for.
    clients: u32,
    pages: u32,
    /// Whether it is told who takes lines from whom; what that takes is in the other numbers, so they are not shown.
    tells_lines: bool,
    /// As it was asked for.
    kernel: String,
}

/// A task, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    #[serde(flatten)]
    task: Task,
    /// On this machine, with the guest's boot; absent: it was recorded before.
    took_s: Option<f64>,
    outcome: Outcome,
}

type Outcome = guest_runs::Outcome<Box<Counts>>;

/// Of all the servers' processes with their database, while they were loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    pages: u64,
    instructions: u64,
    /// Commands that stayed on their node, and that left it, by kind.
    local: BTreeMap<String, u64>,
    remote: BTreeMap<String, u64>,
    /// Of those that left, what the kernel's own accesses were.
    remote_of_kernel: u64,
    /// Copies of lines that writes took from other CPUs.
    owner_changes: u64,
    /// Lines that the kernel's functions took from other CPUs, of those lines alone that are taken most; absent: not told.
    taken_by_kernel: Option<BTreeMap<String, u64>>,
    /// Of each CPU, in order: its node, and modelled cycles.
    cpus: Vec<(u16, u64)>,
    frequency_mhz: u32,
    /// Modelled cycles of each node, by windows of as many instructions of the program each.
    windows: Vec<Vec<u64>>,
    /// Sockets that listen, of all servers together.
    listeners: Option<u64>,
    /// Connections that were given to copies, and of those to the copy on the node that received them; absent: nobody counts.
    given: Option<(u64, u64)>,
    kernel: String,
    qemu: String,
}

impl Task {
    /// For files.
    fn name(&self) -> String {
        let Self { variant, connections, cpus_per_node, run, tells_lines, .. } = self;
        let lines = if *tells_lines { "-lines" } else { "" };
        format!("{variant}-{}-{NR_NODES}x{cpus_per_node}-{run}{lines}", connections.word())
    }
}

impl Run {
    fn counts(&self) -> Option<&Counts> {
        self.outcome.counts().map(Box::as_ref)
    }

    fn problem(&self) -> Option<&str> {
        self.outcome.problem()
    }

    /// For who waits.
    fn progress(&self) -> String {
        let Task { cpus_per_node, connections, variant, run, .. } = &self.task;
        let came_of_it = match &self.outcome {
            Outcome::Counted(counts) => {
                let remote = counts.remote.values().sum::<u64>() / counts.pages.max(1);
                format!("{} remote commands a page", grouped(remote))
            }
            Outcome::Failed(why) => format!("failed: {why}"),
        };
        let word = connections.word();
        let took = self.took_s.map_or_else(|| "recorded".to_owned(), |s| format!("{s:.0} s"));
        format!("{variant}, {word}, {NR_NODES} × {cpus_per_node}, run {run}: {came_of_it} ({took})")
    }
}

/// Counts what is asked for and is not there, a guest after the other, and makes the table.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.clients > 0 && args.pages > 0, "nothing is asked for: give --clients and --pages");
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let counted = args.out.join(COUNTED);
    if !args.again {
        count(args, &counted)?;
    }
    let runs: Vec<Run> = guest_runs::read(&counted)?;
    let results = Results::of(&runs);
    guest_runs::tell(&args.out, &results.text(), &results)?;
    for (name, svg) in drawing::of(&runs)? {
        fs::write(args.out.join(name), svg)?;
    }
    let nr_failed = runs.iter().filter(|run| run.problem().is_some()).count();
    ensure!(nr_failed == 0, "{nr_failed} of {} runs failed: the table says why", runs.len());
    Ok(())
}

/// One of each before the second of any, so that what is interrupted can be compared.
fn tasks(args: &Args) -> Vec<Task> {
    let mut tasks = Vec::new();
    for run in 1..=args.runs {
        for &cpus_per_node in &args.cpus_per_node {
            for &connections in &args.connections {
                for &variant in &args.variants {
                    let (clients, pages) = (args.clients, args.pages);
                    let kernel = args.kernel.clone();
                    tasks.push(Task {
                        cpus_per_node,
                        connections,
                        variant,
                        run,
                        clients,
                        pages,
                        tells_lines: args.lines,
                        kernel,
                    });
                }
            }
        }
    }
    tasks
}

/// A line of JSON each, as soon as it is counted; what failed before is tried again.
fn count(args: &Args, counted: &Path) -> anyhow::Result<()> {
    let before: Vec<Run> = guest_runs::read(counted)?;
    let is_there =
        |task: &Task| before.iter().any(|run| run.task == *task && run.counts().is_some());
    let tasks: Vec<Task> = tasks(args).into_iter().filter(|task| !is_there(task)).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    let guests = Guests::new(args.quartier.as_deref(), args.recordings.as_deref())?;
    let kept: Vec<&Run> = before.iter().filter(|run| !tasks.contains(&run.task)).collect();
    let kept = kept.into_iter();
    guest_runs::count("served", counted, kept, tasks, |task| guests.run(task), Run::progress)
}
