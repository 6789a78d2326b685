//! U and M as they are refreshed, and slots that do not fit.

use std::sync::atomic::{AtomicU8, AtomicU64};

use quartier_decide::dqdt::{Estimates, EstimatesError, Tree};
use quartier_model::{CpuId, NodeId, SyntheticSpec};

fn tree(spec: &str) -> Tree {
    Tree::build(&spec.parse::<SyntheticSpec>().unwrap().machine().unwrap())
}

#[test]
fn fresh_memory_claims_neither_idle_cpus_nor_empty_nodes() {
    let tree = tree("2x2");
    let threads = tree.new_slots();
    let usage: Vec<_> = (0..tree.nr_slots()).map(|_| AtomicU8::new(0)).collect();
    let pages: Vec<_> = tree.clusters().iter().map(|_| AtomicU64::new(0)).collect();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let estimates = estimates.with_usage(&usage).unwrap().with_free_pages(&pages).unwrap();
    assert_eq!(estimates.usage_percent(tree.root()), None);
    assert_eq!(estimates.free_pages(tree.root()), None);
    assert_eq!(estimates.nr_threads(tree.root()), 0);
}

#[test]
fn usage_is_the_mean_and_free_pages_are_the_sum_where_all_parts_are_known() {
    // Node 1 has CPUs and no memory; node 2 has memory and no CPUs.
    let tree = tree("2,6,0");
    let threads = tree.new_slots();
    let usage: Vec<_> = (0..tree.nr_slots()).map(|_| AtomicU8::new(0)).collect();
    let pages: Vec<_> = tree.clusters().iter().map(|_| AtomicU64::new(0)).collect();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let estimates = estimates.with_usage(&usage).unwrap().with_free_pages(&pages).unwrap();
    let leaf = tree.leaf_of(CpuId(0)).unwrap();

    estimates.set_usage(CpuId(0), Some(0));
    estimates.set_usage(CpuId(1), Some(50));
    estimates.refresh(|node| [Some(100), Some(0), Some(7)][node.index()]);
    assert_eq!(estimates.usage_percent(leaf), Some(25));
    assert_eq!(estimates.usage_percent(tree.root()), None, "six CPUs are not known");
    assert_eq!(estimates.free_pages(leaf), Some(100));
    assert_eq!(estimates.free_pages(tree.leaf_of(CpuId(7)).unwrap()), Some(0));
    assert_eq!(estimates.free_pages(tree.root()), Some(107), "a node's pages count once");

    (2..8).for_each(|cpu| estimates.set_usage(CpuId(cpu), Some(255)));
    estimates.refresh(|node| (node != NodeId(2)).then_some(1));
    assert_eq!(estimates.usage_percent(tree.root()), Some(81), "650 % over 8 CPUs");
    assert_eq!(estimates.free_pages(tree.root()), None);

    estimates.set_usage(CpuId(1), None);
    estimates.refresh(|_| None);
    assert_eq!(estimates.usage_percent(leaf), None);
}

#[test]
fn slots_of_another_tree_are_refused() {
    let tree = tree("2x2");
    let threads = tree.new_slots();
    let error = Estimates::new(&tree, &threads[1..]).unwrap_err();
    assert_eq!(error, EstimatesError::Length { what: "T", given: 6, needed: 7 });
    let estimates = Estimates::new(&tree, &threads).unwrap();
    assert!(estimates.with_usage(&[]).is_err());
    assert!(estimates.with_free_pages(&[]).is_err());
}

#[test]
fn offline_cpus_are_not_counted_on() {
    let tree = tree("1x1");
    let threads = tree.new_slots();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    assert!(!estimates.add_thread(CpuId(1)));
    let refused = estimates.remove_thread(CpuId(1)).unwrap_err().to_string();
    assert!(refused.contains("offline or not of this machine"), "{refused}");
    assert_eq!(estimates.nr_threads(tree.root()), 0);
}
