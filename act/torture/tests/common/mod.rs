//! What the integration tests share: programs built once, and runs that cannot hang.
#![allow(dead_code)] // Each test file uses a part.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The exit status by which a hazard program says that the machine cannot do what it tests.
pub const SKIPPED: i32 = 77;

/// What a hazard program is called, with its arguments.
pub type Hazard = (&'static str, &'static [&'static str]);

/// Every hazard that is one run of one program.
pub const HAZARDS: &[Hazard] = &[
    ("cancel_exit", &[]),
    ("child_affinity", &[]),
    ("close_all", &[]),
    ("core_signals", &[]),
    ("exec_threads", &[]),
    ("fewer_rights", &["address-space"]),
    ("fewer_rights", &["address-space", "in-the-middle"]),
    ("fewer_rights", &["chroot"]),
    ("fewer_rights", &["chroot", "in-the-middle"]),
    ("fewer_rights", &["processes"]),
    ("fewer_rights", &["processes", "in-the-middle"]),
    ("fewer_rights", &["seccomp"]),
    ("fewer_rights", &["seccomp", "in-the-middle"]),
    ("fewer_rights", &["setuid"]),
    ("fewer_rights", &["setuid", "in-the-middle"]),
    ("fork_storm", &[]),
    ("freed_and_moved", &[]),
    ("helper_killed", &[]),
    ("helper_killed", &["--forks"]),
    ("just_runs", &[]),
    ("kernel_io", &[]),
    ("little_room", &["address-space"]),
    ("little_room", &["address-space", "in-pieces"]),
    ("little_room", &["data"]),
    ("locked_shared", &[]),
    ("many_mappings", &[]),
    ("many_pieces", &[]),
    ("map_race", &[]),
    ("mapped_again", &[]),
    ("mremap_dontunmap", &[]),
    ("mremap_race", &[]),
    ("mremap_race", &["--past-the-library"]),
    ("own_policy", &[]),
    ("own_stack", &[]),
    ("own_threads", &[]),
    ("own_userfaultfd", &["call"]),
    ("own_userfaultfd", &["device"]),
    ("ptrace_peek", &[]),
    ("raw_fork", &[]),
    ("raw_fork", &["clone"]),
    ("resized_blocks", &[]),
    ("same_pages", &[]),
    ("shared_children", &[]),
    ("stop_continue", &[]),
    ("stopped_starts", &[]),
    ("thread_attributes", &[]),
    ("unseen_fork", &[]),
];

/// The tester.
pub fn torture() -> &'static str {
    env!("CARGO_BIN_EXE_quartier-torture")
}

/// `quartier` with its runtime beside it, built once.
pub fn quartier() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // As `make test` builds it: of some packages or targets only, features would differ, and what they depend on would be
        // built once more.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--tests"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "quartier does not build");
        Path::new(torture()).with_file_name("quartier")
    })
}

/// The folder of the hazard programs, compiled once, and statically as well those that are named so.
pub fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
        let folder = Path::new(torture()).with_file_name("programs");
        std::fs::create_dir_all(&folder).unwrap();
        let entries = std::fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().path());
        for source in entries.filter(|path| path.extension().is_some_and(|end| end == "c")) {
            let name = source.file_stem().unwrap();
            let openmp = name.to_string_lossy().starts_with("openmp").then_some("-fopenmp");
            compile(&source, &folder.join(name), openmp.as_slice());
        }
        compile(&sources.join("just_runs.c"), &folder.join("just_runs_static"), &["-static"]);
        folder
    })
}

/// Compiles beside the place and then renames: another test may be running the old one.
fn compile(source: &Path, program: &Path, more: &[&str]) {
    let fresh = program.with_extension(std::process::id().to_string());
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(more);
    let status = command.arg("-o").arg(&fresh).arg(source).status();
    assert!(status.expect("needs a C compiler").success(), "{} does not compile", source.display());
    std::fs::rename(&fresh, program).unwrap();
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// Both its outputs.
    pub said: String,
}

/// Runs a command in a process group of its own; all of the group is killed when it takes longer than
/// so many seconds, which fails the test with what was said until then.
pub fn run(command: &mut Command, seconds: u64) -> Ended {
    let mut output: File = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(output.try_clone().unwrap()).stderr(output.try_clone().unwrap());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.is_none() {
        let group = i32::try_from(child.id()).unwrap();
        // SAFETY: the group that this function made; its leader is not reaped yet.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        let _ = child.wait();
    }
    let mut said = Vec::new();
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    let Some(status) = status else {
        panic!("{command:?} hangs: nothing after {seconds} s: {said}")
    };
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    Ended { status: status.code().unwrap_or(128 + signal.unwrap_or(0)), said }
}

/// `quartier run` of a program, though this machine may have one node only.
pub fn under_quartier(program: &Path) -> Command {
    let mut command = Command::new(quartier());
    command.args(["run", "--force", "--quiet", "--"]).arg(program);
    command
}

/// Operations that the tester does: CI's bound, or what `QUARTIER_TORTURE_OPS` says.
pub fn operations(bound: u64) -> u64 {
    let asked = std::env::var("QUARTIER_TORTURE_OPS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(bound)
}
