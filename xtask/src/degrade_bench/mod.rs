//! The experiment of seed 003 on real servers: a light service beside ever more heavy requests, unmodified and under each
//! policy, and beside what others do against overload.

mod across;
mod drawing;
mod table;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;

/// Options of `cargo xtask degrade-bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Who decides which service gets slow
    #[arg(long, value_delimiter = ',', default_values = &VARIANTS[..FIRST])]
    variants: Vec<String>,
    /// Heavy clients beside 30 light ones; in the open loop as many fortieths of what overloads the server
    #[arg(long, value_name = "NR", value_delimiter = ',', default_value = "0,5,10,20,30,40")]
    heavy: Vec<u32>,
    /// Clients that wait for their answer, and requests that come by the clock
    #[arg(long, value_delimiter = ',', default_value = "closed,open")]
    loops: Vec<String>,
    /// Before each run is counted, seconds
    #[arg(long, default_value_t = 2.0)]
    warm_seconds: f64,
    /// For which each run is counted
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Of all variants, one after the other
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// The JDK that the servers run on [default: the one on the PATH]
    #[arg(long, value_name = "FOLDER")]
    java_home: Option<PathBuf>,
    /// How the kernel schedules the servers
    #[arg(long, value_enum, default_value = "as-they-come")]
    under: Under,
    /// The light service's p95 without heavy requests, by which targets are set, milliseconds [default: each server's own]. With the
    /// same in several environments, ours are to be alike there
    #[arg(long, value_name = "MS")]
    alone_ms: Option<f64>,
    /// Count nothing; say how far apart the experiments are that lie in folders beside each other in the folder of results
    #[arg(long)]
    across: bool,
    /// Count nothing; make tables and drawings anew of what was counted before
    #[arg(long, conflicts_with = "across")]
    again: bool,
    /// Where the tables, the drawings and all that was counted go
    #[arg(long, default_value = "docs/results/degrade")]
    out: PathBuf,
}

/// `--under`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Under {
    /// As the kernel does without being asked
    AsTheyCome,
    /// Slices of 0.1 ms
    #[value(name = "slices-of-100-us")]
    ShortSlices,
    /// Slices of 100 ms
    #[value(name = "slices-of-100-ms")]
    LongSlices,
    /// As what nobody waits for
    Batch,
    /// Behind all others, the load too
    Nice,
}

impl Under {
    /// What the servers' commands begin with; the script is for slices.
    fn words(self, slice: &Path) -> Vec<String> {
        let slices_of = |nanoseconds: &str| {
            vec!["python3".to_owned(), slice.display().to_string(), nanoseconds.to_owned()]
        };
        match self {
            Self::AsTheyCome => Vec::new(),
            Self::ShortSlices => slices_of("100000"),
            Self::LongSlices => slices_of("100000000"),
            Self::Batch => ["chrt", "--batch", "0"].map(str::to_owned).to_vec(),
            Self::Nice => ["nice", "-n", "10"].map(str::to_owned).to_vec(),
        }
    }
}

/// Clients run before the servers, on the same CPUs: what they wait for there is no server's doing, and those of another machine would
/// not. Only root may have that; its servers do not inherit it.
const CLIENTS_FIRST: [&str; 3] = ["chrt", "--fifo", "1"];
const AS_OTHERS: [&str; 3] = ["chrt", "--other", "0"];

const VARIANTS: [&str; 16] = [
    "unmodified",
    "priorities",
    "limits",
    "jetty",
    "jetty-qos",
    "fair",
    "weighted",
    "priority",
    "protect",
    "curve",
    "protect-queue",
    "jdk",
    "jdk-protect",
    "jdk-curve",
    "jetty-protect",
    "jetty-curve",
];
/// What is compared by itself; the others are other servers, to compare ours with ours.
const FIRST: usize = 11;

/// All that was counted, in a folder of results.
const COUNTED: &str = "counted.jsonl";

/// Runs a command with slices of its own.
const SLICE: &str = include_str!("slice.py");

/// What the experiment prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Begin(Begin),
    Held(Held),
    Run(Run),
}

/// Where it was; one for each round.
#[derive(Clone, Debug, Deserialize)]
struct Begin {
    /// One request, on the unmodified server as the round began.
    light_cpu_s: f64,
    heavy_cpu_s: f64,
    cpus: u32,
    /// As the kernel calls them; `None`: counted before that was noted.
    #[serde(default)]
    cpu: Option<String>,
    /// Whether clients run before the servers.
    #[serde(default)]
    clients_first: bool,
    java: String,
}

/// What the light service's p95 is held to in one round.
#[derive(Clone, Debug, Deserialize)]
struct Held {
    variant: String,
    round: u32,
    /// What that was set by: its p95 on this very server without heavy requests, at the beginning of the round, or the one given.
    alone_p95_ms: f64,
    /// Beside no heavy client and beside 40.
    p95_ms: [f64; 2],
}

impl Held {
    fn at(&self, heavy: u32) -> f64 {
        let [first, last] = self.p95_ms;
        first + (last - first) * f64::from(heavy) / 40.0
    }
}

