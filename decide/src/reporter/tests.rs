//! Constructed situations.

mod outgrown;
mod power;
mod split;

use quartier_model::{
    Bytes, Capacity, Kind, Nanos, NodeId, Outcome, Pages, PerNode, Plan, Snapshot, Standing,
    Trigger, Why,
};

use super::log::{LOG_FORMAT, Line, Replay, Replayed};
use super::world::{Process, SECOND, World, id, process, runs_on};
use super::{Reporter, Settings, State};

/// One that keeps a CPU busy on which somebody put it.
fn busy(cpu: u32) -> Process {
    Process { standing: Standing::AffinitySet, ..process(&[(0, 1)], &[cpu]) }
}

fn first_plan(world: &mut World) -> (Plan, Reporter) {
    let mut reporter = world.reporter();
    (world.step(&mut reporter), reporter)
}

fn why(plan: &Plan, process: usize) -> Why {
    plan.left.iter().find(|left| left.process == id(process)).expect("it is left").why
}

#[test]
fn a_thread_goes_to_its_memory_rather_than_its_memory_to_it() {
    let mut world = World::new(4, 2, vec![process(&[(0, 256)], &[5])]);
    let (plan, mut reporter) = first_plan(&mut world);
    let step = &plan.steps[0];
    assert_eq!((step.kind, &step.pages, step.cost), (Kind::Gather, &Pages::Stay, Nanos(0)));
    assert_eq!(world.node_of(0, 0), NodeId(0));
    let factors = &plan.factors[0];
    // All of it is twice as far as local; half of nearly all of its running time is waiting for it.
    assert_eq!(factors.remoteness, Some(1.0));
    let intensity = factors.intensity.value();
    // And it has that node's memory to itself already, so it is only the distance.
    let crowded = factors.contention.unwrap();
    let expected = (1.0 + intensity * (1.0 + crowded)) / (1.0 + intensity * crowded);
    assert!((factors.speedup.unwrap() - expected).abs() < 1e-9, "{factors:?}");
    assert_eq!(world.steps(&mut reporter, 60), [], "and stays there");
}

#[test]
fn eight_on_one_node_are_spread_and_as_few_pages_move_as_can_be() {
    let mut world = World::new(
        4,
        2,
        (0..8).map(|at| process(&[(0, 100 + 10 * u64::from(at))], &[at])).collect(),
    );
    let mut reporter = world.reporter();
    world.steps(&mut reporter, 60);
    for at in 0..8 {
        assert!(world.local_share(at) > 0.99, "process {at}");
    }
    // The two largest stay.
    let least: u64 = (0..6).map(|at| 100 + 10 * at).sum();
    assert_eq!(world.moved, Bytes::from_mib(least));
}

#[test]
fn who_begins_is_looked_at_soon_and_not_each_by_itself() {
    let mut world = World::new(4, 2, vec![process(&[(0, 256)], &[0])]);
    let mut reporter = world.reporter();
    let mut looks = 0;
    for tenth in 1..=100 {
        world.at = Nanos(tenth * SECOND / 10);
        let mut snapshot = world.snapshot();
        // Another one each time.
        snapshot.processes[0].id.start_ticks = tenth;
        let triggers = reporter.triggers(&snapshot);
        looks += u32::from(!triggers.is_empty());
        if !triggers.is_empty() {
            assert_eq!(reporter.plan(triggers, &snapshot).steps, []);
        }
    }
    assert_eq!(looks, 10);
}

#[test]
fn what_does_not_move_is_not_asked_to_again_and_again() {
    let at_home = Process { standing: Standing::AffinitySet, ..process(&[(0, 256)], &[0, 1]) };
    let shares = Process { stays_mib: 16, ..process(&[(0, 64)], &[2]) };
    let mut world = World::new(4, 2, vec![at_home, shares]);
    let mut reporter = world.reporter();
    let steps = world.steps(&mut reporter, 400);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(world.local_share(1) > 0.7);
    // What is new is moved all the same.
    *world.processes[1].mib_on.get_mut(&0).unwrap() += 64;
    assert_eq!(world.steps(&mut reporter, 100).len(), 1);
}

