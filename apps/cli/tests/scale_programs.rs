//! The study's programs, those that are on this machine: each starts, does right, and is gone afterwards with all that it left.

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::quartier;
use serde_json::Value;

/// One at a time: each makes folders.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scale(options: &[&str]) -> Output {
    Command::new(quartier()).arg("scale").args(options).output().unwrap()
}

/// What their folders are called, in memory or where temporary files are.
fn folders() -> Vec<String> {
    let of = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let temporary = std::env::temp_dir();
    of("/dev/shm")
        .chain(of(temporary.to_str().unwrap()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("quartier-"))
        .collect()
}

#[test]
fn those_that_are_here_do_right_and_leave_nothing() {
    let _alone = alone();
    let before = folders();
    let output = scale(&["--sanity", "--json", "-"]);
    let tried: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(tried.len(), 7);
    for one in &tried {
        println!("{one}");
        match one["refused"].as_str() {
            // Of those that are missing it is said how they come.
            Some(why) => assert!(why.contains("is not here: apt-get install"), "{why}"),
            None => assert!(one["done"]["units"].as_f64().unwrap() > 0.0, "{one}"),
        }
    }
    // What builds this is what these two need.
    for needed in ["gmake", "mapreduce"] {
        let one = tried.iter().find(|one| one["program"] == needed).unwrap();
        assert!(one["refused"].is_null(), "{one}");
    }
    let all_right = tried.iter().all(|one| one["refused"].is_null());
    assert_eq!(output.status.code(), Some(if all_right { 0 } else { 1 }));
    assert_eq!(folders(), before);
}

/// One line more that the server does not know is its own to complain of; jobs and commands have no configuration.
#[test]
fn a_server_may_have_a_line_more_in_its_configuration() {
    let _alone = alone();
    let refused = |options: &[&str]| {
        let output = scale(options);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        said.lines().last().unwrap().to_owned()
    };
    let of_a_job = refused(&["--program", "gmake", "--set", "-j 3"]);
    assert!(of_a_job.contains("no configuration that could say `-j 3`"), "{of_a_job}");
    let of_a_command = refused(&["--set", "EnableMMAP Off", "--", "true"]);
    assert!(of_a_command.contains("cannot be used with"), "{of_a_command}");
    let of_a_server = refused(&["--program", "apache", "--set", "Quartier On", "--cpus", "1,2"]);
    let is_here = !of_a_server.contains("is not here: apt-get install");
    assert!(!is_here || of_a_server.contains("Invalid command 'Quartier'"), "{of_a_server}");
    let swept = ["--set", "EnableMMAP Off", "--cpus=1,2", "--repeat=1", "--no-profile"];
    if is_here && std::thread::available_parallelism().unwrap().get() >= 2 {
        let output = scale(&[&["--program", "apache", "--json", "-"][..], &swept].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["command"], serde_json::json!(["apache", "--set", "EnableMMAP Off"]));
    }
}

#[test]
fn one_of_them_is_measured() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("skipped: one CPU");
        return;
    }
    let _alone = alone();
    let output = scale(&[
        "--program",
        "mapreduce",
        "--cpus",
        "1,2",
        "--repeat",
        "1",
        "--no-profile",
        "--json",
        "-",
    ]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let points = report["study"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["runs"][0]["units"], 64.0, "{point}");
    }
    let both = scale(&["--program", "gmake", "--metric", "(x)"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn whoever_is_ended_leaves_no_folder_either() {
    let _alone = alone();
    let before = folders();
    for signal in ["INT", "TERM", "KILL"] {
        let mut command = Command::new(quartier());
        command.args(["scale", "--sanity", "--program", "gmake"]);
        let mut tried = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while folders() == before && tried.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Command::new("kill").args(["-s", signal, &tried.id().to_string()]).status().unwrap();
        let status = tried.wait().unwrap();
        while folders() != before && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(folders(), before, "{signal}: {status}");
    }
}
