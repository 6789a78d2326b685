//! `quartier lab doctor`.

use std::process::ExitCode;

/// Options of `quartier lab doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let _ = self.json;
        anyhow::bail!("not built yet")
    }
}
