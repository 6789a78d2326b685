//! Options of every command that boots a guest.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use quartier_lab::{
    Cache, CpusPerNode, Distances, Input, KernelSpec, Memory, Request, SLOW_TIME_MAX, SlowTime,
    Streams, Topology, prepare, resolve_program,
};

use crate::installed;
use crate::numbers::number;

/// What guest to boot, and how.
#[derive(Debug, clap::Args)]
pub struct GuestArgs {
    /// Nodes [default: 4, or as many as a list below has]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// CPUs of each node: one number, or one for each node (2,0,4)
    #[arg(long, value_name = "K", default_value = "2")]
    cpus_per_node: CpusPerNode,
    /// Memory: in all (4G), or of each node (512M,0,1G) [default: 512M a node]
    #[arg(long, value_name = "SIZE")]
    mem: Option<Memory>,
    /// Distance between nodes: one (21), `ring`, or rows (10,21;21,10)
    #[arg(long, value_name = "D")]
    distance: Option<Distances>,
    /// Kernel: a version (6.12) or the path of a boot image [default: the newest in the cache]
    #[arg(long, value_name = "V|PATH")]
    kernel: Option<KernelSpec>,
    /// One more argument for the kernel; may be repeated
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    kernel_arg: Vec<String>,
    /// Let the command write to this folder; may be repeated [default folder: the working one]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    rw: Vec<PathBuf>,
    /// Run the command as the guest's root; on this machine it has no more rights than you
    #[arg(long)]
    root: bool,
    /// Use /dev/kvm; it may exist and not work
    #[arg(long)]
    kvm: bool,
    /// Go on from how an earlier guest of the same kernel and machine was when it had booted: within a second
    ///
    /// Where there was none, the guest boots and is kept: the last sixteen are, beside the kernels (some 300 MiB each). One whose console
    /// is copied, or that is repeatable, or runs on /dev/kvm boots in any case.
    #[arg(long)]
    snapshots: bool,
    /// Give the CPUs five levels of page tables, as machines with more than 64 TiB use them
    #[arg(long)]
    five_levels: bool,
    /// Copy the kernel's console to this file, or - for standard error
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// Let what acts by the clock wait N times as long: a counted program runs 100 to 300 times slower than
    /// the guest's clock
    ///
    /// The kernel's NUMA balancing and khugepaged; with `lab compare` also numad and Quartier's rounds, for
    /// which `quartier run` has the same option otherwise. `lab compare` finds N by one run more if it is `auto`: how
    /// many times its modelled time the command takes in the guest.
    #[arg(
        long,
        value_name = "N|auto",
        default_value = "1",
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub slow_clocks: SlowClocks,
    /// Let time itself pass N times slower in the guest: what ticks and times out there comes as much more seldom
    ///
    /// At this machine's clock the kernel's ticks take a large part of what is counted, as they come a hundred times as often for each
    /// unit of work as on a machine. Where lines are counted, time passes as the work does, and N times slower while there is none
    /// [default of `lab scale`: 50].
    #[arg(long, value_name = "N", conflicts_with = "kvm", allow_negative_numbers = true,
          value_parser = number(1..=SLOW_TIME_MAX))]
    slow_time: Option<u32>,
    /// End the run after this many seconds
    #[arg(long, value_name = "SECS")]
    timeout: Option<u64>,
    /// Call the guest hung after this many silent seconds, and give up a server that does not listen by
    /// then
    #[arg(long, value_name = "SECS", default_value_t = quartier_lab::HANG_LIMIT.as_secs())]
    hang_timeout: u64,
}

/// How many times as long clocks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowClocks {
    Times(u32),
    /// As many times as the guest is slower.
    Auto,
}

/// The most that clocks are slowed.
pub const SLOWEST: u32 = 10_000;

impl FromStr for SlowClocks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(times @ 1..=SLOWEST) => Ok(Self::Times(times)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err(format!("give a number from 1 to {SLOWEST}, or auto")),
        }
    }
}

impl GuestArgs {
    /// What to run, with everything that it needs found or fetched.
    pub fn request(&self, command: &[OsString]) -> anyhow::Result<Request> {
        match self.slow_clocks {
            SlowClocks::Times(times) => self.request_with(command, times),
            SlowClocks::Auto => bail!(
                "--slow-clocks auto is for `lab compare`, which has a run to find out from: give a number"
            ),
        }
    }

    /// The same, with clocks that wait so many times as long.
    pub fn request_with(&self, command: &[OsString], slow_clocks: u32) -> anyhow::Result<Request> {
        let topology = self.topology()?;
        // Before anything is fetched for it: a misspelt command is told at once.
        let directory = std::env::current_dir().context("cannot find the working directory")?;
        if let Some(name) = command.first() {
            resolve_program(name, &directory, std::env::var_os("PATH").as_ref())?;
        }
        let spec = self.kernel.clone().unwrap_or_default();
        let cache = Cache::from_environment()?;
        let (kernel, qemu) = prepare(&spec, &cache, &super::progress)?;
        let mut request = Request::new(topology, kernel, qemu, command.to_vec())?;
        request.snapshots = self.snapshots.then(|| cache.snapshots());
        for folder in &self.rw {
            let shown = folder.display();
            let folder =
                std::fs::canonicalize(folder).with_context(|| format!("--rw={shown} cannot be"))?;
            request.writable.push(folder);
        }
        request.as_root = self.root;
        request.slow_clocks = slow_clocks;
        request.slow_time = self.slow_time_or(1)?;
        request.kernel_args.clone_from(&self.kernel_arg);
        request.kvm = self.kvm;
        request.five_levels = self.five_levels;
        request.time_limit = self.timeout.map(Duration::from_secs);
        request.hang_limit = Duration::from_secs(self.hang_timeout);
        request.handle_signals = true;
        Ok(request)
    }

    /// How much slower time passes, if at all, and as much as this where nobody says.
    pub fn slow_time_or(&self, otherwise: u32) -> anyhow::Result<Option<SlowTime>> {
        let times = self.slow_time.unwrap_or(otherwise);
        let library = || installed::library("libquartier_clock.so", "the slow clock");
        (times > 1).then(|| Ok(SlowTime { times, library: library()? })).transpose()
    }

    /// The machine.
    pub fn topology(&self) -> anyhow::Result<Topology> {
        Ok(Topology::new(
            self.nodes,
            &self.cpus_per_node,
            self.mem.as_ref(),
            self.distance.as_ref(),
        )?)
    }

    /// This process's own streams, for the command.
    pub fn streams(&self) -> anyhow::Result<Streams> {
        Ok(Streams {
            input: input()?,
            output: Box::new(io::stdout()),
            error: Box::new(io::stderr()),
            console: self.console()?,
        })
    }

    /// Where the kernel's console is copied to.
    pub fn console(&self) -> anyhow::Result<Option<Box<dyn Write + Send>>> {
        self.console.as_deref().map(open).transpose()
    }

    /// Whether /dev/kvm is asked for.
    pub fn is_accelerated(&self) -> bool {
        self.kvm
    }
}

/// A file, or standard error.
pub fn open(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stderr()));
    }
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(file))
}

fn input() -> anyhow::Result<Input> {
    let stdin = io::stdin();
    let Ok(file) = stdin.as_fd().try_clone_to_owned() else { return Ok(Input::Null) };
    if stdin.is_terminal() && io::stdout().is_terminal() {
        Ok(Input::Terminal { file, stderr: io::stderr().is_terminal() })
    } else {
        Ok(Input::File(file))
    }
}
