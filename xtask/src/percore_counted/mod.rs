//! Who takes whose line, counted: percore's parts and what others offer, each way of `percore/examples/contend.rs` in guests of 4
//! to 32 CPUs, beside threads that do nothing.

mod guest;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use quartier_count::numbers::grouped;
use serde::{Deserialize, Serialize};

use guest::Guests;
use table::Results;

use crate::guest_runs;

/// Parts, and operations of all threads together. What threads' beginnings and ends take has to be little beside what the
/// operations do, and 32 CPUs that are emulated in turn are to count for some 20 s (by estimate): few operations where all
/// others spin meanwhile.
const PARTS: [(&str, u64); 6] = [
    ("counter", 1_024_000),
    ("reference", 512_000),
    ("table", 256_000),
    ("free-list", 256_000),
    ("lock", 32_000),
    ("mailbox", 64_000),
];

/// The way of every part that the others are counted above.
const NOTHING: &str = "nothing";

/// CPUs, and the nodes that they are on.
const MACHINES: [(u32, u32); 3] = [(4, 2), (16, 4), (32, 8)];

const COUNTED: &str = "counted.jsonl";

/// Options of `cargo xtask percore-counted`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CPUs of the guests: 4 (on two nodes), 16 (on four), 32 (on eight)
    #[arg(long, value_delimiter = ',', default_value = "4,16,32")]
    cpus: Vec<u32>,
    /// Parts [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// So much of each part's operations, percent: little, to try it
    #[arg(long, default_value_t = 100)]
    percent: u64,
    /// The kernel that they run on
    #[arg(long, default_value = "7.3")]
    kernel: String,
    /// Count nothing; make the table anew of what was counted before
    #[arg(long)]
    again: bool,
    /// Where the table and all that was counted go; what was counted of other parts and CPUs stays
    #[arg(long, default_value = "docs/results/percore")]
    out: PathBuf,
    /// The built command [default: the release build]
    #[arg(long)]
    quartier: Option<PathBuf>,
}

/// What a guest is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Task {
    nr_cpus: u32,
    nr_nodes: u32,
    part: String,
    way: String,
    /// What the part does, and what the way is called.
    does: String,
    name: String,
    /// Of all threads together.
    nr_operations: u64,
}

/// A task, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    #[serde(flatten)]
    task: Task,
    /// On this machine, with the guest's boot.
    took_s: f64,
    outcome: Outcome,
}

type Outcome = guest_runs::Outcome<Counts>;

/// Of the program on all CPUs, from its second thread's beginning to its last other one's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    /// Copies of lines that writes took from other CPUs.
    owner_changes: u64,
    /// Commands that left their node.
    remote_commands: u64,
    /// Instructions and stalls, without waiting for other threads.
    modelled_cycles: u64,
    kernel: String,
    qemu: String,
}

impl Run {
    fn counts(&self) -> Option<&Counts> {
        self.outcome.counts()
    }

    fn problem(&self) -> Option<&str> {
        self.outcome.problem()
    }

    /// For who waits.
    fn progress(&self) -> String {
        let Task { nr_cpus, part, way, .. } = &self.task;
        let came_of_it = match &self.outcome {
            Outcome::Counted(counts) => format!("{} owner changes", grouped(counts.owner_changes)),
            Outcome::Failed(why) => format!("failed: {why}"),
        };
        format!("{part} {way} on {nr_cpus} CPUs: {came_of_it} ({:.0} s)", self.took_s)
    }
}

/// A way that the program has.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    part: String,
    way: String,
    does: String,
    name: String,
}

impl Way {
    /// What the program lists: a line for each, with tabs.
    fn all(said: &str) -> anyhow::Result<Vec<Self>> {
        let read = |line: &str| {
            let [part, way, does, name] = line.split('\t').collect::<Vec<_>>()[..] else {
                bail!("not understood of contend: {line}");
            };
            let [part, way, does, name] = [part, way, does, name].map(str::to_owned);
            Ok(Self { part, way, does, name })
        };
        said.lines().map(read).collect()
    }
}