#[test]
fn who_behaves_otherwise_all_the_time_is_not_looked_at_each_time() {
    let mut world = World::new(4, 2, vec![process(&[(0, 256)], &[0, 1])]);
    let mut reporter = world.reporter();
    let mut looks = 0;
    for second in 0..600 {
        world.processes[0].threads[1].ran_percent = if second % 2 == 0 { 100 } else { 0 };
        let plan = world.step(&mut reporter);
        looks += u32::from(!plan.triggers.is_empty());
        assert_eq!(plan.steps, []);
    }
    assert!((10..40).contains(&looks), "{looks}");
    // When there is something to do, that is done all the same.
    world.processes[0].mib_on = [(3, 256)].into();
    assert_eq!(world.steps(&mut reporter, 30).len(), 1);
}

#[test]
fn who_runs_now_and_then_takes_no_place_from_who_always_does() {
    let sometimes = |percent| {
        let mut sometimes = process(&[(0, 1)], &[0]);
        sometimes.threads[0].ran_percent = percent;
        sometimes
    };
    for percent in [25, 100] {
        // Both CPUs of node 0 have one, or a quarter of one.
        let at_home = Process { standing: Standing::AffinitySet, ..process(&[(0, 256)], &[1]) };
        let mut world =
            World::new(4, 2, vec![at_home, sometimes(percent), process(&[(0, 256)], &[4])]);
        let (plan, _) = first_plan(&mut world);
        let step = plan.steps.iter().find(|step| step.process == id(2));
        assert_eq!(step.is_some_and(|step| step.pages == Pages::Stay), percent < 100, "{plan:?}");
    }
}

/// One that somebody placed, and that runs for a part of the time.
fn somebodys(cpu: u32, ran_percent: u64) -> Process {
    let mut process = Process { standing: Standing::AffinitySet, ..process(&[(0, 1)], &[cpu]) };
    process.threads[0].ran_percent = ran_percent;
    process
}

#[test]
fn who_has_to_share_a_cpu_does_so_with_who_runs_least() {
    for (cpu, ran_percent) in [(1, 60), (4, 60), (7, 99)] {
        let mut all: Vec<_> =
            (0..8).map(|at| process(&[(0, 100 + 10 * u64::from(at))], &[at])).collect();
        all.push(somebodys(cpu, ran_percent));
        let mut world = World::new(4, 2, all);
        first_plan(&mut world);
        let mut per_node = [0; 4];
        (0..8).for_each(|at| per_node[world.node_of(at, 0).index()] += 1);
        assert_eq!(per_node, [2; 4], "beside one on CPU {cpu} that runs {ran_percent} %");
    }
}

#[test]
fn what_somebody_placed_is_left_alone_and_said_so() {
    let standings = [Standing::AffinitySet, Standing::MemoryPolicySet, Standing::OptedOut];
    let far = |standing| Process { standing, ..process(&[(0, 256)], &[7]) };
    let mut world = World::new(4, 2, standings.map(far).to_vec());
    world.processes.push(process(&[(1, 256)], &[6]));
    let (plan, _) = first_plan(&mut world);
    let moved: Vec<_> = plan.steps.iter().map(|step| step.process).collect();
    assert_eq!(moved, [id(3)]);
    for (at, standing) in standings.into_iter().enumerate() {
        assert_eq!(why(&plan, at), Why::Standing(standing));
    }
}

/// Seen in guests: while it moved one's memory it was in the way of another, and moved that one's, too.
#[test]
fn whoever_watches_is_in_nobodys_way() {
    let home_beside = |standing| {
        let far = [2, 4].map(|cpu| process(&[(0, 256)], &[cpu]));
        let there = Process { standing, ..process(&[(0, 4)], &[1]) };
        let mut world = World::new(4, 2, far.into_iter().chain([there]).collect());
        let (plan, _) = first_plan(&mut world);
        assert_eq!(why(&plan, 2), Why::Standing(standing));
        // Nothing is shown as 0.00, not as -0.00.
        let overview = world.reporter().overview(&world.snapshot());
        let factors = &overview.processes[2].factors;
        assert!(factors.running.is_sign_positive() && factors.waiting.is_sign_positive());
        (0..2).filter(|at| world.node_of(*at, 0) == NodeId(0)).count()
    };
    assert_eq!(home_beside(Standing::Watcher), 2);
    assert_eq!(home_beside(Standing::AffinitySet), 1);
}

#[test]
fn of_a_process_only_the_threads_are_held_that_nobody_placed() {
    let mut world = World::new(4, 4, vec![process(&[(0, 512)], &[12, 13])]);
    world.processes[0].threads[1].standing = Some(Standing::AffinitySet);
    let (plan, _) = first_plan(&mut world);
    let held: Vec<_> = plan.steps[0].threads.iter().map(|(thread, _)| thread.id).collect();
    assert_eq!(held, [100]);
}

