//! Programs that know nothing of each other, started together, counted on real kernels: through the
//! decision tree that their runs share they do not pile onto one node.

mod common;

use std::ffi::OsString;

/// Programs of two threads each.
const PROGRAMS: usize = 8;

/// Starts them at once, waits until each has said where its threads are, lets them end, and shows what
/// is left of the shared tree.
const SCRIPT: &str = "
rm -f /tmp/places /tmp/go
touch /tmp/places
for i in $(seq $3); do $1 run --quiet --tree auto -- $2 /tmp/places /tmp/go & done
n=0
while [ $(wc -l < /tmp/places) -lt $3 ] && [ $n -lt 600 ]; do sleep 0.2; n=$((n + 1)); done
[ -s /dev/shm/quartier-$(id -u)/threads ] || echo 'no shared tree'
touch /tmp/go
wait
cat /tmp/places
ls /dev/shm
";

/// The nodes of each program's two threads.
fn in_guest(kernel: &str, nodes: usize, cpus_per_node: usize) -> Option<Vec<[usize; 2]>> {
    let (nodes, cpus_per_node) = (nodes.to_string(), cpus_per_node.to_string());
    let options = ["--nodes", &nodes, "--cpus-per-node", &cpus_per_node, "--timeout", "300"];
    let given: [OsString; 3] = [
        common::quartier().into(),
        common::program("side_by_side").into(),
        PROGRAMS.to_string().into(),
    ];
    let (text, said) = common::script_in_guest(kernel, options, SCRIPT, given)?;
    println!("kernel {kernel}, {nodes} nodes of {cpus_per_node} CPUs:\n{text}");
    let places: Vec<_> = text
        .lines()
        .map(|line| {
            let mut words = line.split(' ').skip(1).map(|word| word.parse().expect(line));
            [words.next().expect(line), words.next().expect(line)]
        })
        .collect();
    // A line too many: something is left, or there was no shared tree.
    assert_eq!(places.len(), PROGRAMS, "kernel {kernel}: {text} {said}");
    Some(places)
}

fn threads_on(places: &[[usize; 2]], node: usize) -> usize {
    places.iter().flatten().filter(|at| **at == node).count()
}

/// Sixteen threads on eight CPUs: four on each node, give or take two that decided at one moment.
#[test]
fn on_four_small_nodes_every_node_has_its_share() {
    for kernel in ["6.1", "7.3"] {
        let Some(places) = in_guest(kernel, 4, 2) else { return };
        for node in 0..4 {
            let threads = threads_on(&places, node);
            assert!((2..=6).contains(&threads), "node {node} has {threads} of 16: {places:?}");
        }
    }
}

/// Sixteen threads on 32 CPUs: nobody shares a CPU, and every program is on one node. (Which node is the
/// kernel's to change until a program has its second thread, so some nodes may have two programs.)
#[test]
fn on_eight_larger_nodes_programs_stay_whole_and_share_no_cpu() {
    let Some(places) = in_guest("7.3", 8, 4) else { return };
    assert!(places.iter().all(|[first, second]| first == second), "{places:?}");
    assert!((0..8).all(|node| threads_on(&places, node) <= 4), "{places:?}");
    let used = (0..8).filter(|node| threads_on(&places, *node) > 0).count();
    assert!(used >= 4, "{used} of 8 nodes are used: {places:?}");
}
