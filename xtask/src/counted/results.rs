//! `docs/results/`: the programs, counted one after the other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Place;
use super::programs::{PROGRAMS, Program};

/// The drawings that are kept of each program.
const DRAWINGS: [&str; 2] = ["policies.svg", "nodes-most-asked.svg"];

/// Where every run is kept, in a program's folder.
const RECORDINGS: &str = "recordings";

/// Options of `cargo xtask results`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs to count [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// How many times as long what acts by the clock waits: a counted guest is so much slower
    #[arg(long, default_value_t = 200)]
    slow_clocks: u32,
    /// Runs of each policy
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Where reports and drawings go
    #[arg(long, default_value = "docs/results")]
    out: PathBuf,
    /// Where programs get their input
    #[arg(long, default_value = "target/results")]
    work: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Counts the programs.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    if let Some(name) = args.names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no program {name} here, only {}", known.join(", "));
    }
    let place = Place::new(args.quartier.as_deref(), &args.work)?;
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let runs = args.runs.to_string();
    let slow_clocks = args.slow_clocks.to_string();
    let guest = ["--kernel", &args.kernel, "--slow-clocks", &slow_clocks];
    let runs = ["--runs", &runs, "--recordings", RECORDINGS];
    let options = [guest, runs].concat().into_iter().map(AsRef::as_ref).collect::<Vec<_>>();
    let wanted = |program: &&Program| {
        args.names.is_empty() || args.names.iter().any(|name| name == program.name)
    };
    for program in PROGRAMS.iter().filter(wanted) {
        eprintln!("results: {}", program.name);
        let folder = place.prepare(program).context(program.name)?;
        discard(&folder.join(RECORDINGS)).context(program.name)?;
        place.compare(program, &folder, &options).context(program.name)?;
        place.look_again(&folder, RECORDINGS, "whole").context(program.name)?;
        keep(program, &folder, &args.out).context(program.name)?;
    }
    Ok(())
}

/// Those of an earlier time would be kept otherwise.
fn discard(recordings: &Path) -> anyhow::Result<()> {
    if recordings.exists() {
        fs::remove_dir_all(recordings).context("cannot remove old recordings")?;
    }
    Ok(())
}

/// Keeps the text, the numbers and the drawings; the page is as large as all of them.
fn keep(program: &Program, folder: &Path, out: &Path) -> anyhow::Result<()> {
    for kind in ["txt", "json"] {
        let to = out.join(program.name).with_extension(kind);
        fs::copy(folder.join("report").with_extension(kind), to)?;
    }
    fs::copy(folder.join("whole.txt"), out.join(format!("{}-whole.txt", program.name)))?;
    for drawing in DRAWINGS {
        let to = out.join(format!("{}-{drawing}", program.name));
        fs::copy(folder.join("drawings").join(drawing), to)
            .with_context(|| format!("no drawing {drawing}"))?;
    }
    Ok(())
}
