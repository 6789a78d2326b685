//! What holds of every machine, against a model that counts by brute force.

mod common;

use std::collections::BTreeSet;

use common::{Own, machine};
use proptest::prelude::*;
use quartier_decide::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, LEVELS_MAX, Tree};
use quartier_decide::policy::{
    Balance, Exec, Fork, Strategy as Order, Thread, decide, decide_and_count, group, memory,
    visits_max,
};
use quartier_model::{CpuId, Machine, NodeId};

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
        let (mut seen, mut nodes, mut slots) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for at in tree.cluster_ids() {
            let cluster = tree.cluster(at);
            prop_assert_eq!(cluster.parent().is_none(), at == ClusterId::ROOT);
            prop_assert!(cluster.children().len() <= FANOUT_MAX && cluster.children().len() != 1);
            for child in cluster.children() {
                prop_assert!(child > at);
                prop_assert_eq!(tree.cluster(child).parent(), Some(at));
            }
            let cpus: Vec<_> = tree.cluster_cpus(at).collect();
            prop_assert!(cluster.nr_cores() as usize <= cpus.len());
            if let Some(node) = cluster.node() {
                nodes.insert(node);
                prop_assert!(cpus.iter().all(|cpu| machine.node_cpus(node).contains(cpu)));
                let whole = tree.cluster_of_node(node);
                prop_assert!(tree.path_to_root(at).any(|above| above == whole));
                prop_assert_eq!(tree.cluster_cpus(whole).len(), machine.node_cpus(node).len());
            }
            if let Some(llc) = cluster.llc() {
                prop_assert!(cpus.iter().all(|cpu| machine.cpus()[cpu.index()].llc == Some(llc)));
            }
            if cluster.is_leaf() {
                prop_assert!(cpus.len() <= FANOUT_MAX);
                prop_assert!(cpus.iter().all(|&cpu| tree.leaf_of(cpu) == Some(at)));
                seen.extend(cpus);
            } else {
                let of_children: usize = cluster.children().map(|c| tree.cluster_cpus(c).len()).sum();
                prop_assert_eq!(of_children, cpus.len());
            }
            prop_assert!(slots.insert(cluster.slot()), "a slot is one cluster's");
            prop_assert_eq!(tree.slot_groups()[cluster.slot() / 64], cluster.home());
            prop_assert!(tree.updater(at).is_some());
        }
        prop_assert!(*slots.last().unwrap() < tree.nr_slots());
        seen.sort_unstable();
        prop_assert_eq!(seen, online(&machine));
        prop_assert_eq!(nodes.len(), machine.nodes().len());
    }

    #[test]
    fn a_thread_goes_to_an_idle_core_if_there_is_one_and_near(
        machine in machine(),
        busy in prop::collection::vec(0usize..90, 0..120),
        creator in 0u32..100,
    ) {
        let own = Own::new(&machine);
        let (tree, estimates) = (&own.tree, own.estimates());
        for at in busy {
            estimates.add_thread(CpuId((at % machine.cpus().len()) as u32));
        }
        let allowed = Allowed::all(tree);
        let decision = decide(&estimates, &Thread::new(Some(CpuId(creator)), &allowed)).unwrap();
        prop_assert_eq!(decision.node, machine.cpus()[decision.cpu.index()].node);
        let start = tree.leaf_of(CpuId(creator)).unwrap_or(ClusterId::ROOT);
        let mut path = tree.path_to_root(start);
        match path.find(|&at| estimates.nr_threads(at) < tree.cluster(at).nr_cores()) {
            Some(cluster) => {
                prop_assert_eq!(decision.attempt, 1);
                prop_assert_eq!(estimates.nr_threads_on(decision.cpu), 0);
                prop_assert!(tree.cluster_cpus(cluster).any(|cpu| cpu == decision.cpu));
            }
            None => prop_assert!(decision.attempt > 1),
        }
    }

    #[test]
    fn whatever_is_asked_the_cpu_is_allowed_and_the_way_is_short(
        machine in machine(),
        busy in prop::collection::vec(0usize..90, 0..120),
        usage in prop::collection::vec(prop::option::of(0u32..=100), 90),
        pages in prop::collection::vec(prop::option::of(0u64..100), 20),
        masked in prop::collection::vec(any::<bool>(), 90),
        (from, seed, lie) in (0u32..100, any::<u64>(), prop::option::of((0usize..90, 1u32..40))),
    ) {
        let own = Own::new(&machine);
        let (tree, estimates) = (&own.tree, own.estimates());
        for at in busy {
            estimates.add_thread(CpuId((at % machine.cpus().len()) as u32));
        }
        own.refresh(|cpu| usage[cpu as usize], |node| pages[node as usize]);
        // A decider that was killed half-way: a cluster counts threads that its CPUs do not have.
        let lied = lie.map(|(at, count)| (CpuId((at % machine.cpus().len()) as u32), count));
        if let Some((cpu, count)) = lied {
            own.cut_off(cpu, count);
        }
        let allowed = Allowed::new(tree, machine.cpu_ids().filter(|cpu| masked[cpu.index()]));
        let leaves: BTreeSet<_> =
            machine.cpu_ids().filter(|cpu| allowed.contains(tree, *cpu)).map(|cpu| tree.leaf_of(cpu)).collect();
        let is_whole = allowed == Allowed::all(tree);
        let few = if is_whole || leaves.len() > 16 { 0 } else { leaves.len() as u32 };
        let bound = visits_max(tree).max(few);
        let from = CpuId(from);
        let thread = |strategy| Thread { strategy, ..Thread::new(Some(from), &allowed) };
        let decisions = [
            decide(&estimates, &thread(Order::Thesis)),
            decide(&estimates, &thread(Order::Packed)),
            decide(&estimates, &thread(Order::Spread)),
            decide(&estimates, &Fork { parent: Some(from), allowed: &allowed }),
            decide(&estimates, &Exec { allowed: &allowed, free_pages_min: Some(40), seed }),
        ];
        for (at, decision) in decisions.into_iter().enumerate() {
            let Some(decision) = decision else {
                prop_assert!(allowed.is_empty(), "policy {} found nothing", at);
                continue;
            };
            prop_assert!(allowed.contains(tree, decision.cpu), "policy {}", at);
            prop_assert!(decision.visited <= bound, "policy {}: {:?}", at, decision);
        }
        let to = decide(&estimates, &Balance { initiator: from, allowed: &allowed });
        if let Some(to) = to {
            prop_assert!(allowed.contains(tree, to.cpu) && to.visited <= bound);
            let has_room = estimates.usage_on(to.cpu).is_some_and(|usage| usage.percent() < 100);
            prop_assert!(has_room || estimates.nr_threads_on(to.cpu) == 0);
        }
    }

    #[test]
    fn a_node_for_pages_has_them_and_none_nearer_has(
        machine in machine(),
        pages in prop::collection::vec(prop::option::of(0u64..100), 20),
        masked in prop::collection::vec(any::<bool>(), 20),
        (from, nr_pages) in (0u32..20, 1u64..120),
    ) {
        let own = Own::new(&machine);
        own.refresh(|_| None, |node| pages[node as usize]);
        let nodes = machine.node_ids().filter(|node| masked[node.index()]);
        let allowed = memory::AllowedNodes::new(&own.tree, nodes);
        let from = Some(NodeId(from)).filter(|node| node.index() < machine.nodes().len());
        let request = memory::Request { from, allowed: &allowed, nr_pages, block_order: None };
        let has = |node: NodeId| {
            allowed.contains(node) && pages[node.index()].is_some_and(|pages| pages >= nr_pages)
        };
        match memory::decide(&own.estimates(), &request) {
            Some(decision) => {
                prop_assert!(has(decision.node));
                prop_assert!(decision.visited <= visits_max(&own.tree));
            }
            // Where M of a part is unknown, nothing above it is known; and a bound is a bound.
            None => prop_assert!(
                !from.is_some_and(has)
                    && (own.tree.height() > 2
                        || pages[..machine.nodes().len()].contains(&None)
                        || !machine.node_ids().any(has))
            ),
        }
    }

    #[test]
    fn a_group_is_placed_whole_and_shares_cores_only_when_it_must(
        machine in machine(),
        busy in prop::collection::vec(0usize..90, 0..60),
        (near, count) in (0u32..100, 1usize..100),
    ) {
        let own = Own::new(&machine);
        let (tree, estimates) = (&own.tree, own.estimates());
        for at in busy {
            estimates.add_thread(CpuId((at % machine.cpus().len()) as u32));
        }
        let allowed = Allowed::all(tree);
        let mut cpus = vec![CpuId(u32::MAX); count];
        let request = group::Group { near: Some(CpuId(near)), allowed: &allowed };
        let visited = group::decide(&estimates, &request, &mut cpus).unwrap();
        prop_assert!(visited as usize <= tree.clusters().len() + usize::from(tree.height()) + 1);
        prop_assert!(cpus.iter().all(|&cpu| allowed.contains(tree, cpu)));
        let root = tree.cluster(ClusterId::ROOT);
        if root.nr_cores() as usize >= count + estimates.nr_threads(ClusterId::ROOT) as usize {
            let distinct: BTreeSet<_> = cpus.iter().collect();
            prop_assert_eq!(distinct.len(), count, "{:?}", cpus);
        }
    }

    #[test]
    fn a_clusters_threads_are_those_of_its_cpus(
        machine in machine(),
        exits in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let own = Own::new(&machine);
        let (tree, estimates) = (&own.tree, own.estimates());
        let all = Allowed::all(tree);
        let mut placed = Vec::new();
        for exit in exits {
            if exit && !placed.is_empty() {
                estimates.remove_thread(placed.remove(placed.len() / 2)).unwrap();
            } else {
                let request = Thread::new(placed.last().copied(), &all);
                placed.push(decide_and_count(&estimates, &request).unwrap().cpu);
            }
        }
        for at in tree.cluster_ids() {
            prop_assert_eq!(estimates.nr_threads(at), threads_in(&estimates, &all, at));
            prop_assert_eq!(estimates.nr_threads_above(at), estimates.nr_threads(at));
        }
        prop_assert_eq!(estimates.nr_threads(ClusterId::ROOT) as usize, placed.len());
    }

    /// With a mask that only our own threads run in, the pigeonhole is exact.
    #[test]
    fn a_masked_thread_finds_an_idle_core_while_there_are_fewer_threads_than_cores(
        machine in machine(),
        masked in prop::collection::vec(any::<bool>(), 90),
        creator in 0u32..100,
    ) {
        let own = Own::new(&machine);
        let (tree, estimates) = (&own.tree, own.estimates());
        let allowed = Allowed::new(tree, machine.cpu_ids().filter(|cpu| masked[cpu.index()]));
        let request = Thread::new(Some(CpuId(creator)), &allowed);
        let mut nr_first = 0;
        while let Some(decision) = decide_and_count(&estimates, &request) {
            if decision.attempt != 1 {
                break;
            }
            prop_assert_eq!(estimates.nr_threads_on(decision.cpu), 1);
            nr_first += 1;
        }
        prop_assert_eq!(nr_first, allowed.nr_cores_in(ClusterId::ROOT));
    }
}
