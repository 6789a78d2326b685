//! Who holds a line: the CPUs that have it in a private cache and the last levels that have a copy.
//!
//! Exact for any number of holders: up to four stand in the entry, more in a list beside it. An entry is
//! there as long as somebody holds the line, so a directory is never larger than the caches: 16 bytes
//! per line held (at most two thirds full) and two bytes for each holder beyond four.

/// A CPU, or a last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder(u16);

impl Holder {
    const LAST_LEVEL: u16 = 0x8000;
    const NONE: u16 = u16::MAX;
    /// In the highest place: the others are the number of a list.
    const LISTED: u16 = u16::MAX - 1;

    pub(crate) fn cpu(cpu: u16) -> Self {
        Self(cpu)
    }

    pub(crate) fn last_level(cache: u16) -> Self {
        Self(cache | Self::LAST_LEVEL)
    }

    /// `Ok` for a CPU, `Err` for a last level.
    pub(crate) fn which(self) -> Result<u16, u16> {
        if self.0 & Self::LAST_LEVEL == 0 { Ok(self.0) } else { Err(self.0 & !Self::LAST_LEVEL) }
    }
}

const PLACES: usize = 4;
const NOBODY: [u16; PLACES] = [Holder::NONE; PLACES];

/// Bits of a key below the line's number.
const USED: u64 = 1;
const OWNED: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    holders: [u16; PLACES],
}

const VACANT: Entry = Entry { key: 0, holders: NOBODY };

/// The lines of a shard that somebody holds. Open addressing, moved back on removal, so that a look-up
/// ends at the first vacant place.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    nr_used: usize,
    lists: Vec<Vec<u16>>,
    free_lists: Vec<u32>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self { entries: vec![VACANT; 8], nr_used: 0, lists: Vec::new(), free_lists: Vec::new() }
    }

    fn first_place(&self, line: u64) -> usize {
        // Fibonacci hashing; the high bits are the well-mixed ones.
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.entries.len() - 1)
    }

    /// Where a line's entry is; it moves when others come and go.
    pub(crate) fn find(&self, line: u64) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut at = self.first_place(line);
        loop {
            let key = self.entries[at].key;
            if key == 0 {
                return None;
            }
            if key >> 2 == line {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The one CPU that may write the line without asking.
    pub(crate) fn owner(&self, line: u64) -> Option<u16> {
        let entry = &self.entries[self.find(line)?];
        if entry.key & OWNED == 0 {
            return None;
        }
        self.holders_of(entry).iter().find_map(|&holder| Holder(holder).which().ok())
    }

    /// Says that the line has an owner (its only CPU) or none.
    pub(crate) fn set_owned(&mut self, line: u64, is_owned: bool) {
        if let Some(at) = self.find(line) {
            let key = &mut self.entries[at].key;
            *key = if is_owned { *key | OWNED } else { *key & !OWNED };
        }
    }

    fn holders_of<'a>(&'a self, entry: &'a Entry) -> &'a [u16] {
        if entry.holders[PLACES - 1] == Holder::LISTED {
            return &self.lists[list_of(entry)];
        }
        let nr = entry.holders.iter().position(|&holder| holder == Holder::NONE).unwrap_or(PLACES);
        &entry.holders[..nr]
    }

    /// Everybody who holds a line, in the order they came.
    pub(crate) fn holders(&self, line: u64) -> impl Iterator<Item = Holder> + '_ {
        let entry = self.find(line).map(|at| &self.entries[at]);
        entry.map_or(&[][..], |entry| self.holders_of(entry)).iter().map(|&holder| Holder(holder))
    }

    /// Adds a holder; one that is there stays once.
    pub(crate) fn add(&mut self, line: u64, holder: Holder) {
        let at = self.find(line).unwrap_or_else(|| self.insert(line));
        let entry = self.entries[at];
        if self.holders_of(&entry).contains(&holder.0) {
            return;
        }
        if entry.holders[PLACES - 1] == Holder::LISTED {
            self.lists[list_of(&entry)].push(holder.0);
            return;
        }
        let vacant = entry.holders.iter().position(|&other| other == Holder::NONE);
        match vacant {
            Some(place) => self.entries[at].holders[place] = holder.0,
            None => self.entries[at].holders = self.spill(&entry.holders, holder),
        }
    }

    /// Moves an entry's holders and one more to a list.
    fn spill(&mut self, holders: &[u16], one_more: Holder) -> [u16; PLACES] {
        let list = self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        });
        self.lists[list as usize].extend(holders.iter().copied().chain([one_more.0]));
        [list as u16, (list >> 16) as u16, Holder::NONE, Holder::LISTED]
    }

    /// Removes a holder; false if it was none. The entry goes with the last of them.
    pub(crate) fn remove(&mut self, line: u64, holder: Holder) -> bool {
        let Some(at) = self.find(line) else { return false };
        let entry = self.entries[at];
        let Some(place) = self.holders_of(&entry).iter().position(|&other| other == holder.0)
        else {
            return false;
        };
        if entry.holders[PLACES - 1] == Holder::LISTED {
            let list = list_of(&entry);
            self.lists[list].remove(place);
            if self.lists[list].len() <= PLACES {
                let mut holders = NOBODY;
                holders[..self.lists[list].len()].copy_from_slice(&self.lists[list]);
                self.lists[list] = Vec::new();
                self.free_lists.push(list as u32);
                self.entries[at].holders = holders;
            }
        } else {
            let holders = &mut self.entries[at].holders;
            holders.copy_within(place + 1.., place);
            holders[PLACES - 1] = Holder::NONE;
            if holders[0] == Holder::NONE {
                self.vacate(at);
            }
        }
        true
    }

    fn insert(&mut self, line: u64) -> usize {
        if (self.nr_used + 1) * 3 > self.entries.len() * 2 {
            let twice = vec![VACANT; self.entries.len() * 2];
            for entry in std::mem::replace(&mut self.entries, twice) {
                if entry.key != 0 {
                    let at = self.vacant_place(entry.key >> 2);
                    self.entries[at] = entry;
                }
            }
        }
        let at = self.vacant_place(line);
        self.entries[at] = Entry { key: line << 2 | USED, holders: NOBODY };
        self.nr_used += 1;
        at
    }

    fn vacant_place(&self, line: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.first_place(line);
        while self.entries[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Vacates a place and moves back what would not be found any more.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.key == 0 {
                break;
            }
            let wanted = self.first_place(entry.key >> 2);
            // It may move to the hole if its walk from the wanted place passes there.
            if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = VACANT;
        self.nr_used -= 1;
    }

    /// Every line that somebody holds.
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().filter(|entry| entry.key != 0).map(|entry| entry.key >> 2)
    }

    /// Bytes that the directory takes.
    pub(crate) fn nr_bytes(&self) -> usize {
        let lists: usize =
            self.lists.iter().map(|list| size_of_val(list) + 2 * list.capacity()).sum();
        self.entries.capacity() * size_of::<Entry>() + lists
    }
}

