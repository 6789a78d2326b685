//! Situations of thread creation, each under its own name.

use quartier_decide::dqdt::{Allowed, EMA_TICKS, Estimates, Refresher, Tree, Usage};
use quartier_decide::policy::{Decision, Strategy, Thread, decide, decide_and_count};
use quartier_model::{
    Bytes, CpuId, Distance, Machine, MachineParts, NodeId, PackageId, SyntheticSpec,
};

fn synthetic(spec: &str) -> Machine {
    spec.parse::<SyntheticSpec>().unwrap().machine().unwrap()
}

fn changed(spec: &str, change: impl FnOnce(&mut MachineParts)) -> Machine {
    let mut parts = MachineParts::from(synthetic(spec));
    change(&mut parts);
    Machine::try_from(parts).unwrap()
}

/// A program whose main thread, on `creator`, makes `count` threads.
fn create(machine: &Machine, creator: u32, count: usize) -> (Vec<Decision>, Vec<u32>) {
    let tree = Tree::build(machine);
    create_within(&tree, &Allowed::all(&tree), creator, count)
}

fn create_within(
    tree: &Tree,
    allowed: &Allowed,
    creator: u32,
    count: usize,
) -> (Vec<Decision>, Vec<u32>) {
    let threads = tree.new_threads();
    let estimates = Estimates::new(tree, &threads).unwrap();
    estimates.add_thread(CpuId(creator));
    let request = Thread::new(Some(CpuId(creator)), allowed);
    let decisions = (0..count).map(|_| decide_and_count(&estimates, &request).unwrap()).collect();
    let per_cpu = (0..).map(CpuId).map_while(|cpu| {
        tree.leaf_of(cpu)?;
        Some(estimates.nr_threads_on(cpu))
    });
    (decisions, per_cpu.collect())
}

fn cpus(decisions: &[Decision]) -> Vec<u32> {
    decisions.iter().map(|decision| decision.cpu.0).collect()
}

#[test]
fn second_thread_goes_to_an_idle_cpu_of_the_same_node() {
    let (decisions, _) = create(&synthetic("4x2"), 4, 1);
    assert_eq!(decisions[0].cpu, CpuId(5));
    assert_eq!(decisions[0].node, Some(NodeId(2)));
    assert_eq!((decisions[0].attempt, decisions[0].visited), (1, 2));
}

#[test]
fn eight_threads_on_4x2_end_one_per_cpu() {
    let (decisions, per_cpu) = create(&synthetic("4x2"), 0, 7);
    assert_eq!(per_cpu, [1; 8]);
    assert!(decisions.iter().all(|decision| decision.attempt == 1));
}

#[test]
fn more_threads_than_cpus_spread_evenly() {
    for (spec, per_cpu) in [("4x2", 8), ("3x5", 15), ("16x8", 128), ("2,6", 8)] {
        let (decisions, threads) = create(&synthetic(spec), 0, 3 * per_cpu - 1);
        assert!(threads.iter().all(|&threads| threads == 3), "{spec}: {threads:?}");
        assert_eq!(decisions.last().unwrap().attempt, 3);
    }
}

#[test]
fn a_full_node_sends_its_threads_to_the_nearest_socket_first() {
    // Two sockets of two nodes: 0 and 2, 1 and 3.
    let machine = changed("4x2", |parts| {
        for (from, row) in parts.distances.rows.iter_mut().enumerate() {
            for (to, distance) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                *distance = Distance(if from % 2 == to % 2 { 12 } else { 32 });
            }
        }
    });
    let (decisions, _) = create(&machine, 0, 7);
    assert_eq!(cpus(&decisions)[..3], [1, 4, 5]);
}

#[test]
fn of_equally_idle_clusters_the_nearer_is_taken() {
    // Nodes 0 and 3 are nearer, but too few to make neighbourhoods of: all four are one.
    let machine = changed("4x1", |parts| {
        parts.distances.rows[0][3] = Distance(15);
        parts.distances.rows[3][0] = Distance(15);
    });
    assert_eq!(Tree::build(&machine).height(), 1);
    let (decisions, _) = create(&machine, 0, 3);
    assert_eq!(cpus(&decisions), [3, 1, 2]);
}

