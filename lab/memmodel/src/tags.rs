//! A private cache: which lines are in it, in what state, and which goes next.
//!
//! [`Tags`] are atomic, because other CPUs take lines away by clearing them; only the owner puts lines
//! in. The order of use is the owner's alone ([`Level`]). On the path of a hit there is one relaxed
//! load where the line was the last used of its set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a CPU may do with a line that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Read; others may hold it too.
    Shared = 1,
    /// Read, and write without asking: nobody else holds it.
    Exclusive = 2,
    /// As exclusive, and memory does not have what was written.
    Modified = 3,
}

/// The bits of an entry below the line's number.
const STATE_BITS: u32 = 2;
const EMPTY: u64 = 0;

fn entry(line: u64, state: State) -> u64 {
    line << STATE_BITS | state as u64
}

/// The line and state in an entry; `None` for an empty one.
fn decode(entry: u64) -> Option<(u64, State)> {
    let state = match entry & 3 {
        1 => State::Shared,
        2 => State::Exclusive,
        3 => State::Modified,
        _ => return None,
    };
    Some((entry >> STATE_BITS, state))
}

/// The lines in a private cache; clones are the same cache.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    entries: Arc<[AtomicU64]>,
    set_mask: u64,
    ways: usize,
}

impl Tags {
    pub(crate) fn new(nr_sets: usize, ways: u32) -> Self {
        let ways = ways as usize;
        let entries = (0..nr_sets * ways).map(|_| AtomicU64::new(EMPTY)).collect();
        Self { entries, set_mask: nr_sets as u64 - 1, ways }
    }

    fn set(&self, line: u64) -> usize {
        (line & self.set_mask) as usize
    }

    fn slots(&self, line: u64) -> std::ops::Range<usize> {
        let base = self.set(line) * self.ways;
        base..base + self.ways
    }

    /// The line in a slot.
    pub(crate) fn at(&self, slot: usize) -> Option<(u64, State)> {
        decode(self.entries[slot].load(Ordering::SeqCst))
    }

    /// Where a line is.
    pub(crate) fn find(&self, line: u64) -> Option<(usize, State)> {
        self.slots(line).find_map(|slot| {
            let (found, state) = decode(self.entries[slot].load(Ordering::SeqCst))?;
            (found == line).then_some((slot, state))
        })
    }

    /// Puts a line into a slot of its set.
    pub(crate) fn put(&self, slot: usize, line: u64, state: State) {
        self.entries[slot].store(entry(line, state), Ordering::SeqCst);
    }

    /// Takes a line away for another CPU's sake. What is left says so, until its place is used.
    pub(crate) fn invalidate(&self, line: u64) -> Option<State> {
        let (slot, _) = self.find(line)?;
        self.change_to(slot, line, |_| line << STATE_BITS)
    }

    /// Whether a line that is not here was last taken away for another CPU's sake.
    pub(crate) fn was_invalidated(&self, line: u64) -> bool {
        let left = line << STATE_BITS;
        self.slots(line).any(|slot| self.entries[slot].load(Ordering::Relaxed) == left)
    }

    /// Takes a line away.
    pub(crate) fn remove(&self, line: u64) -> Option<State> {
        let (slot, _) = self.find(line)?;
        self.change(slot, line, |_| None)
    }

    /// Empties a slot, if the line is still there.
    pub(crate) fn take(&self, slot: usize, line: u64) -> Option<State> {
        self.change(slot, line, |_| None)
    }

    /// Leaves a line readable only; says what it was.
    pub(crate) fn demote(&self, line: u64) -> Option<State> {
        let (slot, _) = self.find(line)?;
        self.change(slot, line, |_| Some(State::Shared))
    }

    /// Makes an exclusive line modified; false where somebody took it away meanwhile.
    pub(crate) fn dirty(&self, slot: usize, line: u64) -> bool {
        let raise = |state| Some(if state == State::Exclusive { State::Modified } else { state });
        self.change(slot, line, raise).is_some_and(|state| state != State::Shared)
    }

