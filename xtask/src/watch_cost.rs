//! What watching a whole machine costs: CPU time, memory and descriptors of a `quartierd` beside a crowd of tasks, in equal
//! parts of the time, so that what grows is seen to grow.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

const CROWD: &str = include_str!("crowd.c");

/// Looks are rarer at first: it finds out about everybody.
const SETTLES: Duration = Duration::from_secs(15);

/// Options of `cargo xtask watch-cost`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Processes
    #[arg(long, default_value_t = 1000)]
    processes: u32,
    /// Threads of each
    #[arg(long, default_value_t = 1)]
    threads_each: u32,
    /// Threads of all that compute; the rest sleeps
    #[arg(long, default_value_t = 100)]
    busy: u32,
    /// CPUs' worth of work of those that compute, all together; they sleep in between [default: all that they get]
    #[arg(long, value_name = "CPUS")]
    load: Option<f64>,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Lines that are printed
    #[arg(long, default_value_t = 6)]
    parts: u32,
    /// The built daemon [default: the release build]
    #[arg(long)]
    quartierd: Option<PathBuf>,
}

/// Ended when dropped, whatever happened.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // A pid that is a child's, and not yet waited for.
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// What it has taken so far.
struct Taken {
    cpu_seconds: f64,
    resident_bytes: u64,
    nr_open: usize,
    log_bytes: u64,
}

impl Taken {
    fn by(pid: u32, log: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let (stat, status) = (read("stat")?, read("status")?);
        let ticks = sysconf(SysconfVar::CLK_TCK)?.context("no clock ticks")?;
        // utime and stime of proc(5) stat, after the name.
        let fields = stat.rsplit_once(')').context("no name in stat")?.1.split_whitespace();
        let times = fields.skip(11).take(2).map(str::parse::<u64>);
        let times: u64 = times.sum::<Result<u64, _>>()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = resident
            .and_then(|line| line.split_whitespace().next()?.parse().ok())
            .context("no VmRSS")?;
        Ok(Self {
            cpu_seconds: times as f64 / ticks as f64,
            resident_bytes: kib << 10,
            nr_open: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            log_bytes: fs::metadata(log).map_or(0, |metadata| metadata.len()),
        })
    }
}

/// Prints a line for each part of the time.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let built = crate::release_build()?;
    let quartierd = args.quartierd.clone().unwrap_or_else(|| built.with_file_name("quartierd"));
    ensure!(quartierd.exists(), "{} is not there: run `make build`", quartierd.display());
    let _crowd = crowd(args, &built.with_file_name("crowd"))?;
    let folder = std::env::temp_dir().join(format!("watch-cost-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let log = folder.join("log");
    let daemon = Command::new(&quartierd)
        .arg("--log")
        .arg(&log)
        .arg("--journal")
        .arg(folder.join("journal"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run quartierd")?;
    let mut daemon = Ends(daemon);
    let told = watch(args, &mut daemon, &log);
    drop(daemon);
    let _ = fs::remove_dir_all(&folder);
    told
}

fn watch(args: &Args, daemon: &mut Ends, log: &Path) -> anyhow::Result<()> {
    let pid = daemon.0.id();
    sleep(SETTLES);
    println!(
        "{} processes of {} threads, {} busy, {} CPUs",
        args.processes,
        args.threads_each,
        args.busy,
        std::thread::available_parallelism()?
    );
    println!(
        "{:>8}  {:>9}  {:>13}  {:>11}  {:>8}",
        "until, s", "% of a CPU", "resident, MiB", "descriptors", "log, MiB"
    );
    let began = Instant::now();
    let (mut before, mut then) = (Taken::by(pid, log)?, began);
    for part in 1..=args.parts {
        let until = Duration::from_secs(args.seconds) * part / args.parts;
        sleep(until.saturating_sub(began.elapsed()));
        ensure!(daemon.0.try_wait()?.is_none(), "quartierd has ended");
        let (taken, now) = (Taken::by(pid, log)?, Instant::now());
        println!(
            "{:>8.0}  {:>9.2}  {:>13.1}  {:>11}  {:>8.1}",
            began.elapsed().as_secs_f64(),
            100.0 * (taken.cpu_seconds - before.cpu_seconds) / (now - then).as_secs_f64(),
            taken.resident_bytes as f64 / f64::from(1 << 20),
            taken.nr_open,
            taken.log_bytes as f64 / f64::from(1 << 20),
        );
        (before, then) = (taken, now);
    }
    Ok(())
}

/// Starts the tasks, and waits until all are there.
fn crowd(args: &Args, program: &Path) -> anyhow::Result<Ends> {
    let source = program.with_extension("c");
    fs::write(&source, CROWD)?;
    let compiled =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(program).arg(&source).status();
    ensure!(compiled.context("cannot run cc")?.success(), "cc failed");
    // Each of them, in each period of the program.
    const PERIOD_US: f64 = 50_000.0;
    let each = args.load.map_or(PERIOD_US, |cpus| PERIOD_US * cpus / f64::from(args.busy.max(1)));
    let busy_us = each.clamp(1.0, PERIOD_US).round() as u32;
    let numbers = [args.processes, args.threads_each, args.busy, busy_us];
    let numbers = numbers.map(|number| number.to_string());
    let child =
        Command::new(program).args(numbers).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut crowd = Ends(child);
    let said = crowd.0.stdout.take().context("no output")?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    ensure!(line == "here\n", "not all tasks could be started");
    Ok(crowd)
}
