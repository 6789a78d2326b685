//! One run: boot a guest, run one command in it as if it were on this machine, tell how it went.

mod console;
mod files;
mod input;
mod instrument;
mod machine;
mod plan;
mod program;
mod qmp;
mod run;
mod signals;
pub(crate) mod snapshot;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use quartier_model::{Bytes, CpuList, DistanceMatrix};
use rustix::process::{TimeStampCounterReadability, set_time_stamp_counter_readability};
use serde::Serialize;

use crate::cache::Cache;
use crate::error::{Context, Result};
use crate::frame::Exit;
use crate::kernel::Kernel;
use crate::qemu::Qemu;
use crate::topology::Topology;

pub use instrument::Instrument;
pub use program::resolve as resolve_program;
pub use run::run;

/// What to boot and what to run in it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machine.
    pub topology: Topology,
    /// The kernel.
    pub kernel: Kernel,
    /// What runs it.
    pub qemu: Qemu,
    /// The `quartier` program, which is also the guest's first process.
    pub quartier: PathBuf,
    /// Program and arguments; a plain name is looked for on the `PATH`.
    pub command: Vec<OsString>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Folders the guest may write to; all else it writes is forgotten.
    pub writable: Vec<PathBuf>,
    /// Run it as the guest's root, whoever asks. On the host it stays the caller.
    pub as_root: bool,
    /// More words for the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Use /dev/kvm.
    pub kvm: bool,
    /// Where guests are kept as they were when they had booted, and gone on from; without it, each one boots. So does one that
    /// runs on /dev/kvm, is repeatable, or whose console somebody reads.
    pub snapshots: Option<PathBuf>,
    /// Give the CPUs five levels of page tables.
    pub five_levels: bool,
    /// What runs beside the command, as the guest's root, until it ends: a daemon of this machine by its
    /// whole path, with arguments. Nothing, if empty.
    pub beside: Vec<OsString>,
    /// A line for a shell that uses the command, a server then, for a while. It starts when the server
    /// listens, and it is what the host talks to; the server is stopped after it.
    pub load: Option<OsString>,
    /// A line for a shell that succeeds once the server can be loaded, for one that listens earlier than that.
    pub ready: Option<OsString>,
    /// How many times as long what acts by the clock waits: the kernel's NUMA balancing, `khugepaged`.
    pub slow_clocks: u32,
    /// How many times slower time passes in the guest, and the library that does it; ticks and timeouts come as much more seldom. None: as on
    /// this machine. An emulated guest alone has it.
    pub slow_time: Option<SlowTime>,
    /// Files and folders that a repeatable run needs besides what the command's words name.
    pub files: Vec<PathBuf>,
    /// What counts the command's accesses, if anything does.
    pub instrument: Option<Instrument>,
    /// CPUs that a counted command has, all if empty: neither it nor a daemon can widen them.
    pub cpus: CpuList,
    /// End the run after this long.
    pub time_limit: Option<Duration>,
    /// Give a guest up that has not answered by then. It is tried once more.
    pub boot_limit: Duration,
    /// Call a guest hung that has said nothing for this long, and give up a server that does not listen
    /// by then.
    pub hang_limit: Duration,
    /// Pass on the signals this process gets, and end with it.
    pub handle_signals: bool,
}

/// A clock that is slower than this machine's.
#[derive(Clone, Debug)]
pub struct SlowTime {
    /// So many times.
    pub times: u32,
    /// What QEMU gets loaded into it.
    pub library: PathBuf,
}

/// Slower than this a guest boots for minutes, as it measures its timers by its clock.
pub const SLOW_TIME_MAX: u32 = 1_000;

/// The default of [`Request::boot_limit`]: firmware and kernel, and each CPU.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const BOOT_LIMIT_PER_CPU: Duration = Duration::from_secs(8);

/// The default of [`Request::hang_limit`]: busy guests of many CPUs are slow to answer.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

impl Request {
    /// Whether the same is to happen each time.
    fn is_repeatable(&self) -> bool {
        self.instrument.as_ref().is_some_and(|instrument| instrument.repeatable)
    }

    /// How many times slower the guest's clock is than this machine's.
    fn slower(&self) -> u32 {
        self.slow_time.as_ref().map_or(1, |slow| slow.times)
    }

    /// Whether every clock of the guest is slow, its processor's counter too: then time passes there as the counted work does while there is some.
    fn clock_follows(&self) -> bool {
        self.slow_time.is_some()
            && set_time_stamp_counter_readability(TimeStampCounterReadability::Readable).is_ok()
    }

