//! Situations of fork, exec and load balancing (thesis 4.3.3 and 4.3.4), each under its own name.

mod common;

use common::{Own, changed, hyperthreads, synthetic};
use quartier_decide::dqdt::{Allowed, ClusterId, Usage};
use quartier_decide::policy::{
    Balance, CpuState, Decision, Exec, Fork, ShouldBalance, Strategy, Thread, decide,
    decide_and_count, default_free_pages_min,
};
use quartier_model::{Bytes, CpuId, Distance, MachineParts, NodeId};
use std::collections::BTreeSet;

fn fork(own: &Own, parent: u32) -> Decision {
    let allowed = Allowed::all(&own.tree);
    decide_and_count(&own.estimates(), &Fork { parent: Some(CpuId(parent)), allowed: &allowed })
        .unwrap()
}

fn exec(own: &Own, free_pages_min: Option<u64>, seed: u64) -> Decision {
    let allowed = Allowed::all(&own.tree);
    decide_and_count(&own.estimates(), &Exec { allowed: &allowed, free_pages_min, seed }).unwrap()
}

fn balance(own: &Own, initiator: u32) -> Option<Decision> {
    let allowed = Allowed::all(&own.tree);
    decide(&own.estimates(), &Balance { initiator: CpuId(initiator), allowed: &allowed })
}

/// 64 nodes of a mesh of four by four by four neighbours: three levels above the nodes.
fn three_levels(parts: &mut MachineParts) {
    for (from, row) in parts.distances.rows.iter_mut().enumerate() {
        for (to, distance) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            *distance = Distance(match (from / 4 == to / 4, from / 16 == to / 16) {
                (true, _) => 20,
                (_, true) => 40,
                _ => 80,
            });
        }
    }
}

#[test]
fn a_forked_process_leaves_its_parents_node_to_the_parents_threads() {
    let own = Own::of("4x4");
    own.load([0]);
    assert_ne!(fork(&own, 0).node, Some(NodeId(0)));
}

#[test]
fn a_forked_process_stays_within_two_levels_while_there_is_an_idle_core() {
    let own = Own::new(&changed("64x2", three_levels));
    own.load([0]);
    for _ in 0..30 {
        let node = fork(&own, 0).node.unwrap();
        assert!(node < NodeId(16), "{node} is not within two levels of node 0");
    }
    // 31 of the 32 cores within two levels are taken now, and then the last.
    assert!(fork(&own, 0).node.unwrap() < NodeId(16));
    assert!(fork(&own, 0).node.unwrap() >= NodeId(16), "no idle core is left there");
}

#[test]
fn forked_processes_go_to_idle_nodes_one_after_the_other() {
    let own = Own::of("4x4");
    own.load([0]);
    let nodes: Vec<_> = (0..4).map(|_| fork(&own, 0).node.unwrap().0).collect();
    assert_eq!(nodes, [1, 2, 3, 0], "idle ones first, by distance and order, then the parent's");
}

#[test]
fn a_process_that_forks_inside_a_large_node_does_not_count_levels_inside_it() {
    // Each node has two levels inside; two above the node is the root.
    let own = Own::new(&synthetic("2x32"));
    own.load(0..4);
    assert_eq!(fork(&own, 0).node, Some(NodeId(1)));
}

#[test]
fn a_parent_of_unknown_place_forks_from_the_root() {
    let own = Own::of("4x2");
    own.load([0, 1, 2, 3]);
    let allowed = Allowed::all(&own.tree);
    let decision = decide(&own.estimates(), &Fork { parent: None, allowed: &allowed }).unwrap();
    assert_eq!(decision.node, Some(NodeId(2)));
}

#[test]
fn programs_that_start_together_do_not_meet() {
    let own = Own::of("8x4");
    let nodes: BTreeSet<_> = (0..8).map(|seed| exec(&own, None, seed).node.unwrap()).collect();
    assert_eq!(nodes.len(), 8);
}

#[test]
fn among_equals_a_program_goes_to_a_random_node() {
    let nodes: BTreeSet<_> =
        (0..40).map(|seed| exec(&Own::of("8x4"), None, seed).node.unwrap()).collect();
    assert!(nodes.len() >= 6, "40 seeds chose only {nodes:?}");
    let again = |seed| exec(&Own::of("8x4"), None, seed).cpu;
    assert_eq!(again(7), again(7), "the same seed, the same choice");
}

