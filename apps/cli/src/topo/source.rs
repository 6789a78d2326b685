//! Where a command's machine comes from, and how commands read files and print.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use quartier_model::{Machine, SyntheticSpec};
use quartier_observe::{Host, machine_from_json};

/// No file that a command reads is longer: a thousand nodes with all their distances are 20 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Options that name a machine; without one it is this machine.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// The machine of a file from `quartier gather` or `quartier topo --json` (-: stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    pub machine: Option<PathBuf>,

    /// A made-up machine: NODESxCPUS, or the CPUs of each node separated by commas
    #[arg(long, value_name = "SPEC", allow_hyphen_values = true)]
    synthetic: Option<String>,
}

impl Source {
    /// Reads the machine.
    pub fn read(&self) -> anyhow::Result<Machine> {
        if let Some(spec) = &self.synthetic {
            return Ok(spec.parse::<SyntheticSpec>()?.machine()?);
        }
        let Some(path) = &self.machine else {
            return Ok(Host::live().machine()?);
        };
        let (name, called) = match is_dash(path) {
            true => ("stdin".to_owned(), "standard input".to_owned()),
            false => (name_of(path), path.display().to_string()),
        };
        machine_from_json(&read_text(path)?, &name).context(called)
    }
}

/// The text of a file, or of the standard input for `-`.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let (read, called) = if is_dash(path) {
        let read = io::stdin().take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        (read, "the standard input".to_owned())
    } else {
        let called = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {called}"))?;
        (file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text), called)
    };
    let length = read.with_context(|| format!("cannot read {called}"))?;
    if length as u64 > FILE_BYTES_MAX {
        bail!("{called} is longer than {} MiB: it describes no machine", FILE_BYTES_MAX >> 20);
    }
    Ok(text)
}

/// What a machine is called that its file gives no name: the file's name up to the first dot.
fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').find(|part| !part.is_empty()).unwrap_or("unnamed").to_owned()
}

/// Whether a path means a standard stream.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Prints with colours on a terminal and without elsewhere. A reader that has seen enough
/// (`| head`) is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}