    /// Whether time passes in the guest as its work does by modelled time, while it has some: where the instrument tells of that, and the
    /// kernel of this machine lets a processor's counter be emulated (`PR_SET_TSC`).
    #[must_use]
    pub fn time_follows_work(&self) -> bool {
        let has_steps = |of: &Instrument| of.tells_handovers && !of.repeatable;
        self.instrument.as_ref().is_some_and(has_steps) && self.clock_follows()
    }

    /// A request with this process's directory and environment, and nothing writable.
    ///
    /// # Errors
    /// When this process's program or directory is gone.
    pub fn new(
        topology: Topology,
        kernel: Kernel,
        qemu: Qemu,
        command: Vec<OsString>,
    ) -> Result<Self> {
        let boot_limit = BOOT_LIMIT + BOOT_LIMIT_PER_CPU * topology.nr_cpus() as u32;
        Ok(Self {
            topology,
            kernel,
            qemu,
            quartier: std::env::current_exe().doing("find this program")?,
            command,
            directory: std::env::current_dir().doing("find the working directory")?,
            environment: std::env::vars_os().collect(),
            writable: Vec::new(),
            as_root: false,
            kernel_args: Vec::new(),
            kvm: false,
            snapshots: None,
            five_levels: false,
            beside: Vec::new(),
            slow_clocks: 1,
            slow_time: None,
            load: None,
            ready: None,
            files: Vec::new(),
            instrument: None,
            cpus: CpuList::default(),
            time_limit: None,
            boot_limit,
            hang_limit: HANG_LIMIT,
            handle_signals: false,
        })
    }
}

/// Where the command's input comes from.
#[derive(Debug)]
pub enum Input {
    /// Nowhere: it ends at once.
    Null,
    /// This text.
    Bytes(Vec<u8>),
    /// An open file, pipe or terminal.
    File(OwnedFd),
    /// A terminal: the command gets one too, and this one is put into raw mode meanwhile.
    Terminal {
        /// The terminal.
        file: OwnedFd,
        /// Whether standard error is the terminal too.
        stderr: bool,
    },
}

/// Where things come from and go to.
pub struct Streams {
    /// The command's standard input.
    pub input: Input,
    /// The command's standard output.
    pub output: Box<dyn Write>,
    /// The command's standard error.
    pub error: Box<dyn Write>,
    /// The kernel's console, as it comes.
    pub console: Option<Box<dyn Write + Send>>,
}

/// How a run went.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What `uname -r` prints in the guest.
    pub kernel: String,
    /// The version of QEMU.
    pub qemu: String,
    /// CPUs of each node.
    pub cpus: Vec<u32>,
    /// Memory of each node, in bytes.
    pub memory_bytes: Vec<Bytes>,
    /// Distances between the nodes.
    pub distances: DistanceMatrix,
    /// Whether the guest went on from the snapshot of an earlier one.
    pub from_snapshot: bool,
    /// From the start to the command's start; unknown if it did not start.
    pub boot_ms: Option<u64>,
    /// From the start to the end.
    pub elapsed_ms: u64,
    /// How the command ended.
    #[serde(skip)]
    pub exit: Exit,
    /// The same as a shell would have it.
    pub exit_status: u8,
    /// Where processes that were counted had what, if that was asked for.
    #[serde(skip)]
    pub spaces: Spaces,
}

/// What names the addresses of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spaces {
    /// By process: the last `/proc/PID/maps` that was seen of it.
    pub maps: BTreeMap<u32, String>,
    /// `/proc/kallsyms`, without programs in the kernel.
    pub kernel_names: String,
}

/// What a captured command wrote and how it ended.
#[derive(Clone, Debug)]
pub struct Captured {
    /// How the run went.
    pub report: Report,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs with `input` and keeps what the command writes.
///
/// # Errors
/// As [`run`].
pub fn capture(request: &Request, input: Input) -> Result<Captured> {
    let (output, stdout) = Shared::new();
    let (error, stderr) = Shared::new();
    let report = run(
        request,
        Streams { input, output: Box::new(output), error: Box::new(error), console: None },
    )?;
    Ok(Captured { report, stdout: stdout.take(), stderr: stderr.take() })
}

/// A buffer with two owners.
#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Shared {
    fn new() -> (Self, Self) {
        let one = Self::default();
        (one.clone(), one)
    }

    fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The kernel and QEMU to use, fetched if need be.
///
/// # Errors
/// When one of them is neither here nor can be fetched.
pub fn prepare(
    spec: &crate::kernel::KernelSpec,
    cache: &Cache,
    progress: &dyn Fn(&str),
) -> Result<(Kernel, Qemu)> {
    Ok((Kernel::find(spec, cache, progress)?, Qemu::find(cache, progress)?))
}