#[test]
fn pages_that_hardly_matter_do_not_come_along() {
    // Both wait for a CPU at home, and would not elsewhere: that is most of a CPU. What their pages add to it is more for who has more.
    for (mib, come_along) in [(64, false), (4096, true)] {
        let mut waits = process(&[(0, mib)], &[0]);
        waits.threads[0].held_on = Some(NodeId(0));
        (waits.threads[0].ran_percent, waits.threads[0].waited_percent) = (20, 80);
        let world = World::new(4, 2, vec![busy(0), busy(1), waits]);
        let settings = Settings { gain_min: 0.3, ..Settings::default() };
        let mut reporter = Reporter::new(world.machine.clone(), settings, State::default());
        let plan = reporter.plan(vec![Trigger::Changed], &world.snapshot());
        assert_eq!(plan.steps.len(), 1, "{plan:?}");
        assert_eq!(plan.steps[0].pages != Pages::Stay, come_along, "{plan:?}");
    }
}

#[test]
fn threads_do_not_leave_their_memory_ahead_of_pages_that_have_to_wait() {
    let far = |cpu| process(&[(0, 100)], &[cpu]);
    // The pages of one move, and nothing came of it yet.
    let mut world = World::new(4, 2, vec![busy(0), busy(1), far(4)]);
    let mut reporter = world.reporter();
    let first = reporter.plan(vec![Trigger::Changed], &world.snapshot());
    assert!(first.steps.iter().any(|step| step.pages != Pages::Stay), "{first:?}");
    // The other would gain a CPU elsewhere, and more with its memory.
    let mut late = far(6);
    (late.threads[0].ran_percent, late.threads[0].waited_percent) = (50, 50);
    world.processes.push(late);
    let snapshot = world.snapshot();
    let plan = reporter.plan(vec![Trigger::Changed], &snapshot);
    assert!(plan.steps.iter().all(|step| step.process != id(3)), "{plan:?}");
    assert_eq!(why(&plan, 3), Why::OthersMove);
}

#[test]
fn who_has_more_memory_at_home_gets_its_cpu_before_who_only_happens_to_be_there() {
    // Nobody holds those two, and each has less there.
    let passing = |cpu| process(&[(0, 32)], &[cpu]);
    let mut world = World::new(4, 2, vec![passing(0), passing(1), process(&[(0, 256)], &[4])]);
    let (plan, _) = first_plan(&mut world);
    let step = plan.steps.iter().find(|step| step.process == id(2)).expect("it goes home");
    assert_eq!((step.others, &step.pages), (Some(NodeId(0)), &Pages::Stay));
}

#[test]
fn pages_do_not_leave_a_thread_that_stays_where_somebody_put_it() {
    // The one that may be placed finds no CPU beside their memory; what it would gain the other would lose.
    for (set_on, goes_along) in [(0, false), (5, true)] {
        let mut world =
            World::new(4, 2, vec![busy(0), busy(1), process(&[(0, 100)], &[4, set_on])]);
        world.processes[2].threads[1].standing = Some(Standing::AffinitySet);
        let (plan, _) = first_plan(&mut world);
        let moves = plan.steps.iter().any(|step| step.pages != Pages::Stay);
        assert_eq!(moves, goes_along, "{plan:?}");
    }
}

#[test]
fn a_move_has_to_pay_within_the_life_that_can_be_expected() {
    // Its node has no CPU free, so its pages would have to move: 25,600 of 2 µs, for half a CPU's worth.
    let young = |age| Process { age: Nanos(age), ..process(&[(0, 100)], &[4]) };
    for (age, is_moved) in [(SECOND / 50, false), (SECOND, true)] {
        let mut world = World::new(4, 2, vec![busy(0), busy(1), young(age)]);
        let (plan, _) = first_plan(&mut world);
        assert_eq!(!plan.steps.is_empty(), is_moved, "{plan:?}");
        if !is_moved {
            assert!(matches!(why(&plan, 2), Why::PaysTooLate { after } if after.0 > age));
        }
    }
    // Hardly running, with much memory: never.
    let mut world = World::new(4, 2, vec![busy(0), busy(1), process(&[(0, 4000)], &[4])]);
    world.processes[2].threads[0].ran_percent = 15;
    let (plan, _) = first_plan(&mut world);
    assert!(matches!(why(&plan, 2), Why::PaysTooLate { .. }), "{plan:?}");
}