    /// Replaces a line's state while it is in the slot; says what it was.
    fn change(&self, slot: usize, line: u64, to: impl Fn(State) -> Option<State>) -> Option<State> {
        self.change_to(slot, line, |state| to(state).map_or(EMPTY, |state| entry(line, state)))
    }

    fn change_to(&self, slot: usize, line: u64, to: impl Fn(State) -> u64) -> Option<State> {
        let next = |now| {
            let (found, state) = decode(now)?;
            (found == line).then(|| to(state))
        };
        let before = self.entries[slot].fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        before.ok().and_then(decode).map(|(_, state)| state)
    }

    /// Every line in the cache.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, State)> + '_ {
        self.entries.iter().filter_map(|entry| decode(entry.load(Ordering::SeqCst)))
    }

    /// Bytes that the tags take.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.entries.len() * size_of::<AtomicU64>()
    }
}

/// Where lines were found of late, by the virtual addresses that they were found by: neither are these
/// translated again nor is a set searched.
#[derive(Debug)]
pub(crate) struct Recent {
    found: Box<[Found; NR_RECENT]>,
}

/// A power of two.
const NR_RECENT: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Found {
    vline: u64,
    entry: u64,
    set: u32,
    way: u32,
}

impl Found {
    const NOTHING: Self = Self { vline: u64::MAX, entry: EMPTY, set: 0, way: 0 };
}

impl Recent {
    pub(crate) const NR_BYTES: usize = NR_RECENT * size_of::<Found>();

    pub(crate) fn new() -> Self {
        Self { found: Box::new([Found::NOTHING; NR_RECENT]) }
    }

    /// Neighbours are apart, and so are the same lines of neighbouring pages.
    #[inline]
    fn index(vline: u64) -> usize {
        (vline ^ vline >> 6) as usize % NR_RECENT
    }

    #[inline]
    fn find(&self, vline: u64, to_write: bool) -> Option<&Found> {
        let found = &self.found[Self::index(vline)];
        let may = !to_write || found.entry & 3 == State::Modified as u64;
        (found.vline == vline && may).then_some(found)
    }

    /// Addresses may mean other lines from now on.
    pub(crate) fn forget(&mut self) {
        self.found.fill(Found::NOTHING);
    }
}

/// A private cache as its owner sees it: the tags, and the order of use in each set.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) tags: Tags,
    orders: Box<[Order]>,
}

impl Level {
    pub(crate) fn new(tags: Tags) -> Self {
        let nr_sets = tags.set_mask as usize + 1;
        Self { tags, orders: vec![Order::NEW; nr_sets].into() }
    }

