//! Processes that need more than a node.

use std::collections::BTreeMap;

use quartier_model::{
    BLOCK, Bytes, Kind, NodeId, Pages, PerNode, Plan, Step, Trigger, Unseen, Users, Why,
};

use super::super::world::{Block, Process, Sight, World, process, seen_process, thread_id};
use super::{first_plan, json, somebodys, why};
use crate::reporter::log::{LOG_FORMAT, Line, Replay, Replayed};
use crate::reporter::{Settings, State};

const EIGHT: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn world_of(process: Process) -> World {
    World::new(4, 2, vec![process])
}

/// Blocks on node 0, of which each thread touches its own.
fn parts(blocks_each: usize, touches: u64) -> Vec<Block> {
    let block = |at| Block { on: NodeId(0), by: vec![(at / blocks_each, touches)] };
    (0..8 * blocks_each).map(block).collect()
}

fn homes(step: &Step) -> BTreeMap<u32, NodeId> {
    step.threads.iter().map(|(id, node)| (id.id, node.expect("it is held"))).collect()
}

fn goals(step: &Step) -> &[(u64, NodeId)] {
    match &step.pages {
        Pages::ToUsers { blocks, .. } => blocks,
        other => panic!("{other:?}"),
    }
}

/// The only step of the first plan, after it was carried out.
fn split(world: &mut World) -> Step {
    let (plan, mut reporter) = first_plan(world);
    let Plan { mut steps, left, .. } = plan;
    assert_eq!((steps.len(), left.len()), (1, 0), "{left:?}");
    assert_eq!((steps[0].kind, steps[0].others), (Kind::Split, None));
    let mut per_node = BTreeMap::<NodeId, usize>::new();
    homes(&steps[0]).values().for_each(|node| *per_node.entry(*node).or_default() += 1);
    assert!(per_node.len() == 4 && per_node.values().all(|nr| *nr == 2), "{per_node:?}");
    assert_eq!(world.steps(&mut reporter, 60), [], "and stays so");
    steps.remove(0)
}

#[test]
fn each_thread_goes_to_a_node_with_its_part() {
    let mut world = world_of(seen_process(&EIGHT, parts(16, 4)));
    let step = split(&mut world);
    let homes = homes(&step);
    let mut expected = Vec::new();
    for at in 0..8 * 16 {
        let home = homes[&thread_id(0, at / 16).id];
        // What is there already does not move.
        expected.extend((home != NodeId(0)).then_some((at as u64, home)));
    }
    assert_eq!(goals(&step), expected);
    let bytes = Bytes(BLOCK.0 * 6 * 16);
    assert!(matches!(step.pages, Pages::ToUsers { bytes: at_most, .. } if at_most == bytes));
    assert_eq!(step.cost.0, bytes.0 / 4096 * 2000);
    assert_eq!(world.moved, bytes);
}

#[test]
fn a_thread_shares_its_cpu_with_who_runs_least() {
    for (cpu, ran_percent) in [(0, 60), (5, 60), (7, 90)] {
        let all = vec![seen_process(&EIGHT, parts(16, 4)), somebodys(cpu, ran_percent)];
        let mut world = World::new(4, 2, all);
        let (plan, _) = first_plan(&mut world);
        let mut per_node = [0; 4];
        homes(&plan.steps[0]).values().for_each(|node| per_node[node.index()] += 1);
        assert_eq!(per_node, [2; 4], "beside one on CPU {cpu} that runs {ran_percent} %");
    }
}

#[test]
fn a_cpu_is_left_to_who_runs_most_of_the_time_if_there_are_enough() {
    let all = vec![seen_process(&EIGHT[..7], parts(16, 4)), somebodys(5, 60)];
    let (plan, _) = first_plan(&mut World::new(4, 2, all));
    let on_its_node = homes(&plan.steps[0]).values().filter(|node| **node == NodeId(2)).count();
    assert_eq!(on_its_node, 1, "{plan:?}");
}

