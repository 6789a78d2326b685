//! What the Monitor asks of the kernel, and of what the Scheduler did.

use std::cell::RefCell;

use nix::time::ClockId;
use quartier_act::affinity_of;
use quartier_act::scheduler::{JournalError, PageCalls, ProcessPages, Scheduler};
use quartier_model::{CpuList, Nanos, NodeId, NodeOsId, Task, TaskId};
use quartier_observe::tasks::{Denied, Kernel};

/// This machine's kernel. Without a Scheduler nothing is ours.
pub struct Live<'a> {
    pub scheduler: Option<&'a RefCell<Scheduler>>,
    /// What the journal could not take while the Monitor looked.
    pub error: RefCell<Option<JournalError>>,
}

impl Live<'_> {
    /// Keeps the first error; `None`: there is one, or no Scheduler.
    fn ask<T>(&self, of: impl FnOnce(&mut Scheduler) -> Result<T, JournalError>) -> Option<T> {
        let answer = of(&mut self.scheduler?.borrow_mut());
        answer.map_err(|error| _ = self.error.borrow_mut().get_or_insert(error)).ok()
    }
}

impl Kernel for Live<'_> {
    fn affinity(&self, tid: u32) -> Option<CpuList> {
        affinity_of(tid)
    }

    fn cpu_time(&self, pid: u32) -> Option<Nanos> {
        let time = process_clock(pid)?.now().ok()?;
        let seconds = u64::try_from(time.tv_sec()).ok()?;
        Some(Nanos(seconds.checked_mul(1_000_000_000)? + u64::try_from(time.tv_nsec()).ok()?))
    }

    fn nodes_of(
        &self,
        pid: u32,
        addresses: &[u64],
        nodes: &mut Vec<Option<NodeOsId>>,
    ) -> Result<(), Denied> {
        let mut status = vec![0; addresses.len()];
        ProcessPages { pid, threads: 1 }.query(addresses, &mut status).map_err(|_| Denied)?;
        nodes.clear();
        nodes.extend(status.into_iter().map(|node| u32::try_from(node).ok().map(NodeOsId)));
        Ok(())
    }

    fn held_on(&self, task: &Task) -> Option<NodeId> {
        self.scheduler?.borrow().held_on(task)
    }

    fn owns(&self, task: &Task, affinity: &CpuList, whole: &CpuList) -> bool {
        let owns = |scheduler: &mut Scheduler| scheduler.owns(task, affinity, whole);
        self.ask(owns).unwrap_or(false)
    }

    fn leaves(&self, process: TaskId) {
        let _ = self.ask(|scheduler| scheduler.leave(process));
    }

    fn is_narrowed(&self, cgroup: &str) -> bool {
        self.scheduler.is_some_and(|scheduler| scheduler.borrow().is_narrowed(cgroup))
    }

    fn is_watcher(&self, pid: u32) -> bool {
        pid == std::process::id()
    }
}

/// The clock of a process's CPU time (Linux include/linux/posix-timers_types.h: the number's complement, and
/// `CPUCLOCK_SCHED` in its lowest bits). The C library's function for it asks the kernel once more.
fn process_clock(pid: u32) -> Option<ClockId> {
    const CPUCLOCK_SCHED: i32 = 2;
    let pid = i32::try_from(pid).ok()?;
    Some(ClockId::from_raw(!pid << 3 | CPUCLOCK_SCHED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_clock_until_it_has_ended() {
        let live = Live { scheduler: None, error: RefCell::new(None) };
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let own = live.cpu_time(std::process::id()).unwrap();
        assert!(live.cpu_time(child.id()).is_some(), "another process's");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(live.cpu_time(child.id()), None);
        let mut now = own;
        while now == own {
            now = live.cpu_time(std::process::id()).unwrap();
        }
        assert!(now > own);
    }
}
