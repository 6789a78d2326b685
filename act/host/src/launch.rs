//! Running a program with the runtime in it.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quartier_model::Machine;
use quartier_session::{
    Config, CpuBits, ENV_SESSION, ENV_SOCKET, Launcher, Session, SessionError, own_pid_namespace,
};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};
use thiserror::Error;

use crate::desk::Desk;
use crate::{MemoryPolicy, Program, Report, affinity};

/// How long the launcher waits for helpers (and other orphans) after the program has ended.
const HELPER_END_MAX: Duration = Duration::from_millis(50);

/// How often stopped helpers are looked for.
const HELPERS_EVERY: Duration = Duration::from_secs(1);

/// After so long the runtime is up in a program that it can come up in.
const RUNTIME_UP_MAX: Duration = Duration::from_secs(2);

/// What to run, and how.
#[derive(Debug)]
pub struct Request<'a> {
    /// The program.
    pub program: &'a Program,
    /// Its name and arguments as typed.
    pub command: &'a [OsString],
    /// The runtime library.
    pub runtime: PathBuf,
    /// The machine.
    pub machine: &'a Machine,
    /// Its decision tree.
    pub tree: TreeFiles<'a>,
    /// Where the program's first thread starts, and how the tree counts it.
    pub start: Option<Start>,
    /// What the runtime is to do.
    pub config: Config,
    /// The memory policy that the program starts with.
    pub memory_policy: Option<MemoryPolicy>,
    /// What is done while it runs, on a thread of its own.
    pub meanwhile: Option<Meanwhile<'a>>,
}

/// Gets the session, and the end of the run: until then nothing is received.
#[derive(Clone, Copy)]
pub struct Meanwhile<'a>(pub &'a (dyn Fn(&Session, &Receiver<()>) + Sync));

impl fmt::Debug for Meanwhile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

/// The two files of the decision tree that the run's processes decide by.
#[derive(Clone, Copy, Debug)]
pub struct TreeFiles<'a> {
    /// Topology, U and M.
    pub tree: BorrowedFd<'a>,
    /// T.
    pub threads: BorrowedFd<'a>,
}

/// Where a program's first thread starts.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// These CPUs: those of one node, or one.
    pub cpus: CpuBits,
    /// For [`Header::first_thread`](quartier_session::Header::first_thread).
    pub first_thread: u64,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Launched {
    /// How it ended.
    pub status: ExitStatus,
    /// What happened.
    pub report: Report,
}

impl Launched {
    /// The exit status as a shell gives it: 128 + the signal's number for a program that was killed.
    #[must_use]
    pub fn shell_status(&self) -> u8 {
        let code = self.status.code();
        let signal = || 128 + self.status.signal().unwrap_or(0);
        code.unwrap_or_else(signal).try_into().unwrap_or(u8::MAX)
    }
}

/// Why a program could not be started.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum LaunchError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(
        "cannot set the memory policy: {0}; choose nodes that have memory (see `quartier topo`)"
    )]
    MemoryPolicy(rustix::io::Errno),
    #[error("cannot start `{}`: {source}", .path.display())]
    Start { path: PathBuf, source: std::io::Error },
    #[error("cannot watch signals: {0}")]
    Signals(std::io::Error),
}

/// Runs the program to its end.
///
/// # Errors
/// When it could not be started; what the program itself does is no error.
pub fn launch(request: &Request<'_>) -> Result<Launched, LaunchError> {
    let json = serde_json::to_string(request.machine).unwrap_or_default();
    let launcher = Launcher {
        pid: std::process::id(),
        tree_fd: request.tree.tree.as_raw_fd(),
        threads_fd: request.tree.threads.as_raw_fd(),
        pid_namespace: own_pid_namespace(),
    };
    let start_cpus = request.start.map_or(CpuBits::EMPTY, |start| start.cpus);
    let config = Config { start: start_cpus, ..request.config };
    let (memory, session) = Session::create(request.machine, &json, launcher, config)?;
    if let Some(start) = &request.start {
        session.header().first_thread.store(start.first_thread, Ordering::Relaxed);
    }
    let desk = Desk::open(&memory, request.tree);
    // Leaked: the desk's threads use it until the launcher ends.
    let session: &'static Session = Box::leak(Box::new(session));
    let mut command = Command::new(&request.program.path);
    command.arg0(&request.command[0]).args(&request.command[1..]);
    command.env("LD_PRELOAD", preload(&request.runtime));
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    command.env(ENV_SESSION, path);
    if let Some(desk) = &desk {
        command.env(ENV_SOCKET, desk.name());
    }
    // Watched before the start, so that none is lost; a handler, unlike ignoring, is not inherited.
    let signals =
        SignalsInfo::<WithOrigin>::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
            .map_err(LaunchError::Signals)?;
    // Without this a helper of an ended program would wait for an init that may never reap it. The
    // price: an orphan of the run has us, not init, for a parent.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let began = Instant::now();
    let child = start(request, &mut command, session)?;
    pass_on(signals, &child);
    watch_helpers();
    if let Some(desk) = desk {
        std::thread::spawn(move || desk.serve(session));
    }
    let status = std::thread::scope(|scope| {
        let (running, ended) = channel();
        if let Some(Meanwhile(act)) = request.meanwhile {
            scope.spawn(move || act(session, &ended));
        }
        let status = wait(&child);
        drop(running);
        status
    });
    let status = status
        .map_err(|source| LaunchError::Start { path: request.program.path.clone(), source })?;
    let report = Report::collect(session, request.machine, began.elapsed());
    Ok(Launched { status, report })
}

