//! `quartier lab count --lines`: which lines of memory CPUs take from each other, with the names of what lies there and of the
//! code that takes them, in real kernels; and `quartier lab scale`: which of them stops a program from scaling.

mod common;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What stops a program of four threads, as far as lines tell it.
fn lines(kernel: &str, reason: &str, units: &str) -> Option<Vec<Value>> {
    lines_of("stops_scaling", kernel, &[], &[reason, "4", units])
}

/// Of a program with these words, counted with these options too.
fn lines_of(program: &str, kernel: &str, options: &[&str], words: &[&str]) -> Option<Vec<Value>> {
    if !common::can_boot(kernel) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let output = Command::new(common::quartier())
        .args(["lab", "count", "--snapshots", "--kernel", kernel, "--nodes", "2"])
        .args(["--slow-time", "20", "--timeout", "400", "--lines"])
        .args(options)
        .arg("--report")
        .arg(&report)
        .arg("--")
        .arg(common::program(program))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    println!("{kernel} {words:?}: {said}");
    assert!(said.contains("Lines that CPUs take from each other"), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    time_is_as_modelled(&report);
    Some(report["lines"]["most"].as_array().unwrap().clone())
}

/// Some hundred times slower here, the guest has had about the time that it is modelled to take: what it does by the clock is as much
/// as on a machine.
fn time_is_as_modelled(report: &Value) {
    let (guest_s, phase) = (report["guest_seconds"].as_f64().unwrap(), &report["modelled"]);
    let times = 1000.0 * guest_s / phase["phase_ms"].as_f64().unwrap();
    println!("{times} times the modelled time in the guest");
    assert!(report["notes"].to_string().contains("as its work did"), "{}", report["notes"]);
    assert!((0.7..7.0).contains(&times), "{times} times the modelled time in the guest: {phase}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The programs' own, without the kernel's.
fn own(lines: &[Value]) -> &Value {
    lines.iter().find(|line| !line["process"].is_null()).unwrap()
}

/// On one CPU and on four: the word that all write costs something, with its name and that of the code, and no other word is
/// blamed. To be certain of it takes more runs than there is time for here.
#[test]
fn a_counter_costs_something_on_more_cpus_on_6_1() {
    if !common::can_boot("6.1") {
        return;
    }
    let program = common::program("stops_scaling");
    let page = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(common::quartier())
        .args(["lab", "scale", "--snapshots", "--kernel", "6.1", "--nodes", "2"])
        .args(["--timeout", "400", "--cpus", "1,4", "--repeat", "2"])
        .args(["--phase", "parallel", "--json", "-", "--html"])
        .arg(page.path())
        .args(["--metric", "units: ([0-9]+)", "--"])
        .arg(program)
        .args(["counter", "{cpus}", "20000"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("quartier: run ").count(), 4, "progress: {said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{}", report["verdict"]);
    let study = &report["study"];
    let [few, many] = [0, 1].map(|at| &study["points"][at]["runs"]);
    assert_eq!([few, many].map(|runs| runs.as_array().unwrap().len()), [2, 2], "{report}");
    let taken = |runs: &Value| runs[0]["counted"]["nr_taken"].as_u64().unwrap();
    assert!(taken(many) > taken(few), "{} {}", taken(few), taken(many));
    let is_named = |cost: &Value| {
        let innermost = cost["stack"].as_array().unwrap().last().unwrap();
        let frame = &study["frames"][innermost.as_u64().unwrap() as usize];
        let object = cost["object"].as_u64().map(|at| text(&study["objects"][at as usize]));
        object == Some("global_count") && text(&frame["function"]) == "count_unit"
    };
    let costs = many.as_array().unwrap().iter().map(|run| &run["profile"]["costs"]);
    let costs: Vec<_> = costs.flat_map(|costs| costs.as_array().unwrap()).collect();
    let of_counter = costs.iter().filter(|cost| is_named(cost));
    let is_called = |cost: &&Value| {
        let frames = cost["stack"].as_array().unwrap().iter();
        let functions =
            frames.map(|at| &study["frames"][at.as_u64().unwrap() as usize]["function"]);
        functions.map(text).collect::<Vec<_>>().ends_with(&["work", "do_units", "count_unit"])
    };
    assert!(costs.iter().any(|cost| is_named(cost) && is_called(cost)), "its callers: {study}");
    assert!(of_counter.map(|cost| cost["ran_s"].as_f64().unwrap()).sum::<f64>() > 0.0, "{costs:?}");
    let culprits = report["verdict"]["culprits"].as_array().unwrap();
    for culprit in culprits.iter().filter(|culprit| !culprit["object"].is_null()) {
        assert_eq!(text(&culprit["object"]), "global_count", "another is blamed: {culprit}");
    }
    assert!(fs::read_to_string(page.path()).unwrap().contains("Lines that CPUs take"));
}

#[test]
fn what_cannot_be_swept_is_refused_before_a_guest_boots() {
    for (options, part) in [
        (&["--cpus", "1,9"][..], "9 CPUs are more than the 8 of the guest"),
        (&["--cpus", "8"], "give --cpus two"),
        (&["--metric", "("], "no regular expression"),
        (&["--geometry", "/nowhere"], "neither tsar, server nor a file"),
        (&["--kvm"], "nothing can be counted"),
    ] {
        let output = Command::new(common::quartier())
            .args(["lab", "scale"])
            .args(options)
            .args(["--", "true"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{options:?}: {said}");
    }
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

/// It was allocated before there was a second thread, and is called by who did.
#[test]
fn memory_that_was_allocated_is_named_by_who_allocated_it_on_6_12() {
    let words = ["sharing", "4", "1000"];
    let Some(found) = lines_of("allocates", "6.12", &["--allocations"], &words) else { return };
    let line = own(&found);
    assert_eq!(text(&line["nature"]), "falsely-shared", "{line}");
    let words = line["words"].as_array().unwrap();
    let is_named = |word: &Value| text(&word["object"]) == "memory from make_counters";
    assert!(words.iter().all(is_named), "{line}");
    assert_eq!(text(&words[0]["takers"][0]["function"]), "count_own", "{line}");
}

#[test]
fn what_tells_of_allocations_goes_with_lines_only() {
    let output = Command::new(common::quartier())
        .args(["lab", "count", "--allocations", "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--lines"), "{said}");
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
    // And who called it, from the system call to the program.
    let all = found.iter().flat_map(|line| line["words"].as_array().unwrap());
    let takers = all.flat_map(|word| word["takers"].as_array().unwrap());
    let callers = takers.filter_map(|taker| taker["callers"].as_array());
    let names = |callers: &Vec<Value>| -> Vec<String> {
        callers.iter().map(|caller| text(&caller["function"]).to_owned()).collect()
    };
    let has = |names: &[String], part: &str| names.iter().any(|name| name.contains(part));
    let stacks: Vec<_> = callers.map(names).collect();
    let is_whole = |names: &Vec<String>| {
        (has(names, "mmap") || has(names, "munmap")) && has(names, "use_pages")
    };
    assert!(stacks.iter().any(is_whole), "{stacks:?}");
}
