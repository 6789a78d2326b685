//! `quartier lab count --load`: servers counted while they are loaded, and those that cannot be.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// A small guest, for what does not depend on its size.
const SMALL: [&str; 6] = ["--kernel", "6.1", "--nodes", "2", "--cpus-per-node", "1"];

fn count(options: &[&str], load: &str, server: &[&str]) -> Output {
    let mut command = Command::new(common::quartier());
    command
        .args(["lab", "count", "--snapshots"])
        .args(options)
        .args(["--load", load, "--"])
        .args(server);
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was counted of a server whose load went well.
fn counted(kernel: &str, load: &str, server: &[&str]) -> (Value, Output) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("report.json");
    let file = file.to_str().unwrap();
    let options = ["--kernel", kernel, "--nodes", "2", "--timeout", "400", "--report", file];
    // Pages that the kernel moves are in a cache when the program reads them.
    let options = [&options[..], &["--kernel-arg", "numa_balancing=disable"]].concat();
    let output = count(&options, load, server);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (serde_json::from_slice(&fs::read(file).unwrap()).unwrap(), output)
}

/// The only sentence, or the last, of a count that was refused.
fn refused(options: &[&str], load: &str, server: &[&str]) -> String {
    let output = count(options, load, server);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("quartier: "), "{said}");
    assert!(!said.contains("quartier lab count"), "there is no report: {said}");
    last.to_owned()
}

/// Lines that programs read, local and remote.
fn reads(report: &Value) -> u64 {
    let kinds = report["program"]["kinds"].as_array().unwrap();
    let reads = kinds.iter().find(|kind| kind["kind"] == "RD").unwrap();
    let classes = reads["classes"].as_array().unwrap();
    let of_user = classes.iter().find(|class| class["class"] == "user").unwrap();
    ["local", "remote"].iter().map(|way| of_user[way].as_u64().unwrap()).sum()
}

/// A server of ours, built once: a guest may be reading it.
fn prefork() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| common::program("prefork")).to_str().unwrap()
}

/// `PROCESSES` processes with 8 MiB each, far more than what their caches hold.
const PROCESSES: &str = "4";
const LINES: u64 = 4 * (8 << 20) / 64;

fn check_processes(kernel: &str, before: &[&str]) {
    if !common::can_boot(kernel) {
        return;
    }
    let program = prefork();
    let server = [before, &[program, "serve", "7000", PROCESSES, "8"]].concat();
    let (report, output) =
        counted(kernel, &format!("{program} ask 7000 {PROCESSES}; cat /proc/self/cgroup"), &server);
    // The load's output is the standard output, and it is in no group of ours.
    assert_eq!(text(&output.stdout), "4 served\n0::/\n");
    let said = text(&output.stderr);
    assert!(said.contains("listening\n") && said.contains("Only the time of the load"), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("; time under load, ") && !words.contains("whole run"), "{said}");
    let lines = reads(&report);
    assert!(lines > LINES * 9 / 10, "{kernel}: {lines} lines read, of {LINES}");
    assert!(lines < LINES * 12 / 10, "{kernel}: {lines} lines read, of {LINES}: the start too?");
}

#[test]
fn all_processes_of_a_server_are_counted_on_6_1() {
    check_processes("6.1", &[]);
}

#[test]
fn all_processes_of_a_server_under_quartier_are_counted_on_7_3() {
    let quartier = common::quartier().to_str().unwrap();
    check_processes("7.3", &[quartier, "run", "--quiet", "--"]);
}

/// Debian's Redis, without the package that starts it as a service: the checker is the same program.
fn redis(folder: &Path) -> String {
    let program = folder.join("redis-server");
    std::os::unix::fs::symlink("/usr/bin/redis-check-rdb", &program).unwrap();
    program.to_str().unwrap().to_owned()
}

/// Processes that fill 32 MiB when they start have 8,192 page faults, of 1,000 instructions each and more. What the kernel does
/// in their name while they sleep is 200,000 to 300,000, and more in a slower guest.
const NOT_ASKED_MAX: u64 = 1_000_000;

fn check_redis(kernel: &str) {
    if !common::can_boot(kernel) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = [&redis(folder.path()), "--port", "7001", "--save", ""];
    let load = "redis-benchmark -p 7001 -c 2 -n 400 -t set -q; redis-cli -p 7001 ping";
    let (report, output) = counted(kernel, load, &server);
    assert!(text(&output.stdout).ends_with("PONG\n"), "{output:?}");
    let instructions = report["instructions"].as_u64().unwrap();
    // 10,000 instructions at least for a request, through the kernel's network and back. What a server that is not asked costs
    // is the next test's.
    assert!(instructions > NOT_ASKED_MAX + 400 * 10_000, "{kernel}: {instructions}");
}

