//! A guest that goes on from where an earlier one had booted is a guest like any other, and one that cannot boots.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use common::{FAST, alone, assert_status, complaints, lab, ready, text};
use quartier_lab::Cache;
use serde_json::Value;
use tempfile::TempDir;

/// A cache with the kernels and the QEMU of the real one, and no snapshot. It lies in the real one, for its files to be the same ones.
fn cache() -> TempDir {
    let real = Cache::from_environment().unwrap();
    let folder = tempfile::tempdir_in(real.root()).unwrap();
    for part in [real.kernels(), real.qemu()].into_iter().filter(|part| part.exists()) {
        let copied = Command::new("cp").arg("-al").arg(part).arg(folder.path()).status().unwrap();
        assert!(copied.success());
    }
    folder
}

struct Ran {
    output: Output,
    report: Value,
}

impl Ran {
    fn is_from_snapshot(&self) -> bool {
        self.report["from_snapshot"].as_bool().unwrap()
    }
}

fn run(cache: &Path, kernel: &str, options: &[&str], script: &str) -> Ran {
    let report = cache.join("report.json");
    let report_option = format!("--report={}", report.display());
    let always = ["--snapshots", "--nodes=2", "--cpus-per-node=1", &report_option];
    let options = [&always[..], options].concat();
    let _alone = alone();
    let mut command = lab(kernel, &options, &["sh", "-c", script]);
    let output = command.env("QUARTIER_CACHE", cache).output().unwrap();
    let report = serde_json::from_slice(&fs::read(&report).unwrap_or_default());
    Ran { report: report.unwrap_or_else(|_| panic!("{}", text(&output.stderr))), output }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Two that go on from the same snapshot have the host's time and files, folders to write to as many as they like, and random numbers
/// and a boot of their own.
fn check(kernel: &str) {
    if !ready(kernel) {
        return;
    }
    let cache = cache();
    let folder = cache.path().join("written");
    fs::create_dir(&folder).unwrap();
    let rw = format!("--rw={}", folder.display());
    let script = format!(
        "date +%s; cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id; id -u; \
         echo $$ >> {0}/pids; nproc; cat /sys/devices/system/node/online; exit 7",
        folder.display()
    );
    let mut said = Vec::new();
    for nr in 0..3 {
        let before = seconds_now();
        let ran = run(cache.path(), kernel, &[&rw], &script);
        assert_status(&ran.output, 7);
        assert_eq!(ran.is_from_snapshot(), nr > 0, "{kernel}: {}", ran.report);
        assert_eq!(complaints(&ran.output), "");
        let stdout = text(&ran.output.stdout);
        let lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
        let date: u64 = lines[0].parse().unwrap();
        assert!((before..=seconds_now()).contains(&date), "{kernel}: {date}");
        assert_eq!(lines[3..], [fs_uid(), "2".to_owned(), "0-1".to_owned()], "{kernel}");
        said.push(lines[1..3].to_vec());
    }
    assert_eq!(fs::read_to_string(folder.join("pids")).unwrap().lines().count(), 3);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        assert!(said[one][0] != said[other][0] && said[one][1] != said[other][1], "{said:?}");
    }
}

fn fs_uid() -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid().to_string()
}

#[test]
fn guests_go_on_from_where_one_had_booted_on_6_1() {
    check(FAST);
}

#[test]
fn guests_go_on_from_where_one_had_booted_on_7_3() {
    check("7.3");
}

/// More folders than the machine has places for are another machine; a console that is read shows a boot.
#[test]
fn whatever_is_another_guest_boots() {
    if !ready(FAST) {
        return;
    }
    let cache = cache();
    assert!(!run(cache.path(), FAST, &[], "exit 0").is_from_snapshot());
    let path = cache.path().join("console");
    let console = format!("--console={}", path.display());
    let folders = ["--rw=/tmp", "--rw=/var/tmp"];
    for options in [&folders[..], &[&console]] {
        let ran = run(cache.path(), FAST, options, "exit 0");
        assert_status(&ran.output, 0);
        assert!(!ran.is_from_snapshot(), "{options:?}");
    }
    let console = fs::read(path).unwrap();
    assert!(String::from_utf8_lossy(&console).contains("SeaBIOS"));
}

/// A clock of another speed is another machine's, which goes on at that speed.
#[test]
fn a_guest_goes_on_with_the_slow_clock_that_it_booted_with() {
    if !ready(FAST) {
        return;
    }
    let cache = cache();
    for (times, is_from_snapshot) in [(20, false), (20, true), (10, false)] {
        let slow = format!("--slow-time={times}");
        let ran = run(cache.path(), FAST, &[&slow], "sleep 0.1");
        assert_status(&ran.output, 0);
        assert_eq!(ran.is_from_snapshot(), is_from_snapshot, "{times}");
        let of = |name: &str| ran.report[name].as_u64().unwrap();
        assert!(of("elapsed_ms") - of("boot_ms") > 100 * times, "{times}: {}", ran.report);
    }
}

/// It is told, another guest boots, and of the one after it a snapshot is taken that is good.
#[test]
fn a_damaged_snapshot_costs_a_boot_and_nothing_else() {
    if !ready(FAST) {
        return;
    }
    let cache = cache();
    assert!(!run(cache.path(), FAST, &[], "exit 0").is_from_snapshot());
    let snapshots = fs::read_dir(cache.path().join("snapshots")).unwrap();
    let folders: Vec<_> = snapshots.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    fs::write(folders[0].join("state"), "no state").unwrap();
    let ran = run(cache.path(), FAST, &["--timeout=100"], "echo ran");
    assert_status(&ran.output, 0);
    assert_eq!(text(&ran.output.stdout), "ran\n");
    assert!(!ran.is_from_snapshot());
    let said = text(&ran.output.stderr);
    assert!(said.contains("did not go on from a snapshot"), "{said}");
    // The one that was tried then took none; the next one does.
    assert!(!run(cache.path(), FAST, &[], "exit 0").is_from_snapshot());
    assert!(run(cache.path(), FAST, &[], "exit 0").is_from_snapshot());
}
