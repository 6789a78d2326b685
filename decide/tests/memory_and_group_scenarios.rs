//! Situations of page allocation (thesis 4.3.2) and of groups of threads, each under its own name.

mod common;

use common::{Own, changed, hyperthreads, synthetic};
use quartier_decide::dqdt::{Allowed, EMA_TICKS, FreeMemory, Refresher};
use quartier_decide::policy::group::{self, Group};
use quartier_decide::policy::memory::{self, AllowedNodes, Request};
use quartier_model::{CpuId, Distance, NodeId};

fn pages(own: &Own, from: u32, nr_pages: u64) -> Option<u32> {
    let allowed = AllowedNodes::all(&own.tree);
    let from = Some(NodeId(from));
    let request = Request { from, allowed: &allowed, nr_pages, block_order: None };
    memory::decide(&own.estimates(), &request).map(|decision| decision.node.0)
}

fn with_pages(spec: &str, free: &[u64]) -> Own {
    let own = Own::of(spec);
    own.refresh(|_| None, |node| Some(free[node as usize]));
    own
}

#[test]
fn pages_come_from_the_own_node_while_it_has_them() {
    assert_eq!(pages(&with_pages("4x2", &[10, 99, 99, 99]), 0, 10), Some(0));
}

#[test]
fn pages_that_the_own_node_lacks_come_from_the_nearest_that_has_them() {
    let machine = changed("4x2", |parts| {
        parts.distances.rows[0][3] = Distance(15);
        parts.distances.rows[3][0] = Distance(15);
    });
    let own = Own::new(&machine);
    own.refresh(|_| None, |node| Some([5, 99, 99, 50][node as usize]));
    assert_eq!(pages(&own, 0, 10), Some(3));
    assert_eq!(pages(&own, 0, 60), Some(1), "the nearest has not so many");
}

#[test]
fn where_only_two_nodes_together_have_enough_the_search_goes_on() {
    let free: Vec<_> = (0..16).map(|node| if node == 13 { 90 } else { 30 }).collect();
    assert_eq!(pages(&with_pages("16x2", &free), 0, 80), Some(13));
}

#[test]
fn where_nobody_has_enough_nobody_is_named() {
    assert_eq!(pages(&with_pages("4x2", &[10, 20, 30, 40]), 0, 41), None);
    assert_eq!(pages(&Own::of("4x2"), 0, 1), None, "unknown is not enough");
}

#[test]
fn a_node_without_cpus_gives_pages_and_one_without_memory_gives_none() {
    let own = with_pages("2,0,2", &[0, 70, 5]);
    assert_eq!(pages(&own, 0, 10), Some(1));
}

#[test]
fn a_large_block_needs_one_and_not_many_small_ones() {
    let own = Own::of("2x2");
    let refresher = Refresher::new(own.estimates(), &own.resources, EMA_TICKS).unwrap();
    let free = |node: NodeId| {
        let mut memory = FreeMemory { pages: 1024, blocks: [0; 10] };
        memory.blocks[if node == NodeId(0) { 0 } else { 9 }] = 2;
        Some(memory)
    };
    refresher.tick(|_| None, free);
    let allowed = AllowedNodes::all(&own.tree);
    let ask = |block_order| {
        let request =
            Request { from: Some(NodeId(0)), allowed: &allowed, nr_pages: 1, block_order };
        memory::decide(&own.estimates(), &request).unwrap().node
    };
    assert_eq!(ask(None), NodeId(0));
    assert_eq!(ask(Some(9)), NodeId(1));
    assert_eq!(ask(Some(10)), NodeId(1), "not counted apart");
}

#[test]
fn forbidden_nodes_give_nothing() {
    let own = with_pages("4x2", &[99; 4]);
    let allowed = AllowedNodes::new(&own.tree, [NodeId(2), NodeId(77)]);
    let request =
        Request { from: Some(NodeId(0)), allowed: &allowed, nr_pages: 1, block_order: None };
    assert_eq!(memory::decide(&own.estimates(), &request).unwrap().node, NodeId(2));
    assert!(allowed.contains(NodeId(2)) && !allowed.contains(NodeId(77)));
}

