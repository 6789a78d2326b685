//! What holds of every machine, against a model that counts by brute force.

use std::collections::BTreeSet;

use proptest::prelude::*;
use quartier_decide::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, LEVELS_MAX, Tree};
use quartier_decide::policy::thread::{Request, decide, decide_and_count, visits_max};
use quartier_model::{
    Cpu, CpuId, CpuOsId, Distance, DistanceMatrix, Llc, LlcId, MACHINE_FORMAT, Machine,
    MachineParts, Node, NodeId, NodeOsId, Origin, Package, PackageId, PackageOsId, Provenance,
};

const NODES_MAX: usize = 20;
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
    fn machine()(
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

fn online(machine: &Machine) -> Vec<CpuId> {
    machine.cpu_ids().filter(|cpu| machine.cpus()[cpu.index()].online).collect()
}

fn threads_in(estimates: &Estimates<'_>, allowed: &Allowed, cluster: ClusterId) -> u32 {
    let tree = estimates.tree();
    let cpus = tree.cluster_cpus(cluster).filter(|&cpu| allowed.contains(tree, cpu));
    cpus.map(|cpu| estimates.nr_threads_on(cpu)).sum()
}

proptest! {
    #[test]
    fn the_tree_holds_every_online_cpu_once_and_every_node(machine in machine()) {
        let tree = Tree::build(&machine);
        prop_assert_eq!(&tree, &Tree::build(&machine));
        prop_assert!(tree.height() <= LEVELS_MAX);
        let mut seen = Vec::new();
        let mut nodes = BTreeSet::new();
        for (at, cluster) in (0..).map(ClusterId).zip(tree.clusters()) {
            prop_assert_eq!(cluster.parent().is_none(), at == tree.root());
            prop_assert!(cluster.children().len() <= FANOUT_MAX && cluster.children().len() != 1);
            for &child in cluster.children() {
                prop_assert!(child < at);
                prop_assert_eq!(tree.cluster(child).parent(), Some(at));
            }
            let cpus: Vec<_> = tree.cluster_cpus(at).collect();
            if let Some(node) = cluster.node() {
                nodes.insert(node);
                prop_assert!(cpus.iter().all(|cpu| machine.node_cpus(node).contains(cpu)));
            }
            if let Some(llc) = cluster.llc() {
                prop_assert!(cpus.iter().all(|cpu| machine.cpus()[cpu.index()].llc == Some(llc)));
            }
            if cluster.children().is_empty() {
                prop_assert!(cpus.len() <= FANOUT_MAX);
                prop_assert!(cpus.iter().all(|&cpu| tree.leaf_of(cpu) == Some(at)));
                seen.extend(cpus);
            }
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, online(&machine));
        prop_assert_eq!(nodes.len(), machine.nodes().len());
    }

    #[test]
    fn a_decision_is_allowed_idle_if_possible_and_near(
        machine in machine(),
        busy in prop::collection::vec(0usize..90, 0..120),
        masked in prop::collection::vec(any::<bool>(), 90),
        creator in 0u32..100,
    ) {
        let tree = Tree::build(&machine);
        let slots = tree.new_slots();
        let estimates = Estimates::new(&tree, &slots).unwrap();
        for at in busy {
            estimates.add_thread(CpuId((at % machine.cpus().len()) as u32));
        }
        let allowed = Allowed::new(&tree, machine.cpu_ids().filter(|cpu| masked[cpu.index()]));
        let request = Request::new(Some(CpuId(creator)), &allowed);
        let Some(decision) = decide(&estimates, &request) else {
            prop_assert!(!online(&machine).iter().any(|cpu| masked[cpu.index()]));
            return Ok(());
        };
        prop_assert!(allowed.contains(&tree, decision.cpu));
        prop_assert_eq!(decision.node, machine.cpus()[decision.cpu.index()].node);
        prop_assert!(decision.visited <= visits_max(&tree));

        let start = tree.leaf_of(CpuId(creator)).unwrap_or(tree.root());
        let nearest = tree
            .path_to_root(start)
            .find(|&at| threads_in(&estimates, &allowed, at) < allowed.nr_in(at));
        match nearest {
            Some(cluster) => {
                prop_assert_eq!(decision.attempt, 1);
                prop_assert_eq!(estimates.nr_threads_on(decision.cpu), 0);
                prop_assert!(tree.cluster_cpus(cluster).any(|cpu| cpu == decision.cpu));
            }
            None => prop_assert_eq!(decision.attempt, 3),
        }
    }

    #[test]
    fn a_clusters_threads_are_those_of_its_cpus(
        machine in machine(),
        exits in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let tree = Tree::build(&machine);
        let slots = tree.new_slots();
        let estimates = Estimates::new(&tree, &slots).unwrap();
        let all = Allowed::all(&tree);
        let mut placed = Vec::new();
        for exit in exits {
            if exit && !placed.is_empty() {
                estimates.remove_thread(placed.remove(placed.len() / 2)).unwrap();
            } else {
                let request = Request::new(placed.last().copied(), &all);
                placed.push(decide_and_count(&estimates, &request).unwrap().cpu);
            }
        }
        for at in (0..tree.clusters().len() as u32).map(ClusterId) {
            prop_assert_eq!(estimates.nr_threads(at), threads_in(&estimates, &all, at));
        }
        prop_assert_eq!(estimates.nr_threads(tree.root()) as usize, placed.len());
    }
}
