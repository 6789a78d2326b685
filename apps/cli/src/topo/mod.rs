//! `quartier topo`: draws a machine.

pub mod names;
pub mod source;
mod svg;
mod text;
mod tree;
pub mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use quartier_decide::dqdt::Tree;
use quartier_model::Machine;

use crate::output::Output;
use names::Names;
use source::{Source, is_dash, print};
use view::View;

const EXAMPLES: &str = "\
Examples:
  quartier topo                          this machine
  quartier topo --synthetic 4x2          four nodes of two CPUs
  quartier topo --synthetic 2,2,0        three nodes, the last without CPUs
  quartier topo --machine epyc.json      one that `quartier gather epyc.json` saved
  quartier topo --svg - | rsvg-convert -o machine.png
  quartier topo --tree                   the decision tree threads are placed by
  quartier topo --tree --svg tree.svg    the same as a drawing
  quartier topo --tree --json | jq '.clusters[] | select(.level == 0) | .updater'

All numbers of CPUs, nodes and packages are the kernel's own.

--tree --json prints an object with `format` (1), `origin` and `height`, and `clusters`: a list in
which the root is first and parents come before their children. Of each cluster:
  id        its place in the list, from 0
  level     0: a leaf, which holds CPUs; else one more than its highest child
  parent    the id of the cluster above it; null: the root
  children  the ids of the clusters in it, at most four
  node      the node that all of it lies in, or null
  llc       the last-level cache that all its CPUs share, as an index into `llcs` of
            `topo --json`, or null
  cpus      its online CPUs
  home      the node that distances to it count from; null: none is known
  updater   the CPU that renews its U (usage) and M (free memory)";

/// Options of `quartier topo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: Source,

    /// Print it as JSON
    #[arg(long, group = "form")]
    json: bool,

    /// Write a drawing (-: to the terminal or pipe)
    #[arg(long, value_name = "FILE", group = "form")]
    svg: Option<PathBuf>,

    /// The decision tree (DQDT) instead of the machine, in any of the forms
    #[arg(long)]
    tree: bool,

    /// Leave nothing out: every node and all distances, or every cluster of the tree
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.all && self.svg.is_some() && !self.tree {
            bail!("--all says nothing to a drawing of the machine: it leaves nothing out");
        }
        let output = self.svg.as_deref().filter(|path| !is_dash(path)).map(Output::open);
        let output = output.transpose()?;
        let machine = self.source.read()?;
        let text = if self.tree { self.tree(&machine)? } else { self.machine(&machine)? };
        match output {
            Some(output) => output.write(&text)?,
            None => print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn machine(&self, machine: &Machine) -> anyhow::Result<String> {
        Ok(if self.json {
            serde_json::to_string_pretty(machine)? + "\n"
        } else if self.svg.is_some() {
            svg::draw(&View::new(machine))
        } else {
            text::print(&View::new(machine), self.all)
        })
    }

    fn tree(&self, machine: &Machine) -> anyhow::Result<String> {
        let tree = Tree::build(machine);
        let names = Names { machine, tree: &tree };
        Ok(if self.json {
            tree::json::print(&names)?
        } else if self.svg.is_some() {
            svg::draw_tree(&names, self.all)
        } else {
            tree::text::print(&names, self.all)
        })
    }
}
