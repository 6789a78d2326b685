//! How often each of many things came, and what it cost: all of them, until the table is full.

use std::collections::HashMap;
use std::hash::Hash;

/// Things of a table.
const NR_MAX: usize = 1 << 15;

/// The table.
#[derive(Debug)]
pub struct Tally<K> {
    entries: HashMap<K, Entry>,
    /// All that came, and what it cost.
    pub total: u64,
    pub stall_millicycles: u64,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    pub count: u64,
    pub stall_millicycles: u64,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), total: 0, stall_millicycles: 0 }
    }
}

impl<K: Copy + Eq + Hash> Tally<K> {
    /// So many more, which stalled a CPU for so long. What comes when the table is full, and was not there before, is in the sums alone.
    pub fn note(&mut self, key: K, count: u64, stall_millicycles: u64) {
        self.total += count;
        self.stall_millicycles += stall_millicycles;
        let is_full = self.entries.len() >= NR_MAX;
        let entry = match self.entries.get_mut(&key) {
            Some(entry) => entry,
            None if is_full => return,
            None => self.entries.entry(key).or_default(),
        };
        entry.count += count;
        entry.stall_millicycles += stall_millicycles;
    }

    /// What came.
    pub fn all(&self) -> impl Iterator<Item = (&K, &Entry)> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_known_until_there_is_no_room_and_the_sums_are_right_even_then() {
        let mut tally = Tally::default();
        for nr in 0..2 * NR_MAX as u64 {
            tally.note(nr, 1, 5);
            tally.note(7, 2, 3);
        }
        assert_eq!(tally.all().count(), NR_MAX);
        let of_seven = tally.all().find(|(key, _)| **key == 7).unwrap().1;
        assert_eq!(of_seven.count, 1 + 4 * NR_MAX as u64);
        assert_eq!(of_seven.stall_millicycles, 5 + 6 * NR_MAX as u64);
        assert_eq!(tally.total, 6 * NR_MAX as u64);
        assert_eq!(tally.stall_millicycles, 16 * NR_MAX as u64);
    }
}
