//! What the tests of the command share.
#![allow(dead_code)] // Each test file uses a part.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

/// The built command, with its libraries beside it.
pub fn quartier() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // Nobody links its libraries, so the build of the tests makes none. As `make test` builds it: of some packages or targets
        // only, features would differ, and what they depend on would be built once more.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--tests"]);
        let status = build.status().unwrap();
        assert!(status.success(), "quartier does not build");
        let command = PathBuf::from(env!("CARGO_BIN_EXE_quartier"));
        assert!(command.with_file_name("libquartier_preload.so").exists());
        command
    })
}

/// `quartierd`, beside it.
pub fn quartierd() -> PathBuf {
    quartier().with_file_name("quartierd")
}

/// One of the programs in `tests/programs`, built beside the command, once: a guest may be reading it.
pub fn program(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let built = quartier().with_file_name(name);
    let mut all_built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if all_built.contains(name) {
        return built;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/programs")
        .join(name)
        .with_extension("c");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&built, &source])
        .status()
        .unwrap();
    assert!(status.success(), "{name}.c does not compile");
    all_built.insert(name.to_owned());
    built
}

/// Until it is dropped, nobody else of this file's tests has a guest of these.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE_GUEST: Mutex<()> = Mutex::new(());
    ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a command in a guest with 4 GiB; gives what it printed, and what it said beside. No two at a time: they
/// disturb each other. `None`: no guest can be booted here.
pub fn in_guest(
    kernel: &str,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    command: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Option<(String, String)> {
    let _one = alone();
    beside_others(kernel, options, command)
}

/// The same in one that leaves others a CPU, and waits for most of its time.
fn beside_others(
    kernel: &str,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    command: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Option<(String, String)> {
    if !can_boot(kernel) {
        return None;
    }
    let output = Command::new(quartier())
        .args(["lab", "run", "--kernel", kernel, "--mem", "4G"])
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kernel {kernel}: {output:?} {said}");
    Some((String::from_utf8(output.stdout).unwrap(), said))
}

/// For scripts: `settle SECONDS` waits until the last lines of four programs in `far.*` say that their memory is beside
/// them, or for so long.
pub const SETTLE: &str = r#"
    settle() {
        for look in $(seq $1); do
            sleep 1
            [ $(tail -q -n 1 far.* | grep -c 'percent": \(9[0-9]\|100\),') = 4 ] && break
        done
    }
"#;

/// Runs a script in a guest, as [`in_guest`] does; what it is given are its $1, $2 and so on.
pub fn script_in_guest(
    kernel: &str,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    script: &str,
    given: impl IntoIterator<Item = impl Into<OsString>>,
) -> Option<(String, String)> {
    in_guest(kernel, options, shell(script, given))
}

/// The report of `quartier lab scale` on a program that prints its units and is told how many CPUs it has; other options come first.
pub fn swept(
    kernel: &str,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    (program_name, reason, units): (&str, &str, u64),
    more: &[&str],
) -> Value {
    let output = Command::new(quartier())
        .args(options)
        .args(["--kernel", kernel, "--repeat", "3", "--timeout", "400"])
        .args(["--json", "-", "--metric", "units: ([0-9]+)", "--"])
        .arg(program(program_name))
        .args([reason, "{cpus}", &units.to_string()])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    println!("{kernel} {reason}: {:#}", report["verdict"]);
    report
}

fn shell(
    script: &str,
    given: impl IntoIterator<Item = impl Into<OsString>>,
) -> impl Iterator<Item = OsString> {
    let shell = ["sh", "-c", script, "sh"].map(OsString::from).into_iter();
    shell.chain(given.into_iter().map(Into::into))
}

/// The same as root on two nodes of a CPU, beside other guests of this kind.
pub fn script_in_small_guest(
    kernel: &str,
    script: &str,
    given: impl IntoIterator<Item = impl Into<OsString>>,
) -> Option<(String, String)> {
    let options = ["--nodes", "2", "--cpus-per-node", "1", "--root", "--timeout", "300"];
    beside_others(kernel, options, shell(script, given))
}

/// The same for a script that may [settle](SETTLE), as root on four nodes of two CPUs; what it printed is told.
pub fn script_on_four_nodes(
    kernel: &str,
    script: &str,
    given: impl IntoIterator<Item = impl Into<OsString>>,
) -> Option<String> {
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let script = SETTLE.to_owned() + script;
    let (text, said) = script_in_guest(kernel, options, &script, given)?;
    println!("kernel {kernel}: {said}\n{text}");
    Some(text)
}

/// Whether who runs the tests asks for kernels between the oldest and the newest too. Says so if not.
pub fn asks_for_all_kernels() -> bool {
    let asks = std::env::var_os("QUARTIER_TEST_KERNELS").is_some_and(|kernels| kernels == "all");
    if !asks {
        println!("skipped: only with QUARTIER_TEST_KERNELS=all");
    }
    asks
}

/// What follows a word on the lines that begin with it.
pub fn lines<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

/// Whether a guest with this kernel can be booted here. In CI it must.
pub fn can_boot(kernel: &str) -> bool {
    let fetched =
        Command::new(quartier()).args(["lab", "fetch", "--kernel", kernel]).output().unwrap();
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert!(std::env::var_os("CI").is_none(), "guests must run in CI: {why}");
        println!("skipped: no guest can be booted here: {why}");
    }
    fetched.status.success()
}
