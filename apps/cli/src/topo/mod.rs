//! `quartier topo`: draws a machine.

mod svg;
mod text;
mod tree;
mod view;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use quartier_decide::dqdt::Tree;
use quartier_model::{Machine, SyntheticSpec};
use quartier_observe::{Host, machine_from_json};

use view::View;

const EXAMPLES: &str = "\
Examples:
  quartier topo                          this machine
  quartier topo --synthetic 4x2          four nodes of two CPUs
  quartier topo --synthetic 2,2,0        three nodes, the last without CPUs
  quartier topo --machine epyc.json      one that `quartier gather epyc.json` saved
  quartier topo --svg - | rsvg-convert -o machine.png
  quartier topo --tree                   the decision tree threads are placed by

All numbers of CPUs, nodes and packages are the kernel's own.";

/// Options of `quartier topo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Draw the machine of a file from `quartier gather` or `quartier topo --json` (-: stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    machine: Option<PathBuf>,

    /// Draw a made-up machine: NODESxCPUS, or the CPUs of each node separated by commas
    #[arg(long, value_name = "SPEC")]
    synthetic: Option<String>,

    /// Print the machine as JSON
    #[arg(long, group = "form")]
    json: bool,

    /// Write a drawing (-: to the terminal or pipe)
    #[arg(long, value_name = "FILE", group = "form")]
    svg: Option<PathBuf>,

    /// Print the decision tree (DQDT)
    #[arg(long, group = "form")]
    tree: bool,

    /// Leave nothing out: every node, and all distances
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    all: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let machine = self.read_machine()?;
        if self.json {
            let json = serde_json::to_string_pretty(&machine)?;
            print(&(json + "\n"))?;
        } else if let Some(path) = &self.svg {
            let drawing = svg::draw(&View::new(&machine));
            if is_dash(path) {
                print(&drawing)?;
            } else {
                fs::write(path, drawing)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        } else if self.tree {
            print(&tree::print(&machine, &Tree::build(&machine), self.all))?;
        } else {
            print(&text::print(&View::new(&machine), self.all))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read_machine(&self) -> anyhow::Result<Machine> {
        if let Some(spec) = &self.synthetic {
            return Ok(spec.parse::<SyntheticSpec>()?.machine()?);
        }
        let Some(path) = &self.machine else {
            return Ok(Host::live().machine()?);
        };
        if is_dash(path) {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read the standard input")?;
            return machine_from_json(&text, "stdin").context("standard input");
        }
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        machine_from_json(&text, &name_of(path)).with_context(|| path.display().to_string())
    }
}

/// What a machine is called that its file gives no name: the file's name up to the first dot.
fn name_of(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').find(|part| !part.is_empty()).unwrap_or("unnamed").to_owned()
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Prints with colours on a terminal and without elsewhere. A reader that has seen enough
/// (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}
