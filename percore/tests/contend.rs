//! The ways that are counted beside each other: each gives its right result, and what is wrong is told.
#![cfg(not(any(loom, miri)))]

#[allow(dead_code)] // Its `main` is run as the program that it is.
#[path = "../examples/contend.rs"]
mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use program::cases::tables::{NR_THINGS, are_all};
use program::cases::{GROUPS, Way};
use program::contend;

/// Cargo puts examples beside the folder of tests.
fn run(words: &[&str]) -> Output {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().and_then(Path::parent).unwrap().join("examples/contend");
    let output = Command::new(&program).args(words).output();
    output.unwrap_or_else(|error| {
        panic!("{}: {error}: `--examples` builds it where tests are chosen", program.display())
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_way_of_every_part_gives_its_right_result() {
    let listed = run(&["ways"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let mut ways = BTreeSet::new();
    for line in text(&listed.stdout).lines() {
        let [part, way, _, _] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        ways.extend([(part, way), (part, "nothing")]);
    }
    for part in ["counter", "reference", "table", "lock", "free-list", "mailbox"] {
        assert!(ways.iter().filter(|(of, _)| *of == part).count() > 2, "{part}: {ways:?}");
    }
    for (part, way) in ways {
        let output = run(&[part, way, "2", "500"]);
        let (said, problem) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{part} {way}: {problem}");
        assert_eq!(said, "1000 operations\n", "{part} {way}");
    }
}

#[test]
fn words_that_are_no_way_are_refused() {
    for words in [
        &[][..],
        &["counter"],
        &["counter", "unknown", "2", "10"],
        &["unknown", "atomic", "2", "10"],
        &["counter", "atomic", "0", "10"],
        &["mailbox", "events", "65", "10"],
        &["counter", "atomic", "2", "-1"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).starts_with("usage: "), "{words:?}");
    }
}

/// Says what it is told to.
struct MadeUp {
    nr_wrong: u32,
    nr_left: u64,
}

impl Way for MadeUp {
    fn run(&self, number: usize, _times: u32) -> u32 {
        if number == 1 { self.nr_wrong } else { 0 }
    }

    fn is_right(&self, nr_operations: u64) -> bool {
        nr_operations == self.nr_left
    }
}

#[test]
fn what_went_wrong_in_one_thread_or_is_left_wrong_is_told() {
    let made_up = |nr_wrong, nr_left| contend(&MadeUp { nr_wrong, nr_left }, 3, 10);
    assert_eq!(made_up(0, 30), Ok(30));
    assert!(made_up(2, 30).unwrap_err().starts_with("2 of 30 "));
    assert!(made_up(0, 29).unwrap_err().contains(" 30 "));
}

/// Whatever counts up: one that is lost, or counted twice, is not right.
#[test]
fn a_sum_that_is_off_by_one_is_not_right() {
    let counts = |part: &str| part == "counter" || part == "lock" || part.starts_with("value-");
    let counting: Vec<_> = GROUPS.iter().filter(|group| counts(group.word)).collect();
    assert_eq!(counting.len(), 5);
    for case in counting.iter().flat_map(|group| (group.make)()) {
        assert_eq!(case.way.run(0, 100), 0, "{}", case.name);
        assert!(!case.way.is_right(99) && !case.way.is_right(101), "{}", case.name);
        assert!(case.way.is_right(100), "{}", case.name);
    }
}

#[test]
fn a_thing_that_is_lost_or_there_twice_is_not_right() {
    assert!(are_all((0..NR_THINGS).rev()));
    assert!(!are_all(1..NR_THINGS));
    assert!(!are_all((0..NR_THINGS).chain([7])));
    assert!(!are_all((0..NR_THINGS - 1).chain([7])));
}