#[test]
fn a_server_is_counted_while_it_is_loaded_on_6_1() {
    check_redis("6.1");
}

#[test]
fn a_server_is_counted_while_it_is_loaded_on_7_3() {
    check_redis("7.3");
}

#[test]
fn a_server_that_is_not_asked_costs_next_to_nothing() {
    if !common::can_boot("6.1") {
        return;
    }
    let server = [prefork(), "serve", "7000", PROCESSES, "8"];
    let (report, _) = counted("6.1", "sleep 1", &server);
    let instructions = report["instructions"].as_u64().unwrap();
    assert!(instructions < NOT_ASKED_MAX, "neither start nor load is the server's: {instructions}");
}

/// It listens at once, and is ready when it has written a file; then each request is a line of its load's.
#[test]
fn a_server_is_loaded_once_it_is_ready_and_counted_for_each_request() {
    if !common::can_boot("6.1") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let served = "import socket,time\ns=socket.socket(); s.bind(('127.0.0.1',7003)); s.listen()\ntime.sleep(3)\n\
                  open('/tmp/ready','w').close()\nwhile True: s.accept()[0].close()";
    let asks = "import socket\nfor i in range(20): socket.create_connection(('127.0.0.1',7003)).recv(1)\nprint('asked', i+1)";
    let options = ["--ready", "test -e /tmp/ready", "--metric", "asked ([0-9]+)"];
    let more = ["--lines", "--report", report.to_str().unwrap(), "--timeout", "400"];
    let load = format!("test -e /tmp/ready && python3 -c \"{asks}\"");
    let output = count(&[&SMALL[..], &options, &more].concat(), &load, &["python3", "-c", served]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(text(&output.stdout), "asked 20\n", "what the load prints is printed");
    assert!(said.contains("For each of 20.0 units of work"), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let each = |name: &str| report["per_unit"][name].as_f64().unwrap();
    let all = report["instructions"].as_f64().unwrap();
    assert!((20.0 * each("instructions") / all - 1.0).abs() < 1e-6, "{report}");
    assert!(each("instructions") > 3_000.0 && each("lines_taken") > 0.0, "{}", report["per_unit"]);
    let never = [&SMALL[..], &["--hang-timeout", "10", "--ready", "false"]].concat();
    let said = refused(&never, "true", &["sleep", "1000"]);
    assert!(said.contains("whether the server is ready has not succeeded after 10 s"), "{said}");
}

#[test]
fn a_server_that_cannot_be_loaded_is_refused_with_what_it_said_last() {
    if !common::can_boot("6.1") {
        return;
    }
    let never = [&SMALL[..], &["--hang-timeout", "10"]].concat();
    let said = refused(&never, "true", &["sleep", "1000"]);
    assert!(said.contains("listens at no TCP or Unix socket after 10 s"), "{said}");
    let dies = ["sh", "-c", "echo it starts; echo no such luck >&2; exit 3"];
    let said = refused(&SMALL, "true", &dies);
    assert!(said.contains("ended with status 3 before it listened"), "{said}");
    assert!(said.ends_with("it said last: no such luck"), "{said}");
}

#[test]
fn a_server_that_dies_while_it_is_loaded_is_told() {
    if !common::can_boot("6.1") {
        return;
    }
    let server = [prefork(), "serve", "7000", PROCESSES, "1"];
    // A load that fails for it, and one that does not notice.
    for after in ["exit 4", "sleep 1000"] {
        let said = refused(&SMALL, &format!("pkill -KILL prefork; {after}"), &server);
        assert!(said.contains("ended by signal 9 while it was loaded"), "{said}");
        assert!(said.ends_with("it said last: listening"), "{said}");
    }
    // A load that ends it and is content has done what it was there for.
    let output = count(&SMALL, "pkill prefork", &server);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn the_loads_status_and_time_limit_are_the_runs() {
    if !common::can_boot("6.1") {
        return;
    }
    let server = [prefork(), "serve", "7000", PROCESSES, "1"];
    let output = count(&SMALL, "exit 7", &server);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("quartier lab count"), "a report too: {said}");
    let output = count(&[&SMALL[..], &["--timeout", "20"]].concat(), "sleep 1000", &server);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(said.contains("--timeout 20 s"), "{said}");
}

#[test]
fn a_servers_parallel_phase_is_refused() {
    let said = refused(&["--phase", "parallel"], "true", &["true"]);
    assert!(said.contains("--phase parallel cannot be with --load"), "{said}");
}
