//! Tables that are looked up, and lists of free things.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Mutex, RwLock};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::sync::ShardedLock;
use dashmap::DashMap;
use quartier_percore::{FreeList, PerCpuTable};

use super::{Case, case, done};

const NR_KEYS: u64 = 64;

/// Each thread goes through the keys, and each is there.
fn lookup<T: Sync + 'static>(
    word: &'static str,
    name: &'static str,
    table: T,
    get: impl Fn(&T, u64) -> Option<u64> + Sync + 'static,
) -> Case {
    let is_found = move |table: &T, at: u64| {
        let key = at % NR_KEYS;
        black_box(get(table, key)) == Some(key)
    };
    case(word, name, table, is_found, |_, _| true)
}

pub fn lookups() -> Vec<Case> {
    let map = || (0..NR_KEYS).map(|key| (key, key)).collect::<HashMap<_, _>>();
    let dashmap: DashMap<_, _> = map().into_iter().collect();
    let table = PerCpuTable::new();
    for (key, value) in map() {
        table.insert(key, value);
    }
    vec![
        lookup("std-rwlock", "HashMap in RwLock", RwLock::new(map()), |table, key| {
            table.read().expect("nobody panics").get(&key).copied()
        }),
        lookup("per-cpu-table", "PerCpuTable", table, |table, key| table.get(&key)),
        lookup("std-mutex", "HashMap in Mutex", Mutex::new(map()), |table, key| {
            table.lock().expect("nobody panics").get(&key).copied()
        }),
        lookup(
            "parking-lot-rwlock",
            "HashMap in parking_lot::RwLock",
            parking_lot::RwLock::new(map()),
            |table, key| table.read().get(&key).copied(),
        ),
        lookup(
            "sharded-lock",
            "HashMap in crossbeam's ShardedLock",
            ShardedLock::new(map()),
            |table, key| table.read().expect("nobody panics").get(&key).copied(),
        ),
        lookup("dashmap", "DashMap", dashmap, |table, key| table.get(&key).map(|value| *value)),
    ]
}

/// So many that every CPU's part has some.
pub const NR_THINGS: u64 = 4096;

/// Whether each thing is there, and once.
pub fn are_all(things: impl IntoIterator<Item = u64>) -> bool {
    let mut things: Vec<_> = things.into_iter().collect();
    things.sort_unstable();
    things.into_iter().eq(0..NR_THINGS)
}

pub fn free_lists() -> Vec<Case> {
    let queue = ArrayQueue::new(NR_THINGS as usize);
    let list = FreeList::new(64, NR_THINGS as usize);
    for thing in 0..NR_THINGS {
        queue.push(thing).expect("there is room");
        list.push(thing).expect("there is room");
    }
    vec![
        case(
            "vec-in-mutex",
            "Vec in Mutex",
            Mutex::new((0..NR_THINGS).collect::<Vec<_>>()),
            |stack, _| {
                let thing = stack.lock().expect("nobody panics").pop();
                let is_there = thing.is_some();
                stack.lock().expect("nobody panics").extend(black_box(thing));
                is_there
            },
            |stack, _| are_all(stack.lock().expect("nobody panics").drain(..)),
        ),
        case(
            "free-list",
            "FreeList",
            list,
            |list, _| list.pop().is_some_and(|thing| list.push(black_box(thing)).is_ok()),
            |list, _| are_all(list.take_all()),
        ),
        case(
            "array-queue",
            "crossbeam's ArrayQueue",
            queue,
            |queue, _| queue.pop().is_some_and(|thing| queue.push(black_box(thing)).is_ok()),
            |queue, _| are_all(std::iter::from_fn(|| queue.pop())),
        ),
        case(
            "allocate",
            "allocate 64 bytes and free them",
            (),
            |(), _| done(Box::new([0_u64; 8])),
            |(), _| true,
        ),
    ]
}
