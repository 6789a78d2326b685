//! The demonstration: a program of Debian's that fills its data in one thread and computes in eight, on
//! a machine of four nodes, under every policy; all that leaves a node is counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use super::Place;
use super::programs::DEMO;

/// `cargo xtask results` tries all.
const POLICIES: &str = "first-touch,numa-balancing,hand,quartier";

/// Options of `cargo xtask demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernels to try, best first
    #[arg(long, value_delimiter = ',', default_value = "7.3,6.12")]
    kernels: Vec<String>,
    /// Where reports and drawings go
    #[arg(long, default_value = "demo-out")]
    out: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Compares, and checks that every run computed the same.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let place = Place::new(args.quartier.as_deref(), &args.out)?;
    let kernel = fetch(&place.quartier, &args.kernels)?;
    println!(
        "NumPy multiplies a matrix by a vector, over and over: one thread fills the matrix, eight\n\
         compute, each with its own rows. On a machine of four nodes with two CPUs each (Linux\n\
         {kernel} in QEMU), every cache line that leaves its node is counted. Takes some ten minutes.\n"
    );
    let folder = place.prepare(&DEMO)?;
    let results = folder.join("results.txt");
    fs::write(&results, "").context("cannot write into the output folder")?;
    // As if it ran on a machine: what acts by the clock waits as many times as long as the program does.
    let slowed = ["--slow-clocks", "auto"];
    let options = ["--kernel", &kernel, "--policies", POLICIES, "--rw"];
    let options = [&options[..], &slowed].concat();
    let text = place.compare(&DEMO, &folder, &options, "report")?;
    print!("{text}");
    let nr_runs = same(&fs::read_to_string(&results)?)?;
    let shown = Path::new(&args.out).join(DEMO.name);
    println!(
        "\nAll {nr_runs} runs computed the same, to the last bit. Look at {}.",
        shown.join("report.html").display()
    );
    Ok(())
}

/// Moving memory must not change what is computed; gives how often it was.
fn same(results: &str) -> anyhow::Result<usize> {
    let mut lines = results.lines();
    let first = lines.next().context("no run printed a result")?;
    if let Some(other) = lines.find(|line| *line != first) {
        bail!("one run computed {first}, another {other}");
    }
    Ok(results.lines().count())
}

/// Fetches the first of these kernels that can be had.
fn fetch(quartier: &Path, kernels: &[String]) -> anyhow::Result<String> {
    ensure!(!kernels.is_empty(), "name a kernel");
    for kernel in kernels {
        let status = Command::new(quartier)
            .args(["lab", "fetch", "--kernel", kernel])
            .stdout(Stdio::null())
            .status()
            .context("cannot run quartier")?;
        if status.success() {
            return Ok(kernel.clone());
        }
        eprintln!("demo: no kernel {kernel} here");
    }
    bail!("no kernel to boot; `quartier lab doctor` says what is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_differs_is_found() {
        assert_eq!(same("2.5\n2.5\n").unwrap(), 2);
        assert!(same("2.5\n2.5\n2.4\n").unwrap_err().to_string().contains("2.4"));
        assert!(same("").is_err());
    }
}
