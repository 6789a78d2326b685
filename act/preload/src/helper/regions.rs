//! What is marked: a sorted table of regions, used by the helper alone.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::ranges;
use crate::sys::{self, PAGE, SysResult};
use crate::uffd::Uffd;

/// Regions at one time; ranges beyond that stay unmarked.
pub const REGIONS_MAX: usize = 16_384;

const PENDING: u8 = 1;

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
    flags: usize,
    flags_origin: usize,
    flags_len: usize,
    owns_mappings: bool,
    shadow: (usize, usize),
}

impl Region {
    /// A region without shadow, all blocks pending.
    pub fn new(start: usize, end: usize, block_bytes: usize) -> SysResult<Self> {
        let flags_origin = start / block_bytes;
        let nr_blocks = (end - 1) / block_bytes - flags_origin + 1;
        let flags_len = nr_blocks.next_multiple_of(PAGE);
        let flags = sys::map(flags_len)?;
        ranges::keep(flags, flags + flags_len);
        let region = Self {
            start,
            end,
            shadow_delta: 0,
            nr_pending: nr_blocks,
            flags,
            flags_origin,
            flags_len,
            owns_mappings: true,
            shadow: (0, 0),
        };
        for block in 0..nr_blocks {
            region.flag(block).store(PENDING, Ordering::Relaxed);
        }
        Ok(region)
    }

    /// Reserves the shadow range, at the same offset within a huge page.
    pub fn reserve_shadow(&mut self) -> SysResult<()> {
        let len = self.end - self.start;
        let reserved = len + sys::HUGE;
        let base = sys::map(reserved)?;
        ranges::keep(base, base + reserved);
        let offset = self.start % sys::HUGE;
        let shadow = base.next_multiple_of(sys::HUGE) + offset;
        let shadow = if shadow - base >= sys::HUGE { shadow - sys::HUGE } else { shadow };
        self.shadow = (base, reserved);
        self.shadow_delta = shadow.wrapping_sub(self.start);
        // SAFETY: a fresh mapping of ours. A child has no use for it (it gets its data before).
        let _ = unsafe { sys::madvise(base, reserved, libc::MADV_DONTFORK) };
        Ok(())
    }

    /// The shadow address of an address.
    pub fn shadow_of(&self, address: usize) -> usize {
        address.wrapping_add(self.shadow_delta)
    }

    fn flag(&self, index: usize) -> &AtomicU8 {
        debug_assert!(index < self.flags_len);
        // SAFETY: inside the flags' mapping, which lives as long as the region; atomics.
        unsafe { &*((self.flags + index) as *const AtomicU8) }
    }

    fn flag_at(&self, address: usize, block_bytes: usize) -> Option<&AtomicU8> {
        let index = (address / block_bytes).checked_sub(self.flags_origin)?;
        (index < self.flags_len).then(|| self.flag(index))
    }

    /// Whether the block at `address` is still to be pulled, as far as is known.
    pub fn pending(&self, address: usize, block_bytes: usize) -> bool {
        self.flag_at(address, block_bytes)
            .is_some_and(|flag| flag.load(Ordering::Relaxed) == PENDING)
    }

    /// Notes the blocks in `[start, end)` as pulled; gives how many were pending.
    pub fn settle(&mut self, start: usize, end: usize, block_bytes: usize) -> usize {
        let mut settled = 0;
        for address in (start..end).step_by(block_bytes) {
            if self
                .flag_at(address, block_bytes)
                .is_some_and(|flag| flag.swap(0, Ordering::Relaxed) == PENDING)
            {
                settled += 1;
            }
        }
        self.nr_pending = self.nr_pending.saturating_sub(settled);
        settled
    }

    /// Gives back the region's own mappings. The shadow may still be registered with `uffd`, and
    /// unmapping it then would make us wait for ourselves to read the event.
    pub fn free(&self, uffd: Uffd) {
        if !self.owns_mappings {
            return;
        }
        for (start, len) in [(self.flags, self.flags_len), self.shadow] {
            if len != 0 {
                ranges::forget(start);
                // SAFETY: ours; nobody waits there.
                let _ = unsafe { uffd.unregister(start, len) };
                // SAFETY: ours; the region is gone, and its shadow was emptied before.
                unsafe { sys::unmap(start, len) };
            }
        }
    }
}

/// The table, sorted by start, in a mapping of its own.
#[derive(Debug)]
pub struct Regions {
    base: *mut Region,
    len: usize,
}

impl Regions {
    /// An empty table.
    pub fn new() -> SysResult<Self> {
        let bytes = (REGIONS_MAX * size_of::<Region>()).next_multiple_of(PAGE);
        let base = sys::map(bytes)?;
        ranges::keep(base, base + bytes);
        Ok(Self { base: base as *mut Region, len: 0 })
    }

