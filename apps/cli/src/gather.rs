//! `quartier gather`: saves this machine's topology.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use quartier_observe::{Gathered, Host};

const EXAMPLES: &str = "\
Examples:
  quartier gather                        print what would be saved
  quartier gather box.json               save it
  quartier gather --name epyc-2s box.json
  quartier topo --machine box.json       draw it, there or elsewhere

Saved are the kernel's own files about nodes, CPUs and caches, as they are. Host name, serial
numbers and addresses are not among them.";

/// Options of `quartier gather`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to save it (-: print it)
    #[arg(default_value = "-")]
    file: PathBuf,

    /// What to call the machine [default: nothing, and readers take the file's name]
    #[arg(long)]
    name: Option<String>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let json = Gathered::gather(&Host::live(), self.name)?.to_json();
        if self.file.as_os_str() == "-" {
            io::stdout().lock().write_all(json.as_bytes()).or_else(ignore_closed_pipe)?;
        } else {
            save(&self.file, &json, self.force)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn save(path: &Path, json: &str, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} exists already: give another name, or --force to replace it", path.display())
        }
        opened => opened.with_context(|| format!("cannot write {}", path.display()))?,
    };
    file.write_all(json.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn ignore_closed_pipe(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}