/// Becomes the program, without the runtime: nothing of Quartier is left.
pub fn replace(program: &Program, command: &[OsString]) -> LaunchError {
    let mut exec = Command::new(&program.path);
    exec.arg0(&command[0]).args(&command[1..]);
    LaunchError::Start { path: program.path.clone(), source: exec.exec() }
}

fn start(
    request: &Request<'_>,
    command: &mut Command,
    session: &'static Session,
) -> Result<Child, LaunchError> {
    if let Some(policy) = &request.memory_policy {
        policy.set().map_err(LaunchError::MemoryPolicy)?;
    }
    // Exec balances: the kernel would choose another CPU, were the choice not narrowed until the
    // runtime, in the new program, puts the user's affinity back.
    let narrowed = request.start.and_then(|start| {
        let own = affinity::get(0).ok()?;
        affinity::set(0, &start.cpus).ok().map(|_| (own, start.cpus))
    });
    let child = command
        .spawn()
        .map_err(|source| LaunchError::Start { path: request.program.path.clone(), source });
    if let Some((own, narrow)) = narrowed {
        let _ = affinity::set(0, &own);
        if let Ok(child) = &child {
            widen_without_runtime(child, session, own, narrow);
        }
    }
    if request.memory_policy.is_some() {
        MemoryPolicy::unset();
    }
    child
}

/// A program in which the runtime did not come up (something in its environment keeps it out) must not
/// stay narrowed: after a while it is widened from here.
fn widen_without_runtime(child: &Child, session: &'static Session, own: CpuBits, narrow: CpuBits) {
    let pid = child.id();
    std::thread::spawn(move || {
        std::thread::sleep(RUNTIME_UP_MAX);
        let is_up = session.processes().next().is_some();
        if !is_up && affinity::get(pid).is_ok_and(|now| now == narrow) {
            let _ = affinity::set(pid, &own);
        }
    });
}

/// The program's own preloads stay, after ours.
fn preload(runtime: &std::path::Path) -> OsString {
    let mut value = runtime.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Passes signals on to the program, but for those that the terminal sent to both.
fn pass_on(mut signals: SignalsInfo<WithOrigin>, child: &Child) {
    let pid = child.id() as libc::pid_t;
    std::thread::spawn(move || {
        for origin in &mut signals {
            let by_somebody = matches!(origin.cause, Cause::Sent(Sent::User | Sent::TKill));
            let reached_both = matches!(origin.signal, SIGINT | SIGQUIT) && !by_somebody;
            if !reached_both {
                // SAFETY: sends a signal to our own child, which is not reaped before we end.
                unsafe { libc::kill(pid, origin.signal) };
            }
        }
    });
}

/// Waits for the program, and reaps what it leaves to us meanwhile: helpers end up as our children,
/// because we are the subreaper of the run.
fn wait(child: &Child) -> std::io::Result<ExitStatus> {
    let program = child.id() as i32;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == program => {
                reap_helpers();
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A helper ends by itself when its program does; waits a moment for that, so that none is left.
fn reap_helpers() {
    let began = Instant::now();
    while began.elapsed() < HELPER_END_MAX {
        let_helpers_go_on();
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// A helper that was stopped with its program's group, before it had left that, is not continued with it;
/// the program may be gone meanwhile. Nobody tells us of one: it was stopped before it became our child.
fn let_helpers_go_on() {
    while let Some(pid) = next_stopped_child() {
        let comm = format!("/proc/{}/comm", pid.as_raw_nonzero());
        if std::fs::read_to_string(comm).is_ok_and(|name| name == "quartier-helper\n") {
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }
}

/// A child that was stopped since it was asked for last.
fn next_stopped_child() -> Option<Pid> {
    // SAFETY: all-zero is a valid siginfo_t; the call fills it.
    let pid = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WSTOPPED | libc::WNOHANG;
        (libc::waitid(libc::P_ALL, 0, &raw mut info, options) == 0).then(|| info.si_pid())
    };
    Pid::from_raw(pid?)
}

/// Looks for them now and then, until the launcher ends.
fn watch_helpers() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(HELPERS_EVERY);
            let_helpers_go_on();
        }
    });
}
