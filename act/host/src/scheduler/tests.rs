//! The Scheduler on processes of this machine, which is taken to have two nodes of one CPU each.

use std::path::Path;
use std::process::Command;

use quartier_model::{NodeOsId, SyntheticSpec};

use super::sleeper::Sleeper;
use super::*;
use crate::affinity_of;

/// Of a turn.
const PACE: Pace = Pace { pages_max: 100, threads_max: 4 };

/// A process, and a Scheduler that may place it.
struct Scene {
    whole: CpuList,
    folder: tempfile::TempDir,
    sleeper: Sleeper,
    task: Task,
}

impl Scene {
    /// `None` on a machine with one CPU, where nobody can be held.
    fn new() -> Option<Self> {
        let whole = affinity_of(0).filter(|whole| whole.contains(0) && whole.contains(1))?;
        let sleeper = Sleeper::new();
        let task = sleeper.task();
        Some(Self { whole, folder: tempfile::tempdir().unwrap(), sleeper, task })
    }

    fn scheduler(&self) -> Scheduler {
        let machine = SyntheticSpec::uniform(2, 1).machine().unwrap();
        Scheduler::new(machine, journal(self.folder.path()))
    }

    fn carry_out(&self, scheduler: &mut Scheduler, kind: Kind, node: Option<u32>) -> Outcome {
        let pages = if kind == Kind::TakeBack { PagesTo::Back } else { PagesTo::Stay };
        self.carry_out_with(scheduler, &self.step(kind, node, pages), Ok(Vec::new()))
    }

    fn carry_out_with(
        &self,
        scheduler: &mut Scheduler,
        step: &Step,
        pages: Result<Pages, Refusal>,
    ) -> Outcome {
        let order = Order { step, tasks: &[self.task], whole: &self.whole, group: None, pages };
        scheduler.begin(Nanos(1), order).unwrap();
        let mut done = scheduler.go_on(Nanos(2), PACE).unwrap();
        assert_eq!(done.len(), 1);
        done.remove(0)
    }

    fn step(&self, kind: Kind, node: Option<u32>, pages: PagesTo) -> Step {
        let node = node.map(NodeId);
        let threads = vec![(self.task.thread, node)];
        let process = self.task.process;
        Step { process, kind, threads, others: node, pages, gain: 1.0, cost: Nanos(0) }
    }
}

fn journal(folder: &Path) -> Journal {
    Journal::open_after(&folder.join("journal"), "boot").unwrap()
}

fn cpus(sleeper: &Sleeper) -> CpuList {
    sleeper.affinity().iter().collect()
}

#[test]
fn who_is_left_to_somebody_else_keeps_what_it_has_also_when_all_is_undone() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    let second = Sleeper::new();
    scene.carry_out(&mut scheduler, Kind::Gather, Some(1));
    let held = cpus(&scene.sleeper);
    scheduler.leave(scene.task.process).unwrap();
    assert!(scheduler.holds().is_empty());
    scheduler.leave(second.task().process).unwrap();
    let undone = scheduler.undo(|_| Ok(Vec::new()), |_| {}).unwrap();
    assert_eq!((undone.threads, cpus(&scene.sleeper)), (0, held));
    // Nor does whoever comes after know of it.
    drop(scheduler);
    assert!(scene.scheduler().holds().is_empty());
}

#[test]
fn what_was_done_is_undone_also_by_whoever_comes_after() {
    let Some(scene) = Scene::new() else { return };
    let second = Sleeper::new();
    let both = [&scene.sleeper, &second];
    let mut killed = scene.scheduler();
    for sleeper in both {
        let task = sleeper.task();
        let one = Step {
            process: task.process,
            threads: vec![(task.thread, Some(NodeId(1)))],
            ..scene.step(Kind::Gather, Some(1), PagesTo::Stay)
        };
        let (tasks, pages) = (&[task], Ok(Vec::new()));
        let order = Order { step: &one, tasks, whole: &scene.whole, group: None, pages };
        killed.begin(Nanos(1), order).unwrap();
        let outcome = killed.go_on(Nanos(2), PACE).unwrap().remove(0);
        assert_eq!((outcome.threads_held, outcome.refusal), (1, None));
        assert_eq!(cpus(sleeper), "1".parse().unwrap());
    }
    drop(killed);
    drop(second);
    let mut next = scene.scheduler();
    assert_eq!(next.holds().len(), 2);
    assert!(next.owns(&scene.task, &cpus(&scene.sleeper), &scene.whole).unwrap());
    next.sweep(Nanos(0)).unwrap();
    assert_eq!(next.holds().len(), 1, "one has ended");
    let undone = next.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!((undone.threads, undone.refused.len()), (1, 0));
    assert_eq!(cpus(&scene.sleeper), scene.whole);
    drop(next);
    assert!(scene.scheduler().holds().is_empty(), "it is not undone twice");
}

