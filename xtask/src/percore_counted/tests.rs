//! What is asked for, and the table, of made-up runs.

use super::*;

fn way(part: &str, way: &str, name: &str) -> Way {
    let does = format!("what {part} does");
    Way { part: part.to_owned(), way: way.to_owned(), does, name: name.to_owned() }
}

/// A way on 32 CPUs that did 1,000 operations, with as many owner changes; `None` failed.
fn run(part: &str, word: &str, owner_changes: Option<u64>) -> Run {
    let Way { part, way, does, name } = way(part, word, &format!("the {word}"));
    let task = Task { nr_cpus: 32, nr_nodes: 8, part, way, does, name, nr_operations: 1_000 };
    let counts = |owner_changes| Counts {
        owner_changes,
        remote_commands: 2 * owner_changes,
        modelled_cycles: 100 * owner_changes,
        kernel: "7.3.4".to_owned(),
        qemu: "9.2".to_owned(),
    };
    let failed = || Outcome::Failed("contend: wrong".to_owned());
    let outcome = owner_changes.map(counts).map_or_else(failed, Outcome::Counted);
    Run { task, took_s: 30.0, outcome }
}

/// Threads that do nothing change owners 500 times, and 510 times in the other part.
fn counter(atomic: u64, sloppy: u64, without_rseq: u64) -> Vec<Run> {
    vec![
        run("counter", NOTHING, Some(500)),
        run("counter", "atomic", Some(500 + atomic)),
        run("counter", "sloppy", Some(500 + sloppy)),
        run("counter", "sloppy-without-rseq", Some(500 + without_rseq)),
        run("lock", NOTHING, Some(510)),
        run("lock", "ticket", Some(510 + 3_000)),
        run("lock", "mcs", None),
    ]
}

