//! `quartier lab count`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use quartier_count::svg::Drawing;
use quartier_count::{Phase, Recording, Report, html, svg, text};
use quartier_lab::run;

use super::counting::Counting;
use super::guest::GuestArgs;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  quartier lab count --kernel 6.12 -- ./program
      Every memory command of the program on four nodes: kinds, local and remote, who asks whom
  quartier lab count --phase parallel --html report.html -- quartier run -- ./program
      From its second thread on, under Quartier, as a page to show
  quartier lab count --geometry tsar --recording run.json -- ./program
  quartier lab count --from run.json --json
      Count once, look at it again later";

/// Options of `quartier lab count`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    guest: GuestArgs,
    /// What is modelled: `server`, `tsar`, or a file (docs/lab.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "server")]
    geometry: String,
    /// Which part of the run the report is about
    #[arg(long, value_name = "PHASE", default_value = "whole")]
    phase: PhaseOption,
    /// Write everything that was counted to this file, for --from
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    recording: Option<PathBuf>,
    /// Report on this recording; nothing is run
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    from: Option<PathBuf>,
    /// Write the report as a page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each picture of the page to this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "from", value_name = "CMD")]
    command: Vec<OsString>,
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PhaseOption {
    /// From its begin to its end
    Whole,
    /// From its second thread on
    Parallel,
}

impl From<PhaseOption> for Phase {
    fn from(option: PhaseOption) -> Self {
        match option {
            PhaseOption::Whole => Self::Whole,
            PhaseOption::Parallel => Self::Parallel,
        }
    }
}

/// What is written when everything is known, opened before anything is done.
#[derive(Default)]
struct Outputs {
    recording: Option<Output>,
    html: Option<Output>,
    report: Option<Output>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let outputs = self.open_outputs()?;
        let (recording, status) = match &self.from {
            Some(file) => (read(file)?, 0),
            None => self.count()?,
        };
        // Counting may have taken long: what was counted is kept, whatever there is to say of it.
        if let Some(output) = outputs.recording {
            output.write(&String::from_utf8_lossy(&recording.to_json()))?;
        }
        let report = Report::new(&recording, self.phase.into())?;
        let json = || Ok::<_, serde_json::Error>(serde_json::to_string_pretty(&report)? + "\n");
        if let Some(output) = outputs.html {
            output.write(&html::report(&report))?;
        }
        if let Some(output) = outputs.report {
            output.write(&json()?)?;
        }
        if let Some(folder) = &self.svg {
            write_drawings(folder, &svg::report(&report))?;
        }
        // The command's own output is on the standard output.
        let printed = if self.json { json()? } else { text::report(&report) };
        let mut errors = anstream::stderr().lock();
        errors.write_all(printed.as_bytes()).context("cannot write to standard error")?;
        Ok(ExitCode::from(status))
    }

    fn open_outputs(&self) -> anyhow::Result<Outputs> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        if let Some(folder) = &self.svg {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(Outputs {
            recording: open(&self.recording)?,
            html: open(&self.html)?,
            report: open(&self.report)?,
        })
    }

    /// Boots a guest, runs the command in it, and gives what was counted with the command's status.
    fn count(&self) -> anyhow::Result<(Recording, u8)> {
        let counting = Counting::new(&self.geometry, &self.guest)?;
        let request = self.guest.request(&self.command)?;
        let streams = self.guest.streams()?;
        let (recording, ran) =
            counting.count(request, &self.command, |request| Ok(run(request, streams)?))?;
        Ok((recording, ran.exit_status))
    }
}

fn read(file: &Path) -> anyhow::Result<Recording> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Recording::parse(&bytes).with_context(|| file.display().to_string())
}

/// Writes each to a file of its name.
pub fn write_drawings(folder: &Path, drawings: &[Drawing]) -> anyhow::Result<()> {
    for drawing in drawings {
        let path = folder.join(drawing.name).with_extension("svg");
        std::fs::write(&path, drawing.to_svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
