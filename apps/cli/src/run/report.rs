//! Where the report of a run goes.

use anyhow::Context;
use quartier_act::Report;

use super::{Args, summary};
use crate::output::Output;
use crate::say;
use crate::topo::source::is_dash;

/// Where the JSON goes.
pub enum Destination {
    Stderr,
    File(Output),
}

impl Args {
    /// Opened before the program starts: it is not run in vain.
    pub fn destination(&self) -> anyhow::Result<Option<Destination>> {
        Ok(match &self.report {
            _ if self.json => Some(Destination::Stderr),
            Some(path) if is_dash(path) => Some(Destination::Stderr),
            Some(path) => Some(Destination::File(Output::open(path).context("--report")?)),
            None => None,
        })
    }

    /// What there is to tell about a program that ran. It fails nobody: the status is the program's.
    pub fn tell(&self, destination: Option<Destination>, report: &Report) {
        if destination.is_none() && !self.quiet {
            say::text(&summary::text(report));
        }
        if let Err(error) = write(destination, report) {
            // Also with --quiet: what was asked for is missing, and the status does not tell.
            say::sentence(&format!("the report is lost: {error:#}"));
        }
    }
}

/// Writes the JSON, if anywhere.
pub fn write(destination: Option<Destination>, report: &Report) -> anyhow::Result<()> {
    let Some(destination) = destination else { return Ok(()) };
    let json = serde_json::to_string_pretty(report)? + "\n";
    match destination {
        Destination::Stderr => say::text(&json),
        Destination::File(output) => output.write(&json).context("--report")?,
    }
    Ok(())
}