#[test]
fn pages_of_a_process_with_too_many_are_not_asked_to_move() {
    for (mib, is_moved) in [(4096, true), (4097, false)] {
        let mut world = World::new(4, 2, vec![busy(0), busy(1), process(&[(0, mib)], &[4])]);
        let (plan, _) = first_plan(&mut world);
        let moved = plan.steps.iter().any(|step| step.pages != Pages::Stay);
        assert_eq!(moved, is_moved, "{plan:?}");
    }
}

#[test]
fn who_waits_where_it_is_held_goes_where_a_cpu_is_idle() {
    let held = |cpu: u32| {
        let mut held = process(&[(0, 64)], &[cpu]);
        held.threads[0].held_on = Some(NodeId(0));
        (held.threads[0].ran_percent, held.threads[0].waited_percent) = (50, 50);
        held
    };
    let mut world = World::new(4, 2, vec![held(0), held(0), held(1), held(1)]);
    let snapshot = world.snapshot();
    assert!(world.reporter().triggers(&snapshot).contains(&Trigger::Unbalanced));
    let mut reporter = world.reporter();
    world.steps(&mut reporter, 40);
    let waited: u64 = world.processes.iter().map(|process| process.threads[0].waited_percent).sum();
    assert_eq!(waited, 0, "nobody waits");
    assert!((0..4).all(|at| world.local_share(at) > 0.99));
}

#[test]
fn heavy_contenders_are_scattered_and_the_largest_stay() {
    // Sixteen CPUs a node: nobody waits for a CPU, all have their memory beside them, on one node; and nine
    // million misses a second, each 100 ns.
    let heavy = |at: u32| Process {
        misses_per_second: Some(9_000_000),
        ..process(&[(0, 200 + 10 * u64::from(at))], &[at])
    };
    let all = (0..12).map(heavy).collect();
    let mut world = World::new(4, 16, all);
    let (plan, mut reporter) = first_plan(&mut world);
    assert!(plan.triggers.contains(&Trigger::Contention));
    assert!(plan.factors.iter().all(|factors| factors.contention.unwrap() > 0.1), "{plan:?}");
    assert!(plan.steps.iter().all(|step| step.kind == Kind::Scatter));
    world.steps(&mut reporter, 60);
    let on = |node| (0..12).filter(|at| world.node_of(*at, 0) == NodeId(node)).count();
    assert!(on(0) <= 9, "{:?}", [on(0), on(1), on(2), on(3)]);
    assert!(world.node_of(11, 0) == NodeId(0), "the largest stays");
    assert!((0..12).all(|at| world.local_share(at) > 0.99));
}

/// The nearest node has CPUs for both; one further away has as many, and a memory that nobody uses.
#[test]
fn two_that_leave_home_do_not_fill_the_same_node() {
    let on_first = |cpu: u32| process(&[(0, 400)], &[cpu]);
    let mut world = World::new(4, 2, [0, 1, 0, 1].map(on_first).into());
    world.share_cpus();
    let mut reporter = world.reporter();
    world.steps(&mut reporter, 60);
    let mut homes: Vec<_> = (0..4).map(|at| world.node_of(at, 0).0).collect();
    assert!((0..4).all(|at| world.local_share(at) == 1.0), "{homes:?}");
    homes.sort_unstable();
    homes.dedup();
    assert_eq!((homes.len(), world.moved), (3, Bytes::from_mib(800)), "{homes:?}");
}

#[test]
fn two_that_share_a_node_of_many_cpus_are_no_contenders() {
    let mut world = World::new(4, 16, vec![process(&[(0, 256)], &[0]), process(&[(0, 256)], &[1])]);
    let mut reporter = world.reporter();
    assert_eq!(world.steps(&mut reporter, 60), []);
}

#[test]
fn what_did_not_help_is_taken_back_and_remembered() {
    // Its instructions do not become more, whatever the model says.
    let stubborn = Process { instructions_per_second: Some(1_000), ..process(&[(0, 256)], &[5]) };
    let mut world = World::new(4, 2, vec![stubborn]);
    let mut reporter = world.reporter();
    let kinds: Vec<_> = world.steps(&mut reporter, 300).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::Gather, Kind::TakeBack]);
    assert_eq!(world.processes[0].threads[0].held_on, None, "as before");
    let again = world.steps(&mut reporter, 400).len();
    assert!(again <= 2, "it is tried again after ten minutes, not before: {again}");
}