/// One class of requests in one run.
#[derive(Clone, Debug, Deserialize)]
struct Run {
    variant: String,
    #[serde(rename = "loop")]
    pace: String,
    heavy: u32,
    round: u32,
    class: String,
    seconds: f64,
    answered: u64,
    refused: u64,
    failed: u64,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Of both classes.
    server_cpu_s: f64,
    client_cpu_s: f64,
}

/// What is told of a run.
type Value = fn(&Run) -> Option<f64>;

/// All that was counted.
#[derive(Debug)]
struct Experiment {
    begin: Begin,
    held: Vec<Held>,
    runs: Vec<Run>,
}

impl Experiment {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let (mut begin, mut held, mut runs) = (None, Vec::new(), Vec::new());
        for line in text.lines() {
            let line =
                serde_json::from_str(line).with_context(|| format!("no line of it: {line}"))?;
            match line {
                Line::Begin(told) => begin = Some(told),
                Line::Held(told) => held.push(told),
                Line::Run(run) => runs.push(run),
            }
        }
        ensure!(!runs.is_empty(), "nothing was counted");
        Ok(Self { begin: begin.context("it does not say what a request costs")?, held, runs })
    }

    /// What a variant was held to, one for each round.
    fn held<'a>(&'a self, variant: &'a str) -> impl Iterator<Item = &'a Held> {
        self.held.iter().filter(move |held| held.variant == variant)
    }

    /// Of a variant beside so many, one for each round.
    fn runs<'a>(
        &'a self,
        pace: &'a str,
        variant: &'a str,
        class: &'a str,
        heavy: u32,
    ) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| {
            run.pace == pace && run.variant == variant && run.class == class && run.heavy == heavy
        })
    }

    /// Requests that were answered, of both classes. `None`: not counted.
    fn answers(&self, pace: &str, variant: &str, heavy: u32, round: u32) -> Option<u64> {
        let of = |class: &'static str| {
            self.runs(pace, variant, class, heavy).find(|run| run.round == round)
        };
        Some(of("light")?.answered + of("heavy").map_or(0, |run| run.answered))
    }

    /// Work that was of use: CPU seconds of answered requests, of both classes, each second. `None`: not counted.
    fn useful(&self, pace: &str, variant: &str, heavy: u32, round: u32) -> Option<f64> {
        let of = |class: &str, cost: f64| {
            let mut runs = self.runs(pace, variant, class, heavy);
            let run = runs.find(|run| run.round == round)?;
            Some(run.answered as f64 * cost / run.seconds)
        };
        let (light_cost, heavy_cost) = self.costs(round);
        let light = of("light", light_cost)?;
        Some(light + of("heavy", heavy_cost).unwrap_or(0.0))
    }

    /// CPU seconds of one request of each class: least squares over what the unmodified server took in closed loops of this round. (A
    /// server that was warmed up a minute ago still compiles, and its heavy requests seem to take half as much again.) If these were
    /// not counted, what was learned as it began.
    fn costs(&self, round: u32) -> (f64, f64) {
        const LEAST_PART: f64 = 1e-6;
        let of = |class| {
            let is_so = move |run: &&Run| run.round == round && run.class == class;
            let runs = self.runs.iter().filter(is_so);
            runs.filter(|run| run.pace == "closed" && run.variant == "unmodified")
        };
        let [mut light_light, mut light_heavy, mut heavy_heavy, mut light_cpu, mut heavy_cpu] =
            [0.0; 5];
        for run in of("light") {
            let light = run.answered as f64;
            let beside = of("heavy").find(|heavy| heavy.heavy == run.heavy);
            let heavy = beside.map_or(0.0, |heavy| heavy.answered as f64);
            light_light += light * light;
            light_heavy += light * heavy;
            heavy_heavy += heavy * heavy;
            light_cpu += light * run.server_cpu_s;
            heavy_cpu += heavy * run.server_cpu_s;
        }
        let determinant = light_light * heavy_heavy - light_heavy * light_heavy;
        let light_cost = (light_cpu * heavy_heavy - heavy_cpu * light_heavy) / determinant;
        let heavy_cost = (heavy_cpu * light_light - light_cpu * light_heavy) / determinant;
        let is_known = determinant > LEAST_PART * light_light * heavy_heavy;
        if is_known && light_cost > 0.0 && heavy_cost > 0.0 {
            (light_cost, heavy_cost)
        } else {
            (self.begin.light_cpu_s, self.begin.heavy_cpu_s)
        }
    }

    /// The same of each second of CPU that the load generator, which runs on the same CPUs, left to the server.
    fn useful_of_left(&self, pace: &str, variant: &str, heavy: u32, round: u32) -> Option<f64> {
        let run = self.runs(pace, variant, "light", heavy).find(|run| run.round == round)?;
        let left = f64::from(self.begin.cpus) - run.client_cpu_s / run.seconds;
        Some(self.useful(pace, variant, heavy, round)? / left)
    }

    /// In the order in which they are asked for, those that are there.
    fn variants(&self) -> Vec<&'static str> {
        let is_there = |variant: &&str| self.runs.iter().any(|run| run.variant == **variant);
        VARIANTS.into_iter().filter(is_there).collect()
    }

    fn heavy(&self) -> Vec<u32> {
        let mut heavy: Vec<_> = self.runs.iter().map(|run| run.heavy).collect();
        heavy.sort_unstable();
        heavy.dedup();
        heavy
    }

    fn rounds(&self) -> u32 {
        self.runs.iter().map(|run| run.round + 1).max().unwrap_or(0)
    }
}

