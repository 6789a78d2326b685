//! Threads that are held on a node do not wait there while CPUs elsewhere are idle, and whoever sets an affinity
//! keeps it: counted on real kernels with four nodes of two CPUs.

mod common;

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// A worker that nothing is in the way of waits less than this.
const WAITED_PERCENT_MAX: f64 = 15.0;

/// One that shares two CPUs with two others waits for a third of the time.
const HINDERED_PERCENT_MIN: f64 = 25.0;

/// What a guest printed in each of these parts; all of them in one, as to boot it takes as long as the work. $1 is the command,
/// $2 and $3 are the programs.
struct Guest {
    kernel: &'static str,
    parts: OnceLock<Option<String>>,
}

static OLDEST: Guest = Guest { kernel: "6.1", parts: OnceLock::new() };
static NEWEST: Guest = Guest { kernel: "7.3", parts: OnceLock::new() };

impl Guest {
    /// Affinities are tested on both kernels, who is moved where on the newest: what decides on it asks the same of each. On both by
    /// request, as `QUARTIER_TEST_KERNELS=all`.
    fn is_balanced(&self) -> bool {
        self.kernel == NEWEST.kernel || common::asks_for_all_kernels()
    }

    /// What was printed in a part; `None`: no guest can be booted here.
    fn part(&self, name: &str) -> Option<Vec<&str>> {
        let text = self.parts.get_or_init(|| {
            let programs = ["busy_nodes", "own_affinity"].map(common::program);
            let given = [common::quartier().clone()].into_iter().chain(programs);
            let options = ["--nodes", "4", "--cpus-per-node", "2", "--timeout", "500"];
            let balanced = if self.is_balanced() { balanced() } else { String::new() };
            let parts = balanced + GIVEN + OWN;
            let (text, said) = common::script_in_guest(self.kernel, options, &parts, given)?;
            println!("kernel {}: {said}\n{text}", self.kernel);
            Some(text)
        });
        Some(common::lines(text.as_deref()?, name))
    }

    /// What `busy_nodes` says of each of its runs, with how often a thread was moved.
    fn balanced(&self) -> Option<Vec<(f64, u64)>> {
        let lines: Vec<Value> = self
            .part("balanced")?
            .into_iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let answers = lines.chunks(2).map(|pair| {
            let waited = pair[0]["waited_percent"].as_array().unwrap();
            let most = waited.iter().map(|percent| percent.as_f64().unwrap()).fold(0.0, f64::max);
            (most, pair[1]["total"]["thread_moves"].as_u64().unwrap())
        });
        Some(answers.collect())
    }
}

/// The same work where threads stay, and wait, and where they are balanced: there none waits. And one where all CPUs are
/// busy.
fn balanced() -> String {
    let runs = WORKS.map(|work| {
        [STAYS, BALANCED]
            .map(|(period_ms, time)| format!("--balance {period_ms} -- $2 {work} {time}"))
    });
    let runs = runs.iter().flatten().map(String::as_str).chain([CREW]);
    let run = |run: &str| {
        format!(
            "$1 run --quiet --report /tmp/report {run} > /tmp/said || exit 9\n\
             sed 's/^/balanced /' /tmp/said\n\
             echo \"balanced $(tr -d '\\n' < /tmp/report)\"\n"
        )
    };
    runs.map(run).collect()
}

/// `taskset` inside the run: its threads are moved too, but not out of what it gives them.
const GIVEN: &str = "
    $1 run --quiet --balance 10 -- taskset -c 0-3 $2 sleepers 6 2 2 > /tmp/said || exit 9
    sed 's/^/given /' /tmp/said
    $1 run --quiet --balance 10 -- taskset -c 0-4 $2 crowd 3 3 3 > /tmp/said || exit 9
    sed 's/^/given /' /tmp/said
";