/// Somebody else's threads come to its node a moment later: no reason to bring its pages back.
#[test]
fn who_waits_because_of_others_has_not_been_moved_in_vain() {
    let two_on = |node: u32| {
        [0, 1].map(|cpu| {
            let mut one = somebodys(node * 2 + cpu, 100);
            one.threads[0].held_on = Some(NodeId(node));
            one
        })
    };
    let moves = process(&[(0, 400)], &[2]);
    let mut world = World::new(4, 2, [vec![moves], two_on(0).into()].concat());
    world.share_cpus();
    let mut reporter = world.reporter();
    let first = world.steps(&mut reporter, 2);
    assert!(matches!(first[0].pages, Pages::To { .. }), "{first:?}");
    let home = world.processes[0].threads[0].held_on.unwrap().0;
    world.processes.extend(two_on(home).into_iter().chain(two_on(home)));
    world.share_cpus();
    let later = world.steps(&mut reporter, 30);
    assert!(later.iter().all(|step| step.kind != Kind::TakeBack), "{later:?}");
}

#[test]
fn nothing_is_judged_while_pages_of_others_still_move() {
    let stubborn =
        |cpu| Process { instructions_per_second: Some(1_000), ..process(&[(0, 256)], &[cpu]) };
    let mut world = World::new(4, 2, vec![stubborn(4), stubborn(6)]);
    let (snapshot, mut reporter) = (world.snapshot(), world.reporter());
    let triggers = reporter.triggers(&snapshot);
    let plan = reporter.plan(triggers, &snapshot);
    let outcomes: Vec<_> = plan.steps.iter().map(|step| world.carry_out(step)).collect();
    assert_eq!(outcomes.len(), 2);
    // One is done, the other one goes on.
    reporter.outcome(&outcomes[0]);
    assert_eq!(world.steps(&mut reporter, 60), []);
    let now = world.at + Nanos(SECOND / 2);
    let moved = Bytes::from_mib(1);
    reporter.outcome(&Outcome { at: now, moved, ..outcomes[1].clone() });
    assert_eq!(world.step(&mut reporter).steps, [], "what is seen is half of it from before");
    let kinds: Vec<_> = world.steps(&mut reporter, 60).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::TakeBack; 2]);
}

/// Seen in guests: while two took their memory along, their node seemed to have too much of it, and a third left.
#[test]
fn no_more_pages_are_to_move_while_those_of_others_do() {
    let taken = |cpu| Process { standing: Standing::AffinitySet, ..process(&[(0, 16)], &[cpu]) };
    let mut world = World::new(4, 2, vec![taken(0), taken(1), process(&[(0, 256)], &[4])]);
    let (snapshot, mut reporter) = (world.snapshot(), world.reporter());
    let triggers = reporter.triggers(&snapshot);
    let plan = reporter.plan(triggers, &snapshot);
    let outcome = world.carry_out(&plan.steps[0]);
    assert!(outcome.moved > Bytes(0) && plan.steps.len() == 1, "{plan:?}");
    world.processes.extend([process(&[(0, 256)], &[6]), process(&[(3, 256)], &[2])]);
    let plan = world.step(&mut reporter);
    assert_eq!(why(&plan, 3), Why::OthersMove);
    let moved: Vec<_> = plan.steps.iter().map(|step| (step.process, &step.pages)).collect();
    assert_eq!(moved, [(id(4), &Pages::Stay)], "a thread may go to its memory meanwhile");
    assert_eq!(world.steps(&mut reporter, 60), []);
    reporter.outcome(&outcome);
    let moved: Vec<_> = world.steps(&mut reporter, 60).iter().map(|step| step.process).collect();
    assert_eq!(moved, [id(3)]);
}

#[test]
fn pages_that_would_not_move_are_no_help_either() {
    let locked = Process { moves: false, ..process(&[(0, 256)], &[4]) };
    let mut world = World::new(4, 2, vec![busy(0), busy(1), locked]);
    let mut reporter = world.reporter();
    let kinds: Vec<_> = world.steps(&mut reporter, 300).iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Kind::Gather, Kind::TakeBack]);
}

