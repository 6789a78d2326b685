//! What is told of each decision.

use std::fs;
use std::path::Path;

use super::{decided, fixture, has, json, nothing, oddities};

#[test]
fn a_thread_leaves_a_full_node_for_an_idle_core() {
    let text = decided("thread --synthetic 4x2 --from-cpu 0 --threads-on 0=1,1=1");
    has(
        &text,
        &[
            "Start: node 0 (level 0), the creator's leaf",
            "node 0 (level 0) T 2, N 2 does not hold: up",
            "nodes 0-3 (level 1) T 2, N 8 holds: down from here",
            "by N − T ↓, D ↑",
            "1. node 1 (level 0) T 0, N 2, D 20",
            "rejected node 0 (level 0) T 2, N 2, D 10 not: T < N",
            "Decided: CPU 2 on node 1, at distance 20, in attempt 1; 2 clusters visited of at most 2.",
        ],
    );
}

#[test]
fn a_full_machine_takes_three_attempts() {
    let line = "thread --synthetic 4x2 --from-cpu 0 --threads-on 0-7=1 --usage 0-7=100";
    has(
        &decided(line),
        &[
            "Attempt 1: an idle core up, until T < N",
            "Attempt 2: a CPU that is not fully used up, until T < N or U < 100",
            "nodes 0-3 (level 1) T 8, N 8, U 100 does not hold, and this is the top: no way down",
            // Where the second ended; it has no way up of its own.
            "Attempt 3: the least loaded CPU down in nodes 0-3 (level 1)",
            "by U ↑, T / N ↑, D ↑",
            "in attempt 3",
        ],
    );
    let attempts = json(line)["attempts"].as_array().unwrap().len();
    assert_eq!(attempts, 3);
}

#[test]
fn strategies_go_different_ways() {
    let line = "thread --synthetic 4x4 --from-cpu 0 --threads-on 0-3=1,4=1,8=1,9=1 --strategy";
    assert_eq!(json(&format!("{line} thesis"))["outcome"]["node"], 3);
    assert_eq!(json(&format!("{line} packed"))["outcome"]["node"], 2);
    let spread = json("thread --synthetic 4x4 --from-cpu 0 --threads-on 0=1 --strategy spread");
    assert_eq!(spread["outcome"]["node"], 1);
    assert!(spread["attempts"][0]["way_up"].as_array().unwrap().is_empty());
}

#[test]
fn the_way_up_ends_where_it_is_told_to() {
    let line = "thread --synthetic 16x2 --from-cpu 0 --threads-on 0-7=1 --level-max 1";
    has(&decided(line), &["up to level 1", "nodes 0-3 (level 1) T 8, N 8", "in attempt 3"]);
    let line = "thread --synthetic 16x2 --from-cpu 0 --allowed 30 --level-max 1";
    has(&nothing(line), &["no attempt found a CPU up to level 1"]);
    let line = "thread --synthetic 16x2 --strategy spread --level-max 1";
    has(&decided(line), &["Note: --level-max says nothing to spread"]);
}

#[test]
fn hardware_threads_are_half_a_core() {
    let machine = fixture("chiplets-2s-8n.json");
    let line = format!("thread --machine {} --from-cpu 0 --threads-on 0=1", machine.display());
    has(
        &decided(&line),
        &[
            "N 2 cores",
            "rejected CPU 64 T 0 (1 on its core)",
            "not: T = 0 on its core",
            "CPU 1 on node 0",
        ],
    );
}

#[test]
fn a_fork_starts_two_levels_above_its_node() {
    has(
        &decided("fork --synthetic 16x4 --from-cpu 0 --threads-on 0=1"),
        &[
            "Start: nodes 0-15 (level 2), two levels above the parent's node",
            "by T / N ↑, D ↑",
            "4. nodes 0-3 (level 1) T 1, N 16, D 10",
            "CPU 16 on node 4",
        ],
    );
    has(&decided("fork --synthetic 2x2 --from-cpu 0"), &["less than two levels are above"]);
}

