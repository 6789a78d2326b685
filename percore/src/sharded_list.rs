//! A free list in shards, with a lock each: half way between one list for all and a part for each CPU.

use std::num::NonZeroUsize;

use crossbeam_utils::CachePadded;

use crate::cpu;
use crate::sync::{self, Mutex};

/// Things that wait to be used again, in a number of lists that CPUs share.
///
/// - **Bounds:** at most `shard_max` × shards things. What rests in any shard is found from every CPU: [`pop`](Self::pop) gives
///   `None` only if each shard was empty when it came there.
/// - **Waits** for the mutex of its CPU's shard, and of the others one after the other where that is empty (or full).
///   It never allocates.
/// - **Memory:** room for all of that from the start, and 128 bytes for each shard.
/// - **Loses** against [`FreeList`](crate::FreeList) where all CPUs are busy with it, since each call takes a lock, which CPUs
///   of a shard hand to each other; and against one list behind a lock where it is often empty: then all shards are looked at.
#[derive(Debug)]
pub struct ShardedList<T> {
    shards: Box<[CachePadded<Mutex<Vec<T>>>]>,
    shard_max: usize,
}

impl<T> ShardedList<T> {
    /// An empty list of so many shards (the nodes of a machine, say), each with room for so many.
    #[must_use]
    pub fn new(nr_shards: NonZeroUsize, shard_max: usize) -> Self {
        let shard = |_| CachePadded::new(Mutex::new(Vec::with_capacity(shard_max)));
        Self { shards: (0..nr_shards.get()).map(shard).collect(), shard_max }
    }

    /// Keeps a thing.
    ///
    /// # Errors
    /// The thing, when every shard was full.
    pub fn push(&self, thing: T) -> Result<(), T> {
        for shard in self.own_first() {
            let mut shard = sync::lock(shard);
            if shard.len() < self.shard_max {
                shard.push(thing);
                return Ok(());
            }
        }
        Err(thing)
    }

    /// A thing that was kept, latest first where this CPU's shard has some.
    #[must_use]
    pub fn pop(&self) -> Option<T> {
        self.own_first().find_map(|shard| sync::lock(shard).pop())
    }

    /// All that is kept.
    #[must_use]
    pub fn take_all(&self) -> Vec<T> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| all.append(&mut sync::lock(shard)));
        all
    }

    /// The shard of this CPU, and then the others in turn.
    fn own_first(&self) -> impl Iterator<Item = &Mutex<Vec<T>>> {
        let (before, from) = self.shards.split_at(cpu::place_among(self.shards.len()));
        from.iter().chain(before).map(|shard| &**shard)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::property::tries;

    fn list<T>(nr_shards: usize, shard_max: usize) -> ShardedList<T> {
        ShardedList::new(NonZeroUsize::new(nr_shards).unwrap(), shard_max)
    }

    #[test]
    fn what_another_shard_has_is_found() {
        let list = list(64, 1);
        // More than this CPU's shard has room for.
        (0..64).for_each(|thing| list.push(thing).unwrap());
        assert_eq!(list.push(64), Err(64));
        let found: BTreeSet<_> = std::iter::from_fn(|| list.pop()).collect();
        assert_eq!(found, (0..64).collect());
    }

    #[test]
    fn a_list_without_room_keeps_nothing() {
        let list = list(3, 0);
        assert_eq!((list.push(1), list.pop()), (Err(1), None));
    }

    proptest! {
        #![proptest_config(tries(256))]

        #[test]
        fn it_is_full_only_when_it_is_and_empty_only_when_it_is(
            nr_shards in 1_usize..5,
            shard_max in 0_usize..5,
            pushes in prop::collection::vec(any::<bool>(), 0..100),
        ) {
            let list = list(nr_shards, shard_max);
            let mut kept = BTreeSet::new();
            for (thing, is_push) in pushes.into_iter().enumerate() {
                if is_push {
                    let is_full = kept.len() == nr_shards * shard_max;
                    prop_assert_eq!(list.push(thing).is_err(), is_full);
                    if !is_full {
                        kept.insert(thing);
                    }
                } else {
                    let popped = list.pop();
                    prop_assert_eq!(popped.is_none(), kept.is_empty());
                    prop_assert!(popped.is_none_or(|thing| kept.remove(&thing)));
                }
            }
            let all: BTreeSet<_> = list.take_all().into_iter().collect();
            prop_assert_eq!(all, kept);
        }
    }
}
