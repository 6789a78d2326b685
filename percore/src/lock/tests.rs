//! What all locks have in common.

use std::thread;

use super::*;

fn guards<L: QueueLock + Sync>(lock: L) {
    let nr_rounds = if cfg!(miri) { 20 } else { 10_000 };
    let value = Exclusive::new(lock, (0_u64, 0_u64));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..nr_rounds {
                    value.with(|(first, second)| {
                        assert_eq!(first, second);
                        *first += 1;
                        *second += 1;
                    });
                }
            });
        }
    });
    let panics = std::panic::AssertUnwindSafe(|| value.with(|_| panic!("as the test wants")));
    assert!(std::panic::catch_unwind(panics).is_err());
    value.with(|both| assert_eq!(*both, (4 * nr_rounds, 4 * nr_rounds)));
}

#[test]
fn a_ticket_lock_guards() {
    guards(TicketLock::new());
}

#[test]
fn an_mcs_lock_guards() {
    guards(McsLock::new());
}

#[test]
fn a_cna_lock_guards() {
    guards(CnaLock::new());
    // Threads that are on other nodes each time they ask.
    let turn = std::sync::atomic::AtomicUsize::new(0);
    guards(CnaLock::with(move || turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3, 2));
}

#[test]
fn locks_and_nodes_are_as_small_as_is_said() {
    let function = size_of::<fn() -> usize>();
    assert_eq!((size_of::<TicketLock>(), size_of::<McsLock>()), (8, 8));
    assert_eq!(size_of::<CnaLock>(), 16 + function);
    assert_eq!((size_of::<McsNode>(), size_of::<CnaNode>()), (16, 32));
}
