//! `cargo xtask`: checks and chores of this workspace, run by the Makefile.
#![forbid(unsafe_code)]

mod counted;
mod degrade_bench;
mod deps;
mod guest_runs;
mod loom;
mod mix;
mod pages;
mod percore_counted;
mod planted;
mod range;
mod script;
mod served;
mod servers;
mod soak;
mod staged;
#[path = "../../tests/programs/stops_scaling.rs"]
mod stops_scaling;
mod tidy;
mod watch_cost;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::{Parser, Subcommand};

use workspace::Workspace;

/// Checks and chores of the Quartier workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check that dependencies go model <- observe, decide, act <- apps, lab
    CheckDeps,
    /// Check what rustc and clippy do not: where unsafe may be, file heads and sizes, documents
    Tidy,
    /// Write man pages and shell completions
    Pages {
        /// The folder to write to
        #[arg(default_value = "target/pages")]
        folder: PathBuf,
    },
    /// Check that what the unit and the man pages name was put in place
    CheckStaged {
        /// The folder that stands for the root
        tree: PathBuf,
        /// Where in it programs are installed
        #[arg(long, default_value = "/usr")]
        prefix: String,
    },
    /// Run the model-checked tests of every crate that has some
    Loom,
    /// Run the demonstration: one real program under four policies, all that leaves a node counted
    Demo(counted::demo::Args),
    /// Count real programs under every policy, for docs/results
    Results(counted::results::Args),
    /// Watch UNAS's mix of processes under every policy, for docs/results/mix
    Mix(mix::Args),
    /// Load real servers while quartierd moves them, for docs/results/servers
    Servers(servers::Args),
    /// Watch what a quartierd that moves tasks has after an hour, for docs/quartierd.md
    Soak(soak::Args),
    /// Measure what quartierd takes beside many tasks, for docs/quartierd.md
    WatchCost(watch_cost::Args),
    /// Load real servers that have the Java agent, and others, for docs/results/degrade
    DegradeBench(degrade_bench::Args),
    /// Sweep a program whose culprit is known, many times, for docs/results/scale
    ScalePlanted(planted::Args),
    /// Count who takes whose line in percore's parts and in what others offer, for docs/percore.md
    PercoreCounted(percore_counted::Args),
    /// Count a real application behind stock web servers and behind copies of one, for docs/results/served
    Served(served::Args),
    /// Measure what counting costs, for docs/lab.md
    CountCost(counted::cost::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::CheckDeps => finish("check-deps", &deps::check(&Workspace::load()?.packages)),
        Command::Tidy => {
            let workspace = Workspace::load()?;
            for note in tidy::notes(&workspace) {
                println!("tidy: note: {note}");
            }
            finish("tidy", &tidy::check(&workspace))
        }
        Command::Pages { folder } => pages::write(&folder),
        Command::CheckStaged { tree, prefix } => {
            finish("check-staged", &staged::check(&tree, &prefix)?)
        }
        Command::Loom => loom::run(&Workspace::load()?),
        Command::Demo(args) => counted::demo::run(&args),
        Command::Results(args) => counted::results::run(&args),
        Command::Mix(args) => mix::run(&args),
        Command::Servers(args) => servers::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::WatchCost(args) => watch_cost::run(&args),
        Command::DegradeBench(args) => degrade_bench::run(&args),
        Command::ScalePlanted(args) => planted::run(&args),
        Command::PercoreCounted(args) => percore_counted::run(&args),
        Command::Served(args) => served::run(&args),
        Command::CountCost(args) => counted::cost::run(&args),
    }
}

/// What a command of quartier prints; on standard error it may say what it likes.
fn said_by(command: &mut process::Command, name: &str) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run quartier")?;
    ensure!(output.status.success(), "{name} ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("what {name} printed is no text"))
}

/// The release build beside the build of this program.
fn release_build() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let target = own.parent().and_then(Path::parent).context("this program lies in no build")?;
    Ok(target.join("release/quartier"))
}

/// What a check found, over everything it looked at.
#[derive(Debug, Default)]
struct Findings {
    /// How many things were looked at: a check of nothing is no check.
    nr_checked: usize,
    problems: Vec<String>,
}

impl Findings {
    fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        self.nr_checked += 1;
        if !holds {
            self.problems.push(problem());
        }
    }

    fn merge(&mut self, other: Self) {
        self.nr_checked += other.nr_checked;
        self.problems.extend(other.problems);
    }
}

fn finish(name: &str, findings: &Findings) -> anyhow::Result<()> {
    for problem in &findings.problems {
        eprintln!("{name}: {problem}");
    }
    if findings.nr_checked == 0 {
        bail!("{name} found nothing to check");
    }
    if !findings.problems.is_empty() {
        bail!("{name}: {} of {} checks failed", findings.problems.len(), findings.nr_checked);
    }
    println!("{name}: {} checks hold", findings.nr_checked);
    Ok(())
}
