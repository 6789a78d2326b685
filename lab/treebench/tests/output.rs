//! What the program prints can be read by programs.
#![forbid(unsafe_code)]

use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_quartier-treebench");
    Command::new(program).args(["--quick", "--rounds", "1"]).args(args).output().unwrap()
}

#[test]
fn json_has_a_line_for_each_case_and_the_plot_is_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("height.svg");
    let output = run(&["--json", "--only", "height 2", "--svg", svg.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["format"], 1);
    let lines = report["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let is_known = line["mean_ns"]["median"].is_f64() && line["each"]["p99_ns"]["max"].is_f64();
        assert_ne!(is_known, line["unknown"].is_string(), "{line}");
    }
    let picture = std::fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("tree, idle CPU far away"));
    assert!(output.stderr.is_empty(), "no progress where there is no terminal");
}

#[test]
fn the_table_names_its_cases_and_an_unknown_name_is_an_error() {
    let output = run(&["--only", "height 1, 4x4: tree, no idle CPU"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("tree, no idle CPU"), "{text}");
    assert!(!run(&["--only", "no such case"]).status.success());
}
