//! Processes of which more threads run than did when they were moved.

use quartier_model::{Kind, NodeId, Pages, Standing, Unseen, Why};

use super::super::world::{Block, Process, Sight, World, process, runs_on, seen_process};
use super::why;
use crate::reporter::Reporter;

const GIB: u64 = 1024;

/// One thread of a process on four nodes of two CPUs, with its memory elsewhere: it goes there.
fn gathered(mut of: Process) -> (World, Reporter) {
    of.threads = vec![runs_on(6)];
    let mut world = World::new(4, 2, vec![of]);
    let mut reporter = world.reporter();
    let steps = world.steps(&mut reporter, 2);
    assert_eq!(steps.iter().map(|step| step.kind).collect::<Vec<_>>(), [Kind::Gather]);
    (world, reporter)
}

/// Seven more run, and what runs where one is held is held there.
fn grow(world: &mut World) {
    let one = world.processes[0].threads[0].clone();
    world.processes[0].threads.extend(vec![one; 7]);
    world.share_cpus();
}

fn held(world: &World) -> Vec<Option<NodeId>> {
    world.processes[0].threads.iter().map(|thread| thread.held_on).collect()
}

#[test]
fn a_process_that_outgrows_its_node_is_let_go_at_once() {
    // While it is on trial, and long after that.
    for seconds in [0, 60] {
        let blind =
            Process { users: Sight::Unseen(Unseen::BalancingOff), ..process(&[(0, GIB)], &[6]) };
        let (mut world, mut reporter) = gathered(blind);
        assert_eq!(world.steps(&mut reporter, seconds), []);
        assert_eq!(held(&world), [Some(NodeId(0))]);
        grow(&mut world);
        let plan = world.step(&mut reporter);
        let [step] = &plan.steps[..] else { panic!("{plan:?}") };
        assert_eq!((step.kind, &step.pages, step.threads.len()), (Kind::LetGo, &Pages::Stay, 8));
        assert!(step.gain > 5.0, "CPUs' worth of waiting: {step:?}");
        assert_eq!(held(&world), [None; 8]);
        world.share_cpus();
        assert_eq!(world.steps(&mut reporter, 60), [], "and it is left, for nobody knows more");
        // When one of them runs alone again, that is the process that it was.
        world.processes[0].threads.truncate(1);
        world.processes[0].threads[0] = runs_on(6);
        let kinds: Vec<_> = world.steps(&mut reporter, 60).iter().map(|step| step.kind).collect();
        assert_eq!(kinds, [Kind::Gather], "that it grew is no sign that the move was wrong");
    }
}

#[test]
fn it_is_split_as_soon_as_may_be() {
    let block = |at: usize| Block { on: NodeId(0), by: vec![(at / 16, 4)] };
    let known = seen_process(&[6], (0..128).map(block).collect());
    let (mut world, mut reporter) = gathered(Process { users: Sight::Nobody, ..known.clone() });
    grow(&mut world);
    world.processes[0].users = known.users;
    let kinds: Vec<_> = world.steps(&mut reporter, 12).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::LetGo, Kind::Split], "it rests for ten seconds after a move");
}

#[test]
fn who_has_no_more_cpus_anywhere_is_not_let_go() {
    // Sixteen threads on eight CPUs wait wherever they are.
    let threads: Vec<u32> = (0..16).map(|at| at % 8).collect();
    let block = |at: usize| Block { on: NodeId(0), by: vec![(at / 8, 4)] };
    let many = seen_process(&threads, (0..128).map(block).collect());
    let mut world = World::new(4, 2, vec![many]);
    let mut reporter = world.reporter();
    let kinds: Vec<_> = world.steps(&mut reporter, 60).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::Split]);
    let plan = reporter.plan(vec![], &world.snapshot());
    assert_ne!(why(&plan, 0), Why::Idle);
    assert!(held(&world).iter().all(Option::is_some));
}

/// Whoever was placed with more threads than its node has CPUs, for the others have no room either, was not outgrown by them.
#[test]
fn who_is_crowded_by_intent_is_not_let_go() {
    let others = [1, 2, 3].map(|node| {
        let cpus = [node * 2, node * 2, node * 2 + 1, node * 2 + 1];
        Process { standing: Standing::OptedOut, ..process(&[(node, 64)], &cpus) }
    });
    let block = |at: usize| Block { on: NodeId(0), by: vec![(at / 32, 4)] };
    let far = seen_process(&[2, 4, 6], (0..96).map(block).collect());
    let mut world = World::new(4, 2, [vec![far], others.into()].concat());
    let mut reporter = world.reporter();
    let kinds: Vec<_> = world.steps(&mut reporter, 200).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::Split], "what its memory is not far from any more");
}

#[test]
fn what_the_administrator_pinned_stays() {
    let pinned = Process { pin: Some(NodeId(0)), ..process(&[(0, GIB)], &[6]) };
    let mut world = World::new(4, 2, vec![pinned]);
    let mut reporter = world.reporter();
    assert_eq!(world.steps(&mut reporter, 2).len(), 1);
    grow(&mut world);
    assert_eq!(world.steps(&mut reporter, 60), []);
    assert_eq!(held(&world), [Some(NodeId(0)); 8]);
}
