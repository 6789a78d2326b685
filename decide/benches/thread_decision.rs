//! What a decision about a new thread costs. Figure to beat (thesis 4.3.1): ten atomic additions
//! for T over five levels. The allocation columns must stay empty.
//!
//! `cargo bench -p quartier-decide`

use divan::{AllocProfiler, Bencher, black_box};
use quartier_decide::dqdt::{Allowed, ClusterId, Estimates, Tree};
use quartier_decide::policy::{Thread, decide, decide_and_count};
use quartier_model::{CpuId, SyntheticSpec};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const MACHINES: [&str; 3] = ["4x2", "16x8", "1024x4"];

fn main() {
    divan::main();
}

fn tree(spec: &str) -> Tree {
    Tree::build(&spec.parse::<SyntheticSpec>().unwrap().machine().unwrap())
}

/// The creator's own leaf has an idle CPU.
#[divan::bench(args = MACHINES)]
fn idle_cpu_nearby(bencher: Bencher<'_, '_>, spec: &str) {
    let tree = tree(spec);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    let request = Thread::new(Some(CpuId(0)), &allowed);
    bencher.bench_local(|| decide(black_box(&estimates), black_box(&request)));
}

/// One idle CPU, the last of the machine: up to the root and down again.
#[divan::bench(args = MACHINES)]
fn idle_cpu_far_away(bencher: Bencher<'_, '_>, spec: &str) {
    let tree = tree(spec);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    let nr_cpus = tree.cluster_cpus(ClusterId::ROOT).count() as u32;
    for cpu in 0..nr_cpus - 1 {
        estimates.add_thread(CpuId(cpu));
    }
    let request = Thread::new(Some(CpuId(0)), &allowed);
    bencher.bench_local(|| decide(black_box(&estimates), black_box(&request)));
}

/// Every CPU is taken: three attempts.
#[divan::bench(args = MACHINES)]
fn no_idle_cpu(bencher: Bencher<'_, '_>, spec: &str) {
    let tree = tree(spec);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    for cpu in tree.cluster_cpus(ClusterId::ROOT) {
        estimates.add_thread(cpu);
    }
    let request = Thread::new(Some(CpuId(0)), &allowed);
    bencher.bench_local(|| decide(black_box(&estimates), black_box(&request)));
}

/// The same with every second CPU allowed: the mask cuts every cluster, the worst case.
#[divan::bench(args = MACHINES)]
fn no_idle_cpu_and_every_second_allowed(bencher: Bencher<'_, '_>, spec: &str) {
    let tree = tree(spec);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::new(&tree, tree.cluster_cpus(ClusterId::ROOT).step_by(2));
    for cpu in tree.cluster_cpus(ClusterId::ROOT) {
        estimates.add_thread(cpu);
    }
    let request = Thread::new(Some(CpuId(0)), &allowed);
    bencher.bench_local(|| decide(black_box(&estimates), black_box(&request)));
}

/// A thread comes and goes: decision, additions up to the root, subtractions; on one and on two
/// deciders at once.
#[divan::bench(args = MACHINES, threads = [1, 2])]
fn come_and_go(bencher: Bencher<'_, '_>, spec: &str) {
    let tree = tree(spec);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    let request = Thread::new(Some(CpuId(0)), &allowed);
    bencher.bench(|| {
        let decision = decide_and_count(black_box(&estimates), black_box(&request)).unwrap();
        estimates.remove_thread(decision.cpu).unwrap();
    });
}

/// Once at the start of a program.
#[divan::bench(args = MACHINES, sample_count = 10)]
fn build(bencher: Bencher<'_, '_>, spec: &str) {
    let machine = spec.parse::<SyntheticSpec>().unwrap().machine().unwrap();
    bencher.bench_local(|| Tree::build(black_box(&machine)));
}
