//! Tables and free lists that many threads use at once. Each test prints the seed of its schedule;
//! QUARTIER_PERCORE_SEED repeats one.
#![cfg(not(loom))]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::{random, scaled};
use quartier_percore::{FreeList, PerCpuTable};

/// One thread counts each key up; whoever looks one up is never told less than what had been set
/// when the lookup began.
#[test]
fn a_lookup_is_never_older_than_its_beginning() {
    const NR_KEYS: u64 = 100;
    let mut seeds = random("a_lookup_is_never_older_than_its_beginning");
    // Fewer places than keys.
    let table = PerCpuTable::with_slots(64);
    let set: Vec<_> = (0..NR_KEYS).map(|_| AtomicU64::new(0)).collect();
    for key in 0..NR_KEYS {
        table.insert(key, 0);
    }
    let nr_rounds = scaled(100_000);
    thread::scope(|scope| {
        let (table, set) = (&table, &set);
        let mut writer = fastrand::Rng::with_seed(seeds.u64(..));
        scope.spawn(move || {
            for _ in 0..nr_rounds / 10 {
                let key = writer.u64(..NR_KEYS);
                let next = set[key as usize].load(Ordering::Relaxed) + 1;
                // Removed at times; that is seen as soon.
                if next.is_multiple_of(7) {
                    table.remove(&key);
                } else {
                    table.insert(key, next);
                }
                set[key as usize].store(next, Ordering::Release);
            }
        });
        for _ in 0..3 {
            let mut reader = fastrand::Rng::with_seed(seeds.u64(..));
            scope.spawn(move || {
                for _ in 0..nr_rounds {
                    let key = reader.u64(..NR_KEYS);
                    let before = set[key as usize].load(Ordering::Acquire);
                    let found = table.get(&key);
                    let after = set[key as usize].load(Ordering::Acquire) + 1;
                    // Absent while the count is a multiple of seven, but for the zero at the beginning.
                    let possible = |count: u64| {
                        found == (count == 0 || !count.is_multiple_of(7)).then_some(count)
                    };
                    assert!((before..=after).any(possible), "{before} {found:?} {after}");
                }
            });
        }
    });
}

#[test]
fn what_is_pushed_is_popped_once() {
    let mut seeds = random("what_is_pushed_is_popped_once");
    let list = FreeList::new(16, 64);
    let nr_rounds = scaled(100_000) as u64;
    let rest: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let mut random = fastrand::Rng::with_seed(seeds.u64(..));
                let list = &list;
                scope.spawn(move || {
                    let mut own: Vec<_> = (0..nr_rounds).map(|i| number * nr_rounds + i).collect();
                    for _ in 0..nr_rounds {
                        if random.bool() && !own.is_empty() {
                            let thing = own.swap_remove(random.usize(..own.len()));
                            own.extend(list.push(thing).err());
                        } else {
                            own.extend(list.pop());
                        }
                    }
                    own
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let nr_rest = rest.len();
    let kept = list.take_all();
    let nr_kept = kept.len();
    let all: BTreeSet<_> = rest.into_iter().chain(kept).collect();
    assert_eq!((nr_rest + nr_kept, all.len() as u64), (4 * nr_rounds as usize, 4 * nr_rounds));
}
