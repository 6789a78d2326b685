//! Threads that are held on nodes: what each could use before, and what we left to it.
//!
//! Threads and processes that a held one makes inherit what we set. They are *adopted*: held as their maker is,
//! and let go as it is.

use std::collections::BTreeMap;

use quartier_kernel::Errno;
use quartier_model::{NodeId, Task, TaskId};
use quartier_session::CpuBits;
use serde::{Deserialize, Serialize};

use super::cpuset::Groups;
use super::mask::Mask;
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
    /// What the kernel made of that where some of these CPUs were offline. Linux before 6.2 leaves it so when they come back,
    /// later ones remember what was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Mask>,
    /// What we had set before, while it is not known which of both is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Mask>,
}

impl Held {
    /// Whether an affinity is ours. `whole` is what its cpuset leaves to the thread.
    fn is_so(&self, now: &CpuBits, whole: &CpuBits) -> bool {
        let ours = [Some(&self.set), self.made.as_ref(), self.earlier.as_ref()];
        ours.into_iter().flatten().map(Mask::bits).any(|ours| is_as_set(&ours, now, whole))
    }
}

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

/// All threads that are held, by process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    of: BTreeMap<TaskId, BTreeMap<TaskId, Held>>,
    len: usize,
}

impl Holds {
    /// How a thread is held.
    #[must_use]
    pub fn get(&self, task: &Task) -> Option<&Held> {
        self.of.get(&task.process)?.get(&task.thread)
    }

