//! Threads that are held on nodes: what each could use before, and what we left to it.
//!
//! Threads and processes that a held one makes inherit what we set. They are *adopted*: held as their maker is,
//! and let go as it is.

use std::collections::BTreeMap;

use quartier_kernel::Errno;
use quartier_model::{NodeId, Task, TaskId};
use quartier_session::CpuBits;
use serde::{Deserialize, Serialize};

use super::task;
use crate::affinity;

/// A thread that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Its process.
    pub process: TaskId,
    /// The node of the CPUs that we left to it.
    pub node: NodeId,
    /// What it could use; all CPUs if nobody had set anything.
    pub before: Mask,
    /// What we set.
    pub set: Mask,
}

/// An affinity, written as the kernel's list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mask(pub Box<CpuBits>);

/// Why a thread is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldError {
    /// It ended.
    Ended,
    /// Somebody set its affinity.
    SetBySomebody,
    /// Not permitted.
    NotPermitted,
    /// Its cpuset leaves it none of these CPUs.
    Cpuset,
}

/// All threads that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    held: BTreeMap<TaskId, Held>,
}

impl Holds {
    /// Those of an earlier Scheduler.
    pub fn restored(held: BTreeMap<TaskId, Held>) -> Self {
        Self { held }
    }

    /// The node that a thread is held on.
    #[must_use]
    pub fn node_of(&self, thread: TaskId) -> Option<NodeId> {
        self.held.get(&thread).map(|held| held.node)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, &Held)> {
        self.held.iter()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether an affinity that a thread has is what we set, for it or for whoever made it. `whole` is what its
    /// cpuset leaves to it, to which the kernel narrows everything.
    #[must_use]
    pub fn is_ours(&self, task: &Task, now: &CpuBits, whole: &CpuBits) -> bool {
        self.maker_of(task).is_some_and(|held| is_as_set(&held.set.0, now, whole))
    }

    /// How a thread is held, or whoever it has its affinity from.
    fn maker_of(&self, task: &Task) -> Option<&Held> {
        let is_makers = |held: &&Held| {
            let began_before = held.process.start_ticks <= task.process.start_ticks;
            held.process == task.process || held.process.id == task.parent && began_before
        };
        self.held.get(&task.thread).or_else(|| self.held.values().find(is_makers))
    }

    /// Writes down how a thread is held that inherited it; `None` if it did not.
    pub fn adopt(&mut self, task: &Task, now: &CpuBits, whole: &CpuBits) -> Option<Held> {
        if self.held.contains_key(&task.thread) || !self.is_ours(task, now, whole) {
            return None;
        }
        let held = Held { process: task.process, ..self.maker_of(task)?.clone() };
        self.held.insert(task.thread, held.clone());
        Some(held)
    }

    /// What is to be written down before a thread is held on these CPUs of a node.
    ///
    /// # Errors
    /// When it has ended, or its affinity is somebody's.
    pub fn prepare(
        &self,
        task: &Task,
        node: NodeId,
        cpus: &CpuBits,
        whole: &CpuBits,
    ) -> Result<Held, HoldError> {
        let now = affinity::get(task.thread.id).map_err(error)?;
        let set = cpus.intersection(whole);
        if set.is_empty() {
            return Err(HoldError::Cpuset);
        }
        let before = match self.maker_of(task) {
            Some(held) if is_as_set(&held.set.0, &now, whole) => held.before.clone(),
            // Nobody set anything: what is left to it is everything.
            _ if whole.is_within(&now) => Mask(Box::new(CpuBits::ALL)),
            _ => return Err(HoldError::SetBySomebody),
        };
        Ok(Held { process: task.process, node, before, set: Mask(Box::new(set)) })
    }

    /// Holds it, after that was written down.
    ///
    /// # Errors
    /// When it has ended or is not ours to hold; then nothing has changed.
    pub fn hold(&mut self, thread: TaskId, held: Held) -> Result<(), HoldError> {
        if !task::is_there(thread) {
            return Err(HoldError::Ended);
        }
        affinity::set(thread.id, &held.set.0).map_err(error)?;
        if !task::is_there(thread) {
            // It ended in between. Another would have its number only if all others were used up meanwhile.
            return Err(HoldError::Ended);
        }
        self.held.insert(thread, held);
        Ok(())
    }

    /// Gives a thread back what it could use before, unless somebody has set something else meanwhile.
    /// Nothing to do for one that has ended.
    pub fn release(&mut self, thread: TaskId) -> Result<(), HoldError> {
        let Some(held) = self.held.remove(&thread) else { return Ok(()) };
        if !task::is_there(thread) {
            return Ok(());
        }
        let now = affinity::get(thread.id).map_err(error)?;
        // A cpuset may have narrowed it since.
        if !now.is_within(&held.set.0) {
            return Err(HoldError::SetBySomebody);
        }
        affinity::set(thread.id, &held.before.0).map_err(error)?;
        Ok(())
    }

    /// A thread has ended, or somebody else places it now.
    pub fn forget(&mut self, thread: TaskId) {
        self.held.remove(&thread);
    }

    /// Those that are held of a process.
    pub fn of(&self, process: TaskId) -> Vec<TaskId> {
        let of = self.held.iter().filter(|(_, held)| held.process == process);
        of.map(|(thread, _)| *thread).collect()
    }

    /// Those that have ended.
    pub fn ended(&self) -> Vec<TaskId> {
        self.held.keys().copied().filter(|thread| !task::is_there(*thread)).collect()
    }
}

/// What the kernel makes of an affinity within a cpuset: the CPUs of both, or the cpuset's if there are none.
fn is_as_set(set: &CpuBits, now: &CpuBits, whole: &CpuBits) -> bool {
    let both = set.intersection(whole);
    now == set || *now == both || both.is_empty() && now == whole
}

fn error(errno: Errno) -> HoldError {
    match errno {
        Errno::ESRCH => HoldError::Ended,
        Errno::EINVAL => HoldError::Cpuset,
        _ => HoldError::NotPermitted,
    }
}

impl From<Mask> for String {
    fn from(mask: Mask) -> Self {
        if *mask.0 == CpuBits::ALL {
            return "all".to_owned();
        }
        mask.0.iter().collect::<quartier_model::CpuList>().to_string()
    }
}

impl TryFrom<String> for Mask {
    type Error = quartier_model::CpuListError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "all" {
            return Ok(Self(Box::new(CpuBits::ALL)));
        }
        let list: quartier_model::CpuList = text.parse()?;
        Ok(Self(Box::new(list.iter().collect())))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process that sleeps, and ends with its test.
    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn task(&self) -> Task {
            let id = self.0.id();
            let task = TaskId { id, start_ticks: task::start_ticks(id).unwrap() };
            Task { thread: task, process: task, parent: std::process::id() }
        }

