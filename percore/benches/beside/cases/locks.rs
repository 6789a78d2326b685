//! Locks around one addition.

use std::sync::Mutex;

use quartier_percore::lock::{CnaLock, Exclusive, McsLock, QueueLock, TicketLock};

use super::{Case, case, end_turn};

/// What is done under a lock. Where CPUs take turns the others come meanwhile: they would never find it held otherwise.
fn add_one(value: &mut u64) -> bool {
    *value += 1;
    end_turn();
    true
}

fn queue_lock<L: QueueLock + Sync + 'static>(
    word: &'static str,
    name: &'static str,
    lock: L,
) -> Case {
    case(
        word,
        name,
        Exclusive::new(lock, 0_u64),
        |value, _| value.with(add_one),
        |value, nr| value.with(|value| *value == nr),
    )
}

pub fn locks() -> Vec<Case> {
    vec![
        case(
            "parking-lot",
            "parking_lot::Mutex",
            parking_lot::Mutex::new(0_u64),
            |value, _| add_one(&mut value.lock()),
            |value, nr| *value.lock() == nr,
        ),
        case(
            "std",
            "std's Mutex",
            Mutex::new(0_u64),
            |value, _| add_one(&mut value.lock().expect("nobody panics")),
            |value, nr| *value.lock().expect("nobody panics") == nr,
        ),
        queue_lock("ticket", "TicketLock", TicketLock::new()),
        queue_lock("mcs", "McsLock", McsLock::new()),
        queue_lock("cna", "CnaLock", CnaLock::new()),
    ]
}