fn list_of(entry: &Entry) -> usize {
    usize::from(entry.holders[0]) | usize::from(entry.holders[1]) << 16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_directory_is_as_a_map_of_lists_would_be(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u16..12), 1..400),
        ) {
            let mut directory = Directory::new();
            let mut map: BTreeMap<u64, Vec<Holder>> = BTreeMap::new();
            for (adds, line, holder) in steps {
                // Lines of a shard have their low bits in common.
                let line = line << 10 | 3;
                let holder =
                    if holder < 9 { Holder::cpu(holder * 400) } else { Holder::last_level(holder) };
                let list = map.entry(line).or_default();
                if adds {
                    directory.add(line, holder);
                    if !list.contains(&holder) {
                        list.push(holder);
                    }
                } else {
                    prop_assert_eq!(directory.remove(line, holder), list.contains(&holder));
                    list.retain(|&other| other != holder);
                }
                map.retain(|_, list| !list.is_empty());
                prop_assert_eq!(directory.nr_used, map.len());
                for (&line, list) in &map {
                    prop_assert_eq!(&directory.holders(line).collect::<Vec<_>>(), list);
                }
            }
        }
    }

    #[test]
    fn the_owner_is_the_cpu_whatever_last_levels_hold_the_line() {
        let mut directory = Directory::new();
        directory.add(7, Holder::last_level(2));
        directory.add(7, Holder::cpu(4095));
        assert_eq!(directory.owner(7), None);
        directory.set_owned(7, true);
        assert_eq!(directory.owner(7), Some(4095));
        directory.set_owned(7, false);
        assert_eq!(directory.owner(7), None);
    }
}
