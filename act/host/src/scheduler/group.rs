//! Holding all of a process by the cpuset of its control group, where that may be done; else thread by thread.

use quartier_model::{ByCpuset, NoCpuset, NodeId, Step, Task, TaskId};
use quartier_session::CpuBits;

use super::cpuset::Narrowed;
use super::journal::{Entry, JournalError};
use super::{Order, Scheduler, task};

/// The control group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// Its path below the root of the groups.
    pub path: &'a str,
    /// The administrator allows that its CPUs are narrowed.
    pub may_narrow: bool,
    /// All threads of the process that are known may be placed.
    pub may_hold_all: bool,
}

/// The node that all threads of a step's process come to; `None`: not all come to one.
fn gathered_on(step: &Step) -> Option<NodeId> {
    let all_there = |node: &NodeId| step.threads.iter().all(|(_, other)| *other == Some(*node));
    step.others.filter(all_there)
}

impl Scheduler {
    /// Whether a group has the CPUs that we left to it.
    #[must_use]
    pub fn is_narrowed(&self, group: &str) -> bool {
        let mut narrowed = self.journal.changes().narrowed.values();
        narrowed.any(|narrowed| narrowed.group == group && self.groups.is_so(narrowed))
    }

    /// The node that a thread is held on, by itself or with its group.
    #[must_use]
    pub fn held_on(&self, task: &Task) -> Option<NodeId> {
        let by_itself = self.holds().get(task).map(|held| held.node);
        let narrowed = || self.journal.changes().narrowed.get(&task.process);
        by_itself.or_else(|| narrowed().map(|narrowed| narrowed.node))
    }

    /// Has the group of a process hold it if the step wants all of it on one node; `None`: nobody asked for that. Afterwards
    /// its group is as wide as it was, or holds it as the step wants.
    pub(super) fn place_group(
        &mut self,
        order: &Order<'_>,
        whole: &CpuBits,
    ) -> Result<Option<ByCpuset>, JournalError> {
        let process = order.step.process;
        let Some(group) = order.group else { return self.widen(Some(process)).map(|_| None) };
        let narrowed = self.journal.changes().narrowed.iter();
        let others =
            narrowed.filter(|(other, narrowed)| **other != process && narrowed.group == group.path);
        let others: Vec<_> = others.map(|(other, _)| *other).collect();
        others.into_iter().try_for_each(|other| self.hold_singly(other))?;
        let node = gathered_on(order.step).filter(|_| group.may_narrow);
        let placed = match node {
            Some(node) => Some(self.narrow(order, group, node, whole)?),
            None => None,
        };
        if placed != Some(Ok(())) {
            self.widen(Some(process))?;
        }
        let group = group.path.to_owned();
        Ok(placed.map(|placed| match placed {
            Ok(()) => ByCpuset::Group(group),
            Err(why) => ByCpuset::Not { group, why },
        }))
    }

    fn narrow(
        &mut self,
        order: &Order<'_>,
        group: Group<'_>,
        node: NodeId,
        whole: &CpuBits,
    ) -> Result<Result<(), NoCpuset>, JournalError> {
        let process = order.step.process;
        let prepared = self.prepare_group(order, group, node, whole);
        let narrowed = match prepared {
            Ok(narrowed) => narrowed,
            Err(why) => return Ok(Err(why)),
        };
        if self.journal.changes().narrowed.get(&process).is_some_and(|now| now.group != group.path)
        {
            self.widen(Some(process))?;
        }
        // An affinity of ours would narrow it further.
        self.release(Some(process))?;
        self.journal.write(Entry::Narrow(process, narrowed.clone()))?;
        if let Err(why) = self.groups.narrow(&narrowed) {
            // What could not be written is as it was: nobody's, or ours of before, which is widened then.
            if let Some(set) = narrowed.earlier.clone() {
                let before = Narrowed { set, earlier: None, ..narrowed };
                self.journal.write(Entry::Narrow(process, before))?;
            } else {
                self.journal.write(Entry::Widen(process))?;
            }
            return Ok(Err(why));
        }
        if narrowed.earlier.is_some() {
            self.journal.write(Entry::Narrow(process, Narrowed { earlier: None, ..narrowed }))?;
        }
        Ok(Ok(()))
    }

    fn prepare_group(
        &self,
        order: &Order<'_>,
        group: Group<'_>,
        node: NodeId,
        whole: &CpuBits,
    ) -> Result<Narrowed, NoCpuset> {
        let process = order.step.process;
        if !group.may_hold_all {
            return Err(NoCpuset::ThreadsLeft);
        }
        let of_node: CpuBits = self.machine.node_cpu_list(node).iter().collect();
        let cpus = of_node.intersection(whole);
        if cpus.is_empty() {
            return Err(NoCpuset::NotEffective);
        }
        let earlier = self.journal.changes().narrowed.get(&process);
        let earlier = earlier.filter(|narrowed| narrowed.group == group.path);
        let left = self.groups.effective(group.path).ok_or(NoCpuset::NoController)?;
        let is_ours = |tid, now: &CpuBits| {
            let known = order.tasks.iter().find(|task| task.thread.id == tid);
            let thread = TaskId { id: tid, start_ticks: 0 };
            let task = known.copied().unwrap_or(Task { thread, process, parent: 0 });
            left.is_within(now) || self.holds().whence(&task, now, whole).is_some()
        };
        self.groups.prepare(process.id, (group.path, node), &cpus, earlier, is_ours)
    }

    /// Gives the group of a process its CPUs back, or all groups; gives those that may not be written any more, which stay in
    /// the journal.
    pub(super) fn widen(
        &mut self,
        of: Option<TaskId>,
    ) -> Result<Vec<(String, NoCpuset)>, JournalError> {
        let narrowed = self.journal.changes().narrowed.iter();
        let narrowed = narrowed.filter(|(process, _)| of.is_none_or(|of| of == **process));
        let narrowed: Vec<_> = narrowed.map(|(process, group)| (*process, group.clone())).collect();
        let mut refused = Vec::new();
        for (process, narrowed) in narrowed {
            match self.groups.widen(&narrowed) {
                Ok(()) | Err(NoCpuset::Gone) => self.journal.write(Entry::Widen(process))?,
                Err(why) => refused.push((narrowed.group, why)),
            }
        }
        Ok(refused)
    }

    /// Has each thread of a process held instead of its group, which others are in now.
    fn hold_singly(&mut self, process: TaskId) -> Result<(), JournalError> {
        let Some(narrowed) = self.journal.changes().narrowed.get(&process).cloned() else {
            return Ok(());
        };
        let whole = self.groups.above(&narrowed.group);
        let refused = self.widen(Some(process))?;
        let (Some(whole), []) = (whole, &refused[..]) else { return Ok(()) };
        for thread in task::threads_of(process.id) {
            // Whoever cannot be held roams, as before.
            let _ = self.place(&Task { thread, process, parent: 0 }, narrowed.node, &whole)?;
        }
        Ok(())
    }

    /// Forgets groups that are somebody's now, and lets those go whose process has ended or is not alone any more.
    pub(super) fn sweep_groups(&mut self) -> Result<(), JournalError> {
        let narrowed: Vec<_> = self.journal.changes().narrowed.clone().into_iter().collect();
        for (process, narrowed) in narrowed {
            if !task::is_there(process) || !self.groups.is_so(&narrowed) {
                self.widen(Some(process))?;
            } else if self.groups.check_alone(&narrowed.group, process.id).is_err() {
                self.hold_singly(process)?;
            }
        }
        Ok(())
    }
}