#[test]
fn a_program_goes_where_memory_is() {
    let line =
        "exec --synthetic 4x2 --threads-on 2-3=1 --free 0=900,1-3=5000 --free-pages-min 1000";
    has(
        &decided(line),
        &[
            "threshold 1000 free pages; seed 0",
            "by T / N ↑, A ↑",
            "rejected node 0 (level 0) T 0, N 2, M 900 not: T < N and M > threshold",
            "rejected node 1 (level 0) T 2, N 2, M 5000",
        ],
    );
    assert!(json(line)["attempts"][0]["way_up"].as_array().unwrap().is_empty());
    // The thesis's threshold: half a node, of 1 GiB here.
    has(&decided("exec --synthetic 4x2"), &["threshold 131072 free pages"]);
    let seeds = (0..20).map(|seed| json(&format!("exec --synthetic 8x1 --seed {seed}")));
    let chosen: std::collections::BTreeSet<_> =
        seeds.map(|report| report["outcome"]["cpu"].as_u64()).collect();
    assert!(chosen.len() > 2, "{chosen:?}");
}

#[test]
fn a_cpu_says_whether_it_has_too_much_to_do() {
    let busy = "balance --synthetic 4x4 --from-cpu 0 --threads-on 0=3 --usage 0=100,1-15=20";
    has(&decided(busy), &["it should look for one, and soon", "R > 0 1 holds", "CPU 1 on node 0"]);
    let report = json(&format!("{busy} --ready 0"));
    assert_eq!(report["should_balance"]["holds"], false);
    let holds: Vec<_> = report["should_balance"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["holds"].as_bool().unwrap())
        .collect();
    assert_eq!(holds, [true, true, false, true]);
    let full = "balance --synthetic 4x4 --from-cpu 0 --threads-on 0-15=2 --usage 0-15=100";
    has(&nothing(full), &["U of the root < 100 100 does not hold", "the thread stays where it is"]);
    let unknown = "balance --synthetic 4x4 --from-cpu 0 --threads-on 0=3";
    has(&decided(unknown), &["should not look", "U = 100 unknown does not hold"]);
}

#[test]
fn pages_come_from_the_nearest_node_that_has_enough() {
    let line = "memory --synthetic 4x2 --from-cpu 0 --pages 16 --free";
    has(
        &decided(&format!("{line} 0=0,1=9,2=64,3=64")),
        &[
            "rejected node 0 (level 0) M 0, D 10 not: M ≥ 16",
            "rejected node 1 (level 0) M 9, D 20 not: M ≥ 16",
            "Decided: node 2, at distance 20; 1 cluster visited",
        ],
    );
    has(&decided(&format!("{line} 0=16")), &["1. node 0 (level 0) M 16, D 10", "Decided: node 0"]);
    has(
        &decided(&format!("{line} 0-3=99 --nodes 3")),
        &["rejected node 0 (level 0) M 99, D 10 not: an allowed node", "Decided: node 3"],
    );
    has(&nothing(&format!("{line} 0-3=15")), &["no allowed node is known to have enough"]);
    has(&nothing("memory --synthetic 4x2 --from-cpu 0"), &["M of no node is known"]);
    has(&decided("memory --synthetic 1x2 --free 0=1"), &["1. node 0", "Decided: node 0"]);
    has(&nothing("memory --synthetic 1x2 --free 0=0"), &["rejected node 0 (level 0) M 0"]);
}

#[test]
fn a_search_for_pages_goes_back_and_names_where() {
    let line = "memory --synthetic 16x1 --from-cpu 0 --pages 9 --free 0-3=0,4-7=8,8=9,9-15=0";
    let text = decided(line);
    has(
        &text,
        &[
            "nothing here will do: up, to nodes 0-15 (level 2)",
            "rejected node 7 (level 0) M 8, D 20 not: M ≥ 9",
            "nothing here will do: back, to nodes 8-11 (level 1)",
            "Decided: node 8, at distance 20; 4 clusters visited of at most 4.",
        ],
    );
}

#[test]
fn a_group_is_split_along_the_tree() {
    let text = decided("group --synthetic 4x4 --from-cpu 0 --threads 6");
    has(
        &text,
        &[
            "nodes 0-3 (level 1) 6 threads",
            "node 0 (level 0) 4 threads CPU 0, CPU 1, CPU 2, CPU 3",
            "node 1 (level 0) 2 threads",
        ],
    );
    let report = json("group --synthetic 2x2 --threads 9 --allowed 0,3");
    let of = |cluster: usize| report["shares"][cluster]["threads"].as_u64().unwrap();
    assert_eq!((of(0), of(1) + of(2)), (9, 9));
}

