//! What is marked: a sorted table of regions, used by the helper alone.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::own;

use super::table::Table;
use crate::sys::{self, PAGE, SysResult};
use crate::uffd::Uffd;

const PENDING: u8 = 1;

/// Bytes before the block flags: how many regions use them.
const HEAD_BYTES: usize = size_of::<AtomicUsize>();

/// One move of a mapping by `mremap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Where the mapping begins by now.
    pub start: usize,
    /// Where what was moved of it ends.
    pub end: usize,
    /// Which move it was, from 1 on.
    pub number: usize,
}

/// A marked range of the program.
///
/// On the `move` rung its pages lie `shadow_delta` bytes away until they are pulled, and whether a
/// page is still there is read from the page tables, never from here. The block flags are a hint
/// that bounds a pull.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Add (wrapping) to an address of the region to get its shadow address; 0 on the `rwp` rung.
    pub shadow_delta: usize,
    /// Blocks not yet pulled.
    pub nr_pending: usize,
    /// The mapping that holds the flags, and on the `move` rung the shadow. The parts of a region that
    /// was cut share it.
    side: (usize, usize),
    /// How far `mremap` has moved it (wrapping): the blocks moved with it, so their bounds need not be
    /// multiples of their size any more.
    moved_by: usize,
    /// How the mapping that it lies in came there, if it was moved.
    pub(super) arrival: Arrival,
    /// Whether something was unmapped where it has arrived, perhaps this.
    pub(super) in_doubt: bool,
    flags_origin: usize,
    flags_len: usize,
}

impl Region {
    /// A region without shadow, all blocks pending.
    pub fn new(start: usize, end: usize, block_bytes: usize) -> SysResult<Self> {
        let (region, _) = Self::with_side(start, end, block_bytes, 0)?;
        Ok(region)
    }

    /// A region with a shadow, at the same offset within a huge page.
    pub fn with_shadow(start: usize, end: usize, block_bytes: usize) -> SysResult<Self> {
        let above = Self::shadow_bytes_of(start, end);
        let (mut region, boundary) = Self::with_side(start, end, block_bytes, above)?;
        region.shadow_delta = (boundary + start % sys::HUGE).wrapping_sub(start);
        Ok(region)
    }

    /// What the side mapping of such a region takes.
    pub fn side_bytes_of(start: usize, end: usize, block_bytes: usize) -> usize {
        let (flag_bytes, _) = Self::flag_bytes_of(start, end, block_bytes);
        flag_bytes + Self::shadow_bytes_of(start, end)
    }

    fn shadow_bytes_of(start: usize, end: usize) -> usize {
        start % sys::HUGE + (end - start)
    }

    /// What the flags take, and how many there are.
    fn flag_bytes_of(start: usize, end: usize, block_bytes: usize) -> (usize, usize) {
        let nr_blocks = (end - 1) / block_bytes - start / block_bytes + 1;
        ((HEAD_BYTES + nr_blocks).next_multiple_of(PAGE), nr_blocks)
    }

    /// Its part of its side mapping, whose users share it.
    pub fn side_bytes(&self) -> usize {
        self.side.1 / self.users().load(Ordering::Relaxed).max(1)
    }

    /// A region with its flags just before the huge page boundary that is given, and so many bytes
    /// after that: no huge page may hold flags and shadow.
    fn with_side(
        start: usize,
        end: usize,
        block_bytes: usize,
        above: usize,
    ) -> SysResult<(Self, usize)> {
        let (below, nr_blocks) = Self::flag_bytes_of(start, end, block_bytes);
        let boundary = own::map_around(below, above)?;
        let side = (boundary - below, below + above);
        // SAFETY: a fresh mapping of ours. A child has no use for it (it gets its data before).
        let _ = unsafe { sys::madvise(side.0, side.1, libc::MADV_DONTFORK) };
        let region = Self {
            start,
            end,
            shadow_delta: 0,
            nr_pending: nr_blocks,
            side,
            moved_by: 0,
            arrival: Arrival::default(),
            in_doubt: false,
            flags_origin: start / block_bytes,
            flags_len: nr_blocks,
        };
        region.users().store(1, Ordering::Relaxed);
        for block in 0..nr_blocks {
            region.flag(block).store(PENDING, Ordering::Relaxed);
        }
        Ok((region, boundary))
    }

