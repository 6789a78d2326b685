//! `quartier lab simulate`, run as a user runs it, on machines small enough to take no time.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Two machines, two loads, two periods.
const SMALL: [&str; 14] = [
    "--machine",
    "mesh:16",
    "--machine",
    "2,0,3",
    "--load",
    "steady",
    "--load",
    "bursts",
    "--period",
    "10ms",
    "--period",
    "1s",
    "--events",
    "400",
];

fn simulate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quartier"));
    command.args(["lab", "simulate"]).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = simulate(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn small(more: &[&str]) -> String {
    stdout(&[&SMALL[..], more].concat())
}

fn json(more: &[&str]) -> Value {
    serde_json::from_str(&small(&[&["--json"], more].concat())).unwrap()
}

#[test]
fn the_table_tells_every_run_and_what_its_words_mean() {
    let table = small(&[]);
    for machine in ["mesh:16", "2,0,3"] {
        for load in ["steady", "bursts"] {
            assert_eq!(table.matches(&format!("{machine}, {load}: ")).count(), 1, "{table}");
        }
    }
    let lines_of = |chooser: &str| {
        table.lines().filter(|line| line.split_whitespace().next() == Some(chooser)).count()
    };
    // The tree once for each period, whom the period means nothing to once.
    assert_eq!((lines_of("dqdt"), lines_of("oracle"), lines_of("random")), (4 * 2, 4, 4));
    assert!(table.contains("400 events each, seed 1\n"), "{table}");
    for word in ["imbalance", "CPU time", "deviation", "needless", "thread", "short", "reads"] {
        assert!(
            table.lines().any(|line| line.starts_with(word)),
            "{word} is not explained:\n{table}"
        );
    }
}

#[test]
fn json_has_the_numbers_of_every_run() {
    let report = json(&["--seed", "7"]);
    assert_eq!((&report["seed"], &report["nr_events"]), (&7.into(), &400.into()));
    assert_eq!(report["format"], 1);
    assert!(small(&["--json"]).starts_with("{\n  \"format\": 1,\n"));
    let machines = report["machines"].as_array().unwrap();
    assert_eq!(machines.iter().map(|machine| &machine["nr_cpus"]).collect::<Vec<_>>(), [64, 5]);
    let runs = report["runs"].as_array().unwrap();
    // The tree for each period, the five others once.
    assert_eq!(runs.len(), 2 * 2 * (2 + 5));
    for run in runs {
        let measures = run["measures"].as_object().unwrap();
        for percent in ["imbalance_percent", "shared_needlessly_percent", "short_of_memory_percent"]
        {
            let value = measures[percent].as_f64().unwrap();
            assert!((0.0..=100.0).contains(&value), "{percent}: {run}");
        }
        assert!(measures["nr_decisions"].as_u64().unwrap() > 0, "{run}");
        assert_eq!(run["chooser"] == "dqdt", run["period_ns"].is_u64(), "{run}");
        let machine = machines.iter().find(|machine| machine["name"] == run["machine"]).unwrap();
        if run["chooser"] == "dqdt" {
            assert!(measures["reads_max"].as_u64() <= machine["visits_max"].as_u64(), "{run}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_other_ones() {
    let folder = tempfile::tempdir().unwrap();
    let everything = |seed: &str, name: &str| {
        let file = folder.path().join(name);
        let svg = file.to_str().unwrap();
        let table = small(&["--seed", seed, "--svg", svg]);
        (table, small(&["--seed", seed, "--json"]), fs::read_to_string(&file).unwrap())
    };
    let (first, again, other) = (everything("5", "a"), everything("5", "b"), everything("6", "c"));
    assert_eq!(first, again);
    assert!(first.0 != other.0 && first.1 != other.1 && first.2 != other.2);
    // Without one it is always the same too.
    assert_eq!(small(&[]), small(&["--seed", "1"]));
}

#[test]
fn the_drawing_is_xml_in_a_file_or_instead_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.svg");
    let table = small(&["--svg", file.to_str().unwrap()]);
    assert_eq!(table, small(&[]));
    let drawing = fs::read_to_string(&file).unwrap();
    let parsed = roxmltree::Document::parse(&drawing).unwrap();
    assert!(parsed.root_element().has_tag_name("svg"));
    for words in ["mesh:16", "2,0,3", "steady", "bursts", "dqdt", "oracle"] {
        let is_told = |text: &str| text.contains(words);
        let texts = parsed.descendants().filter_map(|node| node.text());
        assert!(texts.into_iter().any(is_told), "{words}");
    }
    assert_eq!(small(&["--svg", "-"]), drawing);
}

#[test]
fn no_colours_and_no_progress_in_a_pipe() {
    assert!(!small(&[]).contains('\u{1b}'));
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let cases: [(&[&str], &str); 19] = [
        (&["--machine", "torus"], "`torus` is no machine"),
        (&["--machine", "mesh:0"], "0 nodes"),
        (&["--machine", "mesh:1025"], "1025 nodes: a machine has between 1 and 1024"),
        (&["--machine", "4x0"], "0 CPUs"),
        (&["--machine", ""], "--machine"),
        (&["--load", "heavy"], "`heavy` is no load"),
        (&["--period", "10"], "`10` is no period"),
        (&["--period", "0ms"], "`0ms` is no period"),
        (&["--period", "99999999999999999999s"], "is no period"),
        (&["--period", "-1s"], "`-1s` is no period"),
        (&["--events", "99"], "'--events <N>': give a whole number from 100 to 10000000;"),
        (&["--events", "10000001"], "give a whole number from 100 to 10000000;"),
        (&["--events", "-1"], "give a whole number from 100 to 10000000;"),
        (&["--seed", "one"], "'--seed <N>': give a whole number from 0 to 18446744073709551615;"),
        (&["--seed", "-1"], "'--seed <N>': give a whole number from 0"),
        (&["--machine", "-4x2"], "`-4x2` is no machine"),
        (&["--json", "--svg", "-"], "both want the standard output"),
        (
            &["--events", "100", "--machine", "1x1", "--svg", "/nonexistent/a.svg"],
            "/nonexistent/a.svg",
        ),
        (&["--events", "100", "--machine", "1x1", "extra"], "extra"),
    ];
    for (args, words) in cases {
        let output = simulate(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(stderr.starts_with("quartier: ") && stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    }
}

#[test]
fn a_drawing_that_cannot_be_written_is_refused_before_the_runs() {
    let begun = Instant::now();
    let output = simulate(&["--all", "--events", "10000000", "--svg", "/nonexistent/all.svg"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("there is no folder /nonexistent"), "{stderr}");
    assert!(begun.elapsed() < Duration::from_secs(30), "it ran for {:?}", begun.elapsed());
    // And refused runs leave no file, nor touch one.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.svg");
    let args = ["--machine", "mesh:0", "--svg", file.to_str().unwrap()];
    assert_eq!(simulate(&args).status.code(), Some(2));
    assert!(!file.exists());
    fs::write(&file, "old").unwrap();
    assert_eq!(simulate(&args).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
}

#[test]
fn a_drawing_that_is_lost_does_not_take_the_table_along() {
    let output = simulate(&["--machine", "1x1", "--events", "100", "--svg", "/dev/full"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("No space left") && stderr.lines().count() == 1, "{stderr}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("100 events each"));
}

#[test]
fn a_full_disk_is_told() {
    for args in [&["--svg", "/dev/full"][..], &["--json"], &[]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quartier"));
        command.args(["lab", "simulate", "--machine", "1x1", "--events", "100"]).args(args);
        let output = command.stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains("No space left") && stderr.lines().count() == 1, "{stderr}");
    }
}