#[test]
fn a_step_that_is_taken_back_lets_go() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    for kind in [Kind::TakeBack, Kind::LetGo] {
        scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
        assert_eq!((cpus(&scene.sleeper), scheduler.holds().len()), ("0".parse().unwrap(), 1));
        scene.carry_out(&mut scheduler, kind, None);
        assert_eq!((cpus(&scene.sleeper), scheduler.holds().len()), (scene.whole.clone(), 0));
    }
}

#[test]
fn who_is_placed_by_somebody_meanwhile_is_his() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
    let id = scene.task.thread.id.to_string();
    let taskset = Command::new("taskset").args(["-p", "-c", "1", &id]).output().unwrap();
    assert!(taskset.status.success());
    assert!(!scheduler.owns(&scene.task, &cpus(&scene.sleeper), &scene.whole).unwrap());
    let outcome = scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
    assert_eq!((outcome.threads_held, outcome.threads_left), (0, 1));
    scheduler.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!(cpus(&scene.sleeper), "1".parse().unwrap());
}

/// The affinity that a thread has and what its cpuset leaves to it were read while both changed.
#[test]
fn who_seems_placed_by_somebody_for_a_moment_is_still_held() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
    let seen = |text: &str| text.parse::<CpuList>().unwrap();
    for (now, whole, is_ours) in [
        ("1", "0-1", false),
        ("0", "0-1", true),
        ("1", "0-1", false),
        ("1", "1", true),
        // Looked at twice, and never alike.
        ("1", "0-1", false),
        ("1", "0-2", false),
    ] {
        let owns = scheduler.owns(&scene.task, &seen(now), &seen(whole)).unwrap();
        assert_eq!((owns, scheduler.holds().len()), (is_ours, 1), "{now} of {whole}");
    }
    let undone = scheduler.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!((undone.threads, undone.refused.len()), (1, 0));
    assert_eq!(cpus(&scene.sleeper), scene.whole);
}

#[test]
fn who_is_somebodys_at_two_looks_is_not_held_any_more() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
    crate::affinity::set(scene.task.thread.id, &[1].into_iter().collect()).unwrap();
    for left in [1, 0] {
        let now = cpus(&scene.sleeper);
        assert!(!scheduler.owns(&scene.task, &now, &scene.whole).unwrap());
        assert_eq!(scheduler.holds().len(), left);
    }
    assert_eq!(cpus(&scene.sleeper), "1".parse().unwrap());
}

#[test]
fn who_could_not_be_let_go_stays_in_the_journal() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    scene.carry_out(&mut scheduler, Kind::Gather, Some(0));
    // None of the CPUs that it had are left to it.
    let mut held = scheduler.holds().get(&scene.task).unwrap().clone();
    let as_it_was = std::mem::replace(&mut held.before, Mask::from(&CpuBits::EMPTY));
    scheduler.journal.write(Entry::Hold(scene.task.thread, held.clone())).unwrap();
    let refused = scheduler.release(None).unwrap();
    assert_eq!(refused, [(scene.task.thread, HoldError::Cpuset)]);
    drop(scheduler);
    let mut next = scene.scheduler();
    assert_eq!(next.holds().len(), 1);
    held.before = as_it_was;
    next.journal.write(Entry::Hold(scene.task.thread, held)).unwrap();
    assert_eq!((next.release(None).unwrap(), next.holds().len()), (Vec::new(), 0));
    assert_eq!(cpus(&scene.sleeper), scene.whole);
}

#[test]
fn pages_that_could_not_be_moved_back_stay_in_the_journal() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    let process = scene.task.process;
    let block = Block::of(1, [(0, NodeOsId(0))]);
    scheduler.journal.write(Entry::Moved(process, vec![block])).unwrap();
    let undone = scheduler.undo(|_| Err(Refusal::PolicyUnknown), |_| ()).unwrap();
    assert_eq!(undone.outcomes[0].refusal, Some(Refusal::PolicyUnknown));
    drop(scheduler);
    // Whoever may, later.
    let mut next = scene.scheduler();
    assert!(next.journal.changes().moved.contains_key(&process));
    let undone = next.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!(undone.outcomes[0].refusal, None);
    assert!(next.journal.changes().moved.is_empty());
}

