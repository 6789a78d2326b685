//! Streams of several CPUs whose counts can be told on paper.

mod common;

use common::*;
use quartier_memmodel::geometry::{Fill, Geometry};
use quartier_memmodel::{Kind, Split};

fn split(local: u64, remote: u64) -> Split {
    Split { local, remote }
}

/// The targets of WR commands of a node.
fn writes(
    geometry: Geometry,
    nodes: u16,
    f: impl FnOnce(&mut Vec<quartier_memmodel::Cpu>),
) -> Vec<(u16, u16, u64)> {
    let (system, mut cpus) = machine(geometry, nodes, 1);
    f(&mut cpus);
    assert_eq!(system.audit(), Vec::<String>::new());
    let pairs = program(&system).pairs;
    let writes = |pair: &quartier_memmodel::Pair| pair.commands[Kind::Write as usize].iter().sum();
    let found = pairs.iter().map(|pair| (pair.initiator, pair.target, writes(pair)));
    found.filter(|&(_, _, nr)| nr > 0).collect()
}

#[test]
fn false_sharing_costs_a_command_to_the_other_owner_for_each_turn() {
    // Two words of one line of node 0, written in turn from nodes 1 and 2.
    let found = writes(small_requester(), 3, |cpus| {
        for _ in 0..100 {
            store(&mut cpus[1], 0);
            store(&mut cpus[2], 8);
        }
    });
    // The first store fetches the line from its home; after that the other CPU has it.
    assert_eq!(found, [(1, 0, 1), (1, 2, 99), (2, 1, 100)]);
}

#[test]
fn a_line_is_handed_over_each_time_that_another_cpu_writes_it_or_reads_what_it_wrote() {
    for geometry in [small_requester(), small_home()] {
        let (_, mut cpus) = machine(geometry, 3, 1);
        let from = |cpu: &mut quartier_memmodel::Cpu| {
            cpu.take_handover().map(|taken| (taken.line, taken.from))
        };
        store(&mut cpus[1], 8);
        assert_eq!(from(&mut cpus[1]), None, "nobody had it");
        store(&mut cpus[1], 0);
        assert_eq!(from(&mut cpus[1]), None, "its own");
        store(&mut cpus[2], 64);
        assert_eq!(from(&mut cpus[2]), None, "the next line");
        load(&mut cpus[1], 64 + 8);
        load(&mut cpus[2], 64 + 8);
        cpus.iter_mut().for_each(|cpu| _ = cpu.take_handover());
        load(&mut cpus[0], 64);
        assert_eq!(from(&mut cpus[0]), None, "read by all");
        store(&mut cpus[2], 64);
        assert!(matches!(from(&mut cpus[2]), Some((64, 0 | 1))), "copies are void");
        assert_eq!(from(&mut cpus[2]), None, "once");
    }
}

#[test]
fn words_of_two_lines_are_no_false_sharing() {
    let found = writes(small_requester(), 3, |cpus| {
        for _ in 0..100 {
            store(&mut cpus[1], 0);
            store(&mut cpus[2], 64);
        }
    });
    assert_eq!(found, [(1, 0, 1), (2, 0, 1)]);
}

#[test]
fn false_sharing_written_through_is_a_command_to_the_home_for_each_store_and_a_miss_for_each_load()
{
    let (system, mut cpus) = machine(small_home(), 3, 1);
    for _ in 0..100 {
        for (cpu, at) in [(1, 0), (2, 8)] {
            load(&mut cpus[cpu], at);
            store(&mut cpus[cpu], at);
        }
    }
    let counts = program(&system);
    assert_eq!(counts.commands(Kind::Write, None), split(0, 200));
    assert_eq!(counts.commands(Kind::Read, None), split(0, 200));
    assert_eq!(counts.totals().invalidations, 199);
}

#[test]
fn a_contended_counter_is_two_words_for_each_count_where_stores_are_written_through() {
    let (system, mut cpus) = machine(small_home(), 4, 1);
    (0..100).for_each(|_| cpus.iter_mut().for_each(|cpu| atomic(cpu, 8)));
    let counts = program(&system);
    assert_eq!(counts.commands(Kind::Atomic, None), split(200, 600));
    assert_eq!(counts.q_mib(system.geometry()), 600.0 * 4.0 / MIB as f64);
}

#[test]
fn a_contended_counter_is_one_line_for_each_count_where_they_are_written_back() {
    let (system, mut cpus) = machine(small_requester(), 4, 1);
    (0..100).for_each(|_| cpus.iter_mut().for_each(|cpu| atomic(cpu, 8)));
    let counts = program(&system);
    // CPU 0's first count is served by its own node's memory; each later one by the CPU before.
    assert_eq!(counts.commands(Kind::Atomic, None), split(1, 399));
    assert_eq!(counts.totals().owner_hits, 399);
    assert_eq!(counts.q_mib(system.geometry()), 399.0 * 64.0 / MIB as f64);
}

#[test]
fn a_counter_of_one_cpu_stays_with_it() {
    let (system, mut cpus) = machine(small_requester(), 4, 1);
    (0..100).for_each(|_| atomic(&mut cpus[3], 8));
    assert_eq!(program(&system).commands(Kind::Atomic, None), split(0, 1));
}

#[test]
fn cpus_that_share_a_last_level_share_lines_without_a_command() {
    let (system, mut cpus) = machine(small_requester(), 2, 4);
    store(&mut cpus[0], NODE);
    for cpu in &mut cpus[..4] {
        load(cpu, NODE);
        store(cpu, NODE);
    }
    let counts = program(&system);
    assert_eq!(counts.all_commands(), split(0, 1));
    assert_eq!(counts.totals().peer_hits, 3);
}

