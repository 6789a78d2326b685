//! `quartier lab run`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use quartier_lab::{Report, run};

use super::guest::{GuestArgs, open};

const EXAMPLES: &str = "\
Examples:
  quartier lab run -- numactl --hardware
      Four nodes of two CPUs, the newest kernel in the cache
  quartier lab run --nodes 8 --distance ring --mem 8G -- bash
      Look around in a ring of eight nodes; exit ends the guest
  quartier lab run --kernel 6.12 --rw --json -- ./benchmark --out result.csv
      Another kernel; keep what it writes to this folder; say what ran as JSON
  quartier lab run --cpus-per-node 4,0 --mem 1G,3G -- ./server
      A node with memory and no CPU";

/// Options of `quartier lab run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    guest: GuestArgs,
    /// Write what was run and how it ended as JSON to this file, or - for standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The same as --report=-
    #[arg(long, conflicts_with = "report")]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let request = self.guest.request(&self.command)?;
        let report = run(&request, self.guest.streams()?)?;
        self.write_report(&report)?;
        Ok(ExitCode::from(report.exit_status))
    }

    fn write_report(&self, report: &Report) -> anyhow::Result<()> {
        let to_stderr = PathBuf::from("-");
        let place = self.report.as_ref().or(self.json.then_some(&to_stderr));
        if let Some(place) = place {
            let mut writer = open(place)?;
            serde_json::to_writer(&mut writer, report)
                .map_err(io::Error::from)
                .and_then(|()| writer.write_all(b"\n"))
                .with_context(|| format!("cannot write {}", place.display()))?;
        }
        Ok(())
    }
}
