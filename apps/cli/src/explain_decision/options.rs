//! The options, and which of them belong to which decision.

use std::path::PathBuf;

use anyhow::{Context, bail};
use quartier_model::{CPUS_MAX, CpuList};

use super::scene::Lookup;
use super::state::{Given, State, StateFile, THREADS_MAX};
use crate::numbers::number;
use crate::strategy::StrategyOption;
use crate::topo::source::{Source, is_dash, read_text};

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The CPU of a new thread
    Thread,
    /// The CPU of a process that another one forks
    Fork,
    /// The CPU of a new program
    Exec,
    /// The CPU that takes a thread from one with too much to do
    Balance,
    /// The node that pages come from
    Memory,
    /// The CPUs of several threads that belong together
    Group,
}

impl Decision {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Balance => "balance",
            Self::Memory => "memory",
            Self::Group => "group",
        }
    }
}

/// Options that give the state.
#[derive(Debug, clap::Args)]
pub struct StateOptions {
    /// Read the state from a file (-: stdin)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["threads_on", "usage", "free"])]
    state: Option<PathBuf>,

    /// T: threads on CPUs, such as 0=2,4-7=1
    #[arg(long, value_name = "CPUS=THREADS", value_delimiter = ',', allow_hyphen_values = true)]
    threads_on: Vec<Given<u32>>,

    /// U: how busy CPUs are, in percent, such as 0=100,1-3=40
    #[arg(long, value_name = "CPUS=PERCENT", value_delimiter = ',', allow_hyphen_values = true)]
    usage: Vec<Given<f64>>,

    /// M: free pages of nodes, in base pages, such as 0=1000,1=0
    #[arg(long, value_name = "NODES=PAGES", value_delimiter = ',', allow_hyphen_values = true)]
    free: Vec<Given<u64>>,
}

impl StateOptions {
    /// Whether there is something to read it from.
    pub fn check(&self, source: &Source) -> anyhow::Result<()> {
        let is_stdin = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_dash);
        if is_stdin(&self.state) && is_stdin(&source.machine) {
            bail!("--machine and --state cannot both be the standard input");
        }
        Ok(())
    }

    /// The state of the machine.
    pub fn read(&self, lookup: &Lookup<'_>) -> anyhow::Result<State> {
        let Some(path) = &self.state else {
            return StateFile::from_options(&self.threads_on, &self.usage, &self.free)
                .resolve(lookup);
        };
        let called =
            if is_dash(path) { "standard input".into() } else { path.display().to_string() };
        let text = read_text(path)?;
        StateFile::from_json(&text).and_then(|file| file.resolve(lookup)).context(called)
    }
}

/// Options that say what is asked for.
#[derive(Debug, clap::Args)]
pub struct RequestOptions {
    /// The CPU that creates, forks, asks for memory, or has too much to do (not for exec)
    #[arg(
        long, value_name = "CPU", allow_negative_numbers = true,
        value_parser = number(0..=CPUS_MAX as u32 - 1)
    )]
    pub from_cpu: Option<u32>,

    /// CPUs that may be chosen, such as 0-3,8 (not for memory) [default: all]
    #[arg(long, value_name = "CPUS", allow_hyphen_values = true)]
    pub allowed: Option<CpuList>,

    /// Which clusters go first (thread) [default: thesis]
    #[arg(long, value_name = "STRATEGY", value_enum)]
    pub strategy: Option<StrategyOption>,

    /// The highest level of `topo --tree` that the way up may reach (thread) [default: the root's]
    #[arg(
        long, value_name = "LEVEL", allow_negative_numbers = true,
        value_parser = number(0..=u8::MAX)
    )]
    pub level_max: Option<u8>,

    /// What the random numbers of ties are made from (exec) [default: 0]
    #[arg(
        long, value_name = "NUMBER", allow_negative_numbers = true,
        value_parser = number(0..=u64::MAX)
    )]
    pub seed: Option<u64>,

    /// Base pages of which a cluster must have more free ones (exec) [default: half the pages of the
    /// smallest node with memory, of 4 KiB each]
    #[arg(
        long, value_name = "PAGES", allow_negative_numbers = true,
        value_parser = number(0..=u64::MAX)
    )]
    pub free_pages_min: Option<u64>,

    /// R: threads on the CPU that could run and do not (balance) [default: 1]
    #[arg(
        long, value_name = "THREADS", allow_negative_numbers = true,
        value_parser = number(0..=THREADS_MAX)
    )]
    pub ready: Option<u32>,

    /// Free base pages that the node must have (memory) [default: 1]
    #[arg(
        long, value_name = "PAGES", allow_negative_numbers = true,
        value_parser = number(1..=u64::MAX)
    )]
    pub pages: Option<u64>,

    /// A free block of 2^ORDER contiguous pages that it must have, too (memory)
    #[arg(
        long, value_name = "ORDER", allow_negative_numbers = true,
        value_parser = number(0..=32u8)
    )]
    pub order: Option<u8>,

    /// Nodes that the pages may come from, such as 0,2 (memory) [default: all]
    #[arg(long, value_name = "NODES", allow_hyphen_values = true)]
    pub nodes: Option<CpuList>,

    /// How many threads the group has (group)
    #[arg(
        long, value_name = "THREADS", allow_negative_numbers = true,
        value_parser = number(1..=THREADS_MAX)
    )]
    pub threads: Option<u32>,
}

impl RequestOptions {
    /// Whether the options belong to the decision, and all that it needs are there.
    pub fn check(&self, decision: Decision) -> anyhow::Result<()> {
        use Decision::{Balance, Exec, Fork, Group, Memory, Thread};
        let options: [(&str, bool, &[Decision]); 11] = [
            ("--from-cpu", self.from_cpu.is_some(), &[Thread, Fork, Balance, Memory, Group]),
            ("--allowed", self.allowed.is_some(), &[Thread, Fork, Exec, Balance, Group]),
            ("--strategy", self.strategy.is_some(), &[Thread]),
            ("--level-max", self.level_max.is_some(), &[Thread]),
            ("--seed", self.seed.is_some(), &[Exec]),
            ("--free-pages-min", self.free_pages_min.is_some(), &[Exec]),
            ("--ready", self.ready.is_some(), &[Balance]),
            ("--pages", self.pages.is_some(), &[Memory]),
            ("--order", self.order.is_some(), &[Memory]),
            ("--nodes", self.nodes.is_some(), &[Memory]),
            ("--threads", self.threads.is_some(), &[Group]),
        ];
        for (option, is_given, decisions) in options {
            if is_given && !decisions.contains(&decision) {
                let words: Vec<_> = decisions.iter().map(|decision| decision.word()).collect();
                bail!(
                    "{option} says nothing to {}; it is for {}",
                    decision.word(),
                    words.join(", ")
                );
            }
        }
        if decision == Balance && self.from_cpu.is_none() {
            bail!("balance needs --from-cpu: the CPU that has too much to do");
        }
        if decision == Group && self.threads.is_none() {
            bail!("group needs --threads: how many there are");
        }
        Ok(())
    }
}