#[test]
fn a_program_goes_where_there_is_memory() {
    let own = Own::of("4x4");
    own.load([8]).refresh(|_| None, |node| Some([10, 60, 90, 50][node as usize]));
    // Node 2 has most, and a thread; node 1 has more than the threshold and none.
    for seed in 0..20 {
        let allowed = Allowed::all(&own.tree);
        let request = Exec { allowed: &allowed, free_pages_min: Some(55), seed };
        assert_eq!(decide(&own.estimates(), &request).unwrap().node, Some(NodeId(1)));
    }
}

#[test]
fn without_enough_memory_anywhere_a_program_still_starts() {
    let own = Own::of("4x4");
    own.refresh(|_| None, |_| Some(10));
    assert!(exec(&own, Some(55), 1).attempt > 1);
}

#[test]
fn unknown_memory_refuses_nobody() {
    assert_eq!(exec(&Own::of("4x4"), Some(55), 1).attempt, 1);
}

#[test]
fn the_default_threshold_is_half_a_nodes_pages() {
    let page = Bytes(4096);
    assert_eq!(default_free_pages_min(&synthetic("4x2"), page), Some((1 << 18) / 2));
    let uneven = changed("3x2", |parts| {
        parts.nodes[0].memory = Some(Bytes(8 << 20));
        parts.nodes[1].memory = Some(Bytes(0));
    });
    assert_eq!(default_free_pages_min(&uneven, page), Some(1024));
    let unknown = changed("2x2", |parts| parts.nodes[1].memory = None);
    assert_eq!(default_free_pages_min(&unknown, page), None);
}

/// CPU 0 has two threads and is full; U of the others as given.
fn overloaded(others_percent: u32) -> Own {
    let own = Own::of("4x2");
    own.load([0, 0]);
    own.refresh(|cpu| Some(if cpu == 0 { 100 } else { others_percent }), |_| None);
    own
}

#[test]
fn an_overloaded_cpu_sends_a_thread_to_an_idle_cpu_nearby() {
    let decision = balance(&overloaded(0), 0).unwrap();
    assert_eq!((decision.cpu, decision.attempt), (CpuId(2), 1), "the node with fewest threads");
    let own = overloaded(0);
    own.load([2, 4, 6]);
    assert_eq!(balance(&own, 0).unwrap().node, Some(NodeId(1)), "of equal ones the first");
}

#[test]
fn where_no_cpu_is_idle_one_that_is_not_full_will_do() {
    let own = overloaded(70);
    own.load(1..8).refresh(|cpu| Some(if cpu == 0 { 100 } else { 70 }), |_| None);
    // Renewed often enough for U to be of the threads that are there now.
    for _ in 0..30 {
        own.refresh(|cpu| Some(if cpu == 0 { 100 } else { 70 }), |_| None);
    }
    let decision = balance(&own, 0).unwrap();
    assert_eq!((decision.cpu, decision.attempt), (CpuId(1), 2), "near, and U < 100");
}

#[test]
fn where_every_cpu_is_full_the_thread_stays() {
    let own = overloaded(100);
    own.load(1..8);
    assert_eq!(balance(&own, 0), None);
}

#[test]
fn a_cpu_asks_for_balance_when_all_four_conditions_hold() {
    let own = overloaded(50);
    let estimates = own.estimates();
    let state = CpuState::of(&estimates, CpuId(0), 1);
    assert_eq!(state, CpuState { usage: Some(Usage::FULL), nr_threads: 2, nr_ready: 1 });
    let asks = |state: CpuState| state.should_balance(&estimates, CpuId(0));
    assert_eq!(asks(state), ShouldBalance::Yes { soon: true });
    assert_eq!(asks(CpuState { usage: Some(Usage::from_percent(99)), ..state }), ShouldBalance::No);
    assert_eq!(asks(CpuState { usage: None, ..state }), ShouldBalance::No);
    assert_eq!(asks(CpuState { nr_threads: 1, ..state }), ShouldBalance::No);
    assert_eq!(asks(CpuState { nr_ready: 0, ..state }), ShouldBalance::No);
    let full = overloaded(100);
    assert_eq!(state.should_balance(&full.estimates(), CpuId(0)), ShouldBalance::No);
}