    /// Those of a process, likewise; of all where none is given.
    pub fn of(&self, process: Option<TaskId>) -> impl Iterator<Item = (&TaskId, &Held)> {
        let of_one = process.map(|process| process..=process);
        match of_one {
            Some(one) => self.of.range(one),
            None => self.of.range(..),
        }
        .flat_map(|(_, threads)| threads)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A thread is held so from now on.
    pub fn insert(&mut self, thread: TaskId, held: Held) {
        let of_process = self.of.entry(held.process).or_default();
        self.len += usize::from(of_process.insert(thread, held).is_none());
    }

    /// A thread of a process is not held any more.
    pub fn remove(&mut self, process: TaskId, thread: TaskId) {
        let Some(of_process) = self.of.get_mut(&process) else { return };
        self.len -= usize::from(of_process.remove(&thread).is_some());
        if of_process.is_empty() {
            self.of.remove(&process);
        }
    }

    /// How a thread is held, or whoever it has its affinity from, if `now` is what we set there. `whole` is what its
    /// cpuset leaves to it, to which the kernel narrows everything.
    #[must_use]
    pub fn whence(&self, task: &Task, now: &CpuBits, whole: &CpuBits) -> Option<&Held> {
        let is_so = |held: &&Held| held.is_so(now, whole);
        if let Some(own) = self.get(task) {
            return Some(own).filter(is_so);
        }
        // Whoever began later is no parent, but another with its number.
        let parents = TaskId { id: task.parent, start_ticks: 0 }..=TaskId {
            id: task.parent,
            start_ticks: task.process.start_ticks,
        };
        let makers = self.of.get(&task.process).into_iter();
        let makers = makers.chain(self.of.range(parents).map(|(_, threads)| threads));
        makers.flat_map(BTreeMap::values).find(is_so)
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
        let (before, earlier) = match self.whence(task, &now, whole) {
            Some(held) => (held.before.clone(), Some(Mask::from(&now))),
            // Nobody set anything: what is left to it is everything.
            None if whole.is_within(&now) => (Mask::All, None),
            None => return Err(HoldError::SetBySomebody),
        };
        let (process, set) = (task.process, Mask::from(&set));
        Ok(Held { process, node, before, set, made: None, earlier })
    }

    /// Those that have ended, with their processes.
    #[must_use]
    pub fn ended(&self) -> Vec<(TaskId, TaskId)> {
        let ended = self.of(None).filter(|(thread, _)| !task::is_there(**thread));
        ended.map(|(thread, held)| (held.process, *thread)).collect()
    }
}

/// Holds a thread, after that was written down. Gives what is to be written down then: the same, with what the kernel made
/// of it.
///
/// # Errors
/// When it has ended or is not ours to hold; then nothing has changed.
pub fn hold(thread: TaskId, held: &Held) -> Result<Held, HoldError> {
    if !task::is_there(thread) {
        return Err(HoldError::Ended);
    }
    let wanted = held.set.bits();
    affinity::set(thread.id, &wanted).map_err(error)?;
    let made = affinity::get(thread.id).map_err(error)?;
    // If it ended in between: another would have its number only if all others were used up meanwhile.
    if !task::is_there(thread) {
        return Err(HoldError::Ended);
    }
    let is_narrowed = made != wanted && made.is_within(&wanted);
    let made = is_narrowed.then(|| Mask::from(&made));
    Ok(Held { made, earlier: None, ..held.clone() })
}

/// Gives a thread back what it could use before, unless somebody has set something else meanwhile.
/// Nothing to do for one that has ended.
///
/// # Errors
/// When it is not ours any more, or may not be touched. While CPUs come and go it may only look as if it were not.
pub fn release(groups: &Groups, thread: TaskId, held: &Held) -> Result<(), HoldError> {
    if !task::is_there(thread) {
        return Ok(());
    }
    let (now, whole) = affinity_and_whole(groups, thread.id)?;
    let is_ours = match whole {
        // If it has all that there is, nobody wants it anywhere; but what we set may be remembered where it has no effect.
        Some(whole) => held.is_so(&now, &whole) || whole.is_within(&now),
        None => now.is_within(&held.set.bits()),
    };
    if !is_ours {
        return Err(HoldError::SetBySomebody);
    }
    affinity::set(thread.id, &held.before.bits()).map_err(error)?;
    Ok(())
}

/// What a thread may run on, and what its cpuset leaves to it, of the same moment if there is one.
fn affinity_and_whole(groups: &Groups, tid: u32) -> Result<(CpuBits, Option<CpuBits>), HoldError> {
    const TRIES: usize = 8;
    let mut whole = groups.left_to(tid);
    for _ in 1..TRIES {
        let now = affinity::get(tid).map_err(error)?;
        let before = std::mem::replace(&mut whole, groups.left_to(tid));
        if whole == before {
            return Ok((now, whole));
        }
    }
    Ok((affinity::get(tid).map_err(error)?, whole))
}

/// What the kernel makes of an affinity within a cpuset: the CPUs of both, or the cpuset's if there are none, or, below the
/// root, all that it may ever have.
fn is_as_set(set: &CpuBits, now: &CpuBits, whole: &CpuBits) -> bool {
    let both = set.intersection(whole);
    now == set || *now == both || both.is_empty() && whole.is_within(now)
}

fn error(errno: Errno) -> HoldError {
    match errno {
        Errno::ESRCH => HoldError::Ended,
        Errno::EINVAL => HoldError::Cpuset,
        _ => HoldError::NotPermitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::sleeper::Sleeper;

    /// All CPUs that there are here, and one of them.
    fn cpus() -> (CpuBits, CpuBits) {
        let whole = affinity::get(0).unwrap();
        (whole, whole.iter().take(1).collect())
    }

    fn hold(holds: &mut Holds, task: &Task, whole: &CpuBits) -> Result<Held, HoldError> {
        let held = holds.prepare(task, NodeId(0), &cpus().1, whole)?;
        let held = super::hold(task.thread, &held)?;
        holds.insert(task.thread, held.clone());
        Ok(held)
    }

    #[test]
    fn one_that_was_killed_on_the_way_to_another_node_is_undone() {
        let (whole, one) = cpus();
        let other = whole.without(&one);
        if other.is_empty() {
            return; // One CPU is one place.
        }
        let sleeper = Sleeper::new();
        let (mut holds, task) = (Holds::default(), sleeper.task());
        hold(&mut holds, &task, &whole).unwrap();
        // This was written down, and not done any more.
        let next = holds.prepare(&task, NodeId(1), &other, &whole).unwrap();
        assert_eq!(sleeper.affinity(), one);
        release(&Groups::live(), task.thread, &next).unwrap();
        assert_eq!(sleeper.affinity(), whole);
    }

    #[test]
    fn what_is_held_is_let_go_as_it_was() {
        let (whole, one) = cpus();
        let sleeper = Sleeper::new();
        let (mut holds, task) = (Holds::default(), sleeper.task());
        hold(&mut holds, &task, &whole).unwrap();
        assert_eq!(sleeper.affinity(), one);
        assert_eq!(holds.get(&task).map(|held| held.node), Some(NodeId(0)));
        assert!(holds.whence(&task, &one, &whole).is_some());
        // Held once more, elsewhere, it is still let go as it was at first.
        let held = hold(&mut holds, &task, &whole).unwrap();
        assert_eq!(held.before, Mask::All);
        release(&Groups::live(), task.thread, &held).unwrap();
        holds.remove(task.process, task.thread);
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
        let held = hold(&mut holds, &task, &whole).unwrap();
        affinity::set(task.thread.id, &other).unwrap();
        assert_eq!(holds.whence(&task, &other, &whole), None);
        assert_eq!(hold(&mut holds, &task, &whole), Err(HoldError::SetBySomebody));
        assert_eq!(release(&Groups::live(), task.thread, &held), Err(HoldError::SetBySomebody));
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
            assert_eq!(holds.whence(&stranger, &one, &whole), None, "that may be anybody's will");
        }
        let earlier = TaskId { start_ticks: 0, ..child_of.process };
        let not_of = Task { process: earlier, thread: earlier, ..child_of };
        assert_eq!(holds.whence(&not_of, &one, &whole), None, "it was there before its maker");
        let held = holds.whence(&child_of, &one, &whole).unwrap();
        release(&Groups::live(), child.task().thread, held).unwrap();
        assert_eq!(child.affinity(), whole);
    }

    #[test]
    fn what_the_kernel_made_of_it_is_ours_too() {
        let set = |ids: &[u32]| ids.iter().copied().collect::<CpuBits>();
        let mask = |ids: &[u32]| Mask::from(&set(ids));
        let id = TaskId { id: 1, start_ticks: 1 };
        // CPU 2 was offline.
        let held = Held {
            process: id,
            node: NodeId(1),
            before: Mask::All,
            set: mask(&[2, 3]),
            made: Some(mask(&[3])),
            earlier: None,
        };
        let whole = set(&[0, 1, 2, 3]);
        for (now, expected) in
            [(set(&[3]), true), (set(&[2, 3]), true), (set(&[2]), false), (whole, false)]
        {
            assert_eq!(held.is_so(&now, &whole), expected, "{now:?}");
        }
    }

    #[test]
    fn a_cpuset_that_changes_is_not_somebody() {
        let set = |ids: &[u32]| ids.iter().copied().collect::<CpuBits>();
        let ours = set(&[2, 3]);
        for (now, cpuset, expected) in [
            (set(&[2, 3]), set(&[0, 1, 2, 3]), true),
            (set(&[3]), set(&[0, 3]), true),
            (set(&[0, 1]), set(&[0, 1]), true),
            (set(&[0, 1, 2, 3]), set(&[0, 1]), true),
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
        let held = hold(&mut holds, &task, &whole).unwrap();
        drop(sleeper);
        assert_eq!(holds.ended(), [(task.process, task.thread)]);
        assert_eq!(hold(&mut holds, &task, &whole), Err(HoldError::Ended));
        assert_eq!(release(&Groups::live(), task.thread, &held), Ok(()));
    }
}
