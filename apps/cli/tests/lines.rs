//! `quartier lab count --lines`: which lines of memory CPUs take from each other, with the names of what lies there and of the
//! code that takes them, in real kernels.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What stops a program of four threads, as far as lines tell it.
fn lines(kernel: &str, reason: &str, units: &str) -> Option<Vec<Value>> {
    if !common::can_boot(kernel) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let program = common::program("stops_scaling");
    let output = Command::new(common::quartier())
        .args(["lab", "count", "--kernel", kernel, "--nodes", "2", "--cpus-per-node", "2"])
        .args(["--timeout", "400", "--lines", "--report"])
        .arg(&report)
        .arg("--")
        .arg(program)
        .args([reason, "4", units])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    println!("{kernel} {reason}: {said}");
    assert!(said.contains("Lines that CPUs take from each other"), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    Some(report["lines"]["most"].as_array().unwrap().clone())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The programs' own, without the kernel's.
fn own(lines: &[Value]) -> &Value {
    lines.iter().find(|line| !line["process"].is_null()).unwrap()
}

#[test]
fn a_counter_is_named_with_the_code_that_counts_on_6_1() {
    let Some(found) = lines("6.1", "counter", "100000") else { return };
    let line = own(&found);
    assert_eq!(text(&line["nature"]), "shared", "{line}");
    let word = &line["words"][0];
    assert_eq!(text(&word["object"]), "global_count", "{line}");
    assert_eq!(text(&word["takers"][0]["function"]), "count_unit", "{line}");
    assert_eq!(text(&word["takers"][0]["access"]), "atomic", "{line}");
    assert!(word["cpus"].as_array().unwrap().len() > 1, "{line}");
}

#[test]
fn words_of_several_threads_that_lie_too_close_are_named_on_7_3() {
    let Some(found) = lines("7.3", "sharing", "2000") else { return };
    let line = own(&found);
    assert_eq!(text(&line["nature"]), "falsely-shared", "{line}");
    let words = line["words"].as_array().unwrap();
    assert!(words.iter().all(|word| text(&word["object"]) == "neighbours"), "{line}");
    assert_eq!(text(&words[0]["takers"][0]["function"]), "count_beside_others", "{line}");
}

/// The lock of an address space is in memory that nobody has a name for; who takes it has one.
#[test]
fn a_line_of_the_kernels_is_told_with_the_code_that_takes_it_on_6_12() {
    let Some(found) = lines("6.12", "mapping", "1000") else { return };
    let kernels = found.iter().filter(|line| line["process"].is_null());
    let words = kernels.flat_map(|line| line["words"].as_array().unwrap());
    let takers = words.flat_map(|word| word["takers"].as_array().unwrap());
    let functions: Vec<_> = takers.map(|taker| text(&taker["function"])).collect();
    assert!(functions.iter().any(|function| function.starts_with("rwsem_")), "{functions:?}");
}
