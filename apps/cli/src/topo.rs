//! `quartier topo`.

use std::process::ExitCode;

/// Options of `quartier topo`.
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("not built yet")
    }
}