#[test]
fn a_step_is_taken_back_and_not_those_before_it() {
    let Some(scene) = Scene::new() else { return };
    let process = scene.task.process;
    // Of a block of which few pages were elsewhere only those go back.
    let block = |index, from| Block::of(index, [(3 * u64::from(from), NodeOsId(from))]);
    let first = [block(1, 0), block(2, 0)];
    // What the latest step moved, where it goes back to, and whether all is as at first then.
    for (latest, goal, is_all) in [
        (Some(vec![]), vec![], false),
        (Some(vec![block(2, 1)]), vec![block(2, 1)], false),
        (Some(first.to_vec()), first.to_vec(), true),
        (None, first.to_vec(), true),
    ] {
        let mut scheduler = scene.scheduler();
        scheduler.journal.write(Entry::Moved(process, first.to_vec())).unwrap();
        if let Some(latest) = latest {
            let by_index = latest.into_iter().map(|block: Block| (block.index, block));
            scheduler.latest.insert(process, by_index.collect());
        }
        let step = scene.step(Kind::TakeBack, None, PagesTo::Back);
        let (whole, pages) = (&scene.whole, Ok(Vec::new()));
        let order = Order { step: &step, tasks: &[], whole, group: None, pages };
        scheduler.begin(Nanos(1), order).unwrap();
        assert_eq!(scheduler.moves[0].0.goal(), &Goal::Back(goal));
        scheduler.go_on(Nanos(2), PACE).unwrap();
        assert_eq!(scheduler.journal.changes().moved.is_empty(), is_all);
    }
}

#[test]
fn why_pages_stay_is_said() {
    let Some(mut scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    let to = PagesTo::To { node: NodeId(0), bytes: Bytes(4096) };
    let gather = scene.step(Kind::Gather, Some(0), to);
    let outcome = scene.carry_out_with(&mut scheduler, &gather, Err(Refusal::PolicyUnknown));
    assert_eq!((outcome.threads_held, outcome.refusal), (1, Some(Refusal::PolicyUnknown)));
    let gather = scene.step(Kind::Gather, Some(0), PagesTo::Stay);
    scene.sleeper = Sleeper::new();
    let outcome = scene.carry_out_with(&mut scheduler, &gather, Ok(Vec::new()));
    assert_eq!((outcome.threads_held, outcome.refusal), (0, Some(Refusal::Ended)));
}

#[test]
fn pages_do_not_leave_threads_that_cannot_be_held() {
    let Some(scene) = Scene::new() else { return };
    let mut scheduler = scene.scheduler();
    let to = PagesTo::To { node: NodeId(0), bytes: Bytes(4096) };
    let gather = scene.step(Kind::Gather, Some(0), to);
    for (whole, stay) in [("1", true), ("0-1", false)] {
        let order = Order {
            step: &gather,
            tasks: &[scene.task],
            whole: &whole.parse().unwrap(),
            group: None,
            pages: Ok(vec![(1 << 21, 2 << 21)]),
        };
        scheduler.begin(Nanos(1), order).unwrap();
        let (running, outcome) = &scheduler.moves[0];
        assert_eq!(running.is_done(), stay, "{whole}");
        assert_eq!(outcome.refusal, stay.then_some(Refusal::Cpuset));
    }
}

#[test]
fn nothing_is_done_to_a_machine_that_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let machine: Machine = SyntheticSpec::uniform(2, 2).machine().unwrap();
    let journal = folder.path().join("journal");
    for machine in [machine.clone(), machine.saved_as("decision log")] {
        let error = Scheduler::open(machine, &journal).unwrap_err();
        assert!(matches!(error, JournalError::NotLive) && !journal.exists(), "{error}");
    }
}

#[test]
fn pages_are_moved_by_as_many_threads_as_are_asked_for_and_none_is_left_out() {
    let touched = vec![7_u8; 64 << 12];
    let first = (touched.as_ptr() as u64).next_multiple_of(4096);
    for (nr, threads) in [(63, 1), (63, 4), (63, 100), (15, 4), (1, 4), (0, 4)] {
        let pages: Vec<u64> = (0..nr).map(|page| first + (page << 12)).collect();
        let (nodes, mut status) = (vec![0; pages.len()], vec![-1; pages.len()]);
        let mut calls = ProcessPages { pid: std::process::id(), threads };
        calls.move_to(&pages, &nodes, &mut status).unwrap();
        assert!(status.iter().all(|node| *node == 0), "{nr} by {threads}: {status:?}");
    }
    assert!(touched.iter().all(|byte| *byte == 7));
    // Beyond what the kernel gives as an id.
    let mut calls = ProcessPages { pid: (1 << 22) + 1, threads: 4 };
    let error = calls.move_to(&[first; 64], &[0; 64], &mut [0; 64]).unwrap_err();
    assert_eq!(error, quartier_kernel::Errno::ESRCH);
}