        fn affinity(&self) -> CpuBits {
            affinity::get(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// All CPUs that there are here, and one of them.
    fn cpus() -> (CpuBits, CpuBits) {
        let whole = affinity::get(0).unwrap();
        (whole, whole.iter().take(1).collect())
    }

    fn hold(holds: &mut Holds, task: &Task, whole: &CpuBits) -> Result<Held, HoldError> {
        let held = holds.prepare(task, NodeId(0), &cpus().1, whole)?;
        holds.hold(task.thread, held.clone())?;
        Ok(held)
    }

    #[test]
    fn what_is_held_is_let_go_as_it_was() {
        let (whole, one) = cpus();
        let sleeper = Sleeper::new();
        let (mut holds, task) = (Holds::default(), sleeper.task());
        hold(&mut holds, &task, &whole).unwrap();
        assert_eq!(sleeper.affinity(), one);
        assert_eq!(holds.node_of(task.thread), Some(NodeId(0)));
        assert!(holds.is_ours(&task, &one, &whole));
        // Held once more, elsewhere, it is still let go as it was at first.
        assert_eq!(*hold(&mut holds, &task, &whole).unwrap().before.0, CpuBits::ALL);
        holds.release(task.thread).unwrap();
        assert_eq!((sleeper.affinity(), holds.len()), (whole, 0));
    }

    #[test]
    fn what_somebody_set_is_never_touched() {
        let (whole, one) = cpus();
        if one == whole {
            return; // One CPU leaves nothing to set.
        }
        let sleeper = Sleeper::new();
        let (mut holds, task) = (Holds::default(), sleeper.task());
        let other = whole.without(&one);
        affinity::set(task.thread.id, &other).unwrap();
        assert_eq!(hold(&mut holds, &task, &whole), Err(HoldError::SetBySomebody));
        affinity::set(task.thread.id, &whole).unwrap();
        hold(&mut holds, &task, &whole).unwrap();
        affinity::set(task.thread.id, &other).unwrap();
        assert!(!holds.is_ours(&task, &other, &whole));
        assert_eq!(hold(&mut holds, &task, &whole), Err(HoldError::SetBySomebody));
        assert_eq!(holds.release(task.thread), Err(HoldError::SetBySomebody));
        assert_eq!(sleeper.affinity(), other);
    }

    #[test]
    fn who_inherits_a_hold_is_let_go_too() {
        let (whole, one) = cpus();
        let (maker, child) = (Sleeper::new(), Sleeper::new());
        let mut holds = Holds::default();
        hold(&mut holds, &maker.task(), &whole).unwrap();
        affinity::set(child.task().thread.id, &one).unwrap();
        let stranger = Task { parent: 1, ..child.task() };
        let child_of = Task { parent: maker.task().process.id, ..child.task() };
        if one != whole {
            assert_eq!(holds.adopt(&stranger, &one, &whole), None, "that may be anybody's will");
        }
        assert!(holds.adopt(&child_of, &one, &whole).is_some());
        assert_eq!(holds.adopt(&child_of, &one, &whole), None, "once");
        holds.release(child.task().thread).unwrap();
        assert_eq!(child.affinity(), whole);
    }

    #[test]
    fn a_cpuset_that_changes_is_not_somebody() {
        let set = |ids: &[u32]| ids.iter().copied().collect::<CpuBits>();
        let ours = set(&[2, 3]);
        for (now, cpuset, expected) in [
            (set(&[2, 3]), set(&[0, 1, 2, 3]), true),
            (set(&[3]), set(&[0, 3]), true),
            (set(&[0, 1]), set(&[0, 1]), true),
            (set(&[0]), set(&[0, 1]), false),
            (set(&[2]), set(&[0, 1, 2, 3]), false),
        ] {
            assert_eq!(is_as_set(&ours, &now, &cpuset), expected, "{now:?}");
        }
    }

    #[test]
    fn who_ended_is_no_trouble() {
        let (whole, _) = cpus();
        let sleeper = Sleeper::new();
        let (mut holds, task) = (Holds::default(), sleeper.task());
        hold(&mut holds, &task, &whole).unwrap();
        drop(sleeper);
        assert_eq!(holds.ended(), [task.thread]);
        assert_eq!(hold(&mut holds, &task, &whole), Err(HoldError::Ended));
        assert_eq!(holds.release(task.thread), Ok(()));
    }
}