/// While the launcher looks as often as it can, and when somebody kills it.
const OWN: &str = "
    $1 run --quiet --balance 1 --report /tmp/report -- $3 4 > /tmp/said || exit 9
    sed 's/^/own /' /tmp/said
    echo \"own $(tr -d '\\n' < /tmp/report)\"
    rm /tmp/said
    $1 run --quiet --balance 1 -- $3 4 > /tmp/said &
    sleep 3
    kill -9 $!
    n=0
    while [ ! -s /tmp/said ] && [ $n -lt 100 ]; do sleep 1; n=$((n + 1)); done
    sed 's/^/own /' /tmp/said
";

/// Four threads sleep where the tree counts them, and eight work on eight CPUs.
const BESIDE_SLEEPERS: &str = "sleepers 8";
/// Two processes with an affinity of their own come onto the CPUs of a worker's node.
const IN_A_CROWD: &str = "crowd 3";
const WORKS: [&str; 2] = [BESIDE_SLEEPERS, IN_A_CROWD];

/// Until nobody waits any more: a launcher that looks for a hundredth of the time looks once a second in a slow guest,
/// and moves a thread after three looks.
const STAYS: (&str, &str) = ("0", "1 2");
const BALANCED: (&str, &str) = ("100", "8 2");

/// Twice as many threads as CPUs: where there is nothing better, a thread stays.
const CREW: &str = "--balance 100 -- $2 crew 16 3 3";
/// All sixteen wait half of the time, so whoever moved them for nothing would move them all. A few may go: not all begin and end
/// at once, and a CPU is idle then.
const CREW_MOVED_MAX: u64 = 4;

fn check_balanced(guest: &Guest) {
    if !guest.is_balanced() {
        return;
    }
    let Some(mut answers) = guest.balanced() else { return };
    assert_eq!(answers.len(), 2 * WORKS.len() + 1, "{answers:?}");
    let (waited, moved) = answers.pop().unwrap();
    assert!(waited > HINDERED_PERCENT_MIN && moved <= CREW_MOVED_MAX, "{CREW}: {waited} % {moved}");
    for (work, pair) in WORKS.iter().zip(answers.chunks(2)) {
        let [(stays, moved), (balanced, moved_then)] = pair[..] else { panic!("{answers:?}") };
        assert!(stays > HINDERED_PERCENT_MIN, "{work}: nothing to see: {answers:?}");
        assert_eq!(moved, 0, "{work}");
        assert!(balanced < WAITED_PERCENT_MAX, "{work}: {answers:?}");
        assert!(*work != IN_A_CROWD || moved_then > 0, "{work}: {answers:?}");
    }
}

#[test]
fn workers_do_not_wait_and_nobody_moves_for_nothing_on_6_1() {
    check_balanced(&OLDEST);
}

#[test]
fn workers_do_not_wait_and_nobody_moves_for_nothing_on_7_3() {
    check_balanced(&NEWEST);
}

#[test]
fn threads_stay_on_the_cpus_that_somebody_gave_their_process() {
    for guest in [&OLDEST, &NEWEST] {
        let Some(lines) = guest.part("given") else { return };
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, cpus) in lines.iter().zip([0..4, 0..5]) {
            let answer: Value = serde_json::from_str(line).unwrap();
            let at: Vec<_> =
                answer["cpu"].as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap()).collect();
            assert!(at.iter().all(|cpu| cpus.contains(cpu)), "{answer}");
        }
    }
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

#[test]
fn an_affinity_that_the_program_sets_stays() {
    for guest in [&OLDEST, &NEWEST] {
        let Some(lines) = guest.part("own") else { return };
        assert_eq!(
            lines.iter().filter(|line| line.starts_with("ok: 144 ")).count(),
            2,
            "{lines:?}"
        );
        let report = lines.iter().find(|line| line.starts_with('{')).unwrap();
        let total = serde_json::from_str::<Value>(report).unwrap()["total"].clone();
        let of = |what: &str| total[what].as_u64().unwrap();
        let held = of("threads_settled") + of("thread_moves");
        assert!(held > 4, "only {held} others were held meanwhile: {total}");
    }
}
