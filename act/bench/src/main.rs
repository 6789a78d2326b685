//! What marking and touching a page costs under Quartier, beside `mprotect`+`move_pages` and a plain
//! first touch: ratios, measured alternately in one run. See `docs/benchmarks.md`.

mod cases;
mod chart;
mod child;
mod report;
mod startup;
mod stats;
mod text;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;

use cases::{Case, Method, Programs};
use report::{Measured, Report};

/// Compare next-touch with its alternatives, alternately, in one run
#[derive(Debug, Parser)]
#[command(name = "quartier-bench", args_conflicts_with_subcommands = true)]
struct Cli {
    /// Memory to mark and touch, in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65536))]
    mib: u32,
    /// How often every case is run
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Numbers of threads that touch the memory
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Only cases with this in their name (and first touch, always)
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Not the cost of starting, of threads and of idling
    #[arg(long)]
    pages_only: bool,
    /// How often small programs are started
    #[arg(long, default_value_t = 100)]
    starts: usize,
    /// The command to measure; without this, the one beside this program
    #[arg(long, value_name = "FILE")]
    quartier: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a bar chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(subcommand)]
    inner: Option<Inner>,
}

#[derive(Debug, clap::Subcommand)]
enum Inner {
    /// Run one measured program (what this program starts itself)
    #[command(hide = true, subcommand)]
    Child(child::Child),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if let Some(Inner::Child(child)) = &cli.inner {
        return child.run();
    }
    ensure!(cli.threads.iter().all(|&count| count > 0), "--threads: at least one thread");
    let own = std::env::current_exe().context("cannot find out where this program is")?;
    let quartier = cli.quartier.clone().unwrap_or_else(|| own.with_file_name("quartier"));
    ensure!(
        quartier.exists(),
        "there is no {}; build everything with `cargo build --release`",
        quartier.display()
    );
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let programs = Programs { own, quartier, scratch: scratch.path().to_owned() };
    let report = measure(&cli, &programs)?;
    if let Some(path) = &cli.svg {
        std::fs::write(path, chart::draw(&report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn measure(cli: &Cli, programs: &Programs) -> anyhow::Result<Report> {
    let (mib, rounds) = (cli.mib as usize, cli.rounds as usize);
    let wanted = |case: &Case| {
        let part = cli.only.as_deref().unwrap_or("");
        case.method == Method::FirstTouch || case.name().contains(part)
    };
    let mut all: Vec<_> = Case::all(&cli.threads)
        .into_iter()
        .filter(wanted)
        .map(|case| Measured { case, samples: Vec::new() })
        .collect();
    for round in 0..rounds {
        for measured in &mut all {
            measured.samples.push(programs.run(measured.case, mib)?);
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    let costs = match cli.pages_only {
        true => None,
        false => Some(startup::measure(programs, rounds, cli.starts)?),
    };
    Ok(Report {
        format: 1,
        mib,
        rounds,
        nodes: nr_nodes(),
        lines: report::lines(&all),
        targets: report::targets(&all, &cli.threads),
        costs,
    })
}

/// Memory nodes of this machine; 1 where the kernel shows none.
fn nr_nodes() -> usize {
    let nodes = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let is_node =
        |name: &str| name.strip_prefix("node").is_some_and(|id| id.parse::<u32>().is_ok());
    nodes.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count().max(1)
}
