//! A table with a copy for each CPU of what was looked up there (the per-core mount table of
//! Boyd-Wickizer et al., "An Analysis of Linux Scalability to Many Cores", OSDI 2010).
//!
//! The study's `lookup_mnt` held one lock for a few instructions, and that lock's line was a third of the
//! profile at 48 cores. Its cure asks the own core's table first. Here a lookup compares the copy with
//! a *generation* that every change of the shared table raises: a line that all CPUs read
//! and that moves only when something changes.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use crate::per_cpu::PerCpu;
use crate::sync::{self, Acquire, AtomicU64, Relaxed, Release, RwLock};

/// Keys of one generation are invalidated together: a change costs one copy in so many.
const NR_GENERATIONS: usize = if cfg!(loom) { 1 } else { 64 };

/// Copies of each CPU, where nobody says otherwise.
const SLOTS_PER_CPU: usize = 256;

/// Places that a key may have on a CPU. With one, a fifth of 64 keys would meet another in 256 places.
const NR_WAYS: usize = if cfg!(loom) { 1 } else { 4 };

/// A table that is looked up everywhere and changed rarely.
///
/// - **Bounds:** a lookup that begins after [`insert`](Self::insert) or [`remove`](Self::remove) has
///   returned sees it, on every CPU. Each CPU has so many copies, four in each set: of more keys that
///   meet there, one gives way in turn. That a key is absent is copied too.
/// - **Never waits** for a lookup that finds a copy. One that does not reads the shared table, behind a
///   reader-writer lock.
/// - **Memory:** CPUs × slots × (key, value and 16 bytes), beside the shared table. A copy keeps its value alive
///   until its place is needed; [`forget_copies`](Self::forget_copies) frees them all.
/// - **Loses** when changes are frequent (each makes a 64th of all copies useless), when each CPU looks up
///   more keys than it has slots, and when using the value writes to a shared line: a clone of an
///   [`Arc`](std::sync::Arc) does. [`with`](Self::with) clones nothing.
#[derive(Debug)]
pub struct PerCpuTable<K, V, S = RandomState> {
    copies: PerCpu<Copies<K, V>>,
    hasher: S,
    generations: Box<[AtomicU64]>,
    shared: RwLock<HashMap<K, V, S>>,
}

/// The copies of a CPU, in sets.
#[derive(Debug)]
struct Copies<K, V> {
    slots: Box<[Option<Copy<K, V>>]>,
    /// Which copy of a full set gives way.
    next_victim: usize,
}

#[derive(Debug)]
struct Copy<K, V> {
    generation: u64,
    key: K,
    /// `None`: the key is absent.
    value: Option<V>,
}

impl<K: Hash + Eq + Clone, V: Clone> PerCpuTable<K, V> {
    /// An empty table with 256 copies for each CPU.
    #[must_use]
    pub fn new() -> Self {
        Self::with_slots(SLOTS_PER_CPU)
    }

    /// The same with another number of copies: the next power of two, and at least four.
    #[must_use]
    pub fn with_slots(slots_per_cpu: usize) -> Self {
        Self::with_hasher(slots_per_cpu, RandomState::new())
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Default for PerCpuTable<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Clone> PerCpuTable<K, V, S> {
    /// The same with another way to hash.
    #[must_use]
    pub fn with_hasher(slots_per_cpu: usize, hasher: S) -> Self {
        let nr_slots = slots_per_cpu.max(NR_WAYS).next_power_of_two();
        Self {
            copies: PerCpu::new(|| Copies {
                slots: (0..nr_slots).map(|_| None).collect(),
                next_victim: 0,
            }),
            generations: (0..NR_GENERATIONS).map(|_| AtomicU64::new(0)).collect(),
            shared: RwLock::new(HashMap::with_hasher(hasher.clone())),
            hasher,
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        self.with(key, V::clone)
    }

    /// What `use_it` makes of the value of a key; `None` if there is no such key. It may use the table.
    /// While it runs, other threads of this CPU ask the shared table.
    #[inline]
    pub fn with<R>(&self, key: &K, use_it: impl FnOnce(&V) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let generation = self.generation(hash);
        let mut use_it = Some(use_it);
        let mut with_value = |value: Option<&V>| Some(use_it.take()?(value?));
        let copied = self.copies.with_own(|copies| {
            let copy = copies.set(hash).iter().flatten().find(|copy| copy.key == *key)?;
            let is_right = copy.generation == generation.load(Acquire);
            is_right.then(|| with_value(copy.value.as_ref()))
        });
        if let Some(Some(result)) = copied {
            return result;
        }
        let copy = self.copy_of(key, generation);
        let result = with_value(copy.value.as_ref());
        // What gives way is dropped after the place is free again: its drop may do anything.
        let _victim = self.copies.with_own(|copies| copies.keep(hash, copy));
        result
    }

    /// Sets the value of a key; what it was.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let generation = self.generation(self.hasher.hash_one(&key));
        let mut shared = sync::write(&self.shared);
        let before = shared.insert(key, value);
        generation.fetch_add(1, Release);
        before
    }

    /// Removes a key; what its value was.
    pub fn remove(&self, key: &K) -> Option<V> {
        let generation = self.generation(self.hasher.hash_one(key));
        let mut shared = sync::write(&self.shared);
        let before = shared.remove(key);
        generation.fetch_add(1, Release);
        before
    }

    /// Drops all copies, so that values that were removed or replaced are gone. Waits for lookups under way.
    pub fn forget_copies(&self) {
        let mut dropped = Vec::new();
        self.copies.with_each(|copies| {
            dropped.extend(copies.slots.iter_mut().map(Option::take));
        });
    }

    /// Keys in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        sync::read(&self.shared).len()
    }

    /// Whether it has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A key as the shared table has it. The generation is read under its lock: changes raise it there.
    #[cold]
    fn copy_of(&self, key: &K, generation: &AtomicU64) -> Copy<K, V> {
        let shared = sync::read(&self.shared);
        Copy {
            generation: generation.load(Relaxed),
            key: key.clone(),
            value: shared.get(key).cloned(),
        }
    }

    /// From the upper bits; places are from the lower ones.
    fn generation(&self, hash: u64) -> &AtomicU64 {
        &self.generations[(hash >> 32) as usize % NR_GENERATIONS]
    }
}

impl<K: Eq, V> Copies<K, V> {
    fn set(&mut self, hash: u64) -> &mut [Option<Copy<K, V>>] {
        let nr_sets = self.slots.len() / NR_WAYS;
        let first = (hash as usize & (nr_sets - 1)) * NR_WAYS;
        &mut self.slots[first..first + NR_WAYS]
    }

    /// Keeps a copy; what gives way for it: an older copy of the same key, if there is one.
    fn keep(&mut self, hash: u64, copy: Copy<K, V>) -> Option<Copy<K, V>> {
        self.next_victim = (self.next_victim + 1) % NR_WAYS;
        let victim = self.next_victim;
        let set = self.set(hash);
        let has_key =
            |slot: &Option<Copy<K, V>>| slot.as_ref().is_some_and(|other| other.key == copy.key);
        let place = set.iter().position(has_key).or_else(|| set.iter().position(Option::is_none));
        set[place.unwrap_or(victim)].replace(copy)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
