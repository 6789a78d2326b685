//! `quartier gather`: saves this machine's topology.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use quartier_observe::{Gathered, Host};

use crate::output::Output;
use crate::topo::source::{is_dash, print};

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
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let output = match self.force {
            _ if is_dash(&self.file) => None,
            true => Some(Output::open(&self.file)?),
            false => Some(Output::create_new(&self.file)?),
        };
        let json = Gathered::gather(&Host::live(), self.name)?.to_json();
        match output {
            Some(output) => output.write(&json)?,
            None => print(&json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
