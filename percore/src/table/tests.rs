//! Of the table alone: it is a map, whatever was copied.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::property::tries;

#[test]
fn a_second_lookup_does_not_ask_the_shared_table() {
    let table = PerCpuTable::new();
    table.insert(1, "one");
    let copied = |key: &i32| {
        table.copies.with_own(|copies| {
            let set = copies.set(table.hasher.hash_one(key));
            set.iter().flatten().find(|copy| copy.key == *key).map(|copy| copy.value)
        })
    };
    // This thread may have been moved after the last lookup; then it looks again.
    let seen = (0..100).find_map(|_| {
        assert_eq!(table.get(&1), Some("one"));
        copied(&1).flatten()
    });
    assert_eq!(seen, Some(Some("one")));
    let absent = (0..100).find_map(|_| {
        assert_eq!(table.get(&2), None);
        copied(&2).flatten()
    });
    assert_eq!(absent, Some(None), "that there is none is known too");
}

/// All keys of a set, and one that gives way when there are more.
#[test]
fn a_cpu_keeps_as_many_copies_as_it_has_places() {
    let table = PerCpuTable::with_slots(0);
    // Thrice, for this thread may be moved between two lookups.
    let kept = (0..3).map(|_| {
        (0..NR_WAYS + 3).for_each(|key| assert_eq!(table.get(&key), None::<()>));
        table.copies.with_own(|copies| {
            let mut keys: Vec<_> = copies.slots.iter().flatten().map(|copy| copy.key).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.len()
        })
    });
    assert_eq!(kept.max(), Some(Some(NR_WAYS)));
}

#[test]
fn using_a_value_may_use_the_table() {
    let table = PerCpuTable::with_slots(1);
    table.insert(1, 10);
    table.insert(2, 20);
    for _ in 0..3 {
        let sum = table.with(&1, |one| {
            table.insert(3, 30);
            one + table.get(&2).unwrap() + table.get(&3).unwrap()
        });
        assert_eq!(sum, Some(60));
    }
}

#[test]
fn a_value_lives_until_its_copies_are_forgotten() {
    let table = PerCpuTable::new();
    let value = Arc::new(());
    table.insert(1, Arc::clone(&value));
    (0..100).for_each(|_| drop(table.get(&1)));
    drop(table.remove(&1));
    table.forget_copies();
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(table.is_empty());
}

#[test]
fn a_panic_of_the_user_leaves_a_table_that_works() {
    let table = PerCpuTable::new();
    table.insert(1, 10);
    for _ in 0..3 {
        let user = std::panic::AssertUnwindSafe(|| table.with(&1, |_| panic!("as the test wants")));
        assert!(std::panic::catch_unwind(user).is_err());
        assert_eq!(table.get(&1), Some(10));
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(u8),
    Insert(u8, u16),
    Remove(u8),
    Forget,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0_u8..20;
    prop_oneof![
        10 => key.clone().prop_map(Op::Get),
        4 => (key.clone(), any::<u16>()).prop_map(|(key, value)| Op::Insert(key, value)),
        2 => key.prop_map(Op::Remove),
        1 => Just(Op::Forget),
    ]
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn it_is_a_map(
        slots in 0_usize..9,
        ops in prop::collection::vec(op(), 0..100),
    ) {
        let table = PerCpuTable::with_slots(slots);
        let mut map = HashMap::new();
        for op in ops {
            match op {
                Op::Get(key) => prop_assert_eq!(table.get(&key), map.get(&key).copied()),
                Op::Insert(key, value) => {
                    prop_assert_eq!(table.insert(key, value), map.insert(key, value));
                }
                Op::Remove(key) => prop_assert_eq!(table.remove(&key), map.remove(&key)),
                Op::Forget => table.forget_copies(),
            }
            prop_assert_eq!(table.len(), map.len());
        }
    }
}
