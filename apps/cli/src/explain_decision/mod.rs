//! `quartier explain-decision`: replays one decision on a given state and says why it fell so.

mod account;
mod group;
mod memory;
mod options;
mod placement;
mod report;
mod scene;
mod state;
mod teller;
#[cfg(test)]
mod tests;
mod text;

use std::process::ExitCode;

use quartier_decide::dqdt::Tree;

use crate::topo::names::Names;
use crate::topo::source::{Source, print};
use options::{Decision, RequestOptions, StateOptions};
use report::Report;
use scene::{Lists, Lookup, Scene};

/// Exit status when the decision is that no CPU or node will do.
const STATUS_NOTHING_WILL_DO: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  quartier explain-decision thread --synthetic 4x2 --from-cpu 0 --threads-on 0=1,1=1
      Where a thread goes that CPU 0 creates, when both CPUs of its node have one already
  quartier explain-decision fork --machine box.json --state busy.json --from-cpu 12
      Where a process goes that a program on CPU 12 forks
  quartier explain-decision exec --synthetic 4x2 --free 0=900,1=200000 --free-pages-min 1000
      Where a new program goes that wants to find memory
  quartier explain-decision balance --synthetic 2x4 --from-cpu 0 --threads-on 0=3 \\
      --usage 0=100,1-7=20 --ready 2
      Whether CPU 0 should give a thread away, and to whom
  quartier explain-decision memory --synthetic 4x2 --from-cpu 0 --free 0=0,1=64,2=0,3=9 --pages 16
      Which node 16 pages come from
  quartier explain-decision group --synthetic 4x8 --from-cpu 0 --threads 12 --threads-on 0=1
      How a group of 12 threads is shared out
  quartier explain-decision thread --state busy.json --json | jq '.attempts[].way_down[].cluster'

A state file is JSON. All of it but \"format\" may be left out: what is not there is no threads,
and U (usage) and M (free memory) that nobody knows. \"cpus\" and \"nodes\" are lists such as
\"0-3,8\"; pages are the kernel's base pages; \"free_blocks\" counts free blocks of 2^0, 2^1, ...
pages, as a line of /proc/buddyinfo does.
  {
    \"format\": 1,
    \"load\": [{\"cpus\": \"0-1\", \"threads\": 2, \"usage_percent\": 100}],
    \"memory\": [{\"nodes\": \"0\", \"free_pages\": 4000, \"free_blocks\": [96, 24, 964]}]
  }

All numbers of CPUs and nodes are the kernel's own. The state is all there is: the thread that
creates, forks or is to be moved counts only if the state has it.

Exit status: 0 if a CPU or node was found; 1 if none will do; 2 if the input is no good.";

/// Options of `quartier explain-decision`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What is decided
    #[arg(value_enum, value_name = "DECISION")]
    decision: Decision,

    #[command(flatten, next_help_heading = "Machine [default: this one]")]
    source: Source,

    #[command(
        flatten,
        next_help_heading = "State [default: no threads, usage and memory unknown]"
    )]
    state: StateOptions,

    #[command(flatten, next_help_heading = "Request")]
    request: RequestOptions,

    /// Print it as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl Args {
    /// Replays the decision; gives the exit status.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.request.check(self.decision)?;
        self.state.check(&self.source)?;
        let machine = self.source.read()?;
        let tree = Tree::build(&machine);
        let lookup = Lookup { machine: &machine, tree: &tree };
        let state = self.state.read(&lookup)?;
        let lists = Lists::new(&tree, &state)?;
        let names = Names { machine: &machine, tree: &tree };
        let scene = Scene { names, estimates: lists.estimates(&tree)? };
        let report = Report::new(self.decision, &self.request, &scene, &lookup, &state)?;
        let text = match self.json {
            true => serde_json::to_string_pretty(&report)? + "\n",
            false => text::print(&report),
        };
        print(&text)?;
        Ok(match report.outcome {
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::from(STATUS_NOTHING_WILL_DO),
        })
    }
}