#[test]
fn a_mask_is_counted_alone_and_said_to_be() {
    let text = decided("thread --synthetic 4x4 --from-cpu 0 --threads-on 0=9,1=1 --allowed 1,6");
    has(
        &text,
        &[
            "allowed: CPUs 1,6",
            "node 0 (level 0) T 1, N 1 does not hold",
            "rejected CPU 5 T 0, U unknown not: N > 0 (nothing allowed)",
            "CPU 6 on node 1",
            "the 2 were read first",
        ],
    );
    has(&nothing("thread --synthetic 2x2 --allowed ,"), &["no allowed CPU is online"]);
}

#[test]
fn odd_machines_are_decided_on() {
    has(
        &decided(&oddities("thread --from-cpu 0 --allowed 4-9")),
        &["Note: offline, so not allowed: CPUs 5,7,9", "on node 2, at distance 16"],
    );
    has(&nothing(&oddities("thread --from-cpu 0 --allowed 5,7")), &["no allowed CPU is online"]);
    has(
        &decided(&oddities("thread --from-cpu 8")),
        &["Start: CPU 8 (level 0)", "CPU 8 of no known node"],
    );
    let machine = fixture("expanders-2s-4n.json");
    has(
        &decided(&format!("exec --machine {}", machine.display())),
        &["(level 0) T 0, N 0", "not: N > 0 (it has no CPUs)"],
    );
    // This machine, whatever it is.
    has(&decided("thread"), &["This machine (Linux ", "the root, since --from-cpu is not given"]);
}

#[test]
fn json_tells_every_decision() {
    for line in [
        "thread --synthetic 4x2 --from-cpu 0 --threads-on 0-7=1",
        "fork --synthetic 16x2 --from-cpu 3",
        "exec --synthetic 4x2 --seed 7",
        "balance --synthetic 4x2 --from-cpu 0 --usage 0-7=100",
        "memory --synthetic 4x2 --from-cpu 0 --free 0=0,1-3=9",
        "memory --synthetic 4x2 --from-cpu 0 --free 0-3=0",
        "group --synthetic 4x2 --threads 5",
    ] {
        let report = json(line);
        assert_eq!(report["format"], 1, "{line}");
        assert!(line.starts_with(report["decision"].as_str().unwrap()), "{line}");
        assert_eq!(report["outcome"].is_null(), !report["reason"].is_null(), "{line}");
        let steps = report["attempts"].as_array().unwrap().iter();
        for step in steps.flat_map(|attempt| attempt["way_down"].as_array().unwrap()) {
            assert!(step["cluster"]["level"].is_u64() && step["load"].is_object(), "{line}");
            for part in step["parts"].as_array().unwrap() {
                assert!(part["cluster"].is_object() != part["cpu"].is_u64(), "{line}: {part}");
                assert!(part["rank"].is_u64() != part["rejected_by"].is_string(), "{line}: {part}");
            }
        }
        let max = report["visits_max"].as_u64().unwrap_or(u64::MAX);
        assert!(report["outcome"]["visited"].as_u64().unwrap_or(0) <= max, "{line}");
    }
}

#[test]
fn the_largest_machine_is_explained_in_a_screen() {
    let text = decided("thread --synthetic 1024x4 --from-cpu 4095 --threads-on 4092-4095=1");
    assert!(text.lines().count() < 40, "{text}");
    has(&text, &["visited of at most 10."]);
}

#[test]
fn the_page_about_decisions_shows_what_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions.md");
    let page = fs::read_to_string(page).unwrap();
    let mut blocks = page.split("\n    $ quartier explain-decision ").skip(1);
    let (line, rest) = blocks.next().unwrap().split_once('\n').unwrap();
    let shown = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    let shown: Vec<_> = shown.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert_eq!(shown.join("\n").trim_end(), decided(line).trim_end());
}

#[test]
fn every_decision_is_in_the_help_with_its_examples() {
    let help = decided("--help");
    for word in ["thread", "fork", "exec", "balance", "memory", "group"] {
        assert!(help.contains(&format!("quartier explain-decision {word} ")), "{word}");
    }
    assert!(help.contains("\"format\": 1") && help.contains("Exit status: 0"), "{help}");
}
