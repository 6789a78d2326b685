//! `docs/results/`: real programs of Debian's, counted under every policy.

mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::release_build;
use programs::{PROGRAMS, Program};

/// Our own scripts, written into each working folder's parent.
const SCRIPTS: [(&str, &str); 2] =
    [("power.py", include_str!("power.py")), ("scene.py", include_str!("scene.py"))];

/// The drawings that are kept of each program.
const DRAWINGS: [&str; 2] = ["policies.svg", "nodes-most-asked.svg"];

/// Options of `cargo xtask results`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs to count [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// Runs of each policy
    #[arg(long, default_value_t = 2)]
    runs: u32,
    /// Where reports and drawings go
    #[arg(long, default_value = "docs/results")]
    out: PathBuf,
    /// Where programs get their input, and what was counted is kept
    #[arg(long, default_value = "target/results")]
    work: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// Counts the programs, one after the other.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    if let Some(name) = args.names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no program {name} here, only {}", known.join(", "));
    }
    let quartier = args.quartier.clone().map_or_else(release_build, Ok)?;
    let quartier = quartier
        .canonicalize()
        .with_context(|| format!("{} is not there: run `make build`", quartier.display()))?;
    fs::create_dir_all(&args.work).context("cannot make the working folder")?;
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let (work, out) = (args.work.canonicalize()?, args.out.canonicalize()?);
    for (name, text) in SCRIPTS {
        fs::write(work.join(name), text).context("cannot write a script")?;
    }
    let wanted = |program: &&Program| {
        args.names.is_empty() || args.names.iter().any(|name| name == program.name)
    };
    for program in PROGRAMS.iter().filter(wanted) {
        eprintln!("results: {}", program.name);
        let folder = work.join(program.name);
        prepare(program, &work, &folder).context(program.name)?;
        count(program, args, &quartier, &folder).context(program.name)?;
        keep(program, &folder, &out).context(program.name)?;
    }
    Ok(())
}

/// Makes the program's input, as far as it is not there.
fn prepare(program: &Program, scripts: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, text) in program.files {
        fs::write(folder.join(name), text)?;
    }
    for command in program.prepare {
        let status = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder)
            .env("HERE", scripts)
            .env("GMX_MAXBACKUP", "-1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot run sh")?;
        ensure!(status.success(), "`{command}` ended with {status}");
    }
    Ok(())
}

fn count(program: &Program, args: &Args, quartier: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(quartier);
    command
        .args(["lab", "compare", "--kernel", &args.kernel, "--runs", &args.runs.to_string()])
        .args(["--nodes", "4", "--cpus-per-node", "2", "--mem", "4G", "--phase", "parallel"])
        .args([
            "--svg",
            "drawings",
            "--recordings",
            "recordings",
            "--html",
            "report.html",
            "--report",
            "report.json",
        ]);
    if let Some(by_hand) = program.by_hand {
        command.args(["--hand-instead", &format!("sh -c '{by_hand}'")]);
    }
    let output = command
        .args(["--", "sh", "-c", program.command])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run quartier")?;
    ensure!(output.status.success(), "quartier lab compare ended with {}", output.status);
    fs::write(folder.join("report.txt"), output.stdout)?;
    Ok(())
}

/// Keeps the text, the numbers and the drawings; the page is as large as all of them.
fn keep(program: &Program, folder: &Path, out: &Path) -> anyhow::Result<()> {
    for kind in ["txt", "json"] {
        let to = out.join(program.name).with_extension(kind);
        fs::copy(folder.join("report").with_extension(kind), to)?;
    }
    for drawing in DRAWINGS {
        let to = out.join(format!("{}-{drawing}", program.name));
        fs::copy(folder.join("drawings").join(drawing), to)
            .with_context(|| format!("no drawing {drawing}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_quotes_that_they_stand_in() {
        for program in PROGRAMS {
            for command in [Some(program.command), program.by_hand].into_iter().flatten() {
                assert!(!command.contains('\''), "{command}");
            }
        }
    }
}
