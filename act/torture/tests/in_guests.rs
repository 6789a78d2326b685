//! The hazards and the random tester on every rung: kernels with four nodes, one boot for each. A boot
//! takes some ten seconds, so everything for a kernel runs in it.

mod common;

use std::fmt::Write;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use common::{HAZARDS, SKIPPED, operations, programs, quartier, run, torture};

/// Operations of the tester in a guest, whose processors are emulated: some hundred a second where
/// others work too. `QUARTIER_TORTURE_OPS=1000000` asks for the full count.
const OPERATIONS: u64 = 4_000;

/// Seconds for one hazard program in a guest.
const SECONDS: u32 = 120;

/// No helper outlives its program, whatever became of that; one that does says what it waits for, and
/// ends the script.
const NO_HELPER_LEFT: &str = r"no_helper_left() {
    tries=0
    while pgrep quartier-helper > /dev/null; do
        tries=$((tries + 1)); [ $tries -gt 100 ] && break; sleep 0.1
    done
    for pid in $(pgrep quartier-helper); do
        cd /proc/$pid; readlink exe; cat status wchan syscall stack; ls -l fd
        ps -eo pid,ppid,stat,wchan,comm | grep -v '\['
        echo '== helper 1'; exit
    done
}
";

/// What a rung is there for: on a kernel without one these have nothing to show.
const OF_MEMORY: [&str; 15] = [
    "core_dump",
    "freed_and_moved",
    "kernel_io",
    "little_room",
    "locked_shared",
    "many_mappings",
    "many_pieces",
    "map_race",
    "mapped_again",
    "mremap_dontunmap",
    "mremap_race",
    "own_userfaultfd",
    "ptrace_peek",
    "resized_blocks",
    "same_pages",
];

/// Which of the programs run. A guest takes minutes for all of them: two of the three have a half, but for who asks for more.
#[derive(Clone, Copy)]
enum Part {
    All,
    OfMemory,
    Others,
}

impl Part {
    fn has(self, call: &str) -> bool {
        let program = call.split(' ').next().unwrap_or_default();
        match self {
            Self::All => true,
            Self::OfMemory => OF_MEMORY.contains(&program),
            Self::Others => !OF_MEMORY.contains(&program),
        }
    }
}

fn asks_for_all() -> bool {
    std::env::var_os("QUARTIER_TEST_KERNELS").is_some_and(|kernels| kernels == "all")
}

/// Puts the shell into a control group with two nodes' CPUs and another's memory.
const IN_A_CPUSET: &str = "cd /sys/fs/cgroup && echo +cpuset > cgroup.subtree_control && mkdir -p bound && \
    echo 2-5 > bound/cpuset.cpus && echo 3 > bound/cpuset.mems && echo $$ > bound/cgroup.procs";