#[test]
fn balance_is_not_urgent_while_the_neighbourhood_is_full() {
    let own = Own::new(&changed("64x2", three_levels));
    own.load([0, 0]).refresh(|cpu| Some(if cpu < 32 { 100 } else { 0 }), |_| None);
    let estimates = own.estimates();
    let state = CpuState::of(&estimates, CpuId(0), 1);
    assert_eq!(state.should_balance(&estimates, CpuId(0)), ShouldBalance::Yes { soon: false });
}

#[test]
fn packed_threads_fill_a_node_before_they_begin_another() {
    let own = Own::of("4x4");
    own.load([0, 5]);
    let allowed = Allowed::all(&own.tree);
    let request = Thread { strategy: Strategy::Packed, ..Thread::new(Some(CpuId(0)), &allowed) };
    let place = || decide_and_count(&own.estimates(), &request).unwrap().node.unwrap().0;
    let nodes: Vec<_> = (0..14).map(|_| place()).collect();
    assert_eq!(nodes, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
}

#[test]
fn spread_threads_take_the_emptiest_node_each_time() {
    let own = Own::of("4x4");
    own.load([0]);
    let allowed = Allowed::all(&own.tree);
    let request = Thread { strategy: Strategy::Spread, ..Thread::new(Some(CpuId(0)), &allowed) };
    let place = || decide_and_count(&own.estimates(), &request).unwrap().node.unwrap().0;
    let nodes: Vec<_> = (0..7).map(|_| place()).collect();
    assert_eq!(nodes, [1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn a_second_hardware_thread_is_used_when_every_core_of_the_machine_has_one() {
    let own = Own::new(&changed("2x4", hyperthreads));
    own.load([0]);
    let allowed = Allowed::all(&own.tree);
    let request = Thread::new(Some(CpuId(0)), &allowed);
    let cpus: Vec<_> =
        (0..7).map(|_| decide_and_count(&own.estimates(), &request).unwrap().cpu.0).collect();
    assert_eq!(cpus[..3], [2, 4, 6], "whole cores first, near ones before far ones");
    assert_eq!(cpus[3..].iter().collect::<BTreeSet<_>>(), BTreeSet::from([&1, &3, &5, &7]));
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 8);
}

#[test]
fn a_thread_masked_to_one_cpu_of_each_node_can_be_sent_to_the_one_with_room() {
    let own = Own::of("4x2");
    own.load([0, 0, 2, 2, 4, 4, 6, 6]);
    let usage = [100, 0, 100, 0, 100, 0, 20, 0];
    own.refresh(|cpu| Some(usage[cpu as usize]), |_| None);
    let allowed = Allowed::new(&own.tree, [0, 2, 4, 6].map(CpuId));
    let request = Balance { initiator: CpuId(0), allowed: &allowed };
    assert_eq!(decide(&own.estimates(), &request).unwrap().cpu, CpuId(6));
}

#[test]
fn between_two_refreshes_not_everybody_goes_to_what_was_idle_at_the_first() {
    let own = Own::of("4x2");
    own.load((0..8).chain(0..8));
    own.refresh(|cpu| Some(if cpu == 5 { 10 } else { 100 }), |_| None);
    let allowed = Allowed::all(&own.tree);
    let request = Thread::new(Some(CpuId(0)), &allowed);
    let cpus: Vec<_> =
        (0..8).map(|_| decide_and_count(&own.estimates(), &request).unwrap().cpu.0).collect();
    assert_eq!(cpus[0], 5, "what is known to have room, once");
    let again = cpus.iter().filter(|cpu| **cpu == 5).count();
    assert_eq!(again, 1, "a thread that was placed there counts before U is renewed: {cpus:?}");
}

#[test]
fn load_that_is_not_ours_counts_where_we_have_no_thread() {
    let own = Own::of("2x2");
    own.load([0, 1, 2, 3]).refresh(|cpu| Some(if cpu < 2 { 100 } else { 30 }), |_| None);
    let estimates = own.estimates();
    (0..4).for_each(|cpu| estimates.remove_thread(CpuId(cpu)).unwrap());
    for _ in 0..30 {
        own.refresh(|cpu| Some(if cpu < 2 { 100 } else { 30 }), |_| None);
    }
    own.load([0, 1, 2, 3]);
    let allowed = Allowed::all(&own.tree);
    let decision = decide(&estimates, &Thread::new(Some(CpuId(0)), &allowed)).unwrap();
    assert_eq!(decision.node, Some(NodeId(1)));
}