/// Counts what is asked for, a guest after the other, and makes the table.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = Wanted::new(args)?;
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create {}", args.out.display()))?;
    let counted = args.out.join(COUNTED);
    if !args.again {
        count(args, &wanted, &counted)?;
    }
    let runs: Vec<Run> = guest_runs::read(&counted)?;
    let results = Results::of(&runs);
    guest_runs::tell(&args.out, &results.text(), &results)?;
    let nr_failed = runs.iter().filter(|run| run.problem().is_some()).count();
    ensure!(nr_failed == 0, "{nr_failed} of {} runs failed: the table says why", runs.len());
    Ok(())
}

/// Machines and parts that are asked for.
struct Wanted {
    machines: Vec<(u32, u32)>,
    parts: Vec<(&'static str, u64)>,
}

impl Wanted {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let mut machines = Vec::new();
        for cpus in &args.cpus {
            let known = MACHINES.into_iter().find(|(nr_cpus, _)| nr_cpus == cpus);
            let known = known.with_context(|| {
                format!("there is no machine of {cpus} CPUs: give some of 4, 16 and 32 with --cpus")
            })?;
            machines.push(known);
        }
        for part in &args.only {
            let is_known = PARTS.iter().any(|(known, _)| known == part);
            let known = PARTS.map(|(part, _)| part).join(", ");
            ensure!(is_known, "there is no part {part}: give some of {known} with --only");
        }
        ensure!(args.percent > 0, "no operations are nothing to count: give --percent at least 1");
        let is_asked =
            |part: &str| args.only.is_empty() || args.only.iter().any(|asked| asked == part);
        let parts = PARTS.into_iter().filter(|(part, _)| is_asked(part));
        let parts = parts.map(|(part, nr)| (part, nr * args.percent / 100)).collect();
        Ok(Self { machines, parts })
    }

    /// Whether a run of before is to be counted anew.
    fn has(&self, task: &Task) -> bool {
        let is_machine = self.machines.iter().any(|(nr_cpus, _)| *nr_cpus == task.nr_cpus);
        is_machine && self.parts.iter().any(|(part, _)| *part == task.part)
    }

    /// Of each part on each machine: nothing, then the ways in their order.
    fn tasks(&self, ways: &[Way]) -> anyhow::Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for &(nr_cpus, nr_nodes) in &self.machines {
            for &(part, nr_operations) in &self.parts {
                let of_part: Vec<_> = ways.iter().filter(|way| way.part == part).collect();
                let Some(first) = of_part.first() else { bail!("contend has no part {part}") };
                let nothing = Way { way: NOTHING.into(), name: NOTHING.into(), ..(*first).clone() };
                // Each thread does as many, and at least one.
                let times = (nr_operations / u64::from(nr_cpus)).max(1);
                let task = |way: &Way| Task {
                    nr_cpus,
                    nr_nodes,
                    part: way.part.clone(),
                    way: way.way.clone(),
                    does: way.does.clone(),
                    name: way.name.clone(),
                    nr_operations: times * u64::from(nr_cpus),
                };
                tasks.extend([&nothing].into_iter().chain(of_part).map(task));
            }
        }
        Ok(tasks)
    }
}

/// A line of JSON each, as soon as it is counted.
fn count(args: &Args, wanted: &Wanted, counted: &Path) -> anyhow::Result<()> {
    let guests = Guests::new(args.quartier.as_deref(), &args.kernel)?;
    let tasks = wanted.tasks(&Way::all(&guests.ways()?)?)?;
    let before: Vec<Run> = guest_runs::read(counted)?;
    let kept = before.iter().filter(|run| !wanted.has(&run.task));
    let run = |task| guests.run(task);
    guest_runs::count("percore-counted", counted, kept, tasks, run, Run::progress)
}