#[test]
fn threads_that_share_blocks_with_their_neighbours_keep_most_of_their_own() {
    // The last block of each part is touched by the next thread, too.
    let mut blocks = parts(16, 8);
    for at in 0..7 {
        blocks[at * 16 + 15].by = vec![(at, 4), (at + 1, 4)];
    }
    let mut world = world_of(seen_process(&EIGHT, blocks));
    let step = split(&mut world);
    let homes = homes(&step);
    for (index, node) in goals(&step) {
        let at = *index as usize / 16;
        assert_eq!(*node, homes[&thread_id(0, at).id]);
        if *index % 16 == 15 && at < 7 {
            assert_eq!(*node, homes[&thread_id(0, at + 1).id], "both are there");
        }
    }
}

#[test]
fn data_that_all_threads_read_stays() {
    // Each thread has a part of its own, and as much again all of them read.
    let mut blocks = parts(16, 4);
    let shared = |_| Block { on: NodeId(0), by: (0..8).map(|thread| (thread, 1)).collect() };
    blocks.extend((0..128).map(shared));
    let mut world = world_of(seen_process(&EIGHT, blocks));
    let step = split(&mut world);
    assert_eq!(goals(&step).len(), 6 * 16);
    assert!(goals(&step).iter().all(|(index, _)| *index < 128), "{step:?}");
}

#[test]
fn where_all_is_shared_nothing_is_done() {
    let shared = |_| Block { on: NodeId(0), by: (0..8).map(|thread| (thread, 1)).collect() };
    let mut world = world_of(seen_process(&EIGHT, (0..128).map(shared).collect()));
    let (plan, _) = first_plan(&mut world);
    assert!(matches!(why(&plan, 0), Why::GainsLittle { .. } | Why::WellPlaced), "{plan:?}");
}

#[test]
fn few_touches_by_chance_are_no_reason_to_move() {
    // Each block was touched once, by anybody: that may be a part of its own, or what all share.
    let mut world = world_of(seen_process(&EIGHT, parts(16, 1)));
    let (plan, _) = first_plan(&mut world);
    assert!(plan.steps.iter().all(|step| step.pages == Pages::Stay), "{plan:?}");
}

#[test]
fn threads_are_grouped_near_what_they_use_if_not_more_is_known() {
    // Pages lie right already, threads do not: each runs on the next node. Of which blocks they are is not known.
    let mut big = process(&[(0, 128), (1, 128), (2, 128), (3, 128)], &EIGHT);
    for (at, thread) in (0u32..).zip(&mut big.threads) {
        thread.touched = Some(PerNode::from([(NodeId((at / 2 + 1) % 4), 40)]));
    }
    let mut world = world_of(big);
    let step = split(&mut world);
    assert_eq!((&step.pages, step.cost.0), (&Pages::Stay, 0));
    let homes = homes(&step);
    for at in 0..8 {
        assert_eq!(homes[&thread_id(0, at).id], NodeId((at as u32 / 2 + 1) % 4));
    }
}

#[test]
fn why_users_are_unknown_is_said_with_what_helps() {
    use Unseen::{BalancingOff, NoDescriptors, NotPermitted, NotWatched, TooFew, Unsupported};
    for unseen in [BalancingOff, NotPermitted, Unsupported, NoDescriptors, NotWatched] {
        let mut world = world_of(Process { users: Sight::Unseen(unseen), ..big() });
        let (plan, _) = first_plan(&mut world);
        assert_eq!((plan.steps.len(), why(&plan, 0)), (0, Why::UsersUnknown(unseen)));
    }
    let (plan, _) = first_plan(&mut world_of(big()));
    assert_eq!(why(&plan, 0), Why::UsersUnknown(NotWatched));
    let balancing_off = Why::UsersUnknown(BalancingOff).to_string();
    assert!(balancing_off.contains("kernel.numa_balancing"), "{balancing_off}");

    // Three threads of eight are known.
    let few = |at: usize| Block { on: NodeId(0), by: vec![(at % 3, 9)] };
    let (plan, _) = first_plan(&mut world_of(seen_process(&EIGHT, (0..64).map(few).collect())));
    assert_eq!((plan.steps.len(), why(&plan, 0)), (0, Why::UsersUnknown(TooFew)));
    // Of half of them it is worth something.
    let half = |at: usize| Block { on: NodeId(0), by: vec![(at % 4, 9)] };
    let (plan, _) = first_plan(&mut world_of(seen_process(&EIGHT, (0..64).map(half).collect())));
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
}

fn big() -> Process {
    process(&[(0, 512)], &EIGHT)
}

