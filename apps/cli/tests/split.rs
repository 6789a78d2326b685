//! `quartierd` on a process with more threads than a node has CPUs, on real kernels: the kernel's hint faults say who
//! uses which page, the threads are shared out, and their parts follow.

mod common;

use serde_json::Value;

/// One thread fills 64 MiB on a node; eight work on an eighth each, on four nodes of two CPUs. Then the same with the
/// kernel's NUMA balancing off, when nobody can know who uses what.
const SCRIPT: &str = r#"
    quartier=$1 quartierd=$2 eighths=$3
    cd /tmp && echo 1 > /proc/sys/kernel/numa_balancing
    # A huge page shows one touch each time that the kernel goes over memory: of so little too few for minutes.
    echo never > /sys/kernel/mm/transparent_hugepage/enabled
    # How long it takes until enough touches were seen depends on how fast the guest is.
    until_said() { for look in $(seq 120); do grep -sq "$1" $2 && break; sleep 1.5; done; }
    # In a guest that hardly runs, the kernel may have brought all pages to their threads before: that is nothing to split.
    for attempt in 1 2 3; do
        rm -f log said
        $eighths 64 8 pool 240 > parts & pid=$!
        $quartierd --apply --journal journal --log log > said 2>&1 & daemon=$!
        until_said ^Split said
        # The others' turn comes as soon as it is known of them too.
        for look in $(seq 20); do
            kill -USR1 $pid; sleep 1.5
            tail -n 1 parts | grep -q '"right_percent": \(9[0-9]\|100\)' && break
        done
        kill -TERM $pid
        wait $pid || echo "a byte was wrong"
        kill -TERM $daemon
        wait $daemon || echo "quartierd ended with $?"
        grep '^Split' said | grep -qv 'pages Stay' && break
        echo "attempt $attempt: $(cat parts said)"
    done
    sed 's/^/parts /' parts
    grep '"outcome"' log | sed 's/^/log /'
    $quartier replay log | sed 's/^/replayed /'
    grep '^Split' said | sed 's/^/said /'
    grep '^left' said | sort | uniq -c | sed 's/^/why /'
    echo 0 > /proc/sys/kernel/numa_balancing
    $eighths 64 8 pool 240 > /dev/null & pid=$!
    $quartierd > blind 2>&1 & daemon=$!
    until_said kernel.numa_balancing blind
    kill -TERM $pid $daemon
    wait $pid $daemon
    grep 'kernel.numa_balancing' blind | head -n 1 | sed 's/^/blind /'
"#;

fn check(kernel: &str) {
    let programs = [common::quartier().clone(), common::quartierd(), common::program("eighths")];
    let options = ["--nodes", "4", "--cpus-per-node", "2", "--root", "--timeout", "500"];
    let Some((text, said)) = common::script_in_guest(kernel, options, SCRIPT, programs) else {
        return;
    };
    println!("kernel {kernel}: {said}\n{text}");
    let lines = |word: &str| common::lines(&text, word);
    let json = |line: &&str| serde_json::from_str::<Value>(line).unwrap();
    // The last is told at its end, when two threads may have been moved once more.
    let parts = lines("parts").iter().rev().nth(1).map(json).expect("it says where its pages are");
    let number = |name: &str| parts[name].as_u64().unwrap();
    // The kernel alone leaves a fifth to four fifths of them so: it brings a page to its thread, and then moves the thread.
    assert!(number("right") * 10 > number("pages") * 9, "{text}");
    assert!(!lines("said").is_empty(), "a split was decided: {text}");
    // It is split as soon as it is known of half of its threads what they use.
    let held = |line: &&str| json(line)["outcome"]["threads_held"].as_u64().unwrap_or(0);
    assert!(lines("log").iter().any(|line| held(line) >= 4), "{text}");
    assert!(lines("replayed").iter().any(|line| line.ends_with("all the same")), "{text}");
    assert_eq!(lines("blind").len(), 1, "why it is not split is said: {text}");
    assert!(!text.contains("was wrong") && !text.contains("ended with"), "{text}");
}

#[test]
fn a_process_is_split_by_who_uses_its_pages_on_6_1() {
    check("6.1");
}

#[test]
fn a_process_is_split_by_who_uses_its_pages_on_7_3() {
    check("7.3");
}
