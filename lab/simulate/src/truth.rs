//! What the machine really does at a moment: who runs where, and what is free. The deciders see T of
//! it, and U and M as they were at the last refresh.
//!
//! A CPU is a fluid: its threads want so much of it, and get that, or all of it together. So what is
//! demanded beyond a whole CPU waits, and the utilisation between two events is one number.

use quartier_decide::dqdt::{FreeMemory, Usage};
use quartier_model::{Bytes, CpuId, Machine, NodeId};

/// Permille of one CPU.
pub const WHOLE_PERMILLE: u64 = 1000;

/// A base page.
pub const PAGE: Bytes = Bytes(4096);

/// The true load of one CPU.
#[derive(Clone, Debug)]
pub struct CpuLoad {
    /// Which.
    pub cpu: CpuId,
    /// Its node.
    pub node: NodeId,
    /// What its threads want of it together; more than 1000 when they cannot get it.
    pub demand_permille: u64,
    /// Its threads.
    pub nr_threads: u32,
    /// How busy it was since the last refresh, up to `since_ns`.
    busy_permille_ns: u64,
    since_ns: u64,
}

/// The true load of one node.
#[derive(Clone, Debug)]
pub struct NodeLoad {
    /// Its CPUs.
    pub nr_cpus: u64,
    /// What its threads want together.
    pub demand_permille: u64,
    /// Its free base pages.
    pub free_pages: u64,
}

/// Sums over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// What all threads want.
    pub demand_permille: u64,
    /// What of it waits.
    pub waiting_permille: u64,
    /// What CPUs leave unused.
    pub idle_permille: u64,
    /// Threads.
    pub nr_threads: u64,
    /// The sum over the CPUs of the square of their threads.
    pub squared_threads: u64,
    /// By n: how many CPUs have n threads.
    pub cpus_by_threads: Vec<u32>,
}

/// Pages that a thread holds on a node.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    node: NodeId,
    nr_pages: u64,
}

/// The whole machine.
#[derive(Clone, Debug)]
pub struct Truth<'a> {
    machine: &'a Machine,
    cpus: Vec<CpuLoad>,
    nodes: Vec<NodeLoad>,
    sums: Sums,
}

impl CpuLoad {
    fn busy_permille(&self) -> u64 {
        self.demand_permille.min(WHOLE_PERMILLE)
    }

    fn account(&mut self, now_ns: u64) {
        self.busy_permille_ns += self.busy_permille() * (now_ns - self.since_ns);
        self.since_ns = now_ns;
    }
}

impl NodeLoad {
    /// What its threads want of each of its CPUs.
    #[must_use]
    pub fn demand_per_cpu_permille(&self) -> u64 {
        self.demand_permille.checked_div(self.nr_cpus).unwrap_or(0)
    }
}

impl<'a> Truth<'a> {
    /// An idle machine.
    ///
    /// # Panics
    /// If a CPU is offline or its node unknown: made-up machines have no such CPUs.
    #[must_use]
    pub fn new(machine: &'a Machine) -> Self {
        let load = |cpu: CpuId| {
            let known = &machine.cpus()[cpu.index()];
            assert!(known.online, "every CPU of a simulated machine is online");
            let node = known.node.expect("every CPU of a simulated machine has a node");
            let (demand_permille, nr_threads, busy_permille_ns, since_ns) = (0, 0, 0, 0);
            CpuLoad { cpu, node, demand_permille, nr_threads, busy_permille_ns, since_ns }
        };
        let cpus: Vec<_> = machine.cpu_ids().map(load).collect();
        let node = |node: NodeId| NodeLoad {
            nr_cpus: machine.node_cpus(node).len() as u64,
            demand_permille: 0,
            free_pages: machine.nodes()[node.index()].memory.map_or(0, |m| m.0 / PAGE.0),
        };
        let sums = Sums {
            idle_permille: WHOLE_PERMILLE * cpus.len() as u64,
            cpus_by_threads: vec![cpus.len() as u32],
            ..Sums::default()
        };
        Self { machine, nodes: machine.node_ids().map(node).collect(), cpus, sums }
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// Every CPU, by id.
    #[must_use]
    pub fn cpus(&self) -> &[CpuLoad] {
        &self.cpus
    }

    /// One CPU.
    ///
    /// # Panics
    /// If it is not of this machine.
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> &CpuLoad {
        &self.cpus[cpu.index()]
    }

    /// One node.
    ///
    /// # Panics
    /// If it is not of this machine.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &NodeLoad {
        &self.nodes[node.index()]
    }