/// One line for each program: `== NAME STATUS`, after what it said if it failed.
fn script(options: &str, part: Part, by_protection: bool, operations: u64) -> String {
    let (q, p) = (quartier().display(), programs().display());
    let mut script = String::from(NO_HELPER_LEFT);
    script.push_str(
        "one() { name=$1; shift; began=$(date +%s); \"$@\" > /tmp/said 2>&1; s=$?; \
        [ $s = 0 ] || { grep '^skipped' /tmp/said; grep -EA25 '^(DIFF|FAIL|HANG)' /tmp/said | head -n 60; tail -n 5 /tmp/said; }; echo \"== $name $s\"; \
        echo \"$(($(date +%s) - began)) s\"; no_helper_left; }\n",
    );
    let mut add = |name: &str, line: &str| {
        if part.has(name) {
            writeln!(script, "one '{name}' {line}").unwrap();
        }
    };
    let run_with =
        |more: &str| format!("timeout -k 2 {SECONDS} {q} run --quiet {options} {more} -- {p}");
    let run = run_with("");
    for (program, arguments) in HAZARDS {
        // Where processors are emulated a part of the rounds takes as long.
        let arguments = match *program {
            "fork_storm" => &["60"],
            "many_mappings" => &["2000"],
            "map_race" => &["50"],
            "resized_blocks" => &["2"],
            "stopped_starts" => &["40"],
            _ => *arguments,
        };
        let call = format!("{program} {}", arguments.join(" "));
        add(call.trim(), &format!("{run}/{call}"));
    }
    add("core_dump", &format!("{run}/core_dump --set-pattern"));
    add("many_threads", &format!("{run}/many_threads 500 200"));
    add("same_pages --merge", &format!("{run}/same_pages --merge"));
    let commit = "echo 2 > /proc/sys/vm/overcommit_memory; ";
    add("little_room commit", &format!("sh -c '{commit}{run}/little_room commit'"));
    add("little_room no more", "sh -c 'echo 0 > /proc/sys/vm/overcommit_memory'");
    if by_protection {
        add("helper_killed --holds-nothing", &format!("{run}/helper_killed --holds-nothing"));
    }
    add("going_home", &format!("{}/going_home 200", run_with("--helper-idle-ms 1")));
    add("openmp", &format!("env OMP_PLACES=cores OMP_PROC_BIND=close {run}/openmp_places"));
    add("numactl", &format!("numactl --cpunodebind=1 --membind=2 {run}/bound_outside"));
    add("cpuset", &format!("sh -c '{IN_A_CPUSET}; exec {run}/bound_outside'"));
    add("taskset", &format!("taskset -c 1,5 {run}/thread_attributes"));
    let torture = torture();
    add("plainly", &format!("timeout -k 2 300 {torture} --ops {} --patience 100", operations / 10));
    // Whatever the part.
    let limit = 200 + operations / 50;
    writeln!(
        script,
        "one torture timeout -k 2 {limit} {q} run --quiet {options} -- {torture} --ops {operations} --patience 100"
    )
    .unwrap();
    script.push_str("grep -hE '^seed|operations' /tmp/said\n");
    script
}

/// Runs everything on a kernel; fails if a program failed, or did not run.
fn check(kernel: &str, options: &str, part: Part, by_protection: bool) {
    static ONE_GUEST: Mutex<()> = Mutex::new(());
    let _one = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    let fetched = run(Command::new(quartier()).args(["lab", "fetch", "--kernel", kernel]), 600);
    if fetched.status != 0 {
        assert!(std::env::var_os("CI").is_none(), "guests must run in CI: {}", fetched.said);
        println!("skipped: no guest can be booted here: {}", fetched.said);
        return;
    }
    let operations = operations(OPERATIONS);
    let limit = (900 + operations / 50).to_string();
    let mut guest = Command::new(quartier());
    guest.args(["lab", "run", "--kernel", kernel, "--nodes", "4", "--cpus-per-node", "2"]);
    guest.args(["--mem", "4G", "--root", "--hang-timeout", "200", "--timeout", &limit, "--"]);
    let part = if asks_for_all() { Part::All } else { part };
    let script = script(options, part, by_protection, operations);
    guest.args(["sh", "-c", &script]);
    let ended = run(&mut guest, 960 + operations / 50);
    println!("kernel {kernel} {options}:\n{}", ended.said);
    let results: Vec<_> =
        ended.said.lines().filter_map(|line| line.strip_prefix("== ")?.rsplit_once(' ')).collect();
    let good = |status: &str| status == "0" || status == SKIPPED.to_string();
    let failed: Vec<_> = results.iter().filter(|(_, status)| !good(status)).collect();
    assert!(failed.is_empty(), "kernel {kernel} {options}: {failed:?}: {}", ended.said);
    assert_eq!(
        results.len(),
        script.matches("\none ").count(),
        "kernel {kernel} {options}: {}",
        ended.said
    );
}

#[test]
fn without_a_rung_on_6_1() {
    check("6.1", "", Part::Others, false);
}

/// Between the oldest and the newest kernel, of a rung that these have too: on request, as `QUARTIER_TEST_KERNELS=all`.
fn check_between(kernel: &str) {
    if !asks_for_all() {
        println!("skipped: only with QUARTIER_TEST_KERNELS=all");
        return;
    }
    check(kernel, "", Part::All, false);
}

#[test]
fn by_move_on_6_12() {
    check_between("6.12");
}

#[test]
fn by_move_on_7_2() {
    check_between("7.2");
}

#[test]
fn by_protection_on_7_3() {
    check("7.3", "", Part::All, true);
}

#[test]
fn by_move_on_7_3() {
    check("7.3", "--rung move", Part::OfMemory, false);
}
