//! The Scheduler (UNAS, algorithm 3): holds threads on nodes and moves their pages, as a plan says, and
//! takes all of it back.
//!
//! Whatever it is about to change it writes into a journal first, with what was there before; so a Scheduler
//! that comes after one that was killed can restore it. Nobody's affinity is changed but one that nobody else
//! set; that is asked of the kernel again just before.

mod blocks;
mod cpuset;
mod group;
mod holds;
mod journal;
mod mask;
mod mover;
mod task;

#[cfg(test)]
mod sleeper;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use cpuset::Groups;
use quartier_model::{
    ByCpuset, Bytes, CpuList, Kind, Machine, Nanos, NoCpuset, NodeId, Origin, Outcome,
    Pages as PagesTo, Refusal, Step, Task, TaskId,
};
use quartier_session::CpuBits;

pub use blocks::{Block, Blocks, PageSet};
pub use cpuset::Narrowed;
pub use group::Group;
pub use holds::{Held, HoldError, Holds};
pub use journal::{Changes, Entry, Journal, JournalError};
pub use mask::Mask;
pub use mover::{Batch, Goal, Move, PageCalls, Pages, ProcessPages};
pub use task::start_ticks;

/// A step with what is to be known about its process.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// What to do.
    pub step: &'a Step,
    /// All threads of the process that may be placed, sleeping ones too.
    pub tasks: &'a [Task],
    /// The CPUs that its cpuset leaves to it, or all that are online.
    pub whole: &'a CpuList,
    /// Its control group, if that is known.
    pub group: Option<Group<'a>>,
    /// The ranges of its memory that may be moved, or why none may.
    pub pages: Result<Pages, Refusal>,
}

/// What [`Scheduler::undo`] took back.
#[derive(Debug, Default)]
pub struct Undone {
    /// Threads that were held.
    pub threads: usize,
    /// Those that were not let go, because somebody else has placed them meanwhile, or it is not permitted.
    pub refused: Vec<(TaskId, HoldError)>,
    /// Control groups whose CPUs were narrowed.
    pub groups: usize,
    /// Those that may not be written any more.
    pub groups_refused: Vec<(String, NoCpuset)>,
    /// What came of moving pages back, by process.
    pub outcomes: Vec<Outcome>,
}

/// How much is moved at once, and by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// About so many pages.
    pub pages_max: u64,
    /// At most.
    pub threads_max: usize,
}

impl Pace {
    /// Of taking back: 64 MiB a call, so that no process is gone through at one go.
    const BACK: Self = Self { pages_max: 16_384, threads_max: 1 };
}

/// What has come of a step so far.
#[must_use]
pub fn nothing_done(process: TaskId, at: Nanos) -> Outcome {
    Outcome {
        at,
        process,
        threads_held: 0,
        threads_left: 0,
        moved: Bytes(0),
        stayed: Bytes(0),
        refusal: None,
        by_cpuset: None,
    }
}

/// A cpuset and the affinities below it do not change at the same time: so long it may look as if somebody had set one.
const UNSETTLED: Duration = Duration::from_millis(200);
/// Whether tasks that we changed are still there is asked this often.
const SWEEP: Nanos = Nanos(5_000_000_000);

/// Carries plans out.
#[derive(Debug)]
pub struct Scheduler {
    machine: Machine,
    journal: Journal,
    groups: Groups,
    moves: VecDeque<(Move, Outcome)>,
    /// What the latest step of each process moved, by index: the journal knows where blocks were before the first.
    latest: BTreeMap<TaskId, Blocks>,
    /// Threads that are held and did not have what we set when it was looked last: what they had, and could have.
    doubted: BTreeMap<TaskId, (Mask, Mask)>,
    next_sweep: Nanos,
}

impl Scheduler {
    /// One that goes on where an earlier one of this machine has ended that wrote this journal.
    ///
    /// # Errors
    /// When this is not the machine that runs, or there can be no journal.
    pub fn open(machine: Machine, journal: &Path) -> Result<Self, JournalError> {
        match machine.origin() {
            Origin::Live { .. } => Ok(Self::new(machine, Journal::open(journal)?)),
            Origin::Gathered { .. } | Origin::Synthetic { .. } => Err(JournalError::NotLive),
        }
    }

    fn new(machine: Machine, journal: Journal) -> Self {
        Self {
            machine,
            journal,
            groups: Groups::live(),
            moves: VecDeque::new(),
            latest: BTreeMap::new(),
            doubted: BTreeMap::new(),
            next_sweep: Nanos(0),
        }
    }

