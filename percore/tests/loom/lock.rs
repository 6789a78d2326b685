//! Locks: one at a time, and nobody is forgotten.

use loom::sync::Arc;
use quartier_percore::cpu;
use quartier_percore::lock::{CnaLock, CnaNode, Exclusive, McsLock, QueueLock, TicketLock};

use crate::{model, on_cpu};

/// Threads on these CPUs, the first of them this one, each take the lock once.
fn guards<L: QueueLock + Send + Sync + 'static>(
    make: impl Fn() -> L + Send + Sync + 'static,
    others_cpus: &'static [usize],
) {
    model(move || {
        let value = Arc::new(Exclusive::new(make(), 0));
        let others: Vec<_> = others_cpus
            .iter()
            .map(|cpu| {
                let value = Arc::clone(&value);
                on_cpu(*cpu, move || value.with(|count| *count += 1))
            })
            .collect();
        value.with(|count| *count += 1);
        others.into_iter().for_each(|other| other.join().unwrap());
        value.with(|count| assert_eq!(*count, 1 + others_cpus.len()));
    });
}

fn cna() -> CnaLock {
    CnaLock::with(cpu::current, 1)
}

#[test]
fn ticket() {
    guards(TicketLock::new, &[1]);
}

#[test]
fn mcs() {
    guards(McsLock::new, &[1]);
}

#[test]
fn cna_on_one_node() {
    guards(cna, &[0]);
}

#[test]
fn cna_on_two_nodes() {
    guards(cna, &[1]);
}

/// Two enter while the holder releases. Nobody spins here: loom would let two spin beside each other for
/// ever.
fn both_get_it(nodes: [usize; 2]) {
    model(move || {
        let lock = Arc::new(cna());
        let own = CnaNode::default();
        assert!(lock.enter_only(&own));
        let others: Vec<_> = nodes
            .iter()
            .map(|cpu| {
                let (lock, node) = (Arc::clone(&lock), Arc::new(CnaNode::default()));
                let entering = Arc::clone(&node);
                (node, on_cpu(*cpu, move || lock.enter_only(&entering)))
            })
            .collect();
        // SAFETY: `own` holds the lock.
        unsafe { lock.release(&own) };
        let mut waiting: Vec<_> = others
            .into_iter()
            .map(|(node, entering)| {
                entering.join().unwrap();
                node
            })
            .collect();
        while !waiting.is_empty() {
            let granted: Vec<_> = waiting.iter().map(|node| node.is_granted()).collect();
            let holder = granted.iter().position(|granted| *granted).expect("one is granted it");
            assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
            let holder = waiting.swap_remove(holder);
            // SAFETY: it holds the lock, and the queues know no node that is gone.
            unsafe { lock.release(&holder) };
        }
        assert!(lock.enter_only(&CnaNode::default()), "nobody is left");
    });
}

#[test]
fn cna_with_two_who_enter_from_the_holders_node() {
    both_get_it([0, 0]);
}

#[test]
fn cna_with_two_who_enter_from_another_node() {
    both_get_it([1, 1]);
}

#[test]
fn cna_with_one_who_is_passed_over() {
    both_get_it([1, 0]);
}
