//! A process with more threads than a node has CPUs: it is worth knowing who uses which page.

use std::collections::VecDeque;

use quartier_model::{CpuId, CpuList, Machine, Nanos, NodeId, Standing};

use super::super::thread::window;
use super::super::touches::Ask;
use super::{Cpuset, Look, Process};
use crate::events::Events;

impl Process {
    /// Whether more of its threads run or wait than a node has CPUs for them, so that it matters who uses which page.
    pub fn is_too_big(
        &self,
        machine: &Machine,
        placeable: &CpuList,
        looked: &VecDeque<Nanos>,
    ) -> bool {
        if self.busy.len() < 2 {
            return false;
        }
        let Some(standing) = self.standing.as_ref() else { return false };
        if standing.of_process != Standing::Free {
            return false;
        }
        let Cpuset { cpus, mems } = &standing.cpuset;
        let cpus_of = |node: NodeId| {
            let os_id = machine.nodes()[node.index()].os_id.0;
            let may = |cpu: &&CpuId| {
                let cpu = machine.cpus()[cpu.index()].os_id.0;
                placeable.contains(cpu) && cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
            };
            let is_allowed = mems.as_ref().is_none_or(|mems| mems.contains(os_id));
            if is_allowed { machine.node_cpus(node).iter().filter(may).count() } else { 0 }
        };
        let nodes = machine.node_ids().map(cpus_of);
        let most = nodes.max().unwrap_or(0);
        most > 0 && self.active_threads(looked).count() > most
    }

    /// Those that run or wait for more than a tenth of the time, and may be placed.
    fn active_threads(&self, looked: &VecDeque<Nanos>) -> impl Iterator<Item = u32> {
        let window = window(looked);
        self.busy.iter().filter_map(move |(tid, thread)| {
            let times = thread.in_window(looked)?;
            let standing = self.standing.as_ref()?.of_threads.get(tid)?;
            let is_active = 10 * (times.ran + times.waited).0 >= window.0;
            (is_active && *standing == Standing::Free).then_some(*tid)
        })
    }

    /// Looks who touches which page. Opens at most so many descriptors.
    pub fn look_at_touches(
        &mut self,
        look: &mut Look<'_>,
        events: &dyn Events,
        looked: &VecDeque<Nanos>,
    ) {
        let threads: Vec<u32> = self.active_threads(looked).collect();
        self.touching.look(&mut Ask {
            files: look.files,
            machine: look.machine,
            kernel: look.kernel,
            events,
            at: look.at,
            pid: self.id.id,
            mappings: self.sample.mappings.as_ref(),
            threads: &threads,
            left: look.may_open,
        });
    }
}
