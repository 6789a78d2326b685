//! One run: a guest, the program in it, and what the recording says of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use quartier_count::{Moment, Recording};

use super::{Counts, Outcome, Run, Task};
use crate::guest_runs;

/// The program, in the folder of the release build: its words are the same on every machine then.
const PROGRAM: &str = "examples/contend";
const RECORDING: &str = "examples/contend-recording.json";

/// For which a guest may be silent: many CPUs that are emulated in turn are slow to answer.
const HANG_TIMEOUT_S: u32 = 1_200;

/// Where guests are run.
#[derive(Debug)]
pub struct Guests {
    quartier: PathBuf,
    /// Of the release build.
    folder: PathBuf,
    kernel: String,
}

impl Guests {
    /// Builds the program; takes the given command, or the release build.
    pub fn new(quartier: Option<&Path>, kernel: &str) -> anyhow::Result<Self> {
        let release = crate::release_build()?;
        let quartier = quartier.unwrap_or(&release);
        let quartier = quartier
            .canonicalize()
            .with_context(|| format!("{} is not there: run `make build`", quartier.display()))?;
        build()?;
        let folder = release.parent().context("the release build lies in no folder")?;
        let folder = folder.canonicalize().context("there is no release build")?;
        let program = folder.join(PROGRAM);
        ensure!(
            program.exists(),
            "{} is not there although it was built: let CARGO_TARGET_DIR say where cargo builds",
            program.display()
        );
        Ok(Self { quartier, folder, kernel: kernel.to_owned() })
    }

    /// What the program says that it has.
    pub fn ways(&self) -> anyhow::Result<String> {
        let mut program = Command::new(self.folder.join(PROGRAM));
        let output = program.arg("ways").stdin(Stdio::null()).output();
        let output = output.context("cannot run contend")?;
        ensure!(output.status.success(), "contend ended with {}", output.status);
        String::from_utf8(output.stdout).context("what contend printed is no text")
    }

    /// Whatever goes wrong is what came of it.
    pub fn run(&self, task: Task) -> Run {
        let begun = Instant::now();
        let outcome = match self.count(&task) {
            Ok(counts) => Outcome::Counted(counts),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        Run { task, took_s: begun.elapsed().as_secs_f64(), outcome }
    }

    fn count(&self, task: &Task) -> anyhow::Result<Counts> {
        let recording = self.folder.join(RECORDING);
        let cpus_per_node = (task.nr_cpus / task.nr_nodes).to_string();
        let times = task.nr_operations / u64::from(task.nr_cpus);
        let output = Command::new(&self.quartier)
            .args(["lab", "count", "--repeatable", "--phase", "parallel"])
            .args(["--kernel", &self.kernel, "--hang-timeout", &HANG_TIMEOUT_S.to_string()])
            .args(["--nodes", &task.nr_nodes.to_string(), "--cpus-per-node", &cpus_per_node])
            .arg("--recording")
            .arg(&recording)
            .args(["--", PROGRAM, &task.part, &task.way])
            .args([task.nr_cpus.to_string(), times.to_string()])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .context("cannot run quartier")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}",
            guest_runs::reason("contend", &said, &output.status.to_string())
        );
        let bytes = fs::read(&recording).context("there is no recording")?;
        let counts = counts(&Recording::parse(&bytes)?)?;
        fs::remove_file(&recording).context("cannot remove the recording")?;
        Ok(counts)
    }
}

fn build() -> anyhow::Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--package", "quartier-percore"]);
    let status = cargo.args(["--example", "contend"]).status().context("cannot run cargo")?;
    ensure!(status.success(), "contend does not build");
    Ok(())
}

fn counts(recording: &Recording) -> anyhow::Result<Counts> {
    let begin = recording.mark(Moment::FirstThread).context("no second thread was begun")?;
    let end = recording.mark(Moment::LastThreadEnded).context("a thread did not end")?;
    let phase = end.snapshot.since(&begin.snapshot).context("its counts go backwards")?;
    let program = &phase.program;
    Ok(Counts {
        owner_changes: program.totals().invalidations,
        remote_commands: program.all_commands().remote,
        modelled_cycles: program.cpus.iter().map(|cpu| cpu.modelled_cycles).sum(),
        kernel: recording.kernel.clone(),
        qemu: recording.qemu.clone(),
    })
}
