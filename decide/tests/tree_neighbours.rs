//! Which nodes the tree puts together, on machines whose distances differ.

mod common;

use common::{Own, changed, synthetic};
use proptest::prelude::*;
use quartier_decide::dqdt::{Allowed, ClusterId, Tree};
use quartier_decide::policy::{Thread, decide};
use quartier_model::{CpuId, Distance, Machine, NodeId};

/// `nr_nodes` nodes of one CPU each, at these distances.
fn at_distances(nr_nodes: usize, distance: impl Fn(usize, usize) -> usize) -> Machine {
    changed(&format!("{nr_nodes}x1"), |parts| {
        for (from, row) in parts.distances.rows.iter_mut().enumerate() {
            for (to, entry) in row.iter_mut().enumerate() {
                *entry = Distance(if from == to { 10 } else { distance(from, to) as u8 });
            }
        }
    })
}

fn nodes_of(tree: &Tree, cluster: ClusterId) -> Vec<usize> {
    match tree.cluster(cluster).node() {
        Some(node) => vec![node.index()],
        None => tree.cluster(cluster).children().flat_map(|at| nodes_of(tree, at)).collect(),
    }
}

/// The nodes of every cluster of a level, in the tree's order.
fn level(tree: &Tree, level: u8) -> Vec<Vec<usize>> {
    let of_level = tree.cluster_ids().filter(|&at| tree.cluster(at).level() == level);
    of_level.map(|at| nodes_of(tree, at)).collect()
}

fn hops_in_ring(len: usize, a: usize, b: usize) -> usize {
    a.abs_diff(b).min(len - a.abs_diff(b))
}

#[test]
fn a_ring_is_cut_into_arcs() {
    let tree = Tree::build(&at_distances(16, |a, b| 10 + 10 * hops_in_ring(16, a, b)));
    assert_eq!(tree.height(), 2);
    let arcs = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];
    assert_eq!(level(&tree, 1), arcs);
}

/// No node is further from another of its cluster than along an arc of four, whatever the length.
#[test]
fn a_ring_of_any_length_joins_neighbours_before_opposites() {
    for len in 5..=24 {
        let tree = Tree::build(&at_distances(len, |a, b| 10 + 8 * hops_in_ring(len, a, b)));
        for arc in level(&tree, 1) {
            let far = |&a: &usize| arc.iter().any(|&b| hops_in_ring(len, a, b) >= arc.len());
            assert!(!arc.iter().any(far), "{len} nodes: {arc:?}");
        }
    }
}

fn hops_in_mesh(width: usize, a: usize, b: usize) -> usize {
    (a / width).abs_diff(b / width) + (a % width).abs_diff(b % width)
}

#[test]
fn a_mesh_is_cut_into_squares_of_squares() {
    let tree = Tree::build(&at_distances(64, |a, b| 10 + 10 * hops_in_mesh(8, a, b)));
    assert_eq!(tree.height(), 3);
    for (level_of, side) in [(1, 2), (2, 4)] {
        let squares = level(&tree, level_of);
        assert_eq!(squares.len(), 64 / (side * side));
        for square in squares {
            let corner = |at: usize| (at / 8 / side, at % 8 / side);
            assert!(square.iter().all(|&at| corner(at) == corner(square[0])), "{square:?}");
        }
    }
}

/// Four boxes at 32, two sockets of a box at 22, two nodes of a socket at 12.
fn three_distances(a: usize, b: usize) -> usize {
    match (a / 4 == b / 4, a / 2 == b / 2) {
        (_, true) => 12,
        (true, false) => 22,
        (false, false) => 32,
    }
}

#[test]
fn sixteen_nodes_at_three_distances_have_a_level_for_each() {
    let tree = Tree::build(&at_distances(16, three_distances));
    assert_eq!(tree.height(), 3);
    assert_eq!(level(&tree, 1), (0..8).map(|at| vec![2 * at, 2 * at + 1]).collect::<Vec<_>>());
    assert_eq!(
        level(&tree, 2),
        (0..4).map(|at| (4 * at..4 * at + 4).collect()).collect::<Vec<Vec<_>>>()
    );
}

/// Firmware may number the first node of every socket first.
#[test]
fn neighbours_are_found_by_distance_not_by_number() {
    let place = |node: usize| (node % 4) * 4 + node / 4;
    let distances = |a, b| three_distances(place(a), place(b));
    let tree = Tree::build(&at_distances(16, distances));
    assert_eq!(
        level(&tree, 2),
        (0..4).map(|at| (at..16).step_by(4).collect()).collect::<Vec<Vec<_>>>()
    );
    for pair in level(&tree, 1) {
        assert_eq!(distances(pair[0], pair[1]), 12, "{pair:?}");
    }
}

#[test]
fn six_nodes_are_two_of_three() {
    let tree = Tree::build(&synthetic("6x4"));
    assert_eq!((tree.height(), level(&tree, 1)), (2, vec![vec![0, 1, 2], vec![3, 4, 5]]));
    let sockets = Tree::build(&at_distances(6, |a, b| if a % 2 == b % 2 { 12 } else { 32 }));
    assert_eq!(level(&sockets, 1), [[0, 2, 4], [1, 3, 5]]);
}

