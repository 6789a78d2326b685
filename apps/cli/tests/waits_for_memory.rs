//! `quartier lab scale` on programs that wait for memory, for a reason that is known: which function waits, for what lies where,
//! and why; in real kernels, on a small machine's caches and memories.

mod common;
#[path = "../../../tests/programs/stops_scaling.rs"]
mod stops_scaling;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use stops_scaling::{Named, OTHERS_PERCENT_MAX, Planted};

/// What is said of a reason; `None`: no guest can be booted here.
fn verdict(kernel: &str, planted: &Planted) -> Option<Value> {
    if !common::can_boot(kernel) {
        return None;
    }
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let output = Command::new(common::quartier())
        .args(planted.in_guest(&programs).unwrap())
        .args(["--kernel", kernel, "--timeout", "400", "--slow-time", "20"])
        .args(["--repeat", "3", "--json", "-"])
        .args(["--metric", "units: ([0-9]+)", "--"])
        .arg(common::program(planted.program()))
        .args([planted.reason.as_str(), "{cpus}", &planted.units.to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    println!("{kernel} {}: {:#}", planted.reason, report["verdict"]);
    Some(report["verdict"].clone())
}

fn planted(reason: &str) -> Planted {
    Planted::all().into_iter().find(|planted| planted.reason == reason).unwrap()
}

/// The culprit that is named first is the one that was planted, and next to nothing is laid upon others. Three runs each are few: that
/// they differ too much for a name is an answer, but not twice.
fn found(kernel: &str, reason: &str) {
    let planted = planted(reason);
    for is_last in [false, true] {
        let Some(verdict) = verdict(kernel, &planted) else { return };
        let culprits: Vec<Named> = serde_json::from_value(verdict["culprits"].clone()).unwrap();
        let Some(first) = culprits.first() else {
            assert!(!is_last, "{reason}: nobody is named, twice: {verdict}");
            continue;
        };
        assert!(planted.is(first), "{planted:?}: {first:?}");
        assert!(planted.others_percent(&culprits) <= OTHERS_PERCENT_MAX, "another: {culprits:?}");
        return assert!(first.share_percent <= 110.0, "more than there is: {first:?}");
    }
}

#[test]
fn memory_that_one_thread_filled_for_all_is_found_on_6_1() {
    found("6.1", "first-touch");
}

#[test]
fn a_memory_that_is_asked_for_more_than_it_can_give_is_found_on_7_3() {
    found("7.3", "bandwidth");
}
