//! How often each of many things came, and what it cost: all of them until the table is full, and from then on a fair sample. A table
//! that took nothing more would know what a program does first, and nothing of its end.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// The same in every run: what is left out must not differ between two runs that are alike.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// The table.
#[derive(Debug)]
pub struct Tally<K> {
    entries: HashMap<K, Entry, Hasher>,
    nr_max: usize,
    /// One of so many that come is noted, a power of two, and stands for all of them.
    one_in: u64,
    /// Which one is by chance: a loop would hide in every so many-th. The same chance in every run.
    chance: u64,
    /// All that came, and what it cost.
    pub total: u64,
    pub stall_millicycles: u64,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub count: u64,
    pub stall_millicycles: u64,
}

impl<K: Copy + Eq + Hash> Tally<K> {
    /// Of so many things at most, at least one.
    pub fn new(nr_max: usize) -> Self {
        Self {
            entries: HashMap::default(),
            nr_max: nr_max.max(1),
            one_in: 1,
            chance: 1,
            total: 0,
            stall_millicycles: 0,
        }
    }

    /// So many more, which stalled a CPU for so long.
    pub fn note(&mut self, key: K, count: u64, stall_millicycles: u64) {
        self.total += count;
        self.stall_millicycles += stall_millicycles;
        let noted = (count + self.below_one_in()) / self.one_in;
        if noted == 0 {
            return;
        }
        let entry = self.entries.entry(key).or_default();
        entry.count += noted;
        // What one costs in the mean, for each that it stands for.
        entry.stall_millicycles +=
            (u128::from(stall_millicycles) * u128::from(noted) / u128::from(count)) as u64;
        while self.entries.len() > self.nr_max {
            self.halve();
        }
    }

    /// By chance, by Marsaglia's xorshift (2003).
    fn below_one_in(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance & (self.one_in - 1)
    }

    /// Half of all that is noted is forgotten; of what came once, by chance.
    #[cold]
    fn halve(&mut self) {
        self.one_in *= 2;
        let one_in = self.one_in;
        self.entries.retain(|key, entry| {
            let chance = Hasher::default().hash_one((key, one_in)) & 1;
            let kept = (entry.count + chance) / 2;
            let stalled = u128::from(entry.stall_millicycles) * u128::from(kept);
            entry.stall_millicycles = (stalled / u128::from(entry.count)) as u64;
            entry.count = kept;
            kept > 0
        });
    }

    /// What came, as often as it is told.
    pub fn all(&self) -> impl Iterator<Item = (&K, Entry)> {
        self.entries.iter().map(|(key, entry)| {
            let of_all = Entry {
                count: entry.count * self.one_in,
                stall_millicycles: entry.stall_millicycles * self.one_in,
            };
            (key, of_all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NR_MAX: usize = 1 << 12;

    #[test]
    fn all_are_known_until_there_is_no_room() {
        let mut tally = Tally::new(NR_MAX);
        for nr in 0..NR_MAX as u64 {
            tally.note(nr, 1, 5);
            tally.note(7, 2, 3);
        }
        assert_eq!(tally.all().count(), NR_MAX);
        let entry = |nr| tally.all().find(|(key, _)| **key == nr).unwrap().1;
        assert_eq!(entry(8), Entry { count: 1, stall_millicycles: 5 });
        let often = 2 * NR_MAX as u64;
        assert_eq!(entry(7), Entry { count: 1 + often, stall_millicycles: 5 + 3 * often / 2 });
    }

    #[test]
    fn what_comes_last_is_known_as_well_as_what_comes_first_and_the_sums_are_right() {
        let mut tally = Tally::new(NR_MAX);
        // Ten times what fits, each once, and beside them one that comes as often as all of the others; a part at the end.
        let nr_each = 10 * NR_MAX as u64;
        for nr in 0..nr_each {
            tally.note(nr + 2, 1, 4);
            tally.note(0, 1, 8);
        }
        (0..nr_each).for_each(|_| tally.note(1, 1, 2));
        assert!(tally.all().count() <= NR_MAX);
        assert_eq!((tally.total, tally.stall_millicycles), (3 * nr_each, 14 * nr_each));
        let sum = |of: fn(u64) -> bool| {
            let own = tally.all().filter(|(key, _)| of(**key));
            own.fold((0, 0), |sum, (_, entry)| {
                (sum.0 + entry.count, sum.1 + entry.stall_millicycles)
            })
        };
        for ((count, cost), each) in
            [(sum(|nr| nr == 0), 8), (sum(|nr| nr == 1), 2), (sum(|nr| nr > 1), 4)]
        {
            let times = count as f64 / nr_each as f64;
            assert!((0.9..1.1).contains(&times), "{count} of {nr_each}");
            assert_eq!(cost, each * count);
        }
        // Of those that came once the first quarter is as well known as the last.
        let of_part = |from: u64| {
            let is_own = |key: u64| (from..from + nr_each / 4).contains(&key.wrapping_sub(2));
            let own = tally.all().filter(|(key, _)| is_own(**key));
            own.map(|(_, entry)| entry.count).sum::<u64>() as f64
        };
        let (first, last) = (of_part(0), of_part(3 * nr_each / 4));
        assert!((0.8..1.25).contains(&(first / last)), "{first} and {last}");
    }

    #[test]
    fn two_that_see_the_same_know_the_same() {
        let told = || {
            let mut tally = Tally::new(100);
            (0..10_000_u64).for_each(|nr| tally.note(nr * nr % 977, 1 + nr % 3, nr));
            let mut all: Vec<_> = tally
                .all()
                .map(|(key, entry)| (*key, entry.count, entry.stall_millicycles))
                .collect();
            all.sort_unstable();
            all
        };
        assert_eq!(told(), told());
    }
}
