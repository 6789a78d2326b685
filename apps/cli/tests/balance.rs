//! Threads that are held on a node do not wait there while CPUs elsewhere are idle, and whoever sets an affinity
//! keeps it: counted on real kernels with four nodes of two CPUs.

mod common;

use std::process::Command;

use serde_json::Value;

/// A worker that nothing is in the way of waits less than this.
const WAITED_PERCENT_MAX: f64 = 15.0;

/// One that shares two CPUs with two others waits for a third of the time.
const HINDERED_PERCENT_MIN: f64 = 25.0;

/// Runs a script in a guest; gives what it printed.
fn in_guest(kernel: &str, programs: &[&str], script: &str) -> Option<String> {
    let programs = programs.iter().map(|name| common::program(name));
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--timeout", "300"];
    let given = [common::quartier().clone()].into_iter().chain(programs);
    let (text, said) = common::script_in_guest(kernel, options, script, given)?;
    println!("kernel {kernel}: {said}");
    Some(text)
}

/// What `busy_nodes` says of each of its runs, with how often a thread was moved.
fn busy_nodes(kernel: &str, runs: &[&str]) -> Option<Vec<(f64, u64)>> {
    let run = |options_and_arguments: &&str| {
        let (options, arguments) = options_and_arguments.split_once(" -- ").unwrap();
        format!(
            "$1 run --quiet {options} --report /tmp/report -- $2 {arguments} && \
             tr -d '\\n' < /tmp/report && echo"
        )
    };
    let script: Vec<_> = runs.iter().map(run).collect();
    let text = in_guest(kernel, &["busy_nodes"], &script.join(" && "))?;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answers = lines.chunks(2).map(|pair| {
        let waited = pair[0]["waited_percent"].as_array().unwrap();
        let most = waited.iter().map(|percent| percent.as_f64().unwrap()).fold(0.0, f64::max);
        (most, pair[1]["total"]["thread_moves"].as_u64().unwrap())
    });
    Some(answers.collect())
}

/// Four threads sleep where the tree counts them, and eight work on eight CPUs.
const BESIDE_SLEEPERS: &str = "sleepers 8";
/// Two processes with an affinity of their own come onto the CPUs of a worker's node.
const IN_A_CROWD: &str = "crowd 3";

/// Until nobody waits any more: a launcher that looks for a hundredth of the time looks once a second in a slow guest,
/// and moves a thread after three looks.
const STAYS: (&str, &str) = ("0", "1 2");
const BALANCED: (&str, &str) = ("100", "8 2");

/// Twice as many threads as CPUs: where there is nothing better, a thread stays.
const CREW: &str = "--balance 100 -- crew 16 3 3";

/// The same work where threads stay, and wait, and where they are balanced: there none waits. And one where all CPUs are
/// busy. All in one guest: to boot it takes as long as the work.
fn check_balanced(kernel: &str) {
    let works = [BESIDE_SLEEPERS, IN_A_CROWD];
    let runs = works.map(|work| {
        [STAYS, BALANCED].map(|(period_ms, time)| format!("--balance {period_ms} -- {work} {time}"))
    });
    let runs: Vec<_> = runs.iter().flatten().map(String::as_str).chain([CREW]).collect();
    let Some(mut answers) = busy_nodes(kernel, &runs) else { return };
    let (waited, moved) = answers.pop().unwrap();
    assert!(waited > HINDERED_PERCENT_MIN && moved <= 2, "{CREW}: {waited} % {moved}");
    for (work, pair) in works.iter().zip(answers.chunks(2)) {
        let [(stays, moved), (balanced, moved_then)] = pair[..] else { panic!("{answers:?}") };
        assert!(stays > HINDERED_PERCENT_MIN, "{work}: nothing to see: {answers:?}");
        assert_eq!(moved, 0, "{work}");
        assert!(balanced < WAITED_PERCENT_MAX, "{work}: {answers:?}");
        assert!(*work != IN_A_CROWD || moved_then > 0, "{work}: {answers:?}");
    }
}

#[test]
fn workers_do_not_wait_and_nobody_moves_for_nothing_on_6_1() {
    check_balanced("6.1");
}

#[test]
fn workers_do_not_wait_and_nobody_moves_for_nothing_on_7_3() {
    check_balanced("7.3");
}

/// `taskset` inside the run: its threads are moved too, but not out of what it gives them.
#[test]
fn threads_stay_on_the_cpus_that_somebody_gave_their_process() {
    let script = "$1 run --quiet --balance 10 --report /tmp/report -- \
                    taskset -c 0-3 $2 sleepers 6 2 2 && \
                  $1 run --quiet --balance 10 -- taskset -c 0-4 $2 crowd 3 3 3";
    let Some(text) = in_guest("7.3", &["busy_nodes"], script) else { return };
    for (line, cpus) in text.lines().zip([0..4, 0..5]) {
        let answer: Value = serde_json::from_str(line).unwrap();
        let at: Vec<_> =
            answer["cpu"].as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap()).collect();
        assert!(at.iter().all(|cpu| cpus.contains(cpu)), "{answer}");
    }
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// A run of more threads in all than there are seats, 64 at a time.
#[test]
fn what_was_kept_for_threads_is_free_when_their_process_ends() {
    let program = common::program("leaves_threads");
    for balance in ["0", "10"] {
        let report = tempfile::NamedTempFile::new().unwrap();
        let status = Command::new(common::quartier())
            .args(["run", "--force", "--quiet", "--rung", "none", "--balance", balance, "--report"])
            .arg(report.path())
            .args(["--", "sh", "-c", "for i in $(seq 300); do \"$0\" || exit 1; done"])
            .arg(&program)
            .status()
            .unwrap();
        assert!(status.success());
        let report: Value = serde_json::from_slice(&std::fs::read(report.path()).unwrap()).unwrap();
        let total = &report["total"];
        assert_eq!(total["threads_placed"], 300 * 64, "{}", total["notes"]);
    }
}

/// Also while the launcher looks as often as it can, and when somebody kills it.
#[test]
fn an_affinity_that_the_program_sets_stays() {
    let script = "
        $1 run --quiet --balance 1 --report /tmp/report -- $2 || exit 1
        tr -d '\\n' < /tmp/report && echo
        $1 run --quiet --balance 1 -- $2 > /tmp/said &
        sleep 3
        kill -9 $!
        n=0
        while [ ! -s /tmp/said ] && [ $n -lt 100 ]; do sleep 1; n=$((n + 1)); done
        cat /tmp/said";
    for kernel in ["6.1", "7.3"] {
        let Some(text) = in_guest(kernel, &["own_affinity"], script) else { return };
        assert_eq!(text.lines().filter(|line| line.starts_with("ok: 288 ")).count(), 2, "{text}");
        let report = text.lines().find(|line| line.starts_with('{')).unwrap();
        let total = serde_json::from_str::<Value>(report).unwrap()["total"].clone();
        let of = |what: &str| total[what].as_u64().unwrap();
        let held = of("threads_settled") + of("thread_moves");
        assert!(held > 4, "only {held} others were held meanwhile: {total}");
    }
}
