//! `quartier lab scale --program`: the study's programs in guests, a job and a server, each counted on one CPU and on two.

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Guests disturb each other, and each program makes folders.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scale(options: &[&str]) -> Output {
    let mut command = Command::new(common::quartier());
    command.args(["lab", "scale"]).args(options).stdin(Stdio::null()).output().unwrap()
}

/// What the programs' folders are called, in memory and where temporary files are.
fn folders() -> Vec<String> {
    let temporary = std::env::temp_dir();
    ["/dev/shm".as_ref(), temporary.as_path()]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("quartier-"))
        .collect()
}

/// Counts a program on two nodes of a CPU each, once on one of them and once on both, and gives the study's runs. `None`: its
/// packages are not installed here.
fn counted(program: &str) -> Option<[Value; 2]> {
    let before = folders();
    let guest = ["--kernel", "6.12", "--nodes", "2", "--cpus-per-node", "1", "--mem", "2G"];
    let sweep = ["--cpus", "1,2", "--repeat", "1", "--timeout", "500", "--json", "-"];
    let output = scale(&[&["--program", program][..], &guest, &sweep].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{program}: {said}");
    assert_eq!(folders(), before, "it left something");
    if output.status.code() == Some(2) && said.contains("is not here: apt-get install") {
        return None;
    }
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(matches!(output.status.code(), Some(0 | 1)), "no verdict, not even none: {said}");
    assert_eq!(report["command"], serde_json::json!([program]));
    assert_eq!(report["complaints"], serde_json::json!([]));
    let study = &report["study"];
    assert_eq!(study["is_modelled"], true);
    let points = study["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{points:?}");
    Some([0, 1].map(|at| {
        assert_eq!(points[at]["nr_cpus"], at + 1);
        assert_eq!(points[at]["runs"].as_array().unwrap().len(), 1);
        points[at]["runs"][0].clone()
    }))
}

fn units(run: &Value) -> f64 {
    run["units"].as_f64().unwrap()
}

fn instructions(run: &Value) -> f64 {
    run["counted"]["nr_instructions"].as_f64().unwrap()
}

/// What it is prepared with here is what a job does there, all of it: eighty thousand words and more, of some hundred instructions
/// each, and as many processes as there are parts.
#[test]
fn a_job_is_counted_on_6_12() {
    // Minutes, for which others have no time.
    if !common::asks_for_all_kernels() || !common::can_boot("6.12") {
        return;
    }
    let _alone = alone();
    let Some(runs) = counted("mapreduce") else {
        assert!(std::env::var_os("CI").is_none(), "mawk is part of every Debian");
        println!("skipped: mawk is not installed here");
        return;
    };
    for run in &runs {
        assert_eq!(units(run), 32.0, "{run}");
        assert!(instructions(run) > 3e7, "{run}");
    }
    let [one, two] = runs.each_ref().map(instructions);
    assert!(two < 1.5 * one && one < 1.5 * two, "{one} and {two} for the same work");
}

/// The first that is installed, the cheapest first: none of them has to be.
#[test]
fn a_server_is_counted_under_its_load_on_6_12() {
    // Minutes, for which others have no time.
    if !common::asks_for_all_kernels() || !common::can_boot("6.12") {
        return;
    }
    let _alone = alone();
    let servers = ["memcached", "postgresql", "apache"];
    let Some((server, runs)) =
        servers.into_iter().find_map(|server| Some((server, counted(server)?)))
    else {
        println!("skipped: none of {servers:?} is installed here with its load");
        return;
    };
    for run in &runs {
        assert!(units(run) >= 40.0, "{server}: {run}");
        // Each goes through the kernel's network, there and back.
        assert!(instructions(run) > 3e3 * units(run), "{server}: {run}");
    }
    assert_eq!(units(&runs[0]), units(&runs[1]), "{server}: the load is the same");
}

#[test]
fn what_a_program_brings_itself_cannot_be_given() {
    for options in [
        &["--program", "gmake", "--metric", "(x)"][..],
        &["--program", "memcached", "--load", "true"],
        &["--program", "gmake", "--phase", "parallel"],
        &["--program", "gmake", "--", "true"],
        &["--program", "none-of-them"],
        &["--cpus", "1,2"],
    ] {
        let output = scale(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{options:?}: {output:?}");
    }
}

/// What cannot be counted is refused before the program is prepared.
#[test]
fn what_cannot_be_swept_is_refused_at_once() {
    for (options, part) in [
        (&["--kvm"][..], "nothing can be counted"),
        (&["--cpus", "1,9"], "9 CPUs are more than the 8 of the guest"),
        (&["--geometry", "/nowhere"], "neither tsar, server nor a file"),
    ] {
        let output = scale(&[&["--program", "gmake"][..], options].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{options:?}: {said}");
    }
}
