//! `quartier lab doctor`.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use quartier_lab::doctor::{State, check};
use quartier_lab::{
    Cache, CpusPerNode, Error, Input, KernelSpec, Request, Topology, capture, prepare,
};
use serde_json::json;

use crate::cli::STATUS_REFUSED;

const EXAMPLES: &str = "\
Examples:
  quartier lab doctor
      Is everything here? If not, with which command does it come?
  quartier lab doctor --boot --json
      Boot a small guest too, and say how long it took, for a script

Exit status: 0 if guests can be run; 2 if something is missing.";

/// Options of `quartier lab doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Also boot a small guest
    #[arg(long)]
    boot: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let cache = Cache::from_environment()?;
        let checks = check(&cache);
        let missing = checks.iter().any(|check| check.state == State::Missing);
        let boot_ms = if self.boot && !missing { Some(boot(&cache)?) } else { None };
        let mut out = io::stdout();
        if self.json {
            let object = json!({ "works": !missing, "checks": checks, "boot_ms": boot_ms });
            writeln!(out, "{object}")?;
        } else {
            let coloured = out.is_terminal();
            for check in &checks {
                let (word, colour) = match check.state {
                    State::Ok => ("ok", 32),
                    State::Limited => ("limited", 33),
                    State::Missing => ("MISSING", 31),
                };
                let word = format!("{word:8}");
                let word = if coloured { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
                writeln!(out, "{word}{:14} {}", check.name, check.found)?;
                if let Some(remedy) = &check.remedy {
                    writeln!(out, "{:23}{remedy}", "")?;
                }
            }
            if let Some(boot_ms) = boot_ms {
                writeln!(out, "ok      {:14} in {boot_ms} ms", "a guest boots")?;
            }
        }
        Ok(if missing { ExitCode::from(STATUS_REFUSED) } else { ExitCode::SUCCESS })
    }
}

/// Boots two nodes and gives how long that took, in milliseconds.
fn boot(cache: &Cache) -> anyhow::Result<u64> {
    let (kernel, qemu) = prepare(&KernelSpec::Newest, cache, &super::progress)?;
    super::progress(&format!("booting Linux {}", kernel.release));
    let topology = Topology::new(Some(2), &CpusPerNode::Same(1), None, None)?;
    let request = Request::new(topology, kernel, qemu, vec!["/bin/true".into()])?;
    let report = capture(&request, Input::Null)?.report;
    match report.boot_ms {
        Some(boot_ms) if report.exit_status == 0 => Ok(boot_ms),
        _ => Err(Error::Refused("a guest booted and could not run /bin/true".to_owned()).into()),
    }
}
