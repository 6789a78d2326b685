//! One run: started on its CPUs, profiled, and what it took.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use quartier_act::start_on;
use quartier_decide::verdict::Run;
use quartier_model::{CpuList, CpuOsId, Recording};
use quartier_observe::profile::{Clock, Profiler, Unprofiled};
use quartier_observe::{Host, TICKS_PER_SECOND};

use super::allocations::Table;
use super::guard::Guard;
use super::metric::Metric;

/// What stands for the number of CPUs in a command.
const PLACEHOLDER: &str = "{cpus}";

/// Of what a command prints, this much of the end is looked through.
const PRINTED_MAX: u64 = 16 << 20;

/// What to run.
#[derive(Debug)]
pub struct Measured<'a> {
    pub host: &'a Host,
    /// All of the machine's: a command may leave those that it was given.
    pub online: &'a CpuList,
    pub cpus: &'a CpuList,
    pub command: &'a [OsString],
    pub metric: &'a Metric,
    /// `None`: not profiled.
    pub hertz: Option<u32>,
    /// Where it notes what it allocates, if it is to.
    pub table: Option<&'a Table<'a>>,
    pub guard: &'a Guard,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub run: Run,
    pub recording: Option<Recording>,
    /// What said when it was looked at.
    pub clock: Option<Clock>,
    /// Of a server: when its load ran, by the recording's clock.
    pub load_ns: Option<(u64, u64)>,
    /// Why there is no recording.
    pub unprofiled: Option<Unprofiled>,
    /// What limits what is said.
    pub complaint: Option<String>,
}

impl Measured<'_> {
    /// Runs it; the error is a sentence's end, on what happened on these CPUs.
    pub fn run(&self) -> Result<Outcome, String> {
        // A thread of its own: what it opens and sets is inherited by what it starts, and ends with it.
        std::thread::scope(|scope| scope.spawn(|| self.start()).join())
            .unwrap_or_else(|_| Err("could not be followed".to_owned()))
    }

    fn start(&self) -> Result<Outcome, String> {
        let (profiler, unprofiled) = match self.profiler() {
            Some(Ok(profiler)) => (Some(profiler), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let clock = profiler.as_ref().map(Profiler::clock);
        let (mut command, printed) = self.own_command()?;
        let (before, host_stolen) = (usage()?, self.host_stolen_s());
        let began = Instant::now();
        let mut child = self.start_on(&mut command, self.cpus)?;
        let (recording, status, wall_s) = std::thread::scope(|scope| {
            let (running, ended) = channel();
            let recorder = profiler
                .map(|profiler| scope.spawn(move || profiler.record(Path::new("/"), &ended)));
            let status = child.wait();
            let wall_s = began.elapsed().as_secs_f64();
            drop(running);
            (recorder.and_then(|recorder| recorder.join().ok()), status, wall_s)
        });
        self.guard.ended(child.id());
        let after = usage()?;
        let host_stolen_s = since(&host_stolen, &self.host_stolen_s());
        let printed =
            text(printed).map_err(|error| format!("its output cannot be read: {error}"))?;
        check(status.map_err(|error| format!("could not be waited for: {error}"))?, &printed)?;
        let units = self.metric.units(&printed, wall_s)?;
        let run = Run { host_stolen_s, ..run(units, wall_s, &before, &after) };
        Ok(Outcome { run, recording, clock, load_ns: None, unprofiled, complaint: None })
    }

    /// What the host of a virtual machine took of each of these CPUs so far; empty: the kernel does not say.
    pub fn host_stolen_s(&self) -> Vec<f64> {
        let Ok(times) = self.host.cpu_times() else { return Vec::new() };
        let ticks = |cpu| times.get(&CpuOsId(cpu)).map(|of| of.stolen_ticks as f64);
        let seconds = self.cpus.iter().map(|cpu| Some(ticks(cpu)? / TICKS_PER_SECOND));
        seconds.collect::<Option<_>>().unwrap_or_default()
    }

    /// Of what this thread starts from now on; `None`: nothing is profiled.
    pub fn profiler(&self) -> Option<Result<Profiler, Unprofiled>> {
        let profiler = Profiler::open(self.host, self.online, self.hertz?);
        Some(profiler.map(|profiler| match self.table {
            Some(table) => profiler.naming_allocations(table.path()),
            None => profiler,
        }))
    }

    /// Starts what ends with us.
    pub fn start_on(&self, command: &mut Command, cpus: &CpuList) -> Result<Child, String> {
        self.guard
            .start(command, |command| start_on(command, cpus))
            .map_err(|error| format!("could not be started: {error}"))
    }

    /// The command that is measured, and the file that it prints to.
    pub fn own_command(&self) -> Result<(Command, File), String> {
        let (mut command, printed) = self.command(self.command)?;
        if let Some(table) = self.table {
            table.preload_into(&mut command);
        }
        Ok((command, printed))
    }

    /// A command with its words filled in, and the file that it prints to.
    pub fn command(&self, words: &[OsString]) -> Result<(Command, File), String> {
        let unkept = |error: std::io::Error| format!("says what cannot be kept: {error}");
        let printed = tempfile::tempfile().map_err(unkept)?;
        let nr_cpus = self.cpus.len().to_string();
        let mut words = told(words, self.cpus.len()).into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env("QUARTIER_CPUS", &nr_cpus).stdin(Stdio::null());
        command.stdout(Stdio::from(printed.try_clone().map_err(unkept)?));
        command.stderr(Stdio::from(printed.try_clone().map_err(unkept)?));
        Ok((command, printed))
    }
}

/// A command's words, told how many CPUs it has.
pub fn told(words: &[OsString], nr_cpus: usize) -> Vec<OsString> {
    let told = |word: &OsString| match word.to_str() {
        Some(text) => text.replace(PLACEHOLDER, &nr_cpus.to_string()).into(),
        None => word.clone(),
    };
    words.iter().map(told).collect()
}

/// Of everything that has ended and was waited for.
pub fn usage() -> Result<Usage, String> {
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_err(|errno| format!("used an unknown time: getrusage: {errno}"))
}

/// CPU time.
pub fn cpu_s(usage: &Usage) -> f64 {
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// Between two looks at the same CPUs.
pub fn since(before: &[f64], after: &[f64]) -> Vec<f64> {
    after.iter().zip(before).map(|(after, before)| (after - before).max(0.0)).collect()
}

fn run(units: f64, wall_s: f64, before: &Usage, after: &Usage) -> Run {
    let since = |of: fn(&Usage) -> i64| u64::try_from(of(after) - of(before)).unwrap_or_default();
    Run {
        units,
        wall_s,
        user_s: Some(seconds(after.user_time()) - seconds(before.user_time())),
        kernel_s: Some(seconds(after.system_time()) - seconds(before.system_time())),
        nr_waits: Some(since(Usage::voluntary_context_switches)),
        nr_preemptions: Some(since(Usage::involuntary_context_switches)),
        nr_faults: Some(since(Usage::minor_page_faults) + since(Usage::major_page_faults)),
        nr_disk_faults: Some(since(Usage::major_page_faults)),
        ..Run::default()
    }
}

/// What is wrong with how it ended, if anything is.
pub fn check(status: ExitStatus, printed: &str) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    let said = last_line(printed).map_or_else(String::new, |line| {
        let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
        format!(", and the last it said was `{line}`")
    });
    Err(format!("failed ({status}){said}"))
}

/// Of what somebody said, if anything.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

/// The end of a file.
pub fn text(mut file: File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(PRINTED_MAX)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
