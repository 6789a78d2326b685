//! Real programs of Debian's, counted under every policy by `quartier lab compare`: one as the
//! demonstration, more for `docs/results/`.

pub mod cost;
pub mod demo;
mod programs;
pub mod results;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use programs::Program;

/// The machine that programs are counted on.
const MACHINE: [&str; 6] = ["--nodes", "4", "--cpus-per-node", "2", "--mem", "4G"];

/// Where comparisons are made.
#[derive(Debug)]
struct Place {
    quartier: PathBuf,
    /// Has a folder for each program.
    work: PathBuf,
}

impl Place {
    /// Takes the given command, or the release build.
    fn new(quartier: Option<&Path>, work: &Path) -> anyhow::Result<Self> {
        let quartier = quartier.map_or_else(crate::release_build, |path| Ok(path.to_owned()))?;
        let quartier = quartier
            .canonicalize()
            .with_context(|| format!("{} is not there: run `make build`", quartier.display()))?;
        fs::create_dir_all(work).with_context(|| format!("cannot create {}", work.display()))?;
        Ok(Self { quartier, work: work.canonicalize()? })
    }

    /// Makes a program's input.
    fn prepare(&self, program: &Program) -> anyhow::Result<PathBuf> {
        let folder = self.work.join(program.name);
        fs::create_dir_all(&folder)?;
        for (name, text) in program.files {
            fs::write(folder.join(name), text)?;
        }
        for command in program.prepare {
            let status = Command::new("sh")
                .args(["-c", command])
                .current_dir(&folder)
                .env("GMX_MAXBACKUP", "-1")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .context("cannot run sh")?;
            ensure!(status.success(), "`{command}` ended with {status}");
        }
        Ok(folder)
    }

    /// Compares; gives the table. Reports of that name and drawings are in the program's folder.
    fn compare(
        &self,
        program: &Program,
        folder: &Path,
        options: &[&str],
        report: &str,
    ) -> anyhow::Result<String> {
        let mut command = Command::new(&self.quartier);
        command.args(["lab", "compare"]).args(MACHINE);
        command.args(["--phase", "parallel", "--svg", &format!("{report}-drawings")]);
        command.args(["--html", &format!("{report}.html"), "--report", &format!("{report}.json")]);
        command.args(options);
        for words in program.hand {
            command.args(["--hand", words]);
        }
        if let Some(words) = program.hand_instead {
            command.args(["--hand-instead", words]);
        }
        table(command.arg("--").args(program.command.split(' ')), folder, report)
    }

    /// The table of the same runs over another phase, in a file of the phase's name.
    fn look_again(&self, folder: &Path, recordings: &str, phase: &str) -> anyhow::Result<String> {
        let mut command = Command::new(&self.quartier);
        command.args(["lab", "compare", "--from", recordings, "--phase", phase]);
        table(&mut command, folder, phase)
    }
}

/// What a comparison prints, which is kept in a text file of that name.
fn table(command: &mut Command, folder: &Path, name: &str) -> anyhow::Result<String> {
    let text = crate::said_by(command.current_dir(folder), "quartier lab compare")?;
    fs::write(folder.join(name).with_extension("txt"), &text)?;
    Ok(text)
}