/// What a variant is compared with: the same server without it.
fn baseline(variant: &str) -> &'static str {
    let of = ["jetty", "jdk"].into_iter().find(|server| variant.starts_with(server));
    of.unwrap_or("unmodified")
}

/// What decides in it, whatever the server: `unmodified`, a policy of ours or somebody else's.
fn decider(variant: &str) -> &str {
    match variant {
        "jetty" | "jdk" => "unmodified",
        _ => variant.rsplit('-').next().unwrap_or(variant),
    }
}

/// Runs the experiment on what Maven has built.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.across {
        println!("{}", across::of(&across::read(&args.out)?));
        return Ok(());
    }
    let counted = args.out.join(COUNTED);
    if args.again {
        let cannot = || format!("cannot read {}: was anything counted?", counted.display());
        return keep(args, &fs::read_to_string(&counted).with_context(cannot)?);
    }
    for variant in &args.variants {
        ensure!(
            VARIANTS.contains(&variant.as_str()),
            "there is no variant {variant}: {VARIANTS:?}"
        );
    }
    let is_root = fs::metadata("/proc/self").context("cannot tell who runs this")?.uid() == 0;
    let variants = possible(&args.variants, is_root);
    let bench = Workspace::load()?.root.join("degrade/bench");
    fs::create_dir_all(&args.out).context("cannot make the folder for results")?;
    let slice = args.out.join("slice.py");
    fs::write(&slice, SLICE).context("cannot write to the folder for results")?;
    let status = command(args, is_root, &variants, &bench, &counted, &slice)?
        .stdin(Stdio::null())
        .status()
        .context("cannot run java: is there a JDK?")?;
    fs::remove_file(&slice)?;
    ensure!(status.success(), "the experiment ended with {status}");
    keep(args, &fs::read_to_string(&counted)?)
}

/// Only root's JVMs take notice of their threads' priorities.
fn possible(variants: &[String], is_root: bool) -> Vec<&str> {
    let is_possible = |variant: &&str| is_root || *variant != "priorities";
    let possible: Vec<_> = variants.iter().map(String::as_str).filter(is_possible).collect();
    if possible.len() < variants.len() {
        eprintln!(
            "without priorities: Java's thread priorities have no effect but for root; run it as root to compare them"
        );
    }
    possible
}

fn command(
    args: &Args,
    is_root: bool,
    variants: &[&str],
    bench: &Path,
    counted: &Path,
    slice: &Path,
) -> anyhow::Result<Command> {
    let built = bench.join("target/classpath");
    let others = fs::read_to_string(&built)
        .with_context(|| format!("no {}: `make degrade-bench` builds it", built.display()))?;
    let classes = format!("{}:{}", bench.join("target/classes").display(), others.trim());
    let java = args.java_home.as_ref().map_or("java".into(), |home| home.join("bin/java"));
    let agent = bench.join("../agent/target/quartier-degrade.jar");
    let heavy: Vec<_> = args.heavy.iter().map(u32::to_string).collect();
    let mut under = args.under.words(slice);
    let mut command = if is_root {
        under.splice(0..0, AS_OTHERS.map(str::to_owned));
        let mut first = Command::new(CLIENTS_FIRST[0]);
        first.args(&CLIENTS_FIRST[1..]).arg(&java).arg("-Dbench.clients.first=true");
        first
    } else {
        eprintln!(
            "clients wait for the servers' CPUs: only root may have them run before all others"
        );
        Command::new(&java)
    };
    if let Some(home) = &args.java_home {
        command.arg(format!("-Dbench.java.home={}", home.display()));
    }
    if let Some(alone) = args.alone_ms {
        command.arg(format!("-Dbench.alone.ms={alone}"));
    }
    command
        .arg(format!("-Dbench.under={}", under.join(" ")))
        .arg(format!("-Dagent.jar={}", agent.display()))
        .args(["-cp", &classes, "bench.Experiment"])
        .arg(counted)
        .args([args.warm_seconds.to_string(), args.seconds.to_string(), args.rounds.to_string()])
        .args([heavy.join(","), args.loops.join(","), variants.join(",")])
        // Servers stand side by side, and all but one wait.
        .env("JAVA_TOOL_OPTIONS", "-Xmx512m");
    Ok(command)
}

fn keep(args: &Args, counted: &str) -> anyhow::Result<()> {
    let experiment = Experiment::parse(counted)?;
    let text = table::of(&experiment);
    println!("{text}");
    fs::write(args.out.join("table.txt"), text)?;
    for pace in &args.loops {
        for (name, drawing) in drawing::of(&experiment, pace)? {
            fs::write(args.out.join(format!("{pace}-{name}.svg")), drawing)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
