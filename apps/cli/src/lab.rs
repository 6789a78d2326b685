//! `quartier lab`.

use std::process::ExitCode;

/// Options of `quartier lab`.
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("not built yet")
    }
}
