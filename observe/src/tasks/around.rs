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
}

impl Around {
    /// Looks at all of it.
    pub fn look(&mut self, host: &Host, machine: &Machine, at: Nanos) -> Result<()> {
        let over = at - self.asked;
        (self.asked, self.next) = (at, at + LOOK_AROUND);
        self.online = host.online_cpus()?;
        let isolated = host.isolated_cpus()?;
        self.placeable = self.online.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
        let (times, forks) = host.cpu_times_and_forks()?;
        self.forks = forks;
        let before = std::mem::replace(&mut self.times, times);
        let busy = |cpu: &Cpu| {
            let (before, now) = (before.get(&cpu.os_id)?, self.times.get(&cpu.os_id)?);
            let ticks = now.busy_ticks.saturating_sub(before.busy_ticks);
            let total = now.total_ticks.saturating_sub(before.total_ticks);
            self.online.contains(cpu.os_id.0).then_some((ticks.min(total), total))
        };
        self.cpus_busy = machine.cpus().iter().map(busy).collect();
        let totals = Totals::read(host, machine);
        let before = self.totals.replace(totals.clone());
        self.kernel = before.as_ref().map(|before| totals.since(before, over));
        let blocks = host.free_blocks()?;
        let node = |node: &Node| {
            let (free, reclaimable) = host.room_of(node.os_id)?;
            let free_blocks = blocks.get(&node.os_id).cloned().unwrap_or_default();
            Ok(NodeSeen { free, reclaimable, free_blocks, allocated: None })
        };
        self.nodes = machine.nodes().iter().map(node).collect::<Result<_>>()?;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.allocated = before.as_ref().and_then(|before| totals.allocated_since(before, at));
        }
        self.uptime = host.uptime()?;
        Ok(())
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
