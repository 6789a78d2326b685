//! Many threads decide at once on one set of slots.

use std::sync::Barrier;
use std::thread;

use quartier_decide::dqdt::{Allowed, ClusterId, Estimates, Tree};
use quartier_decide::policy::{Thread, decide_and_count};
use quartier_model::{CpuId, SyntheticSpec};

const DECIDERS: u32 = 8;

fn tree(nr_nodes: usize, nr_cpus: u32) -> Tree {
    Tree::build(&SyntheticSpec::uniform(nr_nodes, nr_cpus).machine().unwrap())
}

/// Two deciders never leave a leaf of four without an idle CPU, so a shared one is a lost race.
#[test]
fn two_deciders_at_once_take_two_cpus() {
    let tree = tree(1, 4);
    let allowed = Allowed::all(&tree);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let barrier = Barrier::new(2);
    let decide_often = || {
        let mut shared = 0;
        for _ in 0..20_000 {
            barrier.wait();
            let request = Thread::new(Some(CpuId(0)), &allowed);
            let cpu = decide_and_count(&estimates, &request).unwrap().cpu;
            barrier.wait();
            shared += u32::from(estimates.nr_threads_on(cpu) > 1);
            barrier.wait();
            estimates.remove_thread(cpu).unwrap();
        }
        shared
    };
    let shared = thread::scope(|scope| {
        let other = scope.spawn(decide_often);
        decide_often() + other.join().unwrap()
    });
    assert_eq!(shared, 0);
}

#[test]
fn concurrent_deciders_do_not_share_cpus_while_idle_ones_are_left() {
    let tree = tree(16, 4);
    let allowed = Allowed::all(&tree);
    for _ in 0..200 {
        let threads = tree.new_threads();
        let estimates = Estimates::new(&tree, &threads).unwrap();
        thread::scope(|scope| {
            for decider in 0..DECIDERS {
                let (estimates, allowed) = (&estimates, &allowed);
                scope.spawn(move || {
                    for _ in 0..64 / DECIDERS {
                        let request = Thread::new(Some(CpuId(decider * 8)), allowed);
                        decide_and_count(estimates, &request).unwrap();
                    }
                });
            }
        });
        let doubled = (0..64).filter(|&cpu| estimates.nr_threads_on(CpuId(cpu)) > 1).count();
        // A decider that meets others half-way through their additions may end in attempt 3.
        assert!(doubled <= DECIDERS as usize, "{doubled} of 64 CPUs have two threads");
        assert_eq!(estimates.nr_threads(ClusterId::ROOT), 64);
    }
}

#[test]
fn nothing_is_lost_while_threads_come_and_go() {
    let tree = tree(4, 2);
    let threads = tree.new_threads();
    let estimates = Estimates::new(&tree, &threads).unwrap();
    let allowed = Allowed::all(&tree);
    thread::scope(|scope| {
        for decider in 0..DECIDERS {
            let (estimates, allowed) = (&estimates, &allowed);
            scope.spawn(move || {
                for _ in 0..5_000 {
                    let request = Thread::new(Some(CpuId(decider)), allowed);
                    let decision = decide_and_count(estimates, &request).unwrap();
                    estimates.remove_thread(decision.cpu).unwrap();
                }
            });
        }
    });
    for at in tree.cluster_ids() {
        assert_eq!(estimates.nr_threads(at), 0);
    }
}
