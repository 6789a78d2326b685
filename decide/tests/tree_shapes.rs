//! The shape of the tree for machines as they are built.

use quartier_decide::dqdt::{ClusterId, Tree};
use quartier_model::{CpuId, Llc, LlcId, Machine, MachineParts, NodeId, SyntheticSpec};

fn tree(spec: &str, change: impl FnOnce(&mut MachineParts)) -> Tree {
    let machine = spec.parse::<SyntheticSpec>().unwrap().machine().unwrap();
    let mut parts = MachineParts::from(machine);
    change(&mut parts);
    Tree::build(&Machine::try_from(parts).unwrap())
}

/// Gives every `cpus_per_llc` CPUs a cache of their own.
fn caches(parts: &mut MachineParts, cpus_per_llc: usize) {
    let nr_llcs = parts.cpus.len().div_ceil(cpus_per_llc);
    parts.llcs = vec![Llc { level: 3, size: None }; nr_llcs];
    for (at, cpu) in parts.cpus.iter_mut().enumerate() {
        cpu.llc = Some(LlcId((at / cpus_per_llc) as u32));
    }
}

fn leaves(tree: &Tree) -> Vec<Vec<u32>> {
    tree.cluster_ids()
        .filter(|&id| tree.cluster(id).is_leaf())
        .map(|id| tree.cluster_cpus(id).map(|cpu| cpu.0).collect())
        .collect()
}

#[test]
fn one_cpu_is_a_tree() {
    let tree = tree("1x1", |_| ());
    assert_eq!((tree.height(), tree.clusters().len(), tree.nr_slots()), (0, 1, 64));
}

#[test]
fn the_thesis_machine_of_1024_nodes_is_five_levels_high() {
    let tree = tree("1024x4", |_| ());
    assert_eq!(tree.height(), 5);
    assert_eq!(tree.clusters().len(), 1024 + 256 + 64 + 16 + 4 + 1);
    assert_eq!(tree.path_to_root(tree.leaf_of(CpuId(4095)).unwrap()).count(), 6);
}

#[test]
fn a_thousand_nodes_of_eight_cpus_have_a_level_inside() {
    let tree = tree("1024x8", |_| ());
    assert_eq!(tree.height(), 6);
}

#[test]
fn a_socket_of_eight_caches_has_levels_for_them() {
    let tree = tree("2x64", |parts| caches(parts, 8));
    // 4 + 4 CPUs of a cache, 4 + 4 caches of a node, 2 nodes.
    assert_eq!(tree.height(), 4);
    let node = tree.clusters().iter().find(|cluster| cluster.nr_cpus() == 64).unwrap();
    assert_eq!((node.node(), node.llc()), (Some(NodeId(0)), None));
}

#[test]
fn caches_of_one_core_each_make_no_clusters() {
    let tree = tree("1x8", |parts| caches(parts, 1));
    assert_eq!(leaves(&tree), [[0, 1, 2, 3], [4, 5, 6, 7]]);
}

#[test]
fn hardware_threads_of_a_core_stay_together() {
    let tree = tree("1x12", |parts| {
        for cpu in &mut parts.cpus {
            cpu.core = Some(cpu.os_id.0 % 6);
        }
    });
    assert_eq!(leaves(&tree), [[0, 6, 1, 7], [2, 8, 3, 9], [4, 10, 5, 11]]);
}

#[test]
fn a_node_without_cpus_is_a_leaf_without_cpus() {
    let tree = tree("2,0", |_| ());
    assert_eq!(leaves(&tree), [vec![0, 1], vec![]]);
    assert_eq!(tree.cluster(ClusterId(2)).node(), Some(NodeId(1)));
}