#[test]
fn what_was_lost_is_not_taken_for_untouched() {
    let touches = 8 * 16 * 4;
    for (lost, is_split) in [(touches, true), (touches + 1, false)] {
        let mut world = world_of(Process { lost, ..seen_process(&EIGHT, parts(16, 4)) });
        let (plan, _) = first_plan(&mut world);
        assert_eq!(plan.steps.len() == 1, is_split, "{plan:?}");
        if !is_split {
            assert_eq!(why(&plan, 0), Why::UsersUnknown(Unseen::Lost));
        }
    }
}

#[test]
fn it_is_looked_again_when_users_become_known() {
    let mut world = world_of(Process { users: Sight::Unseen(Unseen::TooFew), ..big() });
    let (_, mut reporter) = first_plan(&mut world);
    world.at.0 += 1_000_000_000;
    assert!(!reporter.triggers(&world.snapshot()).contains(&Trigger::Changed));
    world.processes[0].users = Sight::Blocks(parts(32, 4));
    assert!(reporter.triggers(&world.snapshot()).contains(&Trigger::Changed));
    assert_eq!(world.step(&mut reporter).steps.len(), 1);
}

#[test]
fn blocks_go_only_where_there_is_room() {
    let mut world = world_of(seen_process(&EIGHT, parts(16, 4)));
    // 64 MiB stay free whatever moves there.
    world.free_mib = 64 + 20;
    let (plan, _) = first_plan(&mut world);
    let mut to = BTreeMap::<NodeId, u64>::new();
    goals(&plan.steps[0]).iter().for_each(|(_, node)| *to.entry(*node).or_default() += 1);
    assert_eq!(to, BTreeMap::from([(NodeId(1), 10), (NodeId(2), 10), (NodeId(3), 10)]));
}

#[test]
fn what_is_seen_later_moves_later() {
    // At first half of each part was seen.
    let mut blocks = parts(32, 4);
    let whole = blocks.clone();
    for block in blocks.iter_mut().skip(1).step_by(2) {
        block.by.clear();
    }
    let mut world = world_of(seen_process(&EIGHT, blocks));
    let (plan, mut reporter) = first_plan(&mut world);
    let first = plan.steps[0].clone();
    assert_eq!(goals(&first).len(), 6 * 16);
    let Sight::Blocks(blocks) = &mut world.processes[0].users else { unreachable!() };
    for (block, whole) in blocks.iter_mut().zip(whole) {
        block.by = whole.by;
    }
    let steps = world.steps(&mut reporter, 120);
    let later: Vec<_> = steps.iter().filter(|step| step.kind == Kind::Split).collect();
    assert_eq!(later.len(), 1, "{steps:?}");
    assert_eq!(goals(later[0]).len(), 6 * 16, "the other half");
    assert_eq!(homes(later[0]), homes(&first));
}

/// What is decided about blocks is in the plan, and follows from the snapshot alone.
#[test]
fn a_split_is_replayed_to_the_last_block() {
    let mut blocks = parts(16, 4);
    for at in 0..7 {
        blocks[at * 16 + 15].by = vec![(at, 4), (at + 1, 4)];
    }
    let world = world_of(seen_process(&EIGHT, blocks));
    let begin = Line::Begin {
        format: LOG_FORMAT,
        unix_seconds: 0,
        machine: world.machine.clone(),
        settings: Settings::default(),
        state: State::default(),
    };
    let snapshot = world.snapshot();
    let mut reporter = world.reporter();
    let plan = reporter.plan(reporter.triggers(&snapshot), &snapshot);
    assert!(goals(&plan.steps[0]).len() > 90);
    let again = |line: &Line| serde_json::from_str(&json(line)).unwrap();
    let mut replay = Replay::default();
    replay.line(again(&begin));
    let decided = Line::Decided { snapshot: snapshot.clone(), plan: plan.clone() };
    assert!(matches!(replay.line(again(&decided)), Replayed::Same));
    // Had one block not been seen, it would not move.
    let mut other = snapshot;
    let Some(Users::Seen(touches)) = &mut other.processes[0].users else { unreachable!() };
    touches.blocks.retain(|block| block.index != goals(&plan.steps[0])[0].0);
    let mut replay = Replay::default();
    replay.line(begin);
    assert!(matches!(replay.line(Line::Decided { snapshot: other, plan }), Replayed::Differs(_)));
}
