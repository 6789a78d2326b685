//! Four nodes of two CPUs, and what must come of a few threads on them, worked out by hand.

mod common;

use common::{life, run, scripted, stage};
use quartier_decide::dqdt::Usage;
use quartier_model::{CpuId, NodeId};
use quartier_simulate::choosers::ChooserName;
use quartier_simulate::period::Period;
use quartier_simulate::trace::{Creation, ThreadIndex, Trace};

const FIRST: ThreadIndex = ThreadIndex(0);
const MS: u64 = 1_000_000;

fn is_near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9
}

/// A program and two threads that it creates, all busy.
fn three_threads() -> Trace {
    let lives = vec![
        life(Creation::Exec, 0, 100, 1000),
        life(Creation::Thread(FIRST), 10, 100, 1000),
        life(Creation::Thread(FIRST), 20, 100, 1000),
    ];
    Trace::new(lives, 0..100)
}

#[test]
fn the_tree_and_the_oracle_fill_the_creators_node_first() {
    let stage = stage("4x2");
    for name in [ChooserName::Dqdt, ChooserName::Oracle] {
        let outcome = run(&stage, &three_threads(), name, None);
        let nodes: Vec<_> =
            outcome.placed.iter().map(|cpu| stage.tree().node_of(*cpu).unwrap()).collect();
        assert_eq!(nodes[0], nodes[1], "{name}");
        assert_ne!(outcome.placed[0], outcome.placed[1], "{name}");
        assert_ne!(nodes[0], nodes[2], "{name}");
        // One beside the creator (10), one on another node (20).
        assert_eq!(outcome.measures.thread_distance, Some(15.0), "{name}");
        assert!(is_near(outcome.measures.imbalance_percent, 0.0), "{name}");
        // One thread for 10 ns, two for 10 ns, three for 80 ns, on eight CPUs.
        assert!(is_near(outcome.measures.demand_percent, 100.0 * 270.0 / 800.0), "{name}");
    }
}

#[test]
fn round_robin_goes_from_cpu_to_cpu() {
    let outcome = run(&stage("4x2"), &three_threads(), ChooserName::RoundRobin, None);
    assert_eq!(outcome.placed, [CpuId(0), CpuId(1), CpuId(2)]);
    assert_eq!(outcome.measures.thread_distance, Some(15.0));
}

#[test]
fn two_busy_threads_on_one_cpu_waste_another() {
    let lives = vec![
        life(Creation::Exec, 0, 100, 1000),
        life(Creation::Exec, 0, 100, 1000),
        life(Creation::Thread(FIRST), 50, 100, 500),
    ];
    let mut next = [0, 0, 1].into_iter().map(CpuId);
    let mut chooser = scripted(|_, _, _| next.next().unwrap());
    let outcome = stage("4x2").run(&Trace::new(lives, 0..100), &mut chooser, None);
    let measures = outcome.measures;
    // One CPU's worth waits for 100 ns; balanced, two would run for 50 ns, and two and a half for 50.
    assert!(is_near(measures.imbalance_percent, 100.0 * 100.0 / 225.0), "{measures:?}");
    // Two of three decisions share nothing; the second had seven idle CPUs.
    assert!(is_near(measures.shared_needlessly_percent, 100.0 / 3.0), "{measures:?}");
    // Variance 4/8 − (2/8)² for 50 ns, then 5/8 − (3/8)².
    let variance: f64 = (0.4375 + 0.484_375) / 2.0;
    assert!(is_near(measures.threads_deviation, variance.sqrt()), "{measures:?}");
    // Two on the fullest; 2/8 and then 3/8 on the mean.
    assert!(is_near(measures.threads_max_over_mean, 2.0 / 0.3125), "{measures:?}");
    assert_eq!(outcome.nr_left, 0);
}

#[test]
fn a_full_machine_is_balanced_however_long_its_queues() {
    let lives = (0..8).chain([0; 3]).map(|_| life(Creation::Exec, 0, 100, 1000)).collect();
    let mut next = (0..8).chain([0; 3]).map(CpuId);
    let mut chooser = scripted(|_, _, _| next.next().unwrap());
    let outcome = stage("4x2").run(&Trace::new(lives, 0..100), &mut chooser, None);
    assert!(is_near(outcome.measures.imbalance_percent, 0.0), "{:?}", outcome.measures);
}

#[test]
fn usage_and_free_memory_are_known_at_the_refresh_and_not_before() {
    let pages_of = |start_ns, nr_pages| {
        let mut life = life(Creation::Exec, start_ns, 4 * MS, 1000);
        life.nr_pages = nr_pages;
        life
    };
    let starts = [MS / 2, MS * 6 / 10, MS * 11 / 10, MS * 21 / 10];
    let lives = starts.into_iter().zip([1000, 1, 1, 1]).map(|(at, pages)| pages_of(at, pages));
    let trace = Trace::new(lives.collect(), 0..MS);
    let mut seen = Vec::new();
    let mut cpus = [0, 2, 4, 6].into_iter().map(CpuId);
    let mut chooser = scripted(|_, _, estimates| {
        let usage = estimates.usage_on(CpuId(0)).map(Usage::percent);
        let free = estimates.free_memory_of(NodeId(0)).map(|memory| memory.pages);
        seen.push((usage, free, estimates.nr_threads_on(CpuId(0))));
        cpus.next().unwrap()
    });
    let _ = stage("4x2").run(&trace, &mut chooser, Some(Period::from_ms(1)));
    let free = Some((1 << 30) / 4096 - 1000);
    // Half of the first period busy; then all of the second: 50 + 2 × (100 − 50) / (4 + 1).
    assert_eq!(seen, [(None, None, 0), (None, None, 1), (Some(50), free, 1), (Some(70), free, 1),]);
}
