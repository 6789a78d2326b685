//! `quartier run`.

mod balance;
mod check;
mod inherited;
mod options;
mod report;
mod summary;
mod tree;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use quartier_act::{
    Meanwhile, MemoryPolicy, Program, Report, Request, RungProbe, launch, probe, replace,
};
use quartier_model::{Bytes, CpuList, Machine, Nanos, NodeOsId};
use quartier_observe::{Host, Pid};
use quartier_session::{Config, CpuBits, Pin, Policy, Rung};

use crate::installed;
use crate::numbers::number;
use crate::say;
use crate::strategy::StrategyOption;
use inherited::AskOption;
use options::{PinOption, PolicyOption, RungOption};
use tree::{RunTree, TreeOption};

const EXAMPLES: &str = "\
Examples:
  quartier run -- ./simulation input.dat
      Place its threads; pull its pages to the threads that use them
  quartier run --policy interleave -- ./simulation input.dat
      The same threads, pages spread over all nodes: to compare
  quartier run --report run.json --quiet -- make -j8
      Every process of the tree, as JSON, nothing on standard error
  QUARTIER_NEXT_TOUCH=off quartier run -- ./server
      Place threads only (the variable also works for a part of a process tree)

Exit status: the program's own; 128 + N if signal N ended it; 2 if it could not be run.";