#[test]
fn the_emptier_cluster_goes_before_the_nearer_one() {
    let machine = changed("4x2", |parts| {
        parts.distances.rows[0][3] = Distance(15);
        parts.distances.rows[3][0] = Distance(15);
    });
    let tree = Tree::build(&machine);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    for cpu in [0, 1, 2, 6] {
        estimates.add_thread(CpuId(cpu));
    }
    let allowed = Allowed::all(&tree);
    let decision = decide(&estimates, &Thread::new(Some(CpuId(0)), &allowed)).unwrap();
    assert_eq!(decision.node, Some(NodeId(2)));
}

#[test]
fn creator_outside_the_allowed_mask() {
    let tree = Tree::build(&synthetic("4x2"));
    let allowed = Allowed::new(&tree, [CpuId(3), CpuId(6)]);
    let (decisions, _) = create_within(&tree, &allowed, 0, 4);
    let mut chosen = cpus(&decisions);
    chosen.sort_unstable();
    assert_eq!(chosen, [3, 3, 6, 6]);
}

#[test]
fn threads_on_cpus_outside_the_mask_do_not_count() {
    let tree = Tree::build(&synthetic("2x4"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    for _ in 0..9 {
        estimates.add_thread(CpuId(0));
    }
    let allowed = Allowed::new(&tree, [1, 2, 4, 5].map(CpuId));
    let decision = decide(&estimates, &Thread::new(Some(CpuId(0)), &allowed)).unwrap();
    assert_eq!((decision.cpu, decision.attempt), (CpuId(1), 1));
}

#[test]
fn nothing_allowed_gives_no_cpu() {
    let tree = Tree::build(&synthetic("4x2"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::new(&tree, [CpuId(99)]);
    assert!(allowed.is_empty());
    assert_eq!(decide(&estimates, &Thread::new(Some(CpuId(0)), &allowed)), None);
    assert_eq!(decide_and_count(&estimates, &Thread::new(None, &allowed)), None);
}

#[test]
fn a_creator_of_unknown_place_starts_at_the_root() {
    let tree = Tree::build(&synthetic("4x2"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    for creator in [None, Some(CpuId(4_000_000))] {
        let decision = decide(&estimates, &Thread::new(creator, &allowed)).unwrap();
        assert_eq!((decision.cpu, decision.attempt), (CpuId(0), 1));
    }
}

#[test]
fn memory_less_node() {
    let machine = changed("2x2", |parts| parts.nodes[1].memory = Some(Bytes(0)));
    let (_, per_cpu) = create(&machine, 0, 3);
    assert_eq!(per_cpu, [1; 4]);
}

#[test]
fn cpu_less_node_is_never_chosen() {
    let machine = synthetic("2,0,2");
    let (decisions, per_cpu) = create(&machine, 0, 11);
    assert_eq!(per_cpu, [3; 4]);
    assert!(decisions.iter().all(|decision| decision.node != Some(NodeId(1))));
}

#[test]
fn offline_cpus_are_skipped() {
    let machine = changed("2x2", |parts| parts.cpus[1].online = false);
    let (decisions, _) = create(&machine, 0, 5);
    assert!(decisions.iter().all(|decision| decision.cpu != CpuId(1)));
    let tree = Tree::build(&machine);
    assert_eq!(tree.leaf_of(CpuId(1)), None);
    let (decisions, _) = create_within(&tree, &Allowed::all(&tree), 1, 1);
    assert_eq!(decisions[0].attempt, 1, "an offline creator is like an unknown one");
}

#[test]
fn cpus_of_no_known_node_come_last() {
    let machine = changed("2x2", |parts| parts.cpus[2].node = None);
    let (decisions, _) = create(&machine, 0, 3);
    assert_eq!(cpus(&decisions), [1, 3, 2]);
    assert_eq!(decisions[2].node, None);
}

#[test]
fn an_idle_core_goes_before_the_second_thread_of_a_busy_one() {
    let machine = changed("1x4", |parts| {
        for cpu in &mut parts.cpus {
            cpu.package = Some(PackageId(0));
            cpu.core = Some(cpu.os_id.0 / 2);
        }
    });
    let (decisions, _) = create(&machine, 0, 3);
    assert_eq!(cpus(&decisions), [2, 1, 3]);
}

#[test]
fn a_maximal_level_keeps_threads_near() {
    let tree = Tree::build(&synthetic("16x2"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    let request = Thread { level_max: Some(1), ..Thread::new(Some(CpuId(0)), &allowed) };
    for _ in 0..32 {
        let decision = decide_and_count(&estimates, &request).unwrap();
        assert!(decision.cpu < CpuId(8), "{decision:?}");
    }
}

/// A 4 × 2 machine with two threads on every CPU and these utilisations.
fn decide_with_usage(percent: [Option<u32>; 8]) -> Decision {
    let tree = Tree::build(&synthetic("4x2"));
    let (threads, resources) = (tree.new_threads(), tree.new_resources());
    let estimates = Estimates::new(&tree, &threads).unwrap().with_resources(&resources).unwrap();
    for cpu in (0..8).map(CpuId) {
        estimates.add_thread(cpu);
        estimates.add_thread(cpu);
    }
    let usage = |cpu: CpuId| percent[cpu.index()].map(Usage::from_percent);
    Refresher::new(estimates, &resources, EMA_TICKS).unwrap().tick(usage, |_| None);
    let allowed = Allowed::all(&tree);
    decide(&estimates, &Thread::new(Some(CpuId(0)), &allowed)).unwrap()
}

#[test]
fn without_idle_cpus_the_least_used_near_one_is_taken() {
    let near = decide_with_usage([100, 80, 0, 0, 0, 0, 0, 0].map(Some));
    assert_eq!((near.cpu, near.attempt), (CpuId(1), 2));
    let far = decide_with_usage([100, 100, 90, 90, 100, 20, 90, 100].map(Some));
    assert_eq!((far.cpu, far.attempt), (CpuId(5), 2));
}

#[test]
fn when_everything_is_fully_used_the_third_attempt_accepts_it() {
    assert_eq!(decide_with_usage([Some(100); 8]).attempt, 3);
}

#[test]
fn unknown_usage_is_not_an_idle_cpu() {
    assert_eq!(decide_with_usage([None; 8]).attempt, 3);
    let mut one_known = [None; 8];
    one_known[4] = Some(70);
    one_known[5] = Some(70);
    let decision = decide_with_usage(one_known);
    assert_eq!((decision.node, decision.attempt), (Some(NodeId(2)), 3));
}

#[test]
fn an_exited_thread_makes_room() {
    let tree = Tree::build(&synthetic("1x2"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    let request = Thread::new(Some(CpuId(0)), &allowed);
    for cpu in [0, 1, 0, 1] {
        assert_eq!(decide_and_count(&estimates, &request).unwrap().cpu, CpuId(cpu));
    }
    estimates.remove_thread(CpuId(1)).unwrap();
    estimates.remove_thread(CpuId(1)).unwrap();
    assert_eq!(decide_and_count(&estimates, &request).unwrap().cpu, CpuId(1));
    assert!(estimates.remove_thread(CpuId(1)).is_ok());
    assert!(estimates.remove_thread(CpuId(1)).is_err(), "taken off twice");
}

#[test]
fn one_cpu_of_each_node_is_a_mask_like_any_other() {
    let tree = Tree::build(&synthetic("4x4"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    // Others have filled the CPUs beside ours.
    for cpu in [0, 0, 0, 0, 5, 5, 5, 8, 8, 8, 8] {
        estimates.add_thread(CpuId(cpu));
    }
    let allowed = Allowed::new(&tree, [1, 5, 9].map(CpuId));
    let request = Thread::new(Some(CpuId(0)), &allowed);
    let decision = decide_and_count(&estimates, &request).unwrap();
    assert_eq!((decision.cpu, decision.attempt), (CpuId(1), 1));
    assert_eq!(decide_and_count(&estimates, &request).unwrap().cpu, CpuId(9));
}

#[test]
fn the_maximal_level_holds_from_the_leaf_on_and_for_every_strategy() {
    let tree = Tree::build(&synthetic("16x1"));
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    estimates.add_thread(CpuId(0));
    let allowed = Allowed::all(&tree);
    for strategy in [Strategy::Thesis, Strategy::Packed, Strategy::Spread] {
        for (level_max, below) in [(0, 1), (1, 4), (2, 16)] {
            let request = Thread::new(Some(CpuId(0)), &allowed);
            let request = Thread { level_max: Some(level_max), strategy, ..request };
            let decision = decide(&estimates, &request).unwrap();
            assert!(decision.cpu.0 < below, "{strategy:?} {level_max}: {decision:?}");
        }
    }
}
