//! The Scheduler on processes of this machine, which is taken to have two nodes of one CPU each.

use std::path::Path;
use std::process::{Child, Command};

use quartier_act::affinity_of;
use quartier_act::scheduler::{Journal, Order, Scheduler};
use quartier_model::{
    Bytes, CpuList, Kind, Machine, Nanos, NodeId, Outcome, Pages, Refusal, Step, SyntheticSpec,
    Task, TaskId,
};

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn task(&self) -> Task {
        let id = self.0.id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let task = TaskId { id, start_ticks: fields[22 - 3].parse().unwrap() };
        Task { thread: task, process: task, parent: std::process::id() }
    }

    fn cpus(&self) -> CpuList {
        affinity_of(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn machine() -> Machine {
    SyntheticSpec::uniform(2, 1).machine().unwrap()
}

/// `None` on a machine with one CPU, where nobody can be held.
fn whole() -> Option<CpuList> {
    affinity_of(0).filter(|whole| whole.contains(0) && whole.contains(1))
}

fn scheduler(folder: &Path) -> Scheduler {
    Scheduler::new(machine(), Journal::open(&folder.join("journal"), "boot").unwrap())
}

fn step(task: &Task, kind: Kind, node: Option<u32>, pages: Pages) -> Step {
    let node = node.map(NodeId);
    let threads = vec![(task.thread, node)];
    Step { process: task.process, kind, threads, others: node, pages, gain: 1.0, cost: Nanos(0) }
}

fn carry_out(scheduler: &mut Scheduler, task: &Task, step: &Step, whole: &CpuList) -> Outcome {
    let order = Order { step, tasks: &[*task], whole, pages: Ok(Vec::new()) };
    scheduler.begin(Nanos(1), order).unwrap();
    let mut done = scheduler.go_on(Nanos(2), 100).unwrap();
    assert_eq!(done.len(), 1);
    done.remove(0)
}

#[test]
fn what_was_done_is_undone_also_by_whoever_comes_after() {
    let Some(whole) = whole() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Sleeper::new(), Sleeper::new());
    let mut killed = scheduler(folder.path());
    for sleeper in [&first, &second] {
        let gather = step(&sleeper.task(), Kind::Gather, Some(1), Pages::Stay);
        let outcome = carry_out(&mut killed, &sleeper.task(), &gather, &whole);
        assert_eq!((outcome.threads_held, outcome.refusal), (1, None));
        assert_eq!(sleeper.cpus(), "1".parse().unwrap());
    }
    drop(killed);
    drop(second);
    let mut next = scheduler(folder.path());
    assert_eq!(next.holds().len(), 2);
    assert!(next.owns(&first.task(), &first.cpus(), &whole).unwrap());
    next.sweep().unwrap();
    assert_eq!(next.holds().len(), 1, "one has ended");
    let undone = next.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!((undone.threads, undone.refused.len()), (1, 0));
    assert_eq!(first.cpus(), whole);
    drop(next);
    assert!(scheduler(folder.path()).holds().is_empty(), "it is not undone twice");
}

#[test]
fn a_step_that_is_taken_back_lets_go() {
    let Some(whole) = whole() else { return };
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let task = sleeper.task();
    let mut scheduler = scheduler(folder.path());
    carry_out(&mut scheduler, &task, &step(&task, Kind::Gather, Some(0), Pages::Stay), &whole);
    carry_out(&mut scheduler, &task, &step(&task, Kind::TakeBack, None, Pages::Back), &whole);
    assert_eq!((sleeper.cpus(), scheduler.holds().len()), (whole, 0));
}

#[test]
fn who_is_placed_by_somebody_meanwhile_is_his() {
    let Some(whole) = whole() else { return };
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let task = sleeper.task();
    let mut scheduler = scheduler(folder.path());
    carry_out(&mut scheduler, &task, &step(&task, Kind::Gather, Some(0), Pages::Stay), &whole);
    let id = sleeper.0.id().to_string();
    let taskset = Command::new("taskset").args(["-p", "-c", "1", &id]).output().unwrap();
    assert!(taskset.status.success());
    assert!(!scheduler.owns(&task, &sleeper.cpus(), &whole).unwrap());
    let again = step(&task, Kind::Gather, Some(0), Pages::Stay);
    let outcome = carry_out(&mut scheduler, &task, &again, &whole);
    assert_eq!((outcome.threads_held, outcome.threads_left), (0, 1));
    scheduler.undo(|_| Ok(Vec::new()), |_| ()).unwrap();
    assert_eq!(sleeper.cpus(), "1".parse().unwrap());
}

#[test]
fn why_pages_stay_is_said() {
    let Some(whole) = whole() else { return };
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let task = sleeper.task();
    let mut scheduler = scheduler(folder.path());
    let to = Pages::To { node: NodeId(0), bytes: Bytes(4096) };
    let gather = step(&task, Kind::Gather, Some(0), to);
    let pages = Err(Refusal::PolicyUnknown);
    let order = Order { step: &gather, tasks: &[task], whole: &whole, pages };
    scheduler.begin(Nanos(1), order).unwrap();
    let outcome = scheduler.go_on(Nanos(2), 100).unwrap().remove(0);
    assert_eq!((outcome.threads_held, outcome.refusal), (1, Some(Refusal::PolicyUnknown)));
    drop(sleeper);
    let ended = step(&task, Kind::Gather, Some(0), Pages::Stay);
    let outcome = carry_out(&mut scheduler, &task, &ended, &whole);
    assert_eq!((outcome.threads_held, outcome.refusal), (0, Some(Refusal::Ended)));
}