#[test]
fn the_administrators_pin_comes_first() {
    let pinned = Process { pin: Some(NodeId(3)), ..process(&[(0, 64)], &[0, 1]) };
    let other = process(&[(3, 512)], &[2]);
    let mut world = World::new(4, 2, vec![other, pinned]);
    let (plan, mut reporter) = first_plan(&mut world);
    assert!(plan.triggers.contains(&Trigger::Pinned));
    let step = plan.steps.iter().find(|step| step.process == id(1)).unwrap();
    assert_eq!((step.kind, step.others), (Kind::Pin, Some(NodeId(3))));
    world.steps(&mut reporter, 60);
    assert_eq!((world.node_of(1, 0), world.node_of(1, 1)), (NodeId(3), NodeId(3)));
}

#[test]
fn nobody_goes_where_there_is_no_room() {
    let mut world = World::new(2, 2, vec![busy(0), busy(1), process(&[(0, 256)], &[2])]);
    world.free_mib = 200;
    let (plan, _) = first_plan(&mut world);
    assert!(plan.steps.iter().all(|step| step.pages == Pages::Stay), "{plan:?}");
}

#[test]
fn who_was_too_young_is_thought_of_again() {
    let taken = |cpu| Process { standing: Standing::AffinitySet, ..process(&[(0, 16)], &[cpu]) };
    let young = Process { age: Nanos(SECOND / 10), ..process(&[(0, 256)], &[4]) };
    let mut world = World::new(4, 2, vec![taken(0), taken(1), young]);
    let (plan, mut reporter) = first_plan(&mut world);
    assert!(matches!(why(&plan, 2), Why::PaysTooLate { .. }), "{plan:?}");
    world.processes[2].age = Nanos(10 * SECOND);
    let plan = world.step(&mut reporter);
    assert_eq!((&plan.triggers[..], plan.steps.len()), (&[Trigger::Passed][..], 1), "{plan:?}");
    assert_eq!(world.steps(&mut reporter, 60), [], "and is content");
}

#[test]
fn no_pages_move_while_tasks_wait_for_memory() {
    // Both CPUs of node 0 are taken: who is far from its memory has to take it along.
    let taken = |cpu| Process { standing: Standing::AffinitySet, ..process(&[(0, 16)], &[cpu]) };
    let all = vec![taken(0), taken(1), process(&[(0, 256)], &[4])];
    for (percent, is_moved) in [(None, true), (Some(5), true), (Some(20), false)] {
        let mut world = World::new(4, 2, all.clone());
        world.waits_for_memory = percent;
        let (plan, mut reporter) = first_plan(&mut world);
        assert_eq!(plan.steps.len() == 1, is_moved, "{percent:?}: {plan:?}");
        if !is_moved {
            assert_eq!(why(&plan, 2), Why::MemoryScarce);
            world.waits_for_memory = Some(0);
            assert_eq!(world.steps(&mut reporter, 60).len(), 1, "it is tried again");
        }
    }
}

#[test]
fn a_cpuset_is_kept() {
    let cpus = Some("4-7".parse().unwrap());
    let mut world = World::new(4, 2, vec![Process { cpus, ..process(&[(0, 64)], &[4]) }]);
    let (plan, _) = first_plan(&mut world);
    let nodes = plan.steps.iter().flat_map(|step| &step.threads).map(|(_, node)| node.unwrap());
    assert!(nodes.into_iter().all(|node| node >= NodeId(2)), "{plan:?}");
}

#[test]
fn what_is_unknown_is_said_and_nothing_is_made_up() {
    let mut world = World::new(4, 2, vec![process(&[], &[5])]);
    let (plan, _) = first_plan(&mut world);
    assert_eq!((plan.steps.len(), why(&plan, 0)), (0, Why::MemoryUnknown));
    assert_eq!(plan.factors[0].remoteness, None);
    let nothing = Snapshot::default();
    let mut reporter = world.reporter();
    assert_eq!(reporter.triggers(&nothing), []);
    assert_eq!(reporter.plan(vec![], &nothing), Plan::default());
}

#[test]
fn what_cannot_be_mended_is_not_looked_at_all_the_time() {
    let waits = |cpu| {
        let mut waits = process(&[(0, 64)], &[cpu]);
        waits.threads[0].held_on = Some(NodeId(0));
        waits.cpus = Some("0-1".parse().unwrap());
        (waits.threads[0].ran_percent, waits.threads[0].waited_percent) = (50, 50);
        waits
    };
    let mut world = World::new(4, 2, vec![waits(0), waits(0), waits(1), waits(1)]);
    let mut reporter = world.reporter();
    let looked = (0..120).filter(|_| world.step(&mut reporter) != Plan::default()).count();
    assert!((2..12).contains(&looked), "{looked} times in two minutes");
}

