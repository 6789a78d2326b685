//! Of the free list alone: nothing is lost, nothing doubled, and bounds hold.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::cpu;
use crate::property::tries;

#[test]
fn what_was_kept_last_comes_first() {
    let list = FreeList::new(4, 4);
    // Thrice, for this thread may be moved once between the two.
    let came_back = (0..3).any(|_| {
        list.push(1).unwrap();
        list.push(2).unwrap();
        let came = [list.pop(), list.pop()];
        drop(list.take_all());
        came == [Some(2), Some(1)]
    });
    assert!(came_back);
}

#[test]
fn a_full_list_gives_the_thing_back() {
    let list = FreeList::new(2, 3);
    let nr_kept = (0..1_000).take_while(|thing| list.push(*thing) == Ok(())).count();
    assert!(nr_kept >= 5, "{nr_kept}: one CPU's part and the shared list");
    assert!(nr_kept <= 3 + 2 * cpu::nr_possible(), "{nr_kept}");
    let all: BTreeSet<_> = list.take_all().into_iter().collect();
    assert_eq!(all.len(), nr_kept);
    assert_eq!(list.pop(), None);
}

#[test]
fn without_a_shared_list_it_is_only_smaller() {
    let list = FreeList::new(0, 0);
    let nr_kept = (0..1_000).take_while(|thing| list.push(*thing) == Ok(())).count();
    assert!((2..=2 * cpu::nr_possible()).contains(&nr_kept), "{nr_kept}");
    assert_eq!(list.take_all().len(), nr_kept);
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn nothing_is_lost_and_nothing_doubled(
        own_max in 0_usize..10,
        shared_max in 0_usize..20,
        pushes in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let list = FreeList::new(own_max, shared_max);
        let mut kept = BTreeSet::new();
        for (thing, is_push) in pushes.into_iter().enumerate() {
            if is_push {
                match list.push(thing) {
                    Ok(()) => assert!(kept.insert(thing)),
                    Err(back) => prop_assert_eq!(back, thing),
                }
            } else if let Some(thing) = list.pop() {
                prop_assert!(kept.remove(&thing));
            }
        }
        let all: BTreeSet<_> = list.take_all().into_iter().collect();
        prop_assert_eq!(all, kept);
    }
}