/// The first line with that, words with a space between.
fn line(text: &str, begin: &str) -> String {
    let line = text.lines().find(|line| line.trim_start().starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no {begin} in {text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_are_of_an_operation_above_threads_that_do_nothing() {
    let text = Results::of(&counter(1_000, 50, 200)).text();
    assert!(text.starts_with("32 CPUs of 8 nodes\n\nwhat counter does "), "{text}");
    assert_eq!(text.matches("32 CPUs of").count(), 1, "{text}");
    assert_eq!(line(&text, "the atomic"), "the atomic 1.000 1.00 2.000 1.00 100 1.00 1.0 %");
    assert_eq!(line(&text, "the sloppy "), "the sloppy 0.050 0.05 0.100 0.05 5 0.05 20.0 %");
    assert_eq!(line(&text, "the ticket"), "the ticket 3.000 1.00 6.000 1.00 300 1.00 0.3 %");
    assert_eq!(
        line(&text, "1,000 operations"),
        "1,000 operations; threads that do nothing: 500 owner changes, 0.500 ± 0.010 an operation; Linux 7.3.4, QEMU 9.2"
    );
}

#[test]
fn what_failed_is_a_line_and_no_number() {
    let runs = counter(1_000, 50, 200);
    let text = Results::of(&runs).text();
    assert_eq!(line(&text, "the mcs"), "the mcs failed: contend: wrong");
    // Nothing is above what was not counted.
    let mut without = runs.clone();
    without[0].outcome = Outcome::Failed("the guest died".to_owned());
    let text = Results::of(&without).text();
    assert_eq!(line(&text, "the atomic"), "the atomic – – – – – – –");
    assert!(text.contains("threads that do nothing were not counted"), "{text}");
    assert!(text.ends_with("The counter was not counted on 32 CPUs.\n"), "{text}");
    // Nor times the first, if that failed.
    let mut without = runs;
    without[1].outcome = Outcome::Failed("the guest died".to_owned());
    let text = Results::of(&without).text();
    assert_eq!(line(&text, "the sloppy "), "the sloppy 0.050 – 0.100 – 5 – 20.0 %");
}

#[test]
fn what_is_below_nothing_is_no_part_of_it() {
    let mut runs = counter(1_000, 50, 200);
    runs[2] = run("counter", "sloppy", Some(499));
    let text = Results::of(&runs).text();
    assert_eq!(line(&text, "the sloppy "), "the sloppy -0.001 0.00 -0.002 0.00 0 0.00 –");
    let said = line(&text, "the sloppy, ");
    assert!(said.contains("no owner changes above"), "{said}");
    assert!(said.contains("99.0 or more by the noise") && said.ends_with(": met"), "{said}");
}

#[test]
fn the_wish_is_met_missed_or_not_told_within_the_noise() {
    // 1,000 ± 10 over so many ± 10.
    for (sloppy, fewer, range, told) in [
        (60, "16.7", "14.1 to 20.2", "met"),
        (100, "10.0", "9.0 to 11.2", "not told"),
        (200, "5.0", "4.7 to 5.3", "missed"),
    ] {
        let expected = format!(
            "the sloppy, 32 CPUs: {fewer} times fewer owner changes than the atomic ({range} by the noise; at least 10): {told}"
        );
        let text = Results::of(&counter(1_000, sloppy, 200)).text();
        assert_eq!(line(&text, "the sloppy, "), expected);
        assert!(line(&text, "the sloppy-without-rseq, ").ends_with(": missed"), "{text}");
    }
}

#[test]
fn the_noise_of_one_part_is_not_known() {
    let mut runs = counter(1_000, 50, 200);
    runs.truncate(4);
    let text = Results::of(&runs).text();
    assert_eq!(line(&text, "the atomic"), "the atomic 1.000 1.00 2.000 1.00 100 1.00 –");
    assert!(text.contains("0.500 ± – an operation"), "{text}");
    let said = line(&text, "the sloppy, ");
    assert!(said.ends_with("(the noise is not known; at least 10): met"), "{said}");
}

#[test]
fn the_wish_is_of_the_most_cpus_alone() {
    let mut runs = counter(1_000, 50, 200);
    runs.iter_mut().for_each(|run| run.task.nr_cpus = 16);
    let text = Results::of(&runs).text();
    assert!(text.ends_with("The counter was not counted on 32 CPUs.\n"), "{text}");
}

#[test]
fn runs_are_read_as_they_were_written() {
    for run in counter(1_000, 50, 200) {
        let written = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&written).unwrap(), run, "{written}");
    }
    let results = serde_json::to_value(Results::of(&counter(1_000, 50, 200))).unwrap();
    let failed = &results["parts"][1]["rows"][1];
    assert_eq!(failed["problem"], "contend: wrong");
    assert!(failed["each"]["owner_changes"].is_null(), "{failed}");
    assert_eq!(results["wishes"][1]["verdict"], "missed");
}

fn args(cpus: &[u32], only: &[&str], percent: u64) -> Args {
    Args {
        cpus: cpus.to_vec(),
        only: only.iter().map(|part| (*part).to_owned()).collect(),
        percent,
        kernel: "7.3".to_owned(),
        again: false,
        out: PathBuf::new(),
        quartier: None,
    }
}

#[test]
fn each_machine_and_part_begins_with_nothing_and_all_threads_do_as_much() {
    let ways = Way::all(
        "counter\tatomic\tcount\tAtomicU64\nvalue-1\tatomic\tx\ty\ncounter\tsloppy\tcount\tSloppyCounter\n",
    );
    let ways = ways.unwrap();
    let tasks = |percent| {
        let wanted = Wanted::new(&args(&[4, 32], &["counter"], percent)).unwrap();
        wanted.tasks(&ways).unwrap()
    };
    let whole = tasks(100);
    let asked: Vec<_> =
        whole.iter().map(|task| (task.nr_cpus, task.nr_nodes, task.way.as_str())).collect();
    let of = |nr_cpus: u32, nr_nodes: u32| {
        ["nothing", "atomic", "sloppy"].map(|way| (nr_cpus, nr_nodes, way))
    };
    assert_eq!(asked, [of(4, 2), of(32, 8)].concat());
    assert!(whole.iter().all(|task| task.nr_operations == PARTS[0].1 && task.does == "count"));
    let little = tasks(1);
    assert!(little.iter().all(|task| task.nr_operations * 100 == PARTS[0].1));
    let wanted = Wanted::new(&args(&[4], &["counter"], 100)).unwrap();
    assert!(wanted.has(&whole[0]) && !wanted.has(&whole[3]), "other machines stay");
}

#[test]
fn every_part_divides_among_the_cpus_of_every_machine() {
    for (part, nr_operations) in PARTS {
        for (nr_cpus, nr_nodes) in MACHINES {
            assert_eq!(nr_operations % u64::from(nr_cpus), 0, "{part} on {nr_cpus}");
            assert_eq!(nr_cpus % nr_nodes, 0);
        }
    }
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let refused = |args: Args| Wanted::new(&args).err().map(|error| error.to_string());
    assert_eq!(refused(args(&[4, 16, 32], &["lock", "table"], 1)), None);
    let problem = refused(args(&[8], &[], 100)).unwrap();
    assert!(problem.contains("8 CPUs") && problem.contains("4, 16 and 32"), "{problem}");
    let problem = refused(args(&[4], &["value-1"], 100)).unwrap();
    assert!(problem.contains("value-1") && problem.contains("counter, reference"), "{problem}");
    assert!(refused(args(&[4], &[], 0)).is_some());
    assert!(Way::all("counter\tatomic\n").is_err());
    assert!(Wanted::new(&args(&[4], &["lock"], 100)).unwrap().tasks(&[]).is_err());
}

#[test]
fn why_a_run_failed_is_what_it_said_last_beside_the_report() {
    let said =
        "contend: no restartable sequences here\ncontend: DashMap: 3 went wrong\n  RD 12 k\n";
    assert_eq!(
        guest_runs::reason("contend", said, "exit status: 1"),
        "contend: DashMap: 3 went wrong (exit status: 1)"
    );
    assert_eq!(
        guest_runs::reason("contend", "", "exit status: 125"),
        "it ended with exit status: 125"
    );
}