#[test]
fn an_overview_has_whose_memory_is_where() {
    let world = World::new(2, 2, vec![process(&[(1, 300), (0, 100)], &[0, 2]), process(&[], &[1])]);
    let overview = world.reporter().overview(&world.snapshot());
    assert_eq!(overview.flows_cpus, [[0.25, 0.75], [0.25, 0.75]]);
    let [seen, unknown] = &overview.processes[..] else { panic!("{overview:?}") };
    assert_eq!((seen.local, unknown.local, &unknown.pages_on), (Some(0.5), None, &None));
    assert_eq!(seen.ran_on, [(NodeId(0), 0.5), (NodeId(1), 0.5)]);
    let running: Vec<_> =
        overview.nodes.iter().map(|node| (node.threads, node.running_cpus)).collect();
    assert_eq!(running, [(2, 2.0), (1, 1.0)]);
    assert!(overview.nodes[1].pressure > overview.nodes[0].pressure);
}

/// A log is lines of JSON; what is read from it gives the same plans, byte for byte.
#[test]
fn a_replay_gives_the_same_plans() {
    let (log, nr_plans) = a_log();
    assert!(nr_plans > 1);
    let mut replay = Replay::default();
    let mut nr_same = 0;
    for line in &log {
        match replay.line(serde_json::from_str(line).unwrap()) {
            Replayed::Same => nr_same += 1,
            Replayed::Other => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(nr_same, nr_plans);
    // Somebody changed a snapshot: another plan.
    let changed = log.iter().map(|line| line.replace("\"ran\":1000000000", "\"ran\":1"));
    let mut replay = Replay::default();
    let replayed: Vec<_> =
        changed.map(|line| replay.line(serde_json::from_str(&line).unwrap())).collect();
    assert!(replayed.iter().any(|replayed| matches!(replayed, Replayed::Differs(_))));
    let mut nothing_before = Replay::default();
    let decided = serde_json::from_str(&log[1]).unwrap();
    assert!(matches!(nothing_before.line(decided), Replayed::NoBeginning));
    let mut begun = Replay::default();
    begun.line(serde_json::from_str(&log[0]).unwrap());
    let elsewhere = log[1].replace("\"found_on\":{\"0\"", "\"found_on\":{\"9\"");
    assert_ne!(elsewhere, log[1]);
    let elsewhere = begun.line(serde_json::from_str(&elsewhere).unwrap());
    assert!(matches!(elsewhere, Replayed::OtherMachine));
    let later = log[0].replacen(&format!("\"format\":{LOG_FORMAT}"), "\"format\":77", 1);
    let later = begun.line(serde_json::from_str(&later).unwrap());
    assert!(matches!(later, Replayed::OtherFormat(77)));
}

/// Forty seconds of a machine, and how many plans are in it.
fn a_log() -> (Vec<String>, usize) {
    let settings = Settings::default();
    let all = (0..8).map(|at| process(&[(0, 99 + 13 * u64::from(at)), (1, 7)], &[at])).collect();
    let mut world = World::new(4, 2, all);
    let mut reporter = world.reporter();
    let mut log = vec![json(&Line::Begin {
        format: LOG_FORMAT,
        unix_seconds: 0,
        machine: world.machine.clone(),
        settings: settings.clone(),
        state: State::default(),
    })];
    let mut nr_plans = 0;
    for at in 0..40 {
        world.at = Nanos(world.at.0 + SECOND);
        let snapshot = world.snapshot();
        let triggers = reporter.triggers(&snapshot);
        if triggers.is_empty() {
            continue;
        }
        let plan = reporter.plan(triggers, &snapshot);
        let steps = plan.steps.clone();
        log.push(json(&Line::Decided { snapshot, plan }));
        nr_plans += 1;
        for step in &steps {
            let outcome = world_outcome(&mut world, step);
            reporter.outcome(&outcome);
            log.push(json(&Line::Outcome(outcome)));
        }
        if at % 8 == 7 {
            // A log that is begun anew has what is remembered, and nothing else.
            let (machine, settings) = (world.machine.clone(), settings.clone());
            let state = reporter.state().clone();
            log.push(json(&Line::Begin {
                format: LOG_FORMAT,
                unix_seconds: 0,
                machine,
                settings,
                state,
            }));
        }
    }
    (log, nr_plans)
}

fn world_outcome(world: &mut World, step: &quartier_model::Step) -> Outcome {
    let outcome = world.carry_out(step);
    world.share_cpus();
    outcome
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

mod random {
    use super::*;
    use proptest::prelude::*;

    fn any_process() -> impl Strategy<Value = Process> {
        let memory = proptest::collection::btree_map(0..4u32, 1..400u64, 0..3);
        let threads = proptest::collection::vec((0..16u32, 0..=100u64, any::<bool>()), 1..6);
        let standing = prop_oneof![
            4 => Just(Standing::Free),
            1 => Just(Standing::AffinitySet),
            1 => Just(Standing::OptedOut),
            1 => Just(Standing::Watcher)
        ];
        (memory, threads, standing, 0..100u64).prop_map(|(mib_on, threads, standing, age)| {
            let threads = threads.into_iter().map(|(cpu, ran_percent, touches)| {
                super::super::world::Thread {
                    ran_percent,
                    waited_percent: (100 - ran_percent) / 2,
                    touched: touches.then(|| PerNode::from([(NodeId(cpu % 4), 50)])),
                    ..runs_on(cpu)
                }
            });
            let age = Nanos(age * SECOND);
            Process { mib_on, threads: threads.collect(), standing, age, ..process(&[], &[]) }
        })
    }

    proptest! {
        /// Whatever became of a log on its way, it is replayed or refused.
        #[test]
        fn a_damaged_log_harms_nobody(
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[0-9]{1,20}"), 1..6),
        ) {
            let (mut log, _) = a_log();
            for (line, at, digits) in damage {
                let line = line.index(log.len());
                let is_number = |from: &usize| log[line].as_bytes()[*from].is_ascii_digit();
                let numbers: Vec<_> = (1..log[line].len()).filter(is_number).collect();
                let from = numbers[at.index(numbers.len())];
                log[line].replace_range(from..=from, &digits);
            }
            let mut replay = Replay::default();
            for line in log {
                if let Ok(line) = serde_json::from_str(&line) {
                    replay.line(line);
                }
            }
        }

        /// It comes to rest, moves nothing that is not its to move, and nobody twice to no end.
        #[test]
        fn any_machine_comes_to_rest(
            processes in proptest::collection::vec(any_process(), 0..12),
            free_mib in 0..2000u64,
            capacities in proptest::option::of(proptest::collection::vec(1..=1024u32, 4)),
        ) {
            let mut world = World::new(4, 4, processes);
            world.free_mib = free_mib;
            let of_nodes = capacities.unwrap_or(vec![1024; 4]).into_iter().map(Capacity);
            let of_cpus = of_nodes.flat_map(|of| [Some(of); 4]);
            world.machine = power::with_capacities(&world.machine, of_cpus);
            let mut reporter = world.reporter();
            let mut moved = vec![0; world.processes.len()];
            for _ in 0..200 {
                let plan = world.step(&mut reporter);
                for step in &plan.steps {
                    let at = step.process.id as usize / 100 - 1;
                    moved[at] += 1;
                    prop_assert_eq!(world.processes[at].standing, Standing::Free);
                }
            }
            for (at, times) in moved.iter().enumerate() {
                prop_assert!(*times <= 6, "process {} was moved {} times", at, times);
            }
        }

        /// Single threads that use much memory, as many as there are CPUs at most, in the worst places.
        #[test]
        fn few_more_pages_move_than_must(
            memory in proptest::collection::vec((0..4u32, 64..400u64), 1..8),
        ) {
            let all = memory.iter().enumerate();
            let elsewhere = |at: usize, node: u32| (node + 1) % 4 * 2 + at as u32 % 2;
            let all = all.map(|(at, (node, mib))| process(&[(*node, *mib)], &[elsewhere(at, *node)]));
            let all = all.collect();
            let mut world = World::new(4, 2, all);
            let mut reporter = world.reporter();
            world.steps(&mut reporter, 60);
            for at in 0..memory.len() {
                prop_assert!(world.local_share(at) > 0.99, "process {}", at);
            }
            // Two CPUs a node: whoever is third or later on a node has to go, the smallest of them.
            let mut least = 0;
            for node in 0..4 {
                let mut there: Vec<_> =
                    memory.iter().filter(|(at, _)| *at == node).map(|(_, mib)| *mib).collect();
                there.sort_unstable();
                there.reverse();
                least += there.iter().skip(2).sum::<u64>();
            }
            prop_assert!(world.moved.0 * 10 <= Bytes::from_mib(least).0 * 13, "{} {}", world.moved, least);
        }
    }
}