    /// All regions.
    pub fn all(&mut self) -> &mut [Region] {
        // SAFETY: the first `len` entries were written by `insert`; the helper is the only user.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is room for `count` more.
    pub fn has_room(&self, count: usize) -> bool {
        self.len + count <= REGIONS_MAX
    }

    /// Enters a region; the caller has checked that there is room.
    pub fn insert(&mut self, region: Region) {
        if !self.has_room(1) {
            return;
        }
        let at = self.all().partition_point(|other| other.start < region.start);
        // SAFETY: `len` is below the mapping's capacity, so one more entry fits.
        unsafe {
            let place = self.base.add(at);
            place.copy_to(place.add(1), self.len - at);
            place.write(region);
        }
        self.len += 1;
    }

    /// Takes the region at an index out.
    pub fn remove(&mut self, at: usize) -> Region {
        let region = self.all()[at];
        // SAFETY: `at` is below `len` (checked by the index above).
        unsafe {
            let place = self.base.add(at);
            place.add(1).copy_to(place, self.len - at - 1);
        }
        self.len -= 1;
        region
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

    /// Cuts regions at `address`, so that none lies across it. The parts share shadow and flags,
    /// which are then kept for the life of the helper.
    pub fn cut(&mut self, address: usize) {
        let Some(at) = self.find(address) else { return };
        if self.all()[at].start == address || !self.has_room(1) {
            return;
        }
        let mut left = self.remove(at);
        left.owns_mappings = false;
        let right = Region { start: address, ..left };
        left.end = address;
        self.insert(left);
        self.insert(right);
    }

    /// `mremap` moved `[from, from + len)` to `to`: the data's place in the shadow stays.
    pub fn moved(&mut self, from: usize, to: usize, len: usize) {
        self.cut(from);
        self.cut(from + len);
        loop {
            let at = self.first_after(from);
            let Some(region) = self.all().get(at).copied() else { return };
            if region.start < from || region.start >= from + len {
                return;
            }
            let mut region = self.remove(at);
            // The block grid need not survive the move: without flags a pull is one block.
            region.flags_len = 0;
            region.owns_mappings = false;
            region.start = region.start - from + to;
            region.end = region.end - from + to;
            region.shadow_delta = region.shadow_delta.wrapping_add(from).wrapping_sub(to);
            self.insert(region);
            if to == from {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const BLOCK: usize = 65536;

    #[test]
    fn a_region_is_found_by_any_of_its_addresses() {
        let mut regions = Regions::new().unwrap();
        for start in [0x90_0000, 0x10_0000, 0x50_0000] {
            regions.insert(Region::new(start, start + 0x10_0000, BLOCK).unwrap());
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
    fn a_shadow_has_the_same_offset_in_a_huge_page() {
        for start in [0x7f00_0000_1000, 0x7f00_0010_0000, 0x7f00_0020_0000] {
            let mut region = Region::new(start, start + 0x30_0000, BLOCK).unwrap();
            region.reserve_shadow().unwrap();
            let shadow = region.shadow_of(start);
            assert_eq!(shadow % sys::HUGE, start % sys::HUGE);
            let (base, len) = region.shadow;
            assert!(base <= shadow && shadow + 0x30_0000 <= base + len);
            region.free(Uffd(-1));
        }
    }

    proptest! {
        /// Moves and cuts never lose or misplace a page's shadow address.
        #[test]
        fn every_page_keeps_its_shadow(moves in prop::collection::vec((0usize..64, 1usize..20), 1..12)) {
            let mut regions = Regions::new().unwrap();
            let mut model = BTreeMap::new();
            for n in 0..4 {
                let start = 0x1000_0000 + n * 0x100_0000;
                let mut region = Region::new(start, start + 16 * PAGE, BLOCK).unwrap();
                region.shadow_delta = 0x7000_0000;
                for page in 0..16 {
                    model.insert(start + page * PAGE, start + page * PAGE + 0x7000_0000);
                }
                regions.insert(region);
            }
            for (number, (pick, pages)) in moves.into_iter().enumerate() {
                let Some(&from) = model.keys().nth(pick % model.len().max(1)) else { break };
                let (to, len) = (0x9000_0000 + number * 0x100_0000, pages * PAGE);
                regions.moved(from, to, len);
                let moving: Vec<_> = model.range(from..from + len).map(|(k, v)| (*k, *v)).collect();
                for (address, shadow) in moving {
                    model.remove(&address);
                    model.insert(address - from + to, shadow);
                }
            }
            for (address, shadow) in model {
                let at = regions.find(address).unwrap();
                prop_assert_eq!(regions.all()[at].shadow_of(address), shadow);
            }
        }
    }
}
