//! What comes most often of very many: in a table of one size, by Misra and Gries (1982).

/// Entries of a table.
const NR_ENTRIES: usize = 1 << 13;
/// An entry is one of so many that follow its first place.
const NR_PLACES: usize = 8;

/// What is counted.
pub trait Key: Copy {
    /// Whether another counts as this one.
    fn is_same(&self, other: &Self) -> bool;
    /// The same number for all that are the same, and seldom for others; its high bits need not be mixed.
    fn number(&self) -> u64;
}

/// How often something came, and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct Entry<K> {
    pub key: K,
    pub count: u64,
    pub stall_millicycles: u64,
}

/// The table.
#[derive(Debug)]
pub struct Heavy<K> {
    /// None until something comes.
    entries: Vec<Option<Entry<K>>>,
    /// All that came, and what it cost.
    pub total: u64,
    pub stall_millicycles: u64,
}

impl<K> Default for Heavy<K> {
    fn default() -> Self {
        Self { entries: Vec::new(), total: 0, stall_millicycles: 0 }
    }
}

impl<K: Key> Heavy<K> {
    /// Counts one, which stalled a CPU for so long. Where all of its places are others', each of those counts one less: whoever comes
    /// often stays, and is counted too low by what came seldom at most.
    pub fn note(&mut self, key: K, stall_millicycles: u64) {
        self.total += 1;
        self.stall_millicycles += stall_millicycles;
        if self.entries.is_empty() {
            self.entries = vec![None; NR_ENTRIES];
        }
        // The high bits are the well-mixed ones.
        let mixed = key.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let first = mixed as usize % NR_ENTRIES;
        let places = || (0..NR_PLACES).map(|nr| (first + nr) % NR_ENTRIES);
        for at in places() {
            match &mut self.entries[at] {
                Some(entry) if entry.key.is_same(&key) => {
                    entry.count += 1;
                    entry.stall_millicycles += stall_millicycles;
                    return;
                }
                Some(_) => {}
                entry @ None => {
                    *entry = Some(Entry { key, count: 1, stall_millicycles });
                    return;
                }
            }
        }
        for at in places() {
            if let Some(entry) = &mut self.entries[at] {
                entry.stall_millicycles -= entry.stall_millicycles / entry.count;
                entry.count -= 1;
                if entry.count == 0 {
                    self.entries[at] = None;
                }
            }
        }
    }

    /// What came more than once.
    pub fn often(&self) -> impl Iterator<Item = &Entry<K>> {
        self.entries.iter().flatten().filter(|entry| entry.count > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Key for u64 {
        fn is_same(&self, other: &Self) -> bool {
            self == other
        }

        fn number(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn what_comes_often_is_known_beside_many_that_come_once() {
        let mut heavy = Heavy::default();
        for nr in 0..200_000_u64 {
            heavy.note(0x1000 + 64 * nr, 7_000);
            heavy.note(8, 300_000);
        }
        let most = heavy.often().max_by_key(|entry| entry.count).unwrap();
        assert_eq!(most.key, 8);
        // Eight thousand entries for two hundred thousand keys: at most one of 25 beside it is charged to it.
        assert!((150_000..=200_000).contains(&most.count), "{most:?}");
        // And what it costs is still what each costs.
        let each = most.stall_millicycles / most.count;
        assert!((290_000..=310_000).contains(&each), "{most:?}");
    }

    #[test]
    fn what_came_once_is_not_told() {
        let mut heavy = Heavy::default();
        heavy.note(8_u64, 1_000);
        assert_eq!(heavy.often().count(), 0);
        heavy.note(8, 1_000);
        assert_eq!(heavy.often().map(|entry| entry.stall_millicycles).collect::<Vec<_>>(), [2_000]);
    }
}