    /// Sums over all CPUs.
    #[must_use]
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Whether there is a CPU without a thread.
    #[must_use]
    pub fn has_idle_cpu(&self) -> bool {
        self.sums.cpus_by_threads[0] > 0
    }

    /// A thread of this demand begins to run on a CPU.
    pub fn add(&mut self, now_ns: u64, cpu: CpuId, demand_permille: u64) {
        self.change(now_ns, cpu, |cpu, node| {
            cpu.nr_threads += 1;
            cpu.demand_permille += demand_permille;
            node.demand_permille += demand_permille;
        });
    }

    /// A thread of this demand ends.
    pub fn remove(&mut self, now_ns: u64, cpu: CpuId, demand_permille: u64) {
        self.change(now_ns, cpu, |cpu, node| {
            cpu.nr_threads -= 1;
            cpu.demand_permille -= demand_permille;
            node.demand_permille -= demand_permille;
        });
    }

    fn change(
        &mut self,
        now_ns: u64,
        cpu: CpuId,
        change: impl FnOnce(&mut CpuLoad, &mut NodeLoad),
    ) {
        let load = &mut self.cpus[cpu.index()];
        load.account(now_ns);
        self.sums.take_off(load);
        change(load, &mut self.nodes[load.node.index()]);
        self.sums.put_on(load);
    }

    /// Takes pages from a node, or, as the kernel does, from the nearest that has them. `None` when
    /// no node has.
    pub fn hold(&mut self, from: NodeId, nr_pages: u64) -> Option<Held> {
        let has = |node: &NodeId| self.nodes[node.index()].free_pages >= nr_pages;
        let nearest = || {
            let others = self.machine.node_ids().filter(has);
            others.min_by_key(|&node| (self.machine.distance(from, node), node))
        };
        let node = Some(from).filter(has).or_else(nearest)?;
        self.nodes[node.index()].free_pages -= nr_pages;
        Some(Held { node, nr_pages })
    }

    /// Gives pages back.
    pub fn release(&mut self, held: Held) {
        self.nodes[held.node.index()].free_pages += held.nr_pages;
    }

    /// How busy a CPU was in the period that ends now; the next one begins.
    pub fn end_period(&mut self, now_ns: u64, period_ns: u64) -> Vec<Option<Usage>> {
        let usage = |load: &mut CpuLoad| {
            load.account(now_ns);
            let busy = std::mem::take(&mut load.busy_permille_ns);
            Usage::from_busy(busy, period_ns * WHOLE_PERMILLE)
        };
        self.cpus.iter_mut().map(usage).collect()
    }

    /// M of a node.
    #[must_use]
    pub fn free_memory(&self, node: NodeId) -> FreeMemory {
        FreeMemory { pages: self.node(node).free_pages, ..FreeMemory::default() }
    }
}

impl Sums {
    fn take_off(&mut self, cpu: &CpuLoad) {
        self.demand_permille -= cpu.demand_permille;
        self.waiting_permille -= cpu.demand_permille - cpu.busy_permille();
        self.idle_permille -= WHOLE_PERMILLE - cpu.busy_permille();
        self.nr_threads -= u64::from(cpu.nr_threads);
        self.squared_threads -= u64::from(cpu.nr_threads).pow(2);
        self.cpus_by_threads[cpu.nr_threads as usize] -= 1;
    }

    fn put_on(&mut self, cpu: &CpuLoad) {
        self.demand_permille += cpu.demand_permille;
        self.waiting_permille += cpu.demand_permille - cpu.busy_permille();
        self.idle_permille += WHOLE_PERMILLE - cpu.busy_permille();
        self.nr_threads += u64::from(cpu.nr_threads);
        self.squared_threads += u64::from(cpu.nr_threads).pow(2);
        let at = cpu.nr_threads as usize;
        if self.cpus_by_threads.len() <= at {
            self.cpus_by_threads.resize(at + 1, 0);
        }
        self.cpus_by_threads[at] += 1;
        while self.cpus_by_threads.len() > 1 && self.cpus_by_threads.last() == Some(&0) {
            self.cpus_by_threads.pop();
        }
    }

    /// The most threads on one CPU.
    #[must_use]
    pub fn most_threads(&self) -> u64 {
        self.cpus_by_threads.len() as u64 - 1
    }
}
