//! U and M as they are refreshed, and lists that do not fit.

mod common;

use common::Own;
use quartier_decide::dqdt::{
    ClusterId, EMA_TICKS, Estimates, EstimatesError, FreeMemory, Refresher, Resources, Usage,
};
use quartier_model::{CpuId, NodeId};

fn percent(own: &Own, cluster: ClusterId) -> Option<u8> {
    own.estimates().usage(cluster).map(Usage::percent)
}

fn pages(own: &Own, cluster: ClusterId) -> Option<u64> {
    own.estimates().free_memory(cluster).map(|memory| memory.pages)
}

#[test]
fn fresh_memory_claims_neither_idle_cpus_nor_empty_nodes() {
    let own = Own::of("2x2");
    assert_eq!(percent(&own, ClusterId::ROOT), None);
    assert_eq!(pages(&own, ClusterId::ROOT), None);
    assert_eq!(own.estimates().nr_threads(ClusterId::ROOT), 0);
}

#[test]
fn usage_is_the_mean_and_free_pages_are_the_sum_where_all_parts_are_known() {
    // Node 1 has CPUs and no memory; node 2 has memory and no CPUs.
    let own = Own::of("2,6,0");
    let leaf = own.tree.leaf_of(CpuId(0)).unwrap();
    let of_two = |cpu: u32| [Some(0), Some(50)].get(cpu as usize).copied().flatten();

    own.refresh(of_two, |node| [Some(100), Some(0), Some(7)][node as usize]);
    assert_eq!(percent(&own, leaf), Some(25));
    assert_eq!(percent(&own, ClusterId::ROOT), None, "six CPUs are not known");
    assert_eq!(pages(&own, leaf), Some(100));
    assert_eq!(pages(&own, own.tree.leaf_of(CpuId(7)).unwrap()), Some(0));
    assert_eq!(pages(&own, ClusterId::ROOT), Some(107), "a node's pages count once");

    let own = Own::of("2,6,0");
    own.refresh(|cpu| of_two(cpu).or(Some(255)), |node| (node != 2).then_some(1));
    assert_eq!(percent(&own, ClusterId::ROOT), Some(81), "650 % over 8 CPUs");
    assert_eq!(pages(&own, ClusterId::ROOT), None);

    own.refresh(|cpu| (cpu != 1).then_some(100), |_| None);
    assert_eq!(percent(&own, leaf), None);
}

#[test]
fn usage_follows_a_step_as_a_moving_average_over_four_ticks() {
    let own = Own::of("1x1");
    let seen: Vec<_> = [0, 100, 100, 100, 100, 0, 0]
        .into_iter()
        .map(|busy| {
            own.refresh(|_| Some(busy), |_| None);
            percent(&own, ClusterId::ROOT).unwrap()
        })
        .collect();
    // u + (100 − u) × 2 / 5, again and again.
    assert_eq!(seen, [0, 40, 64, 78, 87, 52, 31]);
    (0..40).for_each(|_| _ = own.refresh(|_| Some(100), |_| None));
    assert_eq!(
        own.estimates().usage(ClusterId::ROOT),
        Some(Usage::FULL),
        "reached, not approached"
    );
    (0..40).for_each(|_| _ = own.refresh(|_| Some(0), |_| None));
    assert_eq!(own.estimates().usage(ClusterId::ROOT), Some(Usage::IDLE));
}

#[test]
fn a_cpu_that_was_unknown_starts_at_what_it_is() {
    let own = Own::of("1x1");
    own.refresh(|_| None, |_| None).refresh(|_| Some(70), |_| None);
    assert_eq!(percent(&own, ClusterId::ROOT), Some(70));
}

#[test]
fn blocks_add_up_by_order() {
    let own = Own::of("2x1");
    let refresher = Refresher::new(own.estimates(), &own.resources, EMA_TICKS).unwrap();
    let free = |node: NodeId| {
        let mut blocks = [0; 10];
        blocks[9] = 3;
        blocks[node.index()] = u32::MAX;
        Some(FreeMemory { pages: u64::MAX / 2, blocks })
    };
    refresher.tick(|_| None, free);
    let root = own.estimates().free_memory(ClusterId::ROOT).unwrap();
    assert_eq!(root.blocks, [u32::MAX, u32::MAX, 0, 0, 0, 0, 0, 0, 0, 6]);
    assert!(root.has_block(5) && root.has_block(9) && !root.has_block(10));
}

#[test]
fn busy_time_becomes_a_percentage_or_nothing() {
    assert_eq!(Usage::from_busy(1, 3).unwrap().percent(), 33);
    assert_eq!(Usage::from_busy(9, 3), Some(Usage::FULL));
    assert_eq!(Usage::from_busy(u64::MAX, 1), Some(Usage::FULL));
    assert_eq!(Usage::from_busy(0, 0), None);
}

#[test]
fn lists_of_another_tree_are_refused() {
    let own = Own::of("2x2");
    let error = Estimates::new(&own.tree, &own.threads[1..]).unwrap_err();
    assert_eq!(error, EstimatesError::Length { what: "T", given: 127, needed: 128 });
    assert!(own.estimates().with_resources(&[]).is_err());
    assert!(Refresher::new(own.estimates(), &[], EMA_TICKS).is_err());
}

#[test]
fn the_layout_is_what_the_documents_say() {
    assert_eq!(size_of::<Resources>(), 320);
    assert_eq!(size_of::<quartier_decide::dqdt::Threads>(), 64);
    assert_eq!(size_of::<quartier_decide::dqdt::Record>(), 8);
    assert_eq!(size_of::<quartier_decide::dqdt::ProcessEntry>(), 16);
}

#[test]
fn offline_cpus_are_not_counted_on() {
    let own = Own::of("1x1");
    let estimates = own.estimates();
    assert!(!estimates.add_thread(CpuId(1)));
    let refused = estimates.remove_thread(CpuId(1)).unwrap_err().to_string();
    assert!(refused.contains("offline or not of this machine"), "{refused}");
    assert_eq!(estimates.nr_threads(ClusterId::ROOT), 0);
}
