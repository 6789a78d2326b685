//! What the Monitor asks of the kernel, and of what the Scheduler did.

use std::cell::RefCell;

use quartier_act::affinity_of;
use quartier_act::scheduler::{JournalError, PageCalls, ProcessPages, Scheduler};
use quartier_model::{CpuList, NodeId, NodeOsId, Task};
use quartier_observe::tasks::{Denied, Kernel};

/// This machine's kernel. Without a Scheduler nothing is ours.
pub struct Live<'a> {
    pub scheduler: Option<&'a RefCell<Scheduler>>,
    /// What the journal could not take while the Monitor looked.
    pub error: RefCell<Option<JournalError>>,
}

impl Kernel for Live<'_> {
    fn affinity(&self, tid: u32) -> Option<CpuList> {
        affinity_of(tid)
    }

    fn nodes_of(
        &self,
        pid: u32,
        addresses: &[u64],
        nodes: &mut Vec<Option<NodeOsId>>,
    ) -> Result<(), Denied> {
        let mut status = vec![0; addresses.len()];
        ProcessPages(pid).query(addresses, &mut status).map_err(|_| Denied)?;
        nodes.clear();
        nodes.extend(status.into_iter().map(|node| u32::try_from(node).ok().map(NodeOsId)));
        Ok(())
    }

    fn held_on(&self, task: &Task) -> Option<NodeId> {
        self.scheduler?.borrow().holds().get(task).map(|held| held.node)
    }

    fn owns(&self, task: &Task, affinity: &CpuList, whole: &CpuList) -> bool {
        let Some(scheduler) = self.scheduler else { return false };
        match scheduler.borrow_mut().owns(task, affinity, whole) {
            Ok(owns) => owns,
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                false
            }
        }
    }
}
