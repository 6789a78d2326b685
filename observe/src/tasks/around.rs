//! What the machine around the tasks does: its CPUs, its nodes, and what its kernel counts.

use std::collections::BTreeMap;

use quartier_model::{Cpu, CpuList, CpuOsId, KernelSeen, Machine, Nanos, Node, NodeSeen};

use super::{LOOK_AROUND, NANOS_PER_TICK, SECOND};
use crate::totals::Totals;
use crate::{CpuTimes, Host, Result, parse};

/// What CPUs and nodes did.
#[derive(Debug, Default)]
pub struct Around {
    pub next: Nanos,
    /// Tasks that have been made since the machine was started.
    pub forks: Option<u64>,
    pub online: CpuList,
    pub placeable: CpuList,
    isolated: CpuList,
    times: BTreeMap<CpuOsId, CpuTimes>,
    /// How many ticks each CPU was busy of how many.
    pub cpus_busy: Vec<Option<(u64, u64)>>,
    pub nodes: Vec<NodeSeen>,
    /// `None`: it was asked once so far.
    pub kernel: Option<KernelSeen>,
    totals: Option<Totals>,
    /// Since the machine was started.
    pub uptime: Option<Nanos>,
    pub asked: Nanos,
    /// What could not be read, the first of it.
    pub unread: Option<String>,
}

impl Around {
    /// Looks at all of it. A file that is half read or says something else is no reason to stop, once it has been good: the CPUs are
    /// what they were, and the rest is unknown until it can be read again.
    ///
    /// # Errors
    /// At the first look, when something cannot be read: whoever begins is told what is wrong.
    pub fn look(&mut self, host: &Host, machine: &Machine, at: Nanos) -> Result<()> {
        let over = at - self.asked;
        let uptime_by_clock = self.uptime.map(|uptime| uptime + over);
        let mut unread = Unread { is_first: self.online.is_empty(), said: None };
        (self.asked, self.next) = (at, at + LOOK_AROUND);
        let online = unread.or_unknown(host.online_cpus())?;
        // None at all is no list of whoever runs this.
        if let Some(online) = online.filter(|online| !online.is_empty()) {
            self.online = online;
        }
        if let Some(isolated) = unread.or_unknown(host.isolated_cpus())? {
            self.isolated = isolated;
        }
        self.placeable = self.online.iter().filter(|cpu| !self.isolated.contains(*cpu)).collect();
        let times = unread.or_unknown(host.cpu_times_and_forks())?;
        self.forks = times.as_ref().and_then(|(_, forks)| *forks);
        self.see_cpus(machine, times.map(|(times, _)| times));
        let totals = Totals::read(host, machine);
        let before = self.totals.replace(totals.clone());
        self.kernel = before.as_ref().map(|before| totals.since(before, over));
        let blocks = unread.or_unknown(host.free_blocks())?.unwrap_or_default();
        let mut node = |node: &Node| {
            let (free, reclaimable) =
                unread.or_unknown(host.room_of(node.os_id))?.unwrap_or_default();
            let free_blocks = blocks.get(&node.os_id).cloned().unwrap_or_default();
            Ok(NodeSeen { free, reclaimable, free_blocks, allocated: None })
        };
        self.nodes = machine.nodes().iter().map(&mut node).collect::<Result<_>>()?;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.allocated = before.as_ref().and_then(|before| totals.allocated_since(before, at));
        }
        self.uptime = unread.or_unknown(host.uptime())?.unwrap_or(uptime_by_clock);
        self.unread = unread.said;
        Ok(())
    }

    /// How busy they were since their times were known last; `None`: they are not known now.
    fn see_cpus(&mut self, machine: &Machine, times: Option<BTreeMap<CpuOsId, CpuTimes>>) {
        let Some(times) = times.filter(|times| !times.is_empty()) else {
            self.cpus_busy = vec![None; machine.cpus().len()];
            return;
        };
        let before = std::mem::replace(&mut self.times, times);
        let busy = |cpu: &Cpu| {
            let (before, now) = (before.get(&cpu.os_id)?, self.times.get(&cpu.os_id)?);
            let ticks = now.busy_ticks.saturating_sub(before.busy_ticks);
            let total = now.total_ticks.saturating_sub(before.total_ticks);
            self.online.contains(cpu.os_id.0).then_some((ticks.min(total), total))
        };
        self.cpus_busy = machine.cpus().iter().map(busy).collect();
    }
}

/// What could not be read in one look.
struct Unread {
    is_first: bool,
    said: Option<String>,
}

impl Unread {
    fn or_unknown<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if self.is_first => Err(error),
            Err(error) => {
                self.said.get_or_insert_with(|| error.to_string());
                Ok(None)
            }
        }
    }
}

impl Host {
    /// How long ago the machine was started; `None` without `proc/uptime`.
    fn uptime(&self) -> Result<Option<Nanos>> {
        self.parse("proc/uptime", "seconds", |text| {
            let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
            let seconds: u64 = seconds.parse().ok()?;
            let hundredths: u64 = hundredths.parse().ok().filter(|hundredths| *hundredths < 100)?;
            Some(Nanos(seconds.checked_mul(SECOND)?.checked_add(hundredths * NANOS_PER_TICK)?))
        })
    }

    fn online_cpus(&self) -> Result<CpuList> {
        const PATH: &str = "sys/devices/system/cpu/online";
        let list = self.parse(PATH, "a list of CPUs", parse::list)?;
        list.ok_or_else(|| self.missing(PATH, "is /sys mounted there?"))
    }
}
