//! `quartier tree show`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use quartier_decide::dqdt::{ClusterId, Usage};
use quartier_model::{CpuList, NodeId};
use quartier_shared::SharedTree;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  quartier tree show
      Threads, utilisation and free memory of each node, as programs see them now
  quartier tree show --json --directory /dev/shm/batch";

/// Options of `quartier tree show`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where the tree is [default: the machine's, /dev/shm/quartier, else the user's]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A tree, as it is now.
#[derive(Debug, Serialize)]
struct Shown {
    directory: PathBuf,
    /// Levels above the leaves.
    height: u8,
    clusters: usize,
    /// Whether this user may place threads.
    may_place: bool,
    /// How long ago U and M were renewed; `None`: never.
    refreshed_ms_ago: Option<u128>,
    threads: u32,
    nodes: Vec<ShownNode>,
}

#[derive(Debug, Serialize)]
struct ShownNode {
    /// The kernel's number.
    node: u32,
    cpus: String,
    /// T.
    threads: u32,
    /// T of each CPU, in the order of the list of CPUs.
    threads_per_cpu: Vec<u32>,
    /// U.
    usage_percent: Option<u8>,
    /// M.
    free_pages: Option<u64>,
    /// Free blocks of 2⁰ to 2⁹ pages.
    free_blocks: Option<Vec<u32>>,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let directory = match self.directory {
            Some(directory) => directory,
            None => super::default_directory()?,
        };
        let shared = SharedTree::open(&directory)?;
        let shown = Shown::of(directory, &shared);
        let text =
            if self.json { serde_json::to_string_pretty(&shown)? + "\n" } else { shown.text() };
        std::io::stdout()
            .write_all(text.as_bytes())
            .context("cannot write to the standard output")?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Shown {
    fn of(directory: PathBuf, shared: &SharedTree) -> Self {
        let (tree, estimates) = (shared.tree(), shared.estimates());
        let node = |node: NodeId| {
            let cluster = tree.cluster_of_node(node);
            let mut cpus: Vec<_> = tree.cluster_cpus(cluster).collect();
            cpus.sort_unstable_by_key(|cpu| tree.cpu_os_id(*cpu));
            let memory = estimates.free_memory(cluster);
            ShownNode {
                node: tree.node_os_id(node).0,
                cpus: cpus
                    .iter()
                    .map(|cpu| tree.cpu_os_id(*cpu).0)
                    .collect::<CpuList>()
                    .to_string(),
                threads: estimates.nr_threads(cluster),
                threads_per_cpu: cpus.iter().map(|cpu| estimates.nr_threads_on(*cpu)).collect(),
                usage_percent: estimates.usage(cluster).map(Usage::percent),
                free_pages: memory.map(|memory| memory.pages),
                free_blocks: memory.map(|memory| memory.blocks.to_vec()),
            }
        };
        Self {
            height: tree.height(),
            clusters: tree.clusters().len(),
            may_place: shared.ledger().is_some(),
            refreshed_ms_ago: shared.age().map(|age| age.as_millis()),
            threads: estimates.nr_threads(ClusterId::ROOT),
            nodes: (0..tree.nr_nodes() as u32).map(NodeId).map(node).collect(),
            directory,
        }
    }

    fn text(&self) -> String {
        let age = self.refreshed_ms_ago.map_or("U and M never renewed".to_owned(), |age| {
            format!("U and M renewed {age} ms ago")
        });
        let may = if self.may_place { "you may place threads" } else { "you may only read" };
        let mut text = format!(
            "{}: height {}, {}, {}; {age}; {may}\n",
            self.directory.display(),
            self.height,
            counted(self.clusters as u64, "cluster"),
            counted(self.threads.into(), "thread"),
        );
        let _ = writeln!(text, "{:>6}{:>9}{:>8}{:>14}  CPUs", "node", "threads", "U", "free pages");
        for node in &self.nodes {
            let usage =
                node.usage_percent.map_or("unknown".to_owned(), |usage| format!("{usage} %"));
            let pages = node.free_pages.map_or("unknown".to_owned(), |pages| pages.to_string());
            let cpus = if node.cpus.is_empty() { "none" } else { &node.cpus };
            let _ =
                writeln!(text, "{:>6}{:>9}{usage:>8}{pages:>14}  {cpus}", node.node, node.threads);
        }
        text
    }
}

fn counted(nr: u64, what: &str) -> String {
    format!("{nr} {what}{}", if nr == 1 { "" } else { "s" })
}