    /// The shadow address of an address.
    pub fn shadow_of(&self, address: usize) -> usize {
        address.wrapping_add(self.shadow_delta)
    }

    /// Whether a part of it lies in `[start, end)`.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        self.start < end && start < self.end
    }

    /// How many regions use the side mapping.
    fn users(&self) -> &AtomicUsize {
        // SAFETY: the head of the side mapping, which lives as long as a region that uses it.
        unsafe { &*(self.side.0 as *const AtomicUsize) }
    }

    fn flag(&self, index: usize) -> &AtomicU8 {
        debug_assert!(index < self.flags_len);
        // SAFETY: inside the side mapping, which lives as long as a region that uses it; atomics.
        unsafe { &*((self.side.0 + HEAD_BYTES + index) as *const AtomicU8) }
    }

    fn flag_at(&self, address: usize, block_bytes: usize) -> Option<&AtomicU8> {
        let block = address.wrapping_sub(self.moved_by) / block_bytes;
        let index = block.checked_sub(self.flags_origin)?;
        (index < self.flags_len).then(|| self.flag(index))
    }

    /// Where the block of an address begins, perhaps before the region.
    pub fn block_start(&self, address: usize, block_bytes: usize) -> usize {
        let start = address.wrapping_sub(self.moved_by) & !(block_bytes - 1);
        start.wrapping_add(self.moved_by).min(address)
    }

    /// An address of each block that overlaps `[start, end)`.
    fn blocks(
        &self,
        start: usize,
        end: usize,
        block_bytes: usize,
    ) -> impl Iterator<Item = usize> + use<> {
        (self.block_start(start, block_bytes)..end).step_by(block_bytes)
    }

    /// Whether the block at `address` is still to be pulled, as far as is known.
    pub fn pending(&self, address: usize, block_bytes: usize) -> bool {
        self.flag_at(address, block_bytes)
            .is_some_and(|flag| flag.load(Ordering::Relaxed) == PENDING)
    }

    /// Whether nothing of `[start, end)` is still to be pulled, as far as the region has it.
    pub fn is_settled(&self, start: usize, end: usize, block_bytes: usize) -> bool {
        let (start, end) = (start.max(self.start), end.min(self.end));
        !self.blocks(start, end, block_bytes).any(|address| self.pending(address, block_bytes))
    }

    /// The same region after `mremap` moved it with all of `[from, ..)`: its place in the shadow stays.
    pub(super) fn moved(self, from: usize, arrival: Arrival) -> Self {
        let to = arrival.start;
        Self {
            arrival,
            in_doubt: false,
            moved_by: self.moved_by.wrapping_add(to).wrapping_sub(from),
            start: self.start - from + to,
            end: self.end - from + to,
            shadow_delta: self.shadow_delta.wrapping_add(from).wrapping_sub(to),
            ..self
        }
    }

    /// Notes the blocks in `[start, end)` as pulled; gives how many were pending.
    pub fn settle(&mut self, start: usize, end: usize, block_bytes: usize) -> usize {
        let settled = self
            .blocks(start, end, block_bytes)
            .filter_map(|address| self.flag_at(address, block_bytes))
            .filter(|flag| flag.swap(0, Ordering::Relaxed) == PENDING)
            .count();
        self.nr_pending = self.nr_pending.saturating_sub(settled);
        settled
    }

    /// Counts what is pending anew, after a cut.
    pub fn recount(&mut self, block_bytes: usize) -> usize {
        let blocks = self.blocks(self.start, self.end, block_bytes);
        self.nr_pending = blocks.filter(|address| self.pending(*address, block_bytes)).count();
        self.nr_pending
    }

    /// The first stretch of blocks at or after `from` that were pulled, cut to the region.
    pub fn next_settled(&self, from: usize, block_bytes: usize) -> Option<(usize, usize)> {
        let is_settled = |address: usize| {
            self.flag_at(address, block_bytes)
                .is_some_and(|flag| flag.load(Ordering::Relaxed) != PENDING)
        };
        let mut blocks = self.blocks(from, self.end, block_bytes);
        let start = blocks.find(|address| is_settled(*address))?;
        let end = blocks.find(|address| !is_settled(*address)).unwrap_or(self.end);
        Some((start.max(self.start), end.min(self.end)))
    }

    /// Notes the blocks of `[start, end)` as to be pulled again; gives how many were not.
    pub fn unsettle(&mut self, start: usize, end: usize, block_bytes: usize) -> usize {
        let marked = self
            .blocks(start, end, block_bytes)
            .filter_map(|address| self.flag_at(address, block_bytes))
            .filter(|flag| flag.swap(PENDING, Ordering::Relaxed) != PENDING)
            .count();
        self.nr_pending += marked;
        marked
    }

    /// Gives back the side mapping, unless another region uses it. The shadow may still be registered
    /// with `uffd`, and unmapping it then would make us wait for ourselves to read the event.
    pub fn free(&self, uffd: Uffd) {
        if self.users().fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let (start, len) = self.side;
        // SAFETY: ours; nobody waits there, and its shadow was emptied before.
        unsafe {
            let _ = uffd.unregister(start, len);
            own::unmap(start, len);
        }
    }
}