    /// Threads that are held.
    #[must_use]
    pub fn holds(&self) -> &Holds {
        &self.journal.changes().held
    }

    /// Whether an affinity is what we set, for the thread or for whoever made it: then it is held from now on. If it is not,
    /// twice in the same way, that is somebody's will, or the kernel has forgotten: it is not held any more.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn owns(
        &mut self,
        task: &Task,
        now: &CpuList,
        whole: &CpuList,
    ) -> Result<bool, JournalError> {
        let (now, whole) = (now.iter().collect(), whole.iter().collect());
        let whence = self.holds().whence(task, &now, &whole);
        match (whence, self.holds().get(task)) {
            (Some(_), Some(_)) => {
                self.doubted.remove(&task.thread);
                Ok(true)
            }
            (None, None) => Ok(false),
            (Some(maker), None) => {
                let held = Held { process: task.process, ..maker.clone() };
                self.journal.write(Entry::Hold(task.thread, held))?;
                Ok(true)
            }
            (None, Some(held)) => {
                let held = held.clone();
                self.doubt(task, &held, (Mask::from(&now), Mask::from(&whole)))?;
                Ok(false)
            }
        }
    }

    /// A thread has not what we set: what it has, and what its cpuset leaves to it.
    fn doubt(&mut self, task: &Task, held: &Held, seen: (Mask, Mask)) -> Result<(), JournalError> {
        if self.doubted.insert(task.thread, seen.clone()) != Some(seen) {
            return Ok(());
        }
        // Where it has all that there is, nothing of ours is to come into effect later.
        let _ = holds::release(&self.groups, task.thread, held);
        self.forget(task.process, task.thread)
    }

    /// Somebody else places a process from now on: its group gets its CPUs back, its threads keep what they have.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn leave(&mut self, process: TaskId) -> Result<(), JournalError> {
        self.widen(Some(process))?;
        let held: Vec<_> = self.holds().of(Some(process)).map(|(thread, _)| *thread).collect();
        held.into_iter().try_for_each(|thread| self.forget(process, thread))
    }

    /// A thread is not held any more.
    fn forget(&mut self, process: TaskId, thread: TaskId) -> Result<(), JournalError> {
        self.doubted.remove(&thread);
        self.journal.write(Entry::Free { process, thread })
    }

    /// Begins a step. What holding threads came to is part of the outcome that [`Self::go_on`] gives when its pages
    /// are moved.
    ///
    /// # Errors
    /// When the journal cannot be written: then nothing more is done.
    pub fn begin(&mut self, at: Nanos, order: Order<'_>) -> Result<(), JournalError> {
        let whole: CpuBits = order.whole.iter().collect();
        let mut outcome = nothing_done(order.step.process, at);
        if order.step.kind.is_release() {
            self.release(Some(order.step.process))?;
        }
        outcome.by_cpuset = self.place_group(&order, &whole)?;
        let Order { step, tasks, pages, .. } = order;
        match outcome.by_cpuset {
            Some(ByCpuset::Group(_)) => {
                outcome.threads_held = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
            }
            _ => self.place_threads(step, tasks, &whole, &mut outcome)?,
        }
        // Pages do not leave threads that could not be held.
        let is_held = outcome.threads_held > 0 || step.kind.is_release();
        let pages = outcome.refusal.filter(|_| !is_held).map_or(pages, Err);
        self.begin_move(step, pages, outcome);
        Ok(())
    }

    fn place_threads(
        &mut self,
        step: &Step,
        tasks: &[Task],
        whole: &CpuBits,
        outcome: &mut Outcome,
    ) -> Result<(), JournalError> {
        for task in tasks {
            let listed = step.threads.iter().find(|(thread, _)| *thread == task.thread);
            // Whoever is not to be held has been let go.
            let Some(node) = listed.map_or(step.others, |(_, node)| *node) else { continue };
            match self.place(task, node, whole)? {
                Ok(()) => outcome.threads_held += 1,
                Err(HoldError::NotPermitted) => outcome.refusal = Some(Refusal::NotPermitted),
                Err(HoldError::Cpuset) => outcome.refusal = Some(Refusal::Cpuset),
                Err(HoldError::Ended | HoldError::SetBySomebody) => outcome.threads_left += 1,
            }
        }
        Ok(())
    }

    fn begin_move(&mut self, step: &Step, pages: Result<Pages, Refusal>, mut outcome: Outcome) {
        // An earlier move of the same process ends where it is.
        self.moves.retain(|(running, _)| running.process() != step.process);
        let os_id = |node: NodeId| self.machine.nodes()[node.index()].os_id;
        if !step.kind.is_release() {
            self.latest.insert(step.process, Blocks::new());
        }
        let goal = match &step.pages {
            PagesTo::Stay => None,
            PagesTo::To { node, .. } => Some(Goal::Node(os_id(*node))),
            PagesTo::Back => Some(self.way_back(step.process)),
            PagesTo::ToUsers { blocks, .. } => {
                let blocks = blocks.iter().map(|(index, node)| (*index, os_id(*node)));
                Some(Goal::Blocks(blocks.collect()))
            }
        };
        let pages = match (&goal, pages) {
            (Some(_), Ok(pages)) => pages,
            (Some(_), Err(refusal)) => {
                outcome.refusal = outcome.refusal.or(Some(refusal));
                Pages::new()
            }
            (None, _) => Pages::new(),
        };
        let goal = goal.unwrap_or(Goal::Blocks(Vec::new()));
        let begun = (Move::new(step.process, goal, &pages), outcome);
        // What has no pages to move is done, whoever's pages move meanwhile.
        if begun.0.is_done() { self.moves.push_front(begun) } else { self.moves.push_back(begun) }
    }

    /// To where pages were before the latest step; or before the first, if that is all that is known.
    fn way_back(&self, process: TaskId) -> Goal {
        let latest = self.latest.get(&process);
        let moved = latest.or_else(|| self.journal.changes().moved.get(&process));
        Goal::Back(moved.into_iter().flat_map(|blocks| blocks.values()).cloned().collect())
    }

    /// Moves some pages; gives the outcomes of steps that are done.
    ///
    /// # Errors
    /// When the journal cannot be written: then nothing more is moved.
    pub fn go_on(&mut self, at: Nanos, pace: Pace) -> Result<Vec<Outcome>, JournalError> {
        let mut done = Vec::new();
        let mut left = pace.pages_max;
        while let Some((running, _)) = self.moves.front_mut() {
            let process = running.process();
            // What is done is told before more is moved, which may take a while.
            if !running.is_done() && (left == 0 || !done.is_empty()) {
                break;
            }
            if !task::is_there(process) {
                running.stop(Refusal::Ended);
            }
            let (journal, latest) = (&mut self.journal, &mut self.latest);
            let is_back = running.is_back();
            let note = |block: Block| {
                // On the way back what is in the journal stays there until all of it is done.
                if !is_back {
                    journal.write(Entry::Moved(process, vec![block.clone()]))?;
                    blocks::note(latest.entry(process).or_default(), block);
                }
                Ok(())
            };
            let mut calls = ProcessPages { pid: process.id, threads: pace.threads_max };
            let batch = running.go_on(&mut calls, left, note)?;
            left = left.saturating_sub(batch.moved + batch.asked / 20);
            if running.is_done()
                && let Some((finished, begun)) = self.moves.pop_front()
            {
                let outcome = finished.outcome(at, &begun);
                // What could not be moved back stays in the journal, for whoever may.
                if is_back && outcome.is_settled() && self.is_as_at_first(process) {
                    self.is_back(process)?;
                }
                done.push(outcome);
            }
        }
        Ok(done)
    }

    /// Lets all threads and control groups go, and ends what moves; pages stay. Gives how many are not let go, since somebody else
    /// has placed them meanwhile, or it is not permitted.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn let_go(&mut self) -> Result<usize, JournalError> {
        self.moves.iter_mut().for_each(|(running, _)| running.stop(Refusal::OtherRules));
        Ok(self.widen(None)?.len() + self.release_for_good()?.len())
    }

    /// Whether pages are still to be moved.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.moves.is_empty()
    }

    /// Takes everything back: lets all threads go, and moves all pages to where they were. `pages` says what may be
    /// moved of a process, `progress` hears how many processes are left. Gives what could not be taken back.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn undo(
        &mut self,
        mut pages: impl FnMut(TaskId) -> Result<Pages, Refusal>,
        mut progress: impl FnMut(usize),
    ) -> Result<Undone, JournalError> {
        let threads = self.holds().len();
        self.moves.clear();
        self.latest.clear();
        let groups = self.journal.changes().narrowed.len();
        let groups_refused = self.widen(None)?;
        let refused = self.release_for_good()?;
        let mut undone = Undone { threads, refused, groups, groups_refused, ..Undone::default() };
        let processes: Vec<_> = self.journal.changes().moved.keys().copied().collect();
        for (at, process) in processes.iter().enumerate() {
            progress(processes.len() - at);
            let step = Step {
                process: *process,
                kind: Kind::TakeBack,
                threads: Vec::new(),
                others: None,
                pages: PagesTo::Back,
                gain: 0.0,
                cost: Nanos(0),
            };
            self.begin_move(&step, pages(*process), nothing_done(*process, Nanos(0)));
            while self.is_moving() {
                undone.outcomes.extend(self.go_on(Nanos(0), Pace::BACK)?);
            }
        }
        Ok(undone)
    }

    /// Whether a process whose latest step has been taken back has nothing left that earlier ones moved.
    fn is_as_at_first(&mut self, process: TaskId) -> bool {
        let Some(latest) = self.latest.remove(&process) else { return true };
        self.journal.changes().moved.get(&process).is_none_or(|moved| *moved == latest)
    }

    /// What its process has had back, or taken along when it ended.
    ///
    /// # Errors
    /// When the journal cannot be written.
    fn is_back(&mut self, process: TaskId) -> Result<(), JournalError> {
        if self.journal.changes().moved.contains_key(&process) {
            self.journal.write(Entry::Back(process))?;
        }
        Ok(())
    }

    /// Forgets whoever has ended, now and then.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn sweep(&mut self, at: Nanos) -> Result<(), JournalError> {
        if at < self.next_sweep {
            return Ok(());
        }
        self.next_sweep = at + SWEEP;
        for (process, thread) in self.holds().ended() {
            self.forget(process, thread)?;
        }
        self.sweep_groups()?;
        self.latest.retain(|process, _| task::is_there(*process));
        let moved = self.journal.changes().moved.keys();
        let ended: Vec<_> = moved.copied().filter(|process| !task::is_there(*process)).collect();
        ended.into_iter().try_for_each(|process| self.is_back(process))
    }

    /// Lets every thread go, or those of one process; gives those that somebody else places meanwhile, or that
    /// may not be touched any more: they stay in the journal, until that is sure, or for whoever may.
    ///
    /// # Errors
    /// When the journal cannot be written. All have been let go then, but are still in it.
    pub fn release(
        &mut self,
        of: Option<TaskId>,
    ) -> Result<Vec<(TaskId, HoldError)>, JournalError> {
        let (mut freed, mut refused) = (Vec::new(), Vec::new());
        for (thread, held) in self.holds().of(of) {
            match holds::release(&self.groups, *thread, held) {
                Ok(()) | Err(HoldError::Ended) => freed.push((held.process, *thread)),
                Err(error) => refused.push((*thread, error)),
            }
        }
        freed.into_iter().try_for_each(|(process, thread)| self.forget(process, thread))?;
        Ok(refused)
    }

    /// Lets every thread go; whoever still is somebody else's after a while is that.
    fn release_for_good(&mut self) -> Result<Vec<(TaskId, HoldError)>, JournalError> {
        let is_somebodys = |(_, error): &&(TaskId, HoldError)| *error == HoldError::SetBySomebody;
        let mut refused = self.release(None)?;
        if refused.iter().any(|one| is_somebodys(&one)) {
            std::thread::sleep(UNSETTLED);
            refused = self.release(None)?;
        }
        let somebodys: BTreeSet<_> =
            refused.iter().filter(is_somebodys).map(|(thread, _)| *thread).collect();
        let held = self.holds().of(None).filter(|(thread, _)| somebodys.contains(thread));
        let held: Vec<_> = held.map(|(thread, held)| (held.process, *thread)).collect();
        held.into_iter().try_for_each(|(process, thread)| self.forget(process, thread))?;
        Ok(refused)
    }

    /// Holds a thread on a node.
    fn place(
        &mut self,
        task: &Task,
        node: NodeId,
        whole: &CpuBits,
    ) -> Result<Result<(), HoldError>, JournalError> {
        let cpus: CpuBits = self.machine.node_cpu_list(node).iter().collect();
        let held = match self.holds().prepare(task, node, &cpus, whole) {
            Ok(held) => held,
            Err(error) => return Ok(Err(error)),
        };
        let before = self.holds().get(task).cloned();
        self.journal.write(Entry::Hold(task.thread, held.clone()))?;
        match holds::hold(task.thread, &held) {
            Ok(made) if made == held => Ok(Ok(())),
            Ok(made) => self.journal.write(Entry::Hold(task.thread, made)).map(Ok),
            Err(error) => {
                let as_before = before.map(|before| Entry::Hold(task.thread, before));
                let free = Entry::Free { process: task.process, thread: task.thread };
                self.journal.write(as_before.unwrap_or(free))?;
                Ok(Err(error))
            }
        }
    }
}
