//! States, and input that is no good.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{decided, file, has, nothing, oddities, refused, stdout};

#[test]
fn a_state_file_says_the_same_as_options() {
    let state = r#"{"format": 1, "load": [{"cpus": "0", "threads": 3, "usage_percent": 99.6},
        {"cpus": "1-7", "usage_percent": 20}], "memory": [{"nodes": "0-1", "free_pages": 5}]}"#;
    let (_dir, path) = file(state);
    let line = "balance --synthetic 2x4 --from-cpu 0";
    let from_file = decided(&format!("{line} --state {path}"));
    let from_options =
        decided(&format!("{line} --threads-on 0=3 --usage 0=99.6,1-7=20 --free 0-1=5"));
    assert_eq!(from_file, from_options);
    // What policies compare are whole percents.
    has(&from_file, &["U = 100 100 holds"]);

    let mut child = Command::new(env!("CARGO_BIN_EXE_quartier"))
        .args("explain-decision --state -".split(' '))
        .args(line.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(state.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), from_file);
}

#[test]
fn free_blocks_are_counted_by_order() {
    let line = |state: &str, order: u8| {
        let (dir, path) = file(state);
        let line = format!("memory --synthetic 2x1 --from-cpu 0 --order {order} --state {path}");
        (dir, line)
    };
    let blocks = r#"{"format": 1, "memory": [{"nodes": "0", "free_blocks": [8, 4]},
        {"nodes": "1", "free_blocks": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]}]}"#;
    let (_dir, first) = line(blocks, 1);
    has(&decided(&first), &["Decided: node 0", "M 16"]);
    let (_dir, larger) = line(blocks, 3);
    has(&decided(&larger), &["not: a free block of 2^3 pages", "Decided: node 1", "M 1024"]);
    let (_dir, unknown) =
        line(r#"{"format": 1, "memory": [{"nodes": "0-1", "free_pages": 99}]}"#, 1);
    has(&nothing(&unknown), &["its free pages count as single pages"]);
    let (_dir, single) =
        line(r#"{"format": 1, "memory": [{"nodes": "0-1", "free_pages": 99}]}"#, 0);
    has(&decided(&single), &["Decided: node 0"]);
}

#[test]
fn usage_may_have_its_sign() {
    let line = |usage: &str| {
        decided(&format!("balance --synthetic 2x4 --from-cpu 0 --threads-on 0=3 --usage {usage}"))
    };
    assert_eq!(line("0=100%,1-7=19.6%"), line("0=100,1-7=19.6"));
}

#[test]
fn an_empty_state_is_a_state() {
    let (_dir, path) = file("{\"format\": 1}");
    has(
        &decided(&format!("thread --synthetic 2x2 --state {path}")),
        &["State: no threads; U unknown; M unknown"],
    );
}

#[test]
fn bad_options_are_refused_in_one_sentence() {
    for (line, part) in [
        ("thread --synthetic 4x2 --from-cpu 8", "there is no CPU 8: the machine has CPUs 0-7"),
        ("thread --synthetic 4x2 --allowed 0,8", "there is no CPU 8"),
        ("thread --synthetic 4x2 --allowed x", "not a list of ids"),
        ("thread --synthetic 4x2 --threads-on 8=1", "there is no CPU 8"),
        ("thread --synthetic 4x2 --threads-on 0", "ID=VALUE"),
        (
            "thread --synthetic 4x2 --threads-on 0=many",
            "give a whole number from 0 to 4194304, not",
        ),
        ("thread --synthetic 4x2 --threads-on 0=-1", "from 0 to 4194304, not `-1`"),
        ("thread --synthetic 4x2 --threads-on -1=1", "`-1` is not a list of ids"),
        ("thread --synthetic 4x2 --allowed 0-4294967295", "an id is at most 8191"),
        ("thread --synthetic 4x2 --allowed -1-3", "`-1-3` is not a list of ids"),
        ("thread --synthetic 4x2 --from-cpu x", "give a whole number from 0 to 8191"),
        ("thread --synthetic 4x2 --from-cpu -1", "give a whole number from 0 to 8191"),
        ("thread --synthetic 4x2 --level-max -1", "give a whole number from 0 to 255"),
        ("thread --synthetic 4x2 --level-max 256", "give a whole number from 0 to 255"),
        ("thread --synthetic 4x2 --usage 0=half", "give 0 to 100, such as 40 or 40%, not `half`"),
        ("thread --synthetic 4x2 --usage 0=101%", "usage of CPU 0 is 101 %"),
        ("exec --synthetic 4x2 --seed -1", "give a whole number from 0 to 18446744073709551615"),
        ("exec --synthetic 4x2 --free-pages-min 1.5", "give a whole number from 0 to"),
        ("balance --synthetic 4x2 --ready -1", "give a whole number from 0 to 4194304"),
        ("memory --synthetic 4x2 --pages 0", "give a whole number from 1 to"),
        ("memory --synthetic 4x2 --order -1", "give a whole number from 0 to 32"),
        ("memory --synthetic 4x2 --nodes -1", "`-1` is not a list of ids"),
        ("thread --synthetic -4x2", "`-4x2` is not a machine"),
        ("thread --nonsense", "see `quartier explain-decision --help`"),
        ("thread --synthetic 4x2 --threads-on 0=1,0=1", "threads of CPU 0 are given twice"),
        ("thread --synthetic 4x2 --threads-on 0-7=4000000", "Linux has at most 4194304"),
        ("thread --synthetic 4x2 --usage 0=101", "usage of CPU 0 is 101 %"),
        ("thread --synthetic 4x2 --usage 0=nan", "give 0 to 100"),
        ("thread --synthetic 4x2 --free 4=1", "there is no node 4: the machine has nodes 0-3"),
        ("thread --synthetic 4x2 --free 0=-1", "from 0 to 18446744073709551615, not `-1`"),
        ("memory --synthetic 4x2 --nodes 9", "there is no node 9"),
        ("memory --synthetic 4x2 --order 99", "give a whole number from 0 to 32"),
        ("group --synthetic 4x2", "group needs --threads"),
        ("group --synthetic 4x2 --threads 0", "give a whole number from 1 to 4194304"),
        ("balance --synthetic 4x2", "balance needs --from-cpu"),
        ("exec --synthetic 4x2 --from-cpu 0", "--from-cpu says nothing to exec"),
        ("fork --synthetic 4x2 --strategy packed", "it is for thread"),
        ("memory --synthetic 4x2 --allowed 0", "--allowed says nothing to memory"),
        ("thread --synthetic 4x2 --pages 1", "--pages says nothing to thread"),
        ("thread --synthetic 0x2", "0 nodes"),
        ("thread --synthetic 4x0", "0 CPUs"),
        ("thread --state /nonexistent", "/nonexistent"),
        ("thread --machine /nonexistent", "/nonexistent"),
        ("thread --machine - --state -", "cannot both be the standard input"),
        ("thread --state x --usage 0=1", "--usage"),
        ("guess --synthetic 4x2", "guess"),
        ("", "<DECISION>"),
    ] {
        let message = refused(line);
        assert!(message.contains(part), "{line}: {message}");
        for rust in ["digit", "literal", "target type", "..="] {
            assert!(!message.contains(rust), "{line}: {message}");
        }
    }
    for line in ["thread --from-cpu 5", "thread --threads-on 4-5=1", "thread --usage 9=1"] {
        assert!(refused(&oddities(line)).contains("is offline: nothing runs there"), "{line}");
    }
}

#[test]
fn bad_state_files_are_refused_in_one_sentence() {
    for (state, part) in [
        ("", "a state is a JSON object"),
        ("{", "EOF"),
        ("[1, [], []]", "a state is a JSON object"),
        ("{}", "missing field `format`"),
        (r#"{"format": 2, "more": 1}"#, "state format 2 is not 1"),
        (r#"{"format": 1, "laod": []}"#, "unknown field `laod`"),
        (r#"{"format": 1, "format": 1}"#, "duplicate field"),
        (r#"{"format": 1} x"#, "trailing"),
        (r#"{"format": 1, "load": [{"threads": 1}]}"#, "missing field `cpus`"),
        (r#"{"format": 1, "load": [{"cpus": "0", "thread": 1}]}"#, "unknown field `thread`"),
        (r#"{"format": 1, "load": [{"cpus": "3-1"}]}"#, "a range runs upwards"),
        (r#"{"format": 1, "load": [{"cpus": "9"}]}"#, "there is no CPU 9"),
        (
            r#"{"format": 1, "load": [{"cpus": "0", "threads": -1}]}"#,
            "integer `-1`, expected a whole number from 0 to 4294967295 at line 1",
        ),
        (r#"{"format": 1, "load": [{"cpus": "0", "usage_percent": 1e9}]}"#, "give 0 to 100"),
        (
            r#"{"format": 1, "load": [{"cpus": "0-1", "threads": 1}, {"cpus": "1", "threads": 1}]}"#,
            "the threads of CPU 1 are given twice",
        ),
        (r#"{"format": 1, "memory": [{"nodes": "7"}]}"#, "there is no node 7"),
        (
            r#"{"format": 1, "memory": [{"nodes": "0", "free_pages": 3, "free_blocks": [0, 2]}]}"#,
            "4 pages in free blocks and 3 free pages",
        ),
        ("{\"format\": 1, \"\\u001b[2J\\n\": 1}", "unknown field"),
    ] {
        let (_dir, path) = file(state);
        let message = refused(&format!("thread --synthetic 2x2 --state {path}"));
        assert!(message.contains(part) && message.contains("given.json"), "{state}: {message}");
        assert!(!message.trim_end().contains(char::is_control), "{state}: {message:?}");
    }
}

#[test]
fn bad_machine_files_are_refused_in_one_sentence() {
    let good = Command::new(env!("CARGO_BIN_EXE_quartier"))
        .args("topo --synthetic 2x2 --json".split(' '))
        .output()
        .unwrap();
    let good: Value = serde_json::from_slice(&good.stdout).unwrap();
    type Breakage = fn(&mut Value);
    let broken: [(&str, Breakage); 9] = [
        ("two CPUs have the OS id 0", |machine| machine["cpus"][1]["os_id"] = 0.into()),
        ("two nodes have the OS id 1", |machine| machine["nodes"][0]["os_id"] = 1.into()),
        ("at least one online CPU", |machine| machine["cpus"] = Value::Array(Vec::new())),
        ("at least one node", |machine| machine["nodes"] = Value::Array(Vec::new())),
        ("names node 9", |machine| machine["cpus"][0]["node"] = 9.into()),
        ("as the distance in row 0, column 1", |machine| {
            machine["distances"]["rows"][0][1] = (-20).into()
        }),
        ("nothing is nearer than 10", |machine| machine["distances"]["rows"][0][1] = 9.into()),
        // A tree of one's own, which might go in circles, is nothing that a file may bring.
        ("unknown field `clusters`", |machine| {
            machine["clusters"] = serde_json::json!([{"id": 0, "parent": 0}]);
        }),
        ("machine format 7", |machine| machine["format"] = 7.into()),
    ];
    for (part, break_it) in broken {
        let mut machine = good.clone();
        break_it(&mut machine);
        let (_dir, path) = file(&machine.to_string());
        let message = refused(&format!("thread --machine {path}"));
        assert!(message.contains(part) && message.contains("given.json"), "{part}: {message}");
    }
    let (_dir, path) = file(&good.to_string());
    decided(&format!("thread --machine {path}"));
}