/// The table, sorted by start, no two overlapping.
#[derive(Debug)]
pub struct Regions {
    table: Table<Region>,
    /// What has just moved, the oldest first, until it is known that nothing else was there: see `moves`.
    pub(super) arrived: Table<Region>,
    pub(super) nr_moves: usize,
    /// Where it moved from.
    pub(super) left: Table<(usize, usize)>,
}

impl Regions {
    /// An empty table.
    pub fn new() -> SysResult<Self> {
        Ok(Self { table: Table::new()?, arrived: Table::new()?, nr_moves: 0, left: Table::new()? })
    }

    /// All regions.
    pub fn all(&mut self) -> &mut [Region] {
        self.table.all()
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.table.len() + self.arrived.len()
    }

    /// Makes sure that `count` more regions fit; a region that is cut becomes two.
    pub fn make_room(&mut self, count: usize) -> SysResult<()> {
        // Any of them may move, and come back.
        let count = self.len() + count;
        self.table.make_room(count)?;
        self.arrived.make_room(count)?;
        self.left.make_room(count)
    }

    /// Enters a region.
    pub fn insert(&mut self, region: Region) -> SysResult<()> {
        let at = self.all().partition_point(|other| other.start < region.start);
        self.table.insert(at, region)
    }

    /// Takes the region at an index out.
    pub fn remove(&mut self, at: usize) -> Region {
        self.table.remove(at)
    }

    /// The index of the region that holds an address.
    pub fn find(&mut self, address: usize) -> Option<usize> {
        let after = self.all().partition_point(|region| region.start <= address);
        let at = after.checked_sub(1)?;
        (address < self.all()[at].end).then_some(at)
    }

    /// The index of the first region that ends after `start`.
    pub fn first_after(&mut self, start: usize) -> usize {
        self.all().partition_point(|region| region.end <= start)
    }

    /// Cuts regions at `address`, so that none lies across it. There must be room for one more.
    pub fn cut(&mut self, address: usize) {
        let Some(at) = self.find(address) else { return };
        let end = self.all()[at].end;
        if let Some(right) = take_at(&mut self.table, at, address, end) {
            let _ = self.insert(right);
        }
    }

    /// Takes out the part that lies in `[start, end)` of the first region that overlaps it. There must be room
    /// for one more.
    pub fn take(&mut self, start: usize, end: usize) -> Option<Region> {
        let at = self.first_in(start, end)?;
        take_at(&mut self.table, at, start, end)
    }

    /// The index of the first region that overlaps `[start, end)`.
    pub(super) fn first_in(&mut self, start: usize, end: usize) -> Option<usize> {
        let at = self.first_after(start);
        self.all().get(at).is_some_and(|region| region.start < end).then_some(at)
    }
}

