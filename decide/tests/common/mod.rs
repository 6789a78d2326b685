//! Machines for tests: written down, and random.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part.

use proptest::prelude::*;
use quartier_decide::dqdt::{
    EMA_TICKS, Estimates, FreeMemory, Refresher, Resources, Threads, Tree, Usage,
};
use quartier_model::{
    Cpu, CpuId, CpuOsId, Distance, DistanceMatrix, Llc, LlcId, MACHINE_FORMAT, Machine,
    MachineParts, Node, NodeId, NodeOsId, Origin, Package, PackageId, PackageOsId, Provenance,
    SyntheticSpec,
};

pub fn synthetic(spec: &str) -> Machine {
    spec.parse::<SyntheticSpec>().unwrap().machine().unwrap()
}

pub fn changed(spec: &str, change: impl FnOnce(&mut MachineParts)) -> Machine {
    let mut parts = MachineParts::from(synthetic(spec));
    change(&mut parts);
    Machine::try_from(parts).unwrap()
}

/// Makes every two CPUs one core.
pub fn hyperthreads(parts: &mut MachineParts) {
    for (at, cpu) in parts.cpus.iter_mut().enumerate() {
        cpu.core = Some(at as u32 / 2);
    }
}

/// A tree with estimates of its own.
pub struct Own {
    pub tree: Tree,
    pub threads: Box<[Threads]>,
    pub resources: Box<[Resources]>,
}

impl Own {
    pub fn new(machine: &Machine) -> Self {
        let tree = Tree::build(machine);
        let (threads, resources) = (tree.new_threads(), tree.new_resources());
        Self { tree, threads, resources }
    }

    pub fn of(spec: &str) -> Self {
        Self::new(&synthetic(spec))
    }

    pub fn estimates(&self) -> Estimates<'_> {
        let estimates = Estimates::new(&self.tree, &self.threads).unwrap();
        estimates.with_resources(&self.resources).unwrap()
    }

    /// Counts a thread on each of these CPUs.
    pub fn load(&self, cpus: impl IntoIterator<Item = u32>) -> &Self {
        for cpu in cpus {
            assert!(self.estimates().add_thread(CpuId(cpu)));
        }
        self
    }

    /// What a decider leaves that is killed after its first additions: threads on the CPU that no
    /// cluster above its leaf counts.
    pub fn cut_off(&self, cpu: CpuId, count: u32) {
        if let Some(leaf) = self.tree.leaf_of(cpu) {
            let threads = &self.threads[self.tree.cluster(leaf).slot()];
            let place = self.tree.cluster_cpus(leaf).position(|other| other == cpu).unwrap();
            threads.set(place, threads.get(place) + count);
        }
    }

    /// Sets U by CPU and M by node, in one tick.
    pub fn refresh(
        &self,
        percent: impl Fn(u32) -> Option<u32>,
        free_pages: impl Fn(u32) -> Option<u64>,
    ) -> &Self {
        let refresher = Refresher::new(self.estimates(), &self.resources, EMA_TICKS).unwrap();
        let free = |node: NodeId| {
            let pages = free_pages(node.0)?;
            Some(FreeMemory { pages, ..FreeMemory::default() })
        };
        refresher.tick(|cpu| percent(cpu.0).map(Usage::from_percent), free);
        self
    }
}

pub const NODES_MAX: usize = 20;
const LLCS: u32 = 6;

fn cpu() -> impl Strategy<Value = (bool, Option<usize>, Option<u32>, Option<u32>)> {
    (
        prop::bool::weighted(0.9),
        prop::option::weighted(0.95, 0..NODES_MAX),
        prop::option::of(0..LLCS),
        prop::option::of(0u32..8),
    )
}

prop_compose! {
    pub fn machine()(
        nr_nodes in 1..=NODES_MAX,
        cpus in prop::collection::vec(cpu(), 1..90),
        slit in prop::collection::vec(11u8..40, NODES_MAX * NODES_MAX),
        is_uniform in any::<bool>(),
    ) -> Machine {
        let rows = (0..nr_nodes).map(|from| {
            (0..nr_nodes).map(|to| match (from == to, is_uniform) {
                (true, _) => Distance::LOCAL,
                (false, true) => Distance::REMOTE,
                (false, false) => Distance(slit[from * NODES_MAX + to]),
            }).collect()
        }).collect();
        let cpus = cpus.into_iter().enumerate().map(|(at, (online, node, llc, core))| Cpu {
            capacity: None,
            os_id: CpuOsId(at as u32 * 2),
            online: online || at == 0,
            node: node.map(|node| NodeId((node % nr_nodes) as u32)),
            llc: llc.map(LlcId),
            package: Some(PackageId(0)),
            core,
        }).collect();
        Machine::try_from(MachineParts {
            format: MACHINE_FORMAT,
            origin: Origin::Synthetic { spec: "property".to_owned() },
            nodes: (0..nr_nodes as u32)
                .map(|node| Node { os_id: NodeOsId(node * 3), memory: None })
                .collect(),
            cpus,
            llcs: (0..LLCS).map(|_| Llc { level: 3, size: None }).collect(),
            packages: vec![Package { os_id: PackageOsId(0) }],
            distances: DistanceMatrix { provenance: Provenance::FromOs, rows },
        }).unwrap()
    }
}
