//! The shape of the tree for machines as they are built.

use quartier_decide::dqdt::{ClusterId, FANOUT_MAX, Tree};
use quartier_model::{
    Bytes, CpuId, Llc, LlcId, Machine, MachineError, MachineParts, NodeId, SyntheticSpec,
};

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

/// No machine has a level that it could do without: nodes stay whole, and four go into one.
#[test]
fn trees_are_as_low_as_a_fan_out_of_four_allows() {
    let heights = [
        ("1x4", 0),
        ("1x5", 1),
        ("1x16", 1),
        ("1x17", 2),
        ("1x64", 2),
        ("4x1", 1),
        ("5x1", 2),
        ("6x4", 2),
        ("16x4", 2),
        ("17x4", 3),
        ("64x4", 3),
        ("4x16", 2),
        ("4x17", 3),
        ("256x16", 5),
        // The highest node counts.
        ("16,1,0", 2),
    ];
    for (spec, height) in heights {
        assert_eq!(tree(spec, |_| ()).height(), height, "{spec}");
    }
}

#[test]
fn four_thousand_cpus_in_any_shape_are_all_there_once() {
    for (spec, cpus_per_llc, height) in
        [("1x4096", 4096, 5), ("8x512", 8, 6), ("64x64", 16, 5), ("512x8", 8, 6), ("1024x4", 4, 5)]
    {
        let tree = tree(spec, |parts| caches(parts, cpus_per_llc));
        assert_eq!((tree.nr_cpus(), tree.height()), (4096, height), "{spec}");
        let mut cpus = leaves(&tree).concat();
        cpus.sort_unstable();
        assert!(cpus.into_iter().eq(0..4096), "{spec}");
        for cluster in tree.clusters() {
            let nr_children = cluster.children().len();
            assert!(nr_children != 1 && nr_children <= FANOUT_MAX, "{spec}: {cluster:?}");
        }
    }
}

/// Nothing of it may depend on addresses, hashes or the time: two processes that build it for
/// themselves have to agree.
#[test]
fn the_same_machine_gives_the_same_bytes() {
    for spec in ["6x4", "2,0,7,1", "1024x4"] {
        let bytes = || tree(spec, |parts| caches(parts, 3)).encode();
        assert_eq!(bytes(), bytes(), "{spec}");
    }
}

#[test]
fn nodes_of_different_sizes_keep_their_cpus_to_themselves() {
    let tree = tree("1,9,0,3", |_| ());
    assert_eq!(tree.height(), 2);
    let clusters = tree.cluster(ClusterId::ROOT).children().map(|at| tree.cluster(at));
    let sizes: Vec<_> = clusters.map(|node| (node.level(), node.nr_cpus())).collect();
    assert_eq!(sizes, [(0, 1), (1, 9), (0, 0), (0, 3)]);
    assert_eq!(leaves(&tree).iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 3, 3, 3, 3]);
}

#[test]
fn a_node_without_memory_is_a_node() {
    let without = |parts: &mut MachineParts| parts.nodes[1].memory = Some(Bytes(0));
    let tree = tree("4x2", without);
    assert_eq!(tree, self::tree("4x2", |_| ()));
    assert_eq!(tree.cluster(tree.cluster_of_node(NodeId(1))).home(), Some(NodeId(1)));
}

#[test]
fn an_offline_cpu_is_in_no_leaf() {
    let tree = tree("2x4", |parts| parts.cpus[2].online = false);
    assert_eq!(leaves(&tree), [vec![0, 1, 3], vec![4, 5, 6, 7]]);
    assert_eq!((tree.nr_cpus(), tree.leaf_of(CpuId(2)), tree.leaf_of(CpuId(8))), (7, None, None));
}

#[test]
fn a_machine_without_cpus_has_no_tree() {
    for spec in ["4x0", "0,0"] {
        assert!(spec.parse::<SyntheticSpec>().unwrap().machine().is_err(), "{spec}");
    }
    let machine = SyntheticSpec::uniform(2, 2).machine().unwrap();
    let mut parts = MachineParts::from(machine);
    parts.cpus.iter_mut().for_each(|cpu| cpu.online = false);
    assert_eq!(Machine::try_from(parts).unwrap_err(), MachineError::NoCpus);
}
