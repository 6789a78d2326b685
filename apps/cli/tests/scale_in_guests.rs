//! `quartier scale` as root in real kernels: it is seen when threads are woken, and so how long they wait for a CPU. And
//! `quartier lab scale`: what the busiest CPU of a guest does while the others have nothing to do.

mod common;
#[path = "../../../tests/programs/stops_scaling.rs"]
mod stops_scaling;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use stops_scaling::{Named, OTHERS_PERCENT_MAX, Planted};

/// Two threads' worth of work and many short sleeps, on one CPU and on two.
const JOB: &str = "burn() { i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; }; burn & burn & \
                   for nr in 1 2 3 4 5 6 7 8; do sleep 0.02; done; wait";

fn check(kernel: &str) {
    let quartier = common::quartier().display().to_string();
    let options = ["--nodes", "1", "--cpus-per-node", "2", "--root", "--timeout", "300"];
    let scale = ["scale", "--cpus", "1,2", "--repeat", "1", "--json", "-", "--", "sh", "-c", JOB];
    let command = std::iter::once(quartier).chain(scale.map(str::to_owned));
    let script = "\"$@\"; test $? -le 1";
    let given = ["sh", "-c", script, "sh"].map(str::to_owned).into_iter().chain(command);
    let Some((text, said)) = common::in_guest(kernel, options, given) else { return };
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{kernel}: {error}: {said}\n{text}"));
    println!("{kernel}: {} {}", report["verdict"]["sentences"], report["complaints"]);
    for (point, queued_min_s) in
        report["study"]["points"].as_array().unwrap().iter().zip([0.02, 0.0])
    {
        for run in point["runs"].as_array().unwrap() {
            let queued_s = run["profile"]["queued_s"].as_f64();
            // On one CPU two of three that could run are always in the queue.
            assert!(queued_s.is_some_and(|queued_s| queued_s > queued_min_s), "{kernel}: {run}");
        }
    }
}

#[test]
fn the_queue_for_a_cpu_is_seen_on_6_1() {
    check("6.1");
}

#[test]
fn the_queue_for_a_cpu_is_seen_on_7_3() {
    check("7.3");
}

/// Of what is lost, what the planted one has at least: the rest is what threads need to meet.
const PLANTED_PERCENT_MIN: f64 = 75.0;

/// Whom others wait for with nothing to do is named first, and next to nothing is certainly laid upon others.
fn check_idle(kernel: &str, reason: &str) {
    if !common::can_boot(kernel) {
        return;
    }
    let planted = Planted::of(reason);
    let _one = common::alone();
    let options = ["lab", "scale", "--nodes", "2", "--cpus-per-node", "2", "--cpus", "1,4"];
    let options = options.into_iter().chain(["--snapshots"]);
    let report = common::swept(kernel, options, (planted.program(), reason, 100_000), &["stay"]);
    let verdict = &report["verdict"];
    let culprits: Vec<Named> = serde_json::from_value(verdict["culprits"].clone()).unwrap();
    let Some(first) = culprits.first() else { panic!("nobody is named: {verdict:#}") };
    assert!(planted.is(first), "another is named: {culprits:?}");
    assert!(first.share_percent >= PLANTED_PERCENT_MIN, "{first:?}");
    let others: f64 = culprits[1..].iter().map(Named::least_percent).sum();
    assert!(others <= OTHERS_PERCENT_MAX, "and others, certainly: {culprits:?}");
}

#[test]
fn a_serial_part_of_a_program_in_guests_is_named_on_6_1() {
    check_idle("6.1", "serial");
}

/// On request: what decides is asked of the other one, and on 7.3 every study's results are.
#[test]
fn uneven_parts_of_a_program_in_guests_are_named_on_7_3() {
    if !common::asks_for_all_kernels() {
        return;
    }
    check_idle("7.3", "imbalance");
}

#[test]
fn an_interrupted_sweep_in_guests_reports_the_runs_that_it_has_on_7_3() {
    if !common::can_boot("7.3") {
        return;
    }
    let _one = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("report.json");
    let mut sweep = Command::new(common::quartier())
        .args(["lab", "scale", "--kernel", "7.3", "--nodes", "1", "--cpus-per-node", "2"])
        .args(["--snapshots", "--cpus", "1,2", "--timeout", "300", "--json"])
        .arg(&saved)
        .args(["--", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(sweep.stderr.take().unwrap()).lines().map(Result::unwrap);
    let until = "run 2 of 6: 2 CPUs";
    let mut said = said.skip_while(|line| !line.ends_with(until));
    assert!(said.next().is_some(), "it never came to its second run");
    Command::new("kill").args(["-TERM", &sweep.id().to_string()]).status().unwrap();
    assert_eq!(said.last().as_deref(), Some("quartier: ended by signal 15"));
    assert_eq!(sweep.wait().unwrap().code(), Some(143));
    let report: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    let runs = ["/0", "/1"].map(|at| &report["study"]["points"].pointer(at).unwrap()["runs"]);
    assert_eq!(runs.map(|runs| runs.as_array().unwrap().len()), [1, 0]);
    assert_eq!(report["complaints"][0], "ended by signal 15 after 1 of 6 runs: this is of those");
}
