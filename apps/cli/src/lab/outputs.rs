//! Where a report goes that was counted for: pages, pictures and JSON, opened before the counting.

use std::path::{Path, PathBuf};

use anyhow::Context;
use quartier_count::svg::Drawing;
use serde::Serialize;

use crate::output::Output;

/// Options of every command that reports what was counted.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
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
}

/// What a report looks like.
pub struct Shown<'a, R> {
    pub report: &'a R,
    pub page: fn(&R) -> String,
    pub drawings: fn(&R) -> Vec<Drawing>,
    pub text: fn(&R) -> String,
}

/// Files that can be written.
#[derive(Debug)]
pub struct Outputs {
    html: Option<Output>,
    svg: Option<PathBuf>,
    report: Option<Output>,
    is_json: bool,
}

impl OutputArgs {
    /// Opens all of them: what cannot be written is no reason to count in vain.
    pub fn open(&self) -> anyhow::Result<Outputs> {
        if let Some(folder) = &self.svg {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            tempfile::tempfile_in(folder)
                .with_context(|| format!("cannot write to the folder {}", folder.display()))?;
        }
        Ok(Outputs {
            html: open(self.html.as_deref())?,
            svg: self.svg.clone(),
            report: open(self.report.as_deref())?,
            is_json: self.json,
        })
    }
}

impl Outputs {
    /// Prints, and writes what was asked for besides.
    pub fn write<R: Serialize>(
        self,
        shown: &Shown<'_, R>,
        print: impl FnOnce(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let report = shown.report;
        let json = || Ok::<_, serde_json::Error>(serde_json::to_string_pretty(report)? + "\n");
        print(&if self.is_json { json()? } else { (shown.text)(report) })?;
        if let Some(output) = self.html {
            output.write(&(shown.page)(report))?;
        }
        if let Some(output) = self.report {
            output.write(&json()?)?;
        }
        if let Some(folder) = &self.svg {
            write_drawings(folder, &(shown.drawings)(report))?;
        }
        Ok(())
    }
}

/// Opens a file if there is one to open.
pub fn open(path: Option<&Path>) -> anyhow::Result<Option<Output>> {
    path.map(Output::open).transpose()
}

/// Each to a file of its name.
fn write_drawings(folder: &Path, drawings: &[Drawing]) -> anyhow::Result<()> {
    for drawing in drawings {
        let path = folder.join(drawing.name).with_extension("svg");
        std::fs::write(&path, drawing.to_svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
