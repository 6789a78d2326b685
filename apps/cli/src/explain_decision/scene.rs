//! A machine with its tree and its estimates, and what the options name on it.

use anyhow::bail;
use quartier_decide::dqdt::{
    Allowed, EMA_TICKS, Estimates, EstimatesError, Refresher, Resources, Threads, Tree,
};
use quartier_model::{CpuId, CpuList, CpuOsId, Machine, NodeId, NodeOsId};

use super::state::State;
use crate::topo::names::{Names, cpus_text};

/// Lists of estimates in this process's own memory.
pub struct Lists {
    threads: Box<[Threads]>,
    resources: Box<[Resources]>,
}

impl Lists {
    /// The estimates of a state.
    pub fn new(tree: &Tree, state: &State) -> Result<Self, EstimatesError> {
        let lists = Self { threads: tree.new_threads(), resources: tree.new_resources() };
        let estimates = lists.estimates(tree)?;
        for (&cpu, &threads) in &state.threads {
            for _ in 0..threads {
                estimates.add_thread(cpu);
            }
        }
        // The first known value counts whole, so one tick is enough.
        Refresher::new(estimates, &lists.resources, EMA_TICKS)?
            .tick(|cpu| state.usage.get(&cpu).copied(), |node| state.memory.get(&node).copied());
        Ok(lists)
    }

    /// The estimates over these lists.
    pub fn estimates<'a>(&'a self, tree: &'a Tree) -> Result<Estimates<'a>, EstimatesError> {
        Estimates::new(tree, &self.threads)?.with_resources(&self.resources)
    }
}

/// Finds what the options name.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub machine: &'a Machine,
    pub tree: &'a Tree,
}

impl Lookup<'_> {
    /// The CPU with this number of the kernel's.
    pub fn cpu(&self, os_id: u32) -> anyhow::Result<CpuId> {
        let Some(cpu) = self.tree.cpu_by_os_id(CpuOsId(os_id)) else {
            let all: CpuList = self.machine.cpus().iter().map(|cpu| cpu.os_id.0).collect();
            bail!("there is no CPU {os_id}: the machine has {}", cpus_text(&all));
        };
        Ok(cpu)
    }

    /// The same if it is online.
    pub fn online_cpu(&self, os_id: u32) -> anyhow::Result<CpuId> {
        let cpu = self.cpu(os_id)?;
        if self.tree.leaf_of(cpu).is_none() {
            bail!("CPU {os_id} is offline: nothing runs there");
        }
        Ok(cpu)
    }

    /// The node with this number of the kernel's.
    pub fn node(&self, os_id: u32) -> anyhow::Result<NodeId> {
        let Some(node) = self.tree.node_by_os_id(NodeOsId(os_id)) else {
            let all: CpuList = self.machine.nodes().iter().map(|node| node.os_id.0).collect();
            bail!("there is no node {os_id}: the machine has nodes {all}");
        };
        Ok(node)
    }

    /// The online CPUs of a list, and those of it that are offline.
    pub fn allowed(&self, list: Option<&CpuList>) -> anyhow::Result<(Allowed, CpuList)> {
        let Some(list) = list else {
            return Ok((Allowed::all(self.tree), CpuList::default()));
        };
        let cpus = list.iter().map(|os_id| self.cpu(os_id)).collect::<anyhow::Result<Vec<_>>>()?;
        let offline = cpus.iter().filter(|&&cpu| self.tree.leaf_of(cpu).is_none());
        let offline = offline.map(|&cpu| self.tree.cpu_os_id(cpu).0).collect();
        Ok((Allowed::new(self.tree, cpus), offline))
    }
}

/// All that a decision is made on.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub names: Names<'a>,
    pub estimates: Estimates<'a>,
}

impl Scene<'_> {
    /// `CPU 2 on node 1`.
    pub fn cpu_and_node(&self, cpu: CpuId) -> String {
        let tree = self.names.tree;
        let number = self.names.cpu(cpu);
        match tree.node_of(cpu) {
            Some(node) => format!("CPU {number} on node {}", tree.node_os_id(node).0),
            None => format!("CPU {number} of no known node"),
        }
    }
}
