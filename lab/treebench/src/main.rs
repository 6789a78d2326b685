//! What the decision tree costs on a made-up machine of 1024 clusters of four CPUs, beside a walk over
//! hwloc's tree and a scan over a counter for each CPU: measured alternately in one run. See
//! `docs/benchmarks.md`.

mod beside;
mod cases;
mod chart;
mod clock;
mod report;
mod rivals;
mod shape;
mod stats;
mod targets;
mod text;
mod world;

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;

use beside::HostCpus;
use cases::{Bench, Case};
use clock::{Clock, Effort};
use report::{Measured, Report};
use rivals::Hwloc;
use world::Worlds;

/// Measure decisions and updates of the decision tree, beside what programs do without it
#[derive(Debug, Parser)]
#[command(name = "quartier-treebench")]
struct Cli {
    /// How often every case is run [default: 7, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// A tenth of the time
    #[arg(long)]
    quick: bool,
    /// Only cases with this in their name, and those that they are compared with
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a plot of cost against the height of the tree
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

const EFFORT: Effort = Effort { times: 10_000, budget: Duration::from_millis(30) };
const QUICK: Effort = Effort { times: 2_000, budget: Duration::from_millis(5) };

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let report = measure(&cli)?;
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

fn measure(cli: &Cli) -> anyhow::Result<Report> {
    let mut all = chosen(cli.only.as_deref());
    ensure!(!all.is_empty(), "--only: no case has this in its name; without it all are listed");
    let rounds = cli.rounds.unwrap_or(if cli.quick { 3 } else { 7 });
    let host = HostCpus::choose();
    let bench = Bench {
        clock: Clock::new(),
        effort: if cli.quick { QUICK } else { EFFORT },
        host,
        worlds: Worlds::default(),
        hwloc: Hwloc::open(),
    };
    for round in 1..=rounds {
        for measured in &mut all {
            tell(&format!("round {round} of {rounds}: {}", measured.case.name));
            let outcome = (measured.case.run)(&bench);
            measured.outcomes.push(outcome.with_context(|| measured.case.name.clone())?);
        }
    }
    tell("");
    Ok(Report::new(&bench, rounds, &all))
}

/// The cases with a text in their name, and those that these are compared with.
fn chosen(only: Option<&str>) -> Vec<Measured> {
    let part = only.unwrap_or("");
    let all = Case::all();
    let named: Vec<_> = all.iter().filter(|case| case.name.contains(part)).collect();
    let wanted: Vec<_> = named
        .iter()
        .flat_map(|case| [Some(&case.name), case.compared_to.as_ref()])
        .flatten()
        .cloned()
        .collect();
    let all = all.into_iter().filter(|case| wanted.contains(&case.name));
    all.map(|case| Measured { case, outcomes: Vec::new() }).collect()
}

/// Where it has got to, on one line of a terminal.
fn tell(text: &str) {
    let mut stream = stderr();
    if stream.is_terminal() {
        let _ = write!(stream, "\r\x1b[K{text}").and_then(|()| stream.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_is_compared_with_runs_too() {
        let names: Vec<_> =
            chosen(Some("hwloc walk, 90 %")).into_iter().map(|m| m.case.name).collect();
        assert_eq!(names, ["decide, 90 % taken, alone", "hwloc walk, 90 % taken"]);
        assert!(chosen(Some("no such case")).is_empty());
        assert!(chosen(None).len() > 80);
    }
}