/// 0 sees 1 near, but 1 sees 0 far; 0 and 2 are near both ways.
#[test]
fn what_is_near_in_one_direction_only_is_not_near() {
    let rows = [[10, 11, 15, 40], [40, 10, 40, 15], [15, 40, 10, 11], [40, 15, 40, 10]];
    let tree = Tree::build(&at_distances(4, |a, b| rows[a][b]));
    assert_eq!(level(&tree, 1), [[0, 2], [1, 3]]);
}

/// 255 is what a SLIT says of nodes that are not connected.
#[test]
fn islands_meet_at_the_root_only() {
    let machine = at_distances(8, |a, b| if a / 4 == b / 4 { 20 } else { 255 });
    let tree = Tree::build(&machine);
    assert_eq!(level(&tree, 1), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    let own = Own::new(&machine);
    let allowed = Allowed::all(&own.tree);
    for _ in 0..4 {
        own.load([decide(&own.estimates(), &Thread::new(Some(CpuId(5)), &allowed)).unwrap().cpu.0]);
    }
    let on_island = |cpu| own.estimates().nr_threads_on(CpuId(cpu));
    assert_eq!((0..8).map(on_island).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
}

/// Memory behind a link of one socket belongs to that socket, and a CPU of it keeps its estimates.
#[test]
fn memory_without_cpus_joins_the_nearest_cpus() {
    let rows = [[10, 21, 14, 24], [21, 10, 24, 14], [14, 24, 10, 26], [24, 14, 26, 10]];
    let machine = changed("2,2,0,0", |parts| {
        parts.distances.rows = rows.map(|row| row.map(Distance).to_vec()).to_vec();
    });
    let tree = Tree::build(&machine);
    assert_eq!(level(&tree, 1), [[0, 2], [1, 3]]);
    for (node, cpus) in [(2, [0, 1]), (3, [2, 3])] {
        let cluster = tree.cluster_of_node(NodeId(node));
        let updater = tree.updater(cluster).unwrap();
        assert!(cpus.contains(&updater.0), "node {node} is kept by CPU {updater}");
        assert_eq!(tree.cluster_cpus(cluster).count(), 0);
    }
    // Distances to a pair count from its node with CPUs.
    let pairs = tree.cluster(ClusterId::ROOT).children();
    assert_eq!(
        pairs.map(|at| tree.cluster(at).home()).collect::<Vec<_>>(),
        [0, 1].map(|n| Some(NodeId(n)))
    );
}

proptest! {
    /// Sockets of any sizes, numbered in any order: no cluster has a part of one socket and a part of
    /// another.
    #[test]
    fn a_socket_is_whole_before_it_meets_another(
        sizes in prop::collection::vec(2usize..=6, 1..6),
        order in Just((0..30).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let mut sockets: Vec<_> =
            sizes.iter().enumerate().flat_map(|(socket, &size)| vec![socket; size]).collect();
        let nr_nodes = sockets.len();
        let order: Vec<_> = order.into_iter().filter(|&at| at < nr_nodes).collect();
        sockets = order.iter().map(|&at| sockets[at]).collect();
        let distance = |a: usize, b: usize| if sockets[a] == sockets[b] { 12 } else { 32 };
        let tree = Tree::build(&at_distances(nr_nodes, distance));
        for at in tree.cluster_ids() {
            let nodes = nodes_of(&tree, at);
            let whole = |&node: &usize| {
                let all = (0..nr_nodes).filter(|&other| sockets[other] == sockets[node]);
                all.into_iter().all(|other| nodes.contains(&other))
            };
            let is_in_one = nodes.iter().all(|&node| sockets[node] == sockets[nodes[0]]);
            prop_assert!(is_in_one || nodes.iter().all(whole), "{:?} of {:?}", nodes, sockets);
        }
    }
}

/// As above, where sockets of one node are among them: half of the nodes have nobody near. Parts are
/// of nearly equal size, so a socket that is larger than a part is cut.
#[test]
fn a_socket_is_whole_among_single_nodes_too() {
    for nr_nodes in 5..=12_usize {
        for near in (2..=4).flat_map(|size| (0..=nr_nodes - size).map(move |at| at..at + size)) {
            let part_max = nr_nodes.div_ceil(nr_nodes.div_ceil(4));
            if near.len() > part_max {
                continue;
            }
            let is_near = |a, b| near.contains(&a) && near.contains(&b);
            let distance = |a, b| if is_near(a, b) { 12 } else { 32 };
            let tree = Tree::build(&at_distances(nr_nodes, distance));
            for cluster in level(&tree, 1) {
                let nr_there = cluster.iter().filter(|&at| near.contains(at)).count();
                let is_whole = nr_there == near.len() || nr_there == cluster.len();
                assert!(nr_there == 0 || is_whole, "{near:?} of {nr_nodes}: {cluster:?}");
            }
        }
    }
}

/// As the ring above, where the numbers do not follow the ring.
#[test]
fn a_ring_numbered_in_steps_joins_neighbours_too() {
    for step in [3, 5, 7] {
        let place = |node: usize| node * step % 16;
        let hops = |a, b| hops_in_ring(16, place(a), place(b));
        let tree = Tree::build(&at_distances(16, |a, b| 10 + 8 * hops(a, b)));
        for arc in level(&tree, 1) {
            let far = |&a: &usize| arc.iter().any(|&b| hops(a, b) >= arc.len());
            assert!(!arc.iter().any(far), "steps of {step}: {arc:?}");
        }
    }
}
