//! `quartier lab count`: memory commands counted in real kernels, and what is refused.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn count(args: &[&str]) -> Output {
    let mut command = Command::new(common::quartier());
    command.args(["lab", "count"]).args(args).stdin(Stdio::null()).output().unwrap()
}

fn counted(folder: &Path, args: &[&str], command: &[&str]) -> (Value, String) {
    let report = folder.join("report.json");
    let guest = ["--snapshots", "--timeout", "400", "--kernel-arg", "numa_balancing=disable"];
    let report_args = ["--report", report.to_str().unwrap(), "--"];
    let output = count(&[&guest[..], args, &report_args[..], command].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    (serde_json::from_slice(&fs::read(&report).unwrap()).unwrap(), errors)
}

/// Commands of programs themselves that left their node: `local` or `remote`, of a kind.
fn users(report: &Value, kind: &str, way: &str) -> f64 {
    let kinds = report["program"]["kinds"].as_array().unwrap();
    let kind = kinds.iter().find(|entry| entry["kind"] == kind).unwrap();
    let classes = kind["classes"].as_array().unwrap();
    classes.iter().find(|entry| entry["class"] == "user").unwrap()[way].as_f64().unwrap()
}

/// 16 MiB lie on node 2, and two threads of each node read an eighth each: three quarters of their reads
/// go there. Under Quartier each eighth comes to its thread.
fn check(kernel: &str, has_next_touch: bool) {
    if !common::can_boot(kernel) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = common::program("eighths");
    let program = program.to_str().unwrap();
    let args = ["--kernel", kernel, "--phase", "parallel"];
    let quartier = common::quartier().to_str().unwrap();
    // Threads are placed, or the kernel might put them where the data is, or move the one that fills it.
    let under = |policy| [quartier, "run", "--quiet", "--policy", policy, "--", program, "16", "8"];
    let (first, text) = counted(folder.path(), &args, &under("bind=2"));
    let (local, remote) = (users(&first, "RD", "local"), users(&first, "RD", "remote"));
    // 4 MiB each from three nodes, in lines of 64 bytes.
    let least = 3.0 * 4.0 * f64::from(1 << 20) / 64.0;
    assert!(remote > 0.9 * least, "{kernel}: {remote} remote reads, {least} expected");
    assert!(remote > 1.5 * local, "{kernel}: {local} local, {remote} remote");
    let asked = first["program"]["asked"].as_array().unwrap();
    let from_elsewhere = |node: &Value| -> u64 {
        node["remote"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
    };
    let all: u64 = asked.iter().map(from_elsewhere).sum();
    let most = from_elsewhere(&asked[2]);
    // What the thread that filled it has written last is in its caches, wherever it ran then: up to half of what others read.
    assert!(most * 10 > all * 6, "{kernel}: node 2 is asked for most: {asked:?}");
    assert!(text.contains("Modelled time (not measured)"), "{text}");
    if has_next_touch {
        let (ours, _) = counted(folder.path(), &args, &under("next-touch"));
        let reads = users(&ours, "RD", "remote");
        assert!(reads < 0.6 * remote, "{kernel}: {reads} remote reads, {remote} without us");
    }
}

#[test]
fn reads_of_another_threads_data_are_counted_where_they_go_on_6_1() {
    check("6.1", false);
}

#[test]
fn reads_come_home_under_quartier_on_7_3() {
    check("7.3", true);
}

/// Each process sees memory where the kernel put it last, as pages move: what the model translates is what
/// QEMU accesses.
fn translations_are_qemus(kernel: &str, options: &[&str], command: &[&str]) {
    if !common::can_boot(kernel) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let args = ["--snapshots", "--timeout", "400", "--kernel", kernel];
    let args = [&args[..], &["--check-translations", "--report"]].concat();
    let report_args = [report.to_str().unwrap()];
    let output = count(&[&args[..], &report_args, options, &["--"], command].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let notes = report["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let note = notes.into_iter().find(|note| note.contains("translations")).unwrap();
    let numbers = note.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    assert!(numbers[0] > 1_000_000 && numbers[1] == 0, "{kernel}: {note}");
}

/// The kernel itself balances pages among the nodes.
#[test]
fn translations_are_qemus_own_on_6_1() {
    let program = common::program("eighths");
    translations_are_qemus("6.1", &[], &[program.to_str().unwrap(), "16", "8"]);
}

/// Quartier moves them, and page tables have five levels.
#[test]
fn translations_are_qemus_own_on_7_3() {
    let (quartier, program) = (common::quartier(), common::program("eighths"));
    let check = "grep -qw la57 /proc/cpuinfo || exit 9; exec \"$@\"";
    let before = ["sh", "-c", check, "sh", quartier.to_str().unwrap(), "run", "--quiet", "--"];
    let command = [&before[..], &[program.to_str().unwrap(), "16", "8"]].concat();
    translations_are_qemus("7.3", &["--five-levels"], &command);
}

/// A sampled count is an estimate: it states its error, and is near what is known of the program.
#[test]
fn a_sample_is_near_the_whole_and_states_its_error() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = common::program("eighths");
    let quartier = common::quartier().to_str().unwrap();
    let args = ["--kernel", "6.12", "--phase", "parallel", "--sample", "8"];
    let under = [quartier, "run", "--quiet", "--policy", "bind=2", "--"];
    let command = [&under[..], &[program.to_str().unwrap(), "16", "8"]].concat();
    let (report, text) = counted(folder.path(), &args, &command);
    assert_eq!(report["mode"]["kind"], "sampled", "{}", report["mode"]);
    let error = report["mode"]["error_percent"].as_f64().unwrap();
    assert!((0.01..5.0).contains(&error), "{error} %");
    // 4 MiB each from three nodes, in lines of 64 bytes; as when every access is counted.
    let (remote, least) = (users(&report, "RD", "remote"), 3.0 * 4.0 * f64::from(1 << 20) / 64.0);
    assert!(remote > 0.9 * least, "{remote} remote reads, {least} expected");
    assert!(text.contains("may be off"), "{text}");
}

/// A counted guest of eight CPUs, several times: none hangs, dies or loses what it counted.
#[test]
fn guests_of_eight_cpus_are_counted_again_and_again() {
    if !common::can_boot("6.12") {
        return;
    }
    let rounds = std::env::var("QUARTIER_TEST_ROUNDS").map_or(2, |n| n.parse().unwrap());
    let folder = TempDir::new().unwrap();
    let program = common::program("eighths");
    let command = [program.to_str().unwrap(), "4", "8"];
    for round in 0..rounds {
        let geometry = if round % 2 == 0 { "tsar" } else { "server" };
        let args = ["--kernel", "6.12", "--geometry", geometry];
        let (report, _) = counted(folder.path(), &args, &command);
        let instructions = report["instructions"].as_u64().unwrap();
        assert!(instructions > 1_000_000, "round {round}: {instructions}");
    }
}

/// A recording is reported on again without a guest, to the same numbers; the page has them too.
#[test]
fn what_was_recorded_is_reported_again() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let recording = path("recording.json");
    let args =
        ["--kernel", "6.12", "--nodes", "2", "--cpus-per-node", "1", "--recording", &recording];
    let (first, _) = counted(folder.path(), &args, &["/bin/true"]);
    let (again, page, drawings) = (path("again.json"), path("page.html"), path("drawings"));
    let output =
        count(&["--from", &recording, "--report", &again, "--html", &page, "--svg", &drawings]);
    assert!(output.status.success(), "{output:?}");
    let again: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert_eq!(first, again);
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
    assert!(fs::read_dir(&drawings).unwrap().count() >= 3);
    // It has one thread.
    let parallel = count(&["--from", &recording, "--phase", "parallel"]);
    let text = String::from_utf8(parallel.stderr).unwrap();
    assert_eq!((parallel.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    assert!(text.contains("second thread"), "{text}");
    // Nothing else is on the standard output then.
    let json = count(&["--from", &recording, "--json"]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), first);
}

#[test]
fn what_cannot_be_counted_is_refused_before_a_guest_boots() {
    let folder = TempDir::new().unwrap();
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "name = \"no machine\"\n").unwrap();
    let bad = bad.to_str().unwrap();
    let damaged = folder.path().join("damaged.json");
    fs::write(&damaged, "{\"format\": 7}").unwrap();
    let damaged = damaged.to_str().unwrap();
    for (args, part) in [
        (&["--kvm", "--", "true"][..], "nothing can be counted"),
        (&["--geometry", "/nowhere", "--", "true"], "neither tsar, server nor a file"),
        (&["--geometry", bad, "--", "true"], "bad.toml"),
        (&["--sample", "3", "--", "true"], "power of two"),
        (&["--sample", "32", "--", "true"], "up to 16"),
        (&["--svg", "/proc", "--", "true"], "cannot write to the folder /proc"),
        (&["--from", damaged, "--geometry", "tsar"], "cannot be used with"),
        (&["--from", damaged, "--sample", "8"], "cannot be used with"),
        (&["--from", damaged, "--nodes", "2"], "cannot be used with"),
        (&["--html", "/nowhere/page.html", "--", "true"], "there is no folder"),
        (&["--from", damaged], "format 7"),
        (&["--from", "/nowhere/at.all"], "cannot read"),
        (&["--", "no-such-program-here"], "no-such-program-here"),
    ] {
        let output = count(args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}