    /// Looks a line up and makes it the last used. `None`: a miss.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> Option<(usize, State)> {
        let set = self.tags.set(line);
        let base = set * self.tags.ways;
        let slot = base + self.orders[set].first();
        if let Some(state) = self.state_if(slot, line) {
            return Some((slot, state));
        }
        self.touch_other(line, set, base)
    }

    /// Looks a line up by its virtual address: whether it was found of late and is still there as it
    /// was, to be written if it has to. It is the last used of its set then.
    #[inline]
    pub(crate) fn touch_recent(&mut self, recent: &Recent, vline: u64, to_write: bool) -> bool {
        let Some(found) = recent.find(vline, to_write) else { return false };
        let (set, way) = (found.set as usize, found.way as usize);
        if self.tags.entries[set * self.tags.ways + way].load(Ordering::Relaxed) != found.entry {
            return false;
        }
        if self.orders[set].first() != way {
            self.orders[set].touch(way);
        }
        true
    }

    /// Where a line is that was just touched, for the next time.
    #[inline]
    pub(crate) fn note(&self, recent: &mut Recent, vline: u64, line: u64, state: State) {
        let set = self.tags.set(line);
        let way = self.orders[set].first() as u32;
        let found = Found { vline, entry: entry(line, state), set: set as u32, way };
        recent.found[Recent::index(vline)] = found;
    }

    #[inline]
    fn state_if(&self, slot: usize, line: u64) -> Option<State> {
        match self.tags.entries[slot].load(Ordering::Relaxed) ^ (line << STATE_BITS) {
            1 => Some(State::Shared),
            2 => Some(State::Exclusive),
            3 => Some(State::Modified),
            _ => None,
        }
    }

    fn touch_other(&mut self, line: u64, set: usize, base: usize) -> Option<(usize, State)> {
        let hit = (0..self.tags.ways).find_map(|way| Some((way, self.state_if(base + way, line)?)));
        let (way, state) = hit?;
        self.orders[set].touch(way);
        Some((base + way, state))
    }

    /// Makes room in a line's set: the slot to use, which is the last used from now on, and the line
    /// that is in it. Empty slots go first, then the least recently used.
    pub(crate) fn room(&mut self, line: u64) -> (usize, Option<u64>) {
        let set = self.tags.set(line);
        let base = set * self.tags.ways;
        let is_empty = |&way: &usize| self.tags.at(base + way).is_none();
        let way = (0..self.tags.ways)
            .find(is_empty)
            .unwrap_or_else(|| self.orders[set].last(self.tags.ways));
        self.orders[set].touch(way);
        (base + way, self.tags.at(base + way).map(|(line, _)| line))
    }

    /// Bytes that the cache takes.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.tags.nr_bytes() + self.orders.len() * size_of::<Order>()
    }
}

/// The ways of a set from the last used to the least, four bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    pub(crate) const NEW: Self = Self(0xfedc_ba98_7654_3210);
    const ONES: u64 = 0x1111_1111_1111_1111;

    #[inline]
    pub(crate) fn first(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The least recently used of as many ways.
    pub(crate) fn last(self, ways: usize) -> usize {
        (self.0 >> (4 * (ways - 1)) & 15) as usize
    }

    /// Makes a way the first.
    #[inline]
    pub(crate) fn touch(&mut self, way: usize) {
        let differs = self.0 ^ (Self::ONES * way as u64);
        // The lowest group of four bits that is zero; higher ones may look so by the borrow.
        let zero = differs.wrapping_sub(Self::ONES) & !differs & (Self::ONES << 3);
        let at = zero.trailing_zeros() & !3;
        let before = self.0 & ((1 << at) - 1);
        let after = self.0 & (u64::MAX << at << 4);
        // Shifting by 4 twice, as a shift by 64 (the last way) is none.
        let after = if at == 60 { 0 } else { after };
        self.0 = after | before << 4 | way as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_use_is_as_a_list_would_have_it() {
        let mut order = Order::NEW;
        let mut list: Vec<usize> = (0..16).collect();
        for step in 0_usize..1000 {
            let way = step * step * 7 % 16;
            order.touch(way);
            list.retain(|&other| other != way);
            list.insert(0, way);
            assert_eq!(order.first(), list[0]);
            for ways in 1..=16 {
                assert_eq!(order.last(ways), list[ways - 1], "step {step}");
            }
        }
    }

    #[test]
    fn the_first_line_of_memory_is_no_empty_slot() {
        let mut level = Level::new(Tags::new(2, 2));
        assert_eq!(level.touch(0), None);
        let (slot, victim) = level.room(0);
        assert_eq!(victim, None);
        level.tags.put(slot, 0, State::Shared);
        assert_eq!(level.touch(0), Some((slot, State::Shared)));
    }

    #[test]
    fn a_line_taken_away_is_neither_demoted_nor_dirtied() {
        let tags = Tags::new(1, 2);
        tags.put(1, 5, State::Exclusive);
        assert!(tags.dirty(1, 5));
        assert_eq!(tags.demote(5), Some(State::Modified));
        assert!(!tags.dirty(1, 5), "a shared line is nobody's to write");
        assert_eq!(tags.remove(5), Some(State::Shared));
        assert_eq!((tags.remove(5), tags.demote(5), tags.dirty(1, 5)), (None, None, false));
    }
}