/// Takes out the part of a region that lies in `[start, end)`; what is left stays where it was.
pub(super) fn take_at(
    table: &mut Table<Region>,
    at: usize,
    start: usize,
    end: usize,
) -> Option<Region> {
    table.make_room(1).ok()?;
    let whole = table.remove(at);
    let taken = Region { start: start.max(whole.start), end: end.min(whole.end), ..whole };
    let after = Region { start: taken.end, ..whole };
    let before = Region { end: taken.start, ..whole };
    for left in [after, before].into_iter().filter(|left| left.start < left.end) {
        // There is room: for one more, and for the one that was taken.
        if table.insert(at, left).is_ok() {
            left.users().fetch_add(1, Ordering::Relaxed);
        }
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 65536;

    #[test]
    fn a_region_is_found_by_any_of_its_addresses() {
        let mut regions = Regions::new().unwrap();
        for start in [0x90_0000, 0x10_0000, 0x50_0000] {
            regions.insert(Region::new(start, start + 0x10_0000, BLOCK).unwrap()).unwrap();
        }
        assert_eq!(regions.find(0x5f_ffff), Some(1));
        assert_eq!(regions.find(0x60_0000), None);
        assert_eq!(regions.find(0), None);
        assert_eq!(regions.first_after(0x20_0000), 1);
    }

    #[test]
    fn a_block_is_settled_once() {
        let mut region = Region::new(0x10_1000, 0x20_0000, BLOCK).unwrap();
        let blocks = region.nr_pending;
        assert!(region.pending(0x10_1000, BLOCK));
        assert_eq!(region.settle(0x10_1000, 0x11_0000, BLOCK), 1);
        assert_eq!(region.settle(0x10_1000, 0x11_0000, BLOCK), 0);
        assert_eq!(region.nr_pending, blocks - 1);
        region.free(Uffd(-1));
    }

    #[test]
    fn each_half_of_a_region_waits_for_its_own_blocks() {
        let mut regions = Regions::new().unwrap();
        regions.insert(Region::new(0x10_0000, 0x20_0000, BLOCK).unwrap()).unwrap();
        regions.all()[0].settle(0x10_0000, 0x18_0000, BLOCK);
        regions.cut(0x17_f000);
        assert_eq!(regions.all()[0].recount(BLOCK), 0);
        assert_eq!(regions.all()[1].recount(BLOCK), 8);
        assert_eq!(regions.all()[1].settle(0x18_0000, 0x20_0000, BLOCK), 8);
        assert_eq!(regions.all()[1].nr_pending, 0);
        let (whole, _) = Region::flag_bytes_of(0x10_0000, 0x20_0000, BLOCK);
        assert_eq!(regions.all().iter().map(Region::side_bytes).sum::<usize>(), whole);
        (0..2).for_each(|_| regions.remove(0).free(Uffd(-1)));
    }

    #[test]
    fn a_window_from_within_a_block_to_within_another_settles_both() {
        let mut region = Region::new(0x10_1000, 0x1f_1000, BLOCK).unwrap();
        assert!(!region.is_settled(0x1f_0000, 0x20_0000, BLOCK));
        assert_eq!(region.settle(0x10_1000, 0x1f_1000, BLOCK), 16);
        assert!(region.is_settled(0x1f_0000, 0x20_0000, BLOCK), "as far as it has it");
        assert_eq!(region.nr_pending, 0);
        region.free(Uffd(-1));
    }

    #[test]
    fn what_was_pulled_is_found_and_can_be_pulled_again() {
        // Begins and ends within a block.
        let mut region = Region::new(0x10_1000, 0x1f_2000, BLOCK).unwrap();
        let blocks = region.nr_pending;
        assert_eq!(region.next_settled(region.start, BLOCK), None);
        region.settle(0x10_1000, 0x12_0000, BLOCK);
        region.settle(0x1f_0000, 0x1f_2000, BLOCK);
        assert_eq!(region.next_settled(region.start, BLOCK), Some((0x10_1000, 0x12_0000)));
        assert_eq!(region.next_settled(0x12_0000, BLOCK), Some((0x1f_0000, 0x1f_2000)));
        assert_eq!(region.unsettle(0x10_1000, 0x12_0000, BLOCK), 2);
        assert_eq!(region.unsettle(0x10_1000, 0x12_0000, BLOCK), 0);
        assert_eq!(region.nr_pending, blocks - 1);
        region.free(Uffd(-1));
    }

    #[test]
    fn a_shadow_has_the_same_offset_in_a_huge_page() {
        for start in [0x7f00_0000_1000, 0x7f00_0010_0000, 0x7f00_0020_0000] {
            let region = Region::with_shadow(start, start + 0x30_0000, BLOCK).unwrap();
            let shadow = region.shadow_of(start);
            assert_eq!(shadow % sys::HUGE, start % sys::HUGE);
            let (side, len) = region.side;
            let flags_end = side + HEAD_BYTES + region.flags_len;
            assert!(flags_end <= shadow && shadow + 0x30_0000 <= side + len);
            assert_eq!(len, Region::side_bytes_of(start, start + 0x30_0000, BLOCK));
            region.free(Uffd(-1));
        }
    }
}
