//! What the guest tests share: the built program, a filled cache, and one guest at a time.
#![allow(dead_code)] // Each test file uses its part.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
pub use rustix::process::Signal;

/// The kernel that boots fastest, for what does not depend on the kernel.
pub const FAST: &str = "6.1";

/// The `quartier` program, built now if need be: this crate cannot depend on the one that has it.
pub fn quartier() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // As `make test` builds it: of one package or kind of targets only, features would differ, and what it depends on would
        // be built once more.
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--lib", "--bins", "--tests"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "quartier does not build");
        // This test is in target/PROFILE/deps.
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("quartier");
        if program.exists() {
            program
        } else {
            test.ancestors().nth(3).unwrap().join("debug/quartier")
        }
    })
}

/// Guests one after another: two cores are one guest's worth.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether who runs the tests asks for kernels between the oldest and the newest too. Says so if not.
pub fn asks_for_all_kernels() -> bool {
    let asks = std::env::var_os("QUARTIER_TEST_KERNELS").is_some_and(|kernels| kernels == "all");
    if !asks {
        println!("between the oldest and the newest kernel: only with QUARTIER_TEST_KERNELS=all");
    }
    asks
}

/// Whether `kernel` can be booted here. Where it cannot, says why, and fails in CI.
pub fn ready(kernel: &str) -> bool {
    let fetch = Command::new(quartier()).args(["lab", "fetch", "--kernel", kernel]).output();
    let output = fetch.unwrap();
    if output.status.success() {
        return true;
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(std::env::var_os("CI").is_none(), "guests must run in CI: {why}");
    println!("skipped: no guest can be booted here: {why}");
    false
}

/// `quartier lab run --kernel KERNEL OPTIONS -- COMMAND`.
pub fn lab(kernel: &str, options: &[&str], command: &[&str]) -> Command {
    let mut lab = Command::new(quartier());
    lab.args(["lab", "run", "--kernel", kernel]).args(options).arg("--").args(command);
    lab.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    lab
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the command in the guest said on standard error: not that a guest did not start and another was tried, which happens
/// on a machine under load.
pub fn complaints(output: &Output) -> String {
    let said = text(&output.stderr);
    said.split_inclusive('\n').filter(|line| !line.ends_with("another is tried, once\n")).collect()
}

/// Asserts the exit status, showing what was said if it is another.
pub fn assert_status(output: &Output, status: i32) {
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{said:#?}");
}

/// The processes below `parent`, by the names of their programs.
pub fn descendants(parent: u32) -> Vec<(u32, String)> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let ids = std::fs::read_to_string(children).unwrap_or_default();
    let mut found = Vec::new();
    for id in ids.split_whitespace().map(|id| id.parse::<u32>().unwrap()) {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        found.push((id, name.trim().to_owned()));
        found.extend(descendants(id));
    }
    found
}

/// Whether a process runs; a zombie does not.
pub fn runs(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !done() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A guest whose output is read as it comes.
pub struct Running {
    pub child: Child,
    output: std::sync::Arc<Mutex<Vec<u8>>>,
    _alone: MutexGuard<'static, ()>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let alone = alone();
        let mut child = command.spawn().unwrap();
        let output = std::sync::Arc::new(Mutex::new(Vec::new()));
        let (shared, mut stdout) = (output.clone(), child.stdout.take().unwrap());
        thread::spawn(move || {
            use std::io::Read;
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, output, _alone: alone }
    }

    pub fn said(&self) -> String {
        text(&self.output.lock().unwrap())
    }

    pub fn wait_for(&self, words: &str) {
        wait_until(words, || self.said().contains(words));
    }

    pub fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }

    /// Waits for the end and gives the exit status, or what a shell makes of a signal.
    pub fn status(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

/// A test that fails half-way leaves no guest behind.
impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            send_signal(self.child.id(), Signal::TERM);
            let end = Instant::now() + Duration::from_secs(20);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                thread::sleep(Duration::from_millis(50));
            }
            // The lab's tether ends what a killed one leaves.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn send_signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).unwrap();
    rustix::process::kill_process(process, signal).unwrap();
}
