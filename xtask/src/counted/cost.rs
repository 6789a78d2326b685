//! What counting costs: CPU time of guests that run a program without it, with it, and with a sample of it,
//! in turn.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::programs::{self, Program};
use super::{MACHINE, Place};
use crate::range;

/// Options of `cargo xtask count-cost`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs to count
    #[arg(value_name = "NAME", default_values = ["numpy", "pigz"])]
    names: Vec<String>,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// What is modelled
    #[arg(long, default_value = "server")]
    geometry: String,
    /// One set in so many is a sample
    #[arg(long, default_value_t = 8)]
    sample: u32,
    /// Guests of each kind
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Where programs get their input
    #[arg(long, default_value = "target/results")]
    work: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Prints a line for each program.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let place = Place::new(args.quartier.as_deref(), &args.work)?;
    let sample = args.sample.to_string();
    let counted = ["count", "--geometry", &args.geometry];
    let sampled = [&counted[..], &["--sample", &sample]].concat();
    println!("times the CPU time of a guest that does not count, each with its boot");
    for name in &args.names {
        let program = programs::named(name)?;
        let folder = place.prepare(&program).context(program.name)?;
        let (mut every, mut some) = (Vec::new(), Vec::new());
        for _ in 0..args.runs {
            let seconds = |words: &[&str]| cpu_seconds(&place, &program, &folder, args, words);
            let without = seconds(&["run"])?;
            every.push(seconds(&counted)? / without);
            some.push(seconds(&sampled)? / without);
        }
        println!("{name}: {} {}, 1 set in {sample} {}", args.geometry, words(&every), words(&some));
    }
    Ok(())
}

fn words(ratios: &[f64]) -> String {
    range::words(ratios, 2).unwrap_or_else(|| "not counted".to_owned())
}

/// CPU time of a guest that runs a program, and of all that serves it.
fn cpu_seconds(
    place: &Place,
    program: &Program,
    folder: &Path,
    args: &Args,
    words: &[&str],
) -> anyhow::Result<f64> {
    let before = children_seconds()?;
    let status = Command::new(&place.quartier)
        .arg("lab")
        .args(words)
        .args(MACHINE)
        .args(["--kernel", &args.kernel])
        .arg("--")
        .args(program.command.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run quartier")?;
    ensure!(status.success(), "{}: quartier lab {words:?} ended with {status}", program.name);
    Ok(children_seconds()? - before)
}

/// Of all processes that have ended below this one.
fn children_seconds() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask for CPU time")?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}
