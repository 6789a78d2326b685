//! Machines whose CPUs are not all alike.

use quartier_model::{Capacity, Kind, Machine, MachineParts, NodeId, Pages, Plan, Trigger, Why};

use super::super::world::{World, process};
use super::{first_plan, somebodys, why};

/// Two nodes of two CPUs with these capacities.
fn world_of(capacities: [u32; 4], processes: Vec<super::Process>) -> World {
    let mut world = World::new(2, 2, processes);
    world.machine = with_capacities(&world.machine, capacities.map(|of| Some(Capacity(of))));
    world
}

pub fn with_capacities(
    machine: &Machine,
    capacities: impl IntoIterator<Item = Option<Capacity>>,
) -> Machine {
    let mut parts = MachineParts::from(machine.clone());
    parts.cpus.iter_mut().zip(capacities).for_each(|(cpu, capacity)| cpu.capacity = capacity);
    parts.try_into().unwrap()
}

#[test]
fn who_computes_goes_to_a_powerful_core_that_is_idle_and_stays() {
    // It lies on node 0 with its few pages; those of node 1 are twice as powerful.
    let mut world = world_of([512, 512, 1024, 1024], vec![process(&[(0, 16)], &[0])]);
    let (plan, mut reporter) = first_plan(&mut world);
    assert!(plan.triggers.contains(&Trigger::PowerfulIdle), "{plan:?}");
    assert_eq!((plan.steps.len(), plan.steps[0].kind), (1, Kind::Gather), "{plan:?}");
    assert_eq!(world.node_of(0, 0), NodeId(1));
    let speedup = plan.factors[0].speedup.unwrap();
    assert!(speedup > 1.7 && speedup <= 2.0, "nearly all of its time is computing: {speedup}");
    assert_eq!(world.steps(&mut reporter, 60), [], "it helped");
}

#[test]
fn those_who_gain_most_get_the_powerful_cores() {
    // Two of four compute; the others wait for memory in a third of their time.
    let all = vec![
        process(&[(0, 128)], &[0]),
        process(&[(0, 128)], &[1]),
        process(&[(0, 16)], &[0]),
        process(&[(0, 16)], &[1]),
    ];
    let mut world = world_of([512, 512, 1024, 1024], all);
    world.share_cpus();
    let mut reporter = world.reporter();
    world.steps(&mut reporter, 60);
    let homes: Vec<_> = (0..4).map(|at| world.node_of(at, 0).0).collect();
    assert_eq!(homes, [0, 0, 1, 1]);
}

#[test]
fn nobody_goes_where_powerful_cores_are_busy_or_closed_to_it() {
    let busy = vec![process(&[(0, 16)], &[0]), somebodys(2, 90), somebodys(3, 90)];
    let closed = super::Process { cpus: Some("0-1".parse().unwrap()), ..process(&[(0, 16)], &[0]) };
    for all in [busy, vec![closed]] {
        let (plan, _) = first_plan(&mut world_of([512, 512, 1024, 1024], all));
        assert!(!plan.triggers.contains(&Trigger::PowerfulIdle), "{plan:?}");
        assert_eq!((plan.steps.len(), why(&plan, 0)), (0, Why::WellPlaced), "{plan:?}");
    }
}

#[test]
fn what_has_much_memory_stays_beside_it() {
    // An eighth more power is less than what it would lose; and its pages move too late to pay.
    let big = super::Process { moves: false, ..process(&[(0, 6000)], &[0]) };
    let (plan, _) = first_plan(&mut world_of([900, 900, 1024, 1024], vec![big]));
    assert!(plan.triggers.contains(&Trigger::PowerfulIdle), "it was considered");
    assert!(matches!(why(&plan, 0), Why::GainsLittle { .. } | Why::PaysTooLate { .. }), "{plan:?}");
}

#[test]
fn like_cpus_of_which_one_may_run_a_little_faster_are_alike() {
    let alike = [[1000, 980, 1024, 1024], [1024; 4]].map(|capacities| capacities.map(Some));
    let unknown = [Some(512), Some(512), None, Some(1024)];
    for capacities in alike.into_iter().chain([unknown]) {
        let mut world = world_of([0; 4], vec![process(&[(0, 16)], &[0])]);
        let capacities = capacities.map(|of| of.map(Capacity));
        world.machine = with_capacities(&world.machine, capacities);
        let Plan { triggers, steps, .. } = first_plan(&mut world).0;
        assert!(!triggers.contains(&Trigger::PowerfulIdle) && steps.is_empty(), "{capacities:?}");
    }
}

#[test]
fn its_pages_go_along_where_that_pays() {
    let (plan, _) =
        first_plan(&mut world_of([256, 256, 1024, 1024], vec![process(&[(0, 64)], &[1])]));
    assert!(matches!(plan.steps[0].pages, Pages::To { node: NodeId(1), .. }), "{plan:?}");
}
