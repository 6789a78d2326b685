//! The collapse that the study "An Analysis of Linux Scalability to Many Cores" found, and its cures, on modelled
//! cores. See `docs/percore.md`.
#![forbid(unsafe_code)]

mod chart;
mod machine;
mod scenario;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

use machine::{CORES_MAX, Machine};
use scenario::{Kernel, Load, Point};

/// Look mounts up on 1 to 48 modelled cores: behind a ticket lock, then with its cures
#[derive(Debug, Parser)]
#[command(name = "quartier-collapse")]
struct Cli {
    /// Cycles of work between two look-ups; chosen so that the lock gives way where the study's did
    #[arg(long, default_value_t = 46_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    work_cycles: u64,
    /// References to one directory that are taken and given back between two look-ups
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    references: u64,
    /// Cycles that are counted, at each number of cores
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    cycles: u64,
    /// What decides which waiter looks again first
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw it, with the study's figures beside it
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The points of a kernel, by cores.
struct Curve {
    kernel: Kernel,
    points: Vec<Point>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let (work_cycles, nr_references) = (cli.work_cycles, cli.references);
    let load = Load { work_cycles, nr_references, cycles: cli.cycles, seed: cli.seed };
    let curves = Kernel::ALL.map(|kernel| curve(kernel, load));
    let curves = curves.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    print(&curves);
    println!(
        "\n{work_cycles} cycles of work, {nr_references} references, {} cycles counted, seed {}; cycles are \
         modelled",
        cli.cycles, cli.seed
    );
    if let Some(path) = &cli.svg {
        std::fs::write(path, chart::draw(&curves))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn curve(kernel: Kernel, load: Load) -> anyhow::Result<Curve> {
    let cores = std::iter::once(1).chain((4..=CORES_MAX).step_by(4));
    let point = |nr_cores| Ok(scenario::run(&mut Machine::new()?, kernel, nr_cores, load));
    Ok(Curve { kernel, points: cores.map(point).collect::<anyhow::Result<_>>()? })
}

fn print(curves: &[Curve]) {
    for curve in curves {
        println!("{}", curve.kernel.name());
        println!(
            "  cores  rounds in a million cycles  cycles of a hand-over  copies taken in a round"
        );
        for point in &curve.points {
            let hand_over =
                point.hand_over_cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.0}"));
            println!(
                "  {:>5}  {:>26.1}  {hand_over:>21}  {:>23.2}",
                point.nr_cores, point.throughput, point.nr_taken
            );
        }
    }
}