/// How many threads of a group each node gets.
fn per_node(own: &Own, near: u32, count: usize) -> Vec<usize> {
    let allowed = Allowed::all(&own.tree);
    let mut cpus = vec![CpuId(0); count];
    let request = Group { near: Some(CpuId(near)), allowed: &allowed };
    group::decide(&own.estimates(), &request, &mut cpus).unwrap();
    let on =
        |node: u32| cpus.iter().filter(move |cpu| own.tree.node_of(**cpu) == Some(NodeId(node)));
    (0..own.tree.nr_nodes() as u32).map(|node| on(node).count()).collect()
}

#[test]
fn a_group_that_fits_its_node_stays_there() {
    assert_eq!(per_node(&Own::of("4x8"), 9, 8), [0, 8, 0, 0]);
}

#[test]
fn a_group_that_does_not_fit_its_node_goes_to_one_that_it_fits() {
    let own = Own::of("4x8");
    own.load(0..5);
    assert_eq!(per_node(&own, 0, 8), [0, 8, 0, 0]);
}

#[test]
fn a_group_larger_than_a_node_is_split_over_as_few_as_hold_it() {
    assert_eq!(per_node(&Own::of("4x8"), 0, 12), [8, 4, 0, 0]);
    assert_eq!(per_node(&Own::of("4x8"), 0, 16), [8, 8, 0, 0]);
}

#[test]
fn a_group_that_is_split_keeps_its_creators_node_where_that_costs_no_more_nodes() {
    let own = Own::of("4x8");
    own.load([0]);
    assert_eq!(per_node(&own, 0, 12), [7, 5, 0, 0]);
    own.load(1..6);
    assert_eq!(per_node(&own, 0, 16), [0, 8, 8, 0], "with it there would be three");
}

#[test]
fn a_group_larger_than_a_socket_fills_neighbours_before_strangers() {
    // Two sockets of four nodes each.
    let own = Own::new(&changed("8x4", |parts| {
        for (from, row) in parts.distances.rows.iter_mut().enumerate() {
            for (to, distance) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                *distance = Distance(if from / 4 == to / 4 { 12 } else { 32 });
            }
        }
    }));
    assert_eq!(per_node(&own, 16, 14), [0, 0, 0, 0, 4, 4, 4, 2]);
    assert_eq!(per_node(&own, 16, 20).iter().sum::<usize>(), 20);
}

#[test]
fn a_group_larger_than_the_machine_is_shared_out_evenly() {
    assert_eq!(per_node(&Own::of("4x2"), 0, 24), [6, 6, 6, 6]);
    assert_eq!(per_node(&Own::new(&synthetic("2,6")), 0, 16), [4, 12]);
}

#[test]
fn a_group_takes_whole_cores_before_second_hardware_threads() {
    let own = Own::new(&changed("1x8", hyperthreads));
    let allowed = Allowed::all(&own.tree);
    let mut cpus = [CpuId(0); 6];
    let request = Group { near: Some(CpuId(0)), allowed: &allowed };
    group::decide(&own.estimates(), &request, &mut cpus).unwrap();
    let mut cores: Vec<_> = cpus.iter().map(|cpu| cpu.0 / 2).collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 4, "{cpus:?}");
}

#[test]
fn a_group_stays_inside_its_mask() {
    let own = Own::of("4x4");
    let allowed = Allowed::new(&own.tree, [3, 4, 5, 12].map(CpuId));
    let mut cpus = [CpuId(0); 3];
    let request = Group { near: Some(CpuId(0)), allowed: &allowed };
    group::decide(&own.estimates(), &request, &mut cpus).unwrap();
    assert!(cpus.iter().all(|cpu| allowed.contains(&own.tree, *cpu)), "{cpus:?}");
    let none = Allowed::new(&own.tree, []);
    assert_eq!(
        group::decide(&own.estimates(), &Group { near: None, allowed: &none }, &mut cpus),
        None
    );
}