#[test]
fn a_node_of_two_last_levels_has_commands_within_itself() {
    let mut geometry = small_requester();
    geometry.last_level.cpus = Some(2);
    let (system, mut cpus) = machine(geometry, 1, 4);
    cpus.iter_mut().for_each(|cpu| load(cpu, 0));
    assert_eq!(program(&system).commands(Kind::Read, None), split(2, 0));
    store(&mut cpus[0], 0);
    assert_eq!(program(&system).commands(Kind::Write, None), split(1, 0));
}

#[test]
fn a_first_store_to_a_line_read_by_others_asks_the_home_and_moves_a_word() {
    let (system, mut cpus) = machine(small_requester(), 3, 1);
    cpus.iter_mut().for_each(|cpu| load(cpu, 2 * NODE));
    store(&mut cpus[1], 2 * NODE);
    let pairs = program(&system).pairs;
    let pair = pairs.iter().find(|pair| (pair.initiator, pair.target) == (1, 2)).unwrap();
    assert_eq!((pair.commands[Kind::Write as usize][0], pair.words), (1, 1));
    assert_eq!(pair.bytes(system.geometry()), 64 + 4);
    assert_eq!(program(&system).totals().upgrades, 1);
    // Two CPUs and their two last levels lost their copies.
    assert_eq!(program(&system).totals().invalidations, 4);
}

#[test]
fn a_first_store_at_home_reaches_the_farthest_reader() {
    let found = writes(small_requester(), 4, |cpus| {
        cpus.iter_mut().for_each(|cpu| load(cpu, 0));
        store(&mut cpus[0], 0);
    });
    assert_eq!(found, [(0, 3, 1)]);
}

#[test]
fn what_was_written_elsewhere_is_read_from_there_and_written_back_once() {
    let (system, mut cpus) = machine(small_requester(), 3, 1);
    store(&mut cpus[1], 0);
    load(&mut cpus[2], 0);
    let read = |to: u16| {
        let pairs = program(&system).pairs;
        let pair = pairs.iter().find(|pair| (pair.initiator, pair.target) == (2, to)).copied();
        pair.map(|pair| pair.commands[Kind::Read as usize][0])
    };
    assert_eq!((read(1), read(0)), (Some(1), None));
    // Now the reader's last level answers for it, and nobody else does.
    for cpu in [1, 2] {
        (1..=1024).for_each(|line| load(&mut cpus[cpu], NODE + line * LINE));
    }
    let totals = program(&system).cpus;
    assert_eq!((totals[1].totals.write_backs, totals[2].totals.write_backs), (0, 1));
}

#[test]
fn a_line_that_an_inclusive_last_level_drops_leaves_the_first_levels() {
    for (fill, misses) in [(Fill::Inclusive, 2), (Fill::NonInclusive, 1)] {
        let mut geometry = small_home();
        geometry.last_level.fill = fill;
        let (system, mut cpus) = machine(geometry, 1, 2);
        load(&mut cpus[0], 0);
        (1..=512).for_each(|line| load(&mut cpus[1], line * LINE));
        load(&mut cpus[0], 0);
        assert_eq!(program(&system).cpus[0].totals.l1d_read_misses, misses);
        assert_eq!(system.audit(), Vec::<String>::new());
    }
}

#[test]
fn code_that_is_written_is_fetched_again() {
    for geometry in [small_home(), small_requester(), small_with_l2()] {
        let (system, mut cpus) = machine(geometry, 2, 1);
        let cpu = &mut cpus[0];
        cpu.fetch(NODE, quartier_memmodel::Mode::User, &mut flat);
        load(cpu, NODE);
        store(cpu, NODE);
        cpu.fetch(NODE, quartier_memmodel::Mode::User, &mut flat);
        assert_eq!(program(&system).totals().l1i_misses, 2);
        assert_eq!(system.audit(), Vec::<String>::new());
    }
}

#[test]
fn code_that_is_read_as_data_too_may_be_written_by_neither_cache() {
    let (system, mut cpus) = machine(small_requester(), 2, 1);
    cpus[0].fetch(NODE, quartier_memmodel::Mode::User, &mut flat);
    load(&mut cpus[0], NODE);
    assert_eq!(system.audit(), Vec::<String>::new());
    store(&mut cpus[0], NODE);
    assert_eq!(program(&system).totals().upgrades, 1);
}

#[test]
fn a_line_written_twice_and_read_elsewhere_is_written_back_once() {
    let (system, mut cpus) = machine(small_requester(), 3, 1);
    let others_of_its_set = |cpu: &mut _| (1..=4).for_each(|at| load(cpu, at * 256));
    store(&mut cpus[0], 0);
    // Into the last level, dirty, and back, to be written again.
    others_of_its_set(&mut cpus[0]);
    store(&mut cpus[0], 0);
    load(&mut cpus[1], 0);
    assert_eq!(system.audit(), Vec::<String>::new());
    for cpu in &mut cpus[..2] {
        (1..=1024).for_each(|line| load(cpu, 2 * NODE + line * LINE));
    }
    assert_eq!(program(&system).totals().write_backs, 1);
}

#[test]
fn the_node_that_is_asked_is_told_once_and_not_where_caches_serve() {
    let (_, mut cpus) = machine(small_requester(), 3, 1);
    load(&mut cpus[1], 2 * NODE);
    assert_eq!((cpus[1].take_asked(), cpus[1].take_asked()), (Some(2), None), "its home, once");
    load(&mut cpus[1], 2 * NODE + 8);
    assert_eq!(cpus[1].take_asked(), None, "it has the line");
    load(&mut cpus[1], NODE);
    assert_eq!((cpus[1].take_asked(), cpus[1].node()), (Some(1), 1), "its own node");
}