/// Options of `quartier run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where pages go: next-touch, first-touch, interleave, bind=NODES, or none (only report)
    #[arg(long, value_name = "POLICY", default_value = "next-touch")]
    policy: PolicyOption,
    /// How firmly a thread is held: on its node, on its cpu, or none (threads are not placed)
    /// [default: node]
    #[arg(long, value_name = "HOLD", value_enum)]
    pin: Option<PinOption>,
    /// Which node a thread goes to when its creator's has no idle CPU: the emptiest (thesis), the
    /// fullest that has one (packed), or from the start the emptiest of all (spread) [default: thesis]
    #[arg(long, value_name = "ORDER", value_enum)]
    strategy: Option<StrategyOption>,
    /// How often it is looked for threads that wait for a CPU of their node while others are idle; they are
    /// held there then. 0: each stays where it was placed [default: 100]
    #[arg(
        long, value_name = "MS", allow_negative_numbers = true, value_parser = number(0..=60_000u32)
    )]
    balance: Option<u32>,
    /// Whose decision tree: auto shares one with the user's other runs (or the machine's, where an
    /// administrator made one), own knows this run only, DIR is a shared one elsewhere [default: auto]
    #[arg(long, value_name = "auto|own|DIR", value_parser = TreeOption::parser())]
    tree: Option<TreeOption>,
    /// Size of a block: a touch pulls four, and one where the parts of two nodes meet [default: 16K]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    block: Option<Bytes>,
    /// What a touch pulls at most while a thread sweeps; the value of --block for one block each
    /// [default: 2M]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    block_max: Option<Bytes>,
    /// Split huge pages into blocks; otherwise one that a sweep meets at its start stays whole
    #[arg(long)]
    split_huge: bool,
    /// Longest time between two looks at which thread uses what: the first comes after 0.1 s, each
    /// after twice as long, and soon again after new data; 0: only when a process gets its second
    /// thread
    #[arg(
        long, value_name = "SECS", default_value_t = Config::REMARK_MS_MAX / 1000,
        allow_negative_numbers = true, value_parser = number(0..=86_400u32)
    )]
    remark_max: u32,
    /// Take the times above to be N times as long: in a guest that works so much slower than its clock
    #[arg(
        long, value_name = "N", default_value_t = 1, hide_default_value = true,
        allow_negative_numbers = true, value_parser = number(1..=10_000u32)
    )]
    slow_clocks: u32,
    /// Let a process with one thread fill at most this share of a node's memory (R_max of the
    /// thesis); 0: no limit
    #[arg(
        long, value_name = "PERCENT", default_value_t = 0, allow_negative_numbers = true,
        value_parser = number(0..=100u32)
    )]
    initial_share: u32,
    /// By which kernel interface pages are caught: auto takes the best that works [default: auto]
    #[arg(long, value_name = "RUNG", value_enum)]
    rung: Option<RungOption>,
    /// Load the runtime even where it cannot help (one node), to measure or test it
    #[arg(long)]
    force: bool,
    /// Copy blocks even when they are local already, to measure or test copying on one node
    #[arg(long, hide = true)]
    always_copy: bool,
    /// How long a helper stays that has nothing marked, to test how one goes and the next comes
    #[arg(
        long, value_name = "MS", hide = true, default_value_t = Config::HELPER_IDLE_MS,
        allow_negative_numbers = true, value_parser = number(0..=u32::MAX)
    )]
    helper_idle_ms: u32,
    /// Which quartierd is asked, if only the CPUs of one node are allowed, whether that is because it holds who starts this: then
    /// all are used. off: none is [default: QUARTIER_DAEMON, or 127.0.0.1:7117]
    #[arg(long, value_name = "ADDR|off")]
    daemon: Option<AskOption>,
    /// Write the report as JSON to this file (- for standard error)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The same as --report=-, without the summary
    #[arg(long, conflicts_with = "report")]
    json: bool,
    /// Print neither the summary nor what could not be done
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Args {
    /// Runs the program; gives its exit status.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        self.check()?;
        let program = Program::find(&self.command[0], std::env::var_os("PATH").as_deref())?;
        let host = Host::live();
        let machine = host.machine()?;
        let mut limits = host.process_limits(Pid::Own)?;
        if let Some(node) = inherited::widen(&machine, &limits.cpus, self.daemon) {
            self.say(&format!(
                "quartierd holds who started this on node {}; the run may use all CPUs (--daemon off: not)",
                node.0
            ));
            limits = host.process_limits(Pid::Own)?;
        }
        let memory_policy = self.memory_policy(&machine, limits.nodes.as_ref())?;
        // Before the program starts: what cannot be written is no reason to run it in vain.
        let destination = self.destination()?;
        if let Some(hindrance) = self.hindrance(&program, &machine) {
            // Nothing of us is left to write it afterwards.
            report::write(destination, &Report::of_nothing(self.policy.policy(), &hindrance))?;
            self.say(&format!("runs as it is: {hindrance}"));
            return Err(replace(&program, &self.command).into());
        }
        let found = probe();
        self.say_what_is_missing(found);
        let runtime = installed::library("libquartier_preload.so", "the runtime")?;
        let tree = self.tree.as_ref().unwrap_or(&TreeOption::Auto);
        let tree = RunTree::open(tree, &machine, |sentence| self.say(sentence))?;
        let places = self.why_not_placed().is_none();
        let config = Config {
            isolated: host.isolated_cpus()?.iter().collect(),
            balance_ms: self.balance_ms(&host, &machine),
            ..self.config(&machine, &limits.cpus, found.rung)
        };
        let cpus = config.allowed.without(&config.isolated).iter().collect();
        let start = places.then(|| tree.place_program(&machine, &cpus, self.pin()));
        let period = Duration::from_millis(u64::from(config.balance_ms));
        let balance = |session: &_, ended: &_| {
            balance::watch(&machine, tree.member(), period, session, ended)
        };
        let launched = launch(&Request {
            program: &program,
            command: &self.command,
            runtime,
            machine: &machine,
            tree: tree.files(),
            start: start.flatten(),
            config,
            memory_policy,
            meanwhile: (config.balance_ms > 0).then_some(Meanwhile(&balance)),
        })?;
        self.tell(destination, &launched.report);
        // Whatever became of the report: the program ran, and the status is the program's.
        Ok(ExitCode::from(launched.shell_status()))
    }

    fn pin(&self) -> Pin {
        self.pin.unwrap_or(PinOption::Node).pin()
    }

    fn rung(&self) -> RungOption {
        self.rung.unwrap_or(RungOption::Auto)
    }

    fn block(&self) -> Bytes {
        self.block.unwrap_or(Bytes(Config::BLOCK_BYTES))
    }

    fn block_max(&self) -> Bytes {
        self.block_max.unwrap_or(Bytes(Config::BLOCK_BYTES_MAX))
    }

    /// How often it is looked for threads that wait; 0: never.
    fn balance_ms(&self, host: &Host, machine: &Machine) -> u32 {
        let period_ms = self.balance.unwrap_or(Config::BALANCE_MS);
        let is_held = self.pin() == Pin::Node && self.why_not_placed().is_none();
        if period_ms == 0 || !is_held || machine.nodes().len() == 1 {
            return 0;
        }
        // So that what this thread ran is added up.
        std::thread::yield_now();
        let own = std::process::id();
        let is_counted = host
            .thread_times(own, own)
            .is_ok_and(|times| times.is_some_and(|times| times.ran > Nanos(0)));
        if !is_counted {
            self.say(
                "threads stay on the node where they were placed, also while they wait for a CPU: this \
                 kernel does not count how long threads wait; one with CONFIG_SCHED_INFO does, as \
                 Debian's",
            );
            return 0;
        }
        period_ms.saturating_mul(self.slow_clocks)
    }

    /// Why the runtime would be of no use at all in this program.
    fn hindrance(&self, program: &Program, machine: &Machine) -> Option<String> {
        if let Some(obstacle) = program.obstacle {
            return Some(obstacle.to_string());
        }
        (machine.nodes().len() == 1 && !self.force).then(|| {
            "this machine has one node, so everything is local already; nothing to do (--force \
             loads the runtime all the same, `quartier lab run` gives it more nodes)"
                .to_owned()
        })
    }

    fn say_what_is_missing(&self, found: RungProbe) {
        let wanted = self.policy.policy() == Policy::NextTouch && self.rung() != RungOption::None;
        if let (true, Some(reason)) = (wanted, found.reason) {
            self.say(reason.sentence());
        } else if wanted
            && (self.rung().highest() as u32) > found.rung as u32
            && self.rung() != RungOption::Auto
        {
            self.say(&format!(
                "rung {} does not work on this kernel, {} does; using that",
                self.rung().highest().name(),
                found.rung.name()
            ));
        }
    }

    fn config(&self, machine: &Machine, cpus: &CpuList, found: Rung) -> Config {
        let online =
            |os_id: &u32| machine.cpus().iter().any(|cpu| cpu.online && cpu.os_id.0 == *os_id);
        let allowed: CpuBits = cpus.iter().filter(online).collect();
        let mut config = Config::new(self.policy.policy(), allowed);
        config.pin = self.pin() as u32;
        config.strategy = self.strategy.unwrap_or(StrategyOption::Thesis).session() as u32;
        config.rung_max = (self.rung().highest() as u32).min(found as u32);
        config.initial_share_percent = self.initial_share;
        config.always_copy = u32::from(self.always_copy);
        config.helper_idle_ms = self.helper_idle_ms.saturating_mul(self.slow_clocks);
        config.tick_ms = Config::TICK_MS * self.slow_clocks;
        config.remark_ms_first = Config::REMARK_MS_FIRST * self.slow_clocks;
        config.remark_ms_max = (self.remark_max * 1000).saturating_mul(self.slow_clocks);
        config.split_huge = u32::from(self.split_huge);
        config.block_bytes = self.block().0;
        config.block_bytes_max = self.block_max().0;
        config
    }

    fn memory_policy(
        &self,
        machine: &Machine,
        allowed: Option<&CpuList>,
    ) -> anyhow::Result<Option<MemoryPolicy>> {
        let with_memory = |os_id: NodeOsId| {
            machine.nodes().iter().any(|node| node.os_id == os_id && node.memory != Some(Bytes(0)))
        };
        match &self.policy {
            PolicyOption::Interleave => {
                let is_allowed =
                    |os_id: &NodeOsId| allowed.is_none_or(|list| list.contains(os_id.0));
                let nodes = machine.nodes().iter().map(|node| node.os_id);
                let nodes = nodes.filter(|os_id| with_memory(*os_id)).filter(is_allowed);
                Ok(Some(MemoryPolicy::Interleave(nodes.collect())))
            }
            PolicyOption::Bind(list) => {
                let nodes: Vec<_> = list.iter().map(NodeOsId).collect();
                if let Some(node) = nodes.iter().find(|os_id| !with_memory(**os_id)) {
                    bail!(
                        "--policy bind={list}: there is no node {} with memory; `quartier topo` \
                         shows which there are",
                        node.0
                    );
                }
                Ok(Some(MemoryPolicy::Bind(nodes)))
            }
            PolicyOption::Plain(_) => Ok(None),
        }
    }

    fn say(&self, sentence: &str) {
        if !self.quiet {
            say::sentence(&format!("{}: {sentence}", self.command[0].to_string_lossy()));
        }
    }
}
