//! Translation look-aside buffers: entries of 4 KiB and 2 MiB, least recently used first out.
//!
//! An entry is found through a guess of where it is (by the low bits of the page number), so that a hit
//! costs the same in a fully associative TLB as in any other. A guess proves itself: it is right if the
//! entry there matches.

use crate::address::{PageSize, Translation};
use crate::geometry;

const SMALL_SHIFT: u32 = 12;
const HUGE_SHIFT: u32 = 21;

/// Guesses per TLB; a power of two.
const NR_GUESSES: usize = 64;

/// Groups of sets whose last used page is known; a power of two.
const NR_GROUPS: u64 = 16;

/// Flags in the bits of a page's virtual address that are zero.
const VALID: u64 = 1;
const HUGE: u64 = 2;
const GLOBAL: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Virtual address of the page, with flags.
    tag: u64,
    /// Physical address of the page.
    page: u64,
    space: u64,
    /// When it was last used.
    used: u64,
}

impl Entry {
    #[inline]
    fn matches(&self, vaddr: u64, space: u64) -> bool {
        self.tag & VALID != 0
            && (self.tag ^ vaddr) >> self.shift() == 0
            && (self.space == space || self.tag & GLOBAL != 0)
    }

    #[inline]
    fn translate(&self, vaddr: u64) -> u64 {
        self.page | vaddr & ((1 << self.shift()) - 1)
    }

    /// The bits of an address within the page; arithmetic, as a branch would cost more.
    #[inline]
    fn shift(&self) -> u64 {
        u64::from(SMALL_SHIFT) + u64::from(HUGE_SHIFT - SMALL_SHIFT) * (self.tag >> 1 & 1)
    }
}

/// A page as a TLB holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) page: u64,
    pub(crate) is_huge: bool,
    pub(crate) is_global: bool,
}

impl Page {
    /// The part of a translated page that an entry for `vaddr` holds.
    pub(crate) fn of(translation: &Translation, vaddr: u64) -> Self {
        let is_huge = translation.size != PageSize::Small;
        let shift = if is_huge { HUGE_SHIFT } else { SMALL_SHIFT };
        let within = vaddr & ((1 << translation.size.shift()) - 1);
        let base = translation.page & !((1 << translation.size.shift()) - 1);
        Self { page: base | within & (u64::MAX << shift), is_huge, is_global: translation.global }
    }

    pub(crate) fn translate(self, vaddr: u64) -> u64 {
        let shift = if self.is_huge { HUGE_SHIFT } else { SMALL_SHIFT };
        self.page | vaddr & ((1 << shift) - 1)
    }
}

/// Entries of a page size: where they begin in the list, and how they are grouped.
#[derive(Clone, Copy, Debug)]
struct Part {
    begin: usize,
    set_mask: u64,
    ways: usize,
}

impl Part {
    fn new(begin: usize, entries: u32, ways: u32) -> Self {
        Self { begin, set_mask: u64::from(entries / ways) - 1, ways: ways as usize }
    }

    fn slots(self, page_number: u64) -> std::ops::Range<usize> {
        let begin = self.begin + (page_number & self.set_mask) as usize * self.ways;
        begin..begin + self.ways
    }
}

/// The last used page of each group of sets. Using it again changes no order.
///
/// A group is of small or of huge pages, or of both where they share sets: a page number with its size
/// is in it, so that one is never taken for the other.
#[derive(Debug)]
struct Latest {
    pages: [u64; 2 * NR_GROUPS as usize],
    small_mask: u64,
    huge_mask: u64,
    /// Where the groups of huge pages begin.
    huge: u64,
}

impl Latest {
    const NONE: u64 = u64::MAX;

    fn new(small: Part, huge: Part) -> Self {
        Self {
            pages: [Self::NONE; 2 * NR_GROUPS as usize],
            small_mask: small.set_mask & (NR_GROUPS - 1),
            huge_mask: huge.set_mask & (NR_GROUPS - 1),
            huge: if small.begin == huge.begin { 0 } else { NR_GROUPS },
        }
    }

    #[inline]
    fn has(&self, vaddr: u64) -> bool {
        let (small, huge) = (vaddr >> SMALL_SHIFT, vaddr >> HUGE_SHIFT);
        self.pages[(small & self.small_mask) as usize] == small << 1
            || self.pages[(self.huge | huge & self.huge_mask) as usize] == huge << 1 | 1
    }

    #[inline]
    fn note(&mut self, vaddr: u64, is_huge: bool) {
        if is_huge {
            let page = vaddr >> HUGE_SHIFT;
            self.pages[(self.huge | page & self.huge_mask) as usize] = page << 1 | 1;
        } else {
            let page = vaddr >> SMALL_SHIFT;
            self.pages[(page & self.small_mask) as usize] = page << 1;
        }
    }

    fn forget(&mut self) {
        self.pages.fill(Self::NONE);
    }
}

/// A TLB.
#[derive(Debug)]
pub(crate) struct Tlb {
    entries: Box<[Entry]>,
    small: Part,
    huge: Part,
    guesses: [u32; NR_GUESSES],
    latest: Latest,
    tick: u64,
}

impl Tlb {
    pub(crate) fn new(geometry: &geometry::Tlb) -> Self {
        let small = Part::new(0, geometry.entries, geometry.ways);
        let huge = geometry
            .huge
            .map_or(small, |huge| Part::new(geometry.entries as usize, huge.entries, huge.ways));
        let nr_entries = geometry.entries + geometry.huge.map_or(0, |huge| huge.entries);
        let entries = vec![Entry::default(); nr_entries as usize].into();
        let latest = Latest::new(small, huge);
        Self { entries, small, huge, guesses: [0; NR_GUESSES], latest, tick: 0 }
    }

    /// A second-level TLB, whose entries are for both sizes.
    pub(crate) fn unified(entries: geometry::TlbEntries) -> Self {
        let geometry::TlbEntries { entries, ways } = entries;
        Self::new(&geometry::Tlb { entries, ways, huge: None })
    }

    /// The physical address, if a page is here; it is the last used from now on.
    #[inline]
    pub(crate) fn translate(&mut self, vaddr: u64, space: u64) -> Option<u64> {
        self.guess(vaddr, space)
            .or_else(|| self.search(vaddr, space).map(|slot| self.entries[slot].translate(vaddr)))
    }

    #[inline]
    fn guess(&mut self, vaddr: u64, space: u64) -> Option<u64> {
        self.tick += 1;
        let guess = self.guesses[(vaddr >> SMALL_SHIFT) as usize % NR_GUESSES] as usize;
        // A guess is an index of `entries`; asking with `get_mut` spares a second check.
        if let Some(entry) = self.entries.get_mut(guess)
            && entry.matches(vaddr, space)
        {
            entry.used = self.tick;
            self.latest.note(vaddr, entry.tag & HUGE != 0);
            return Some(entry.translate(vaddr));
        }
        None
    }

    /// Whether the page of an address is here, in the current address space, and using it changes
    /// nothing.
    #[inline]
    pub(crate) fn is_latest(&self, vaddr: u64) -> bool {
        self.latest.has(vaddr)
    }

    /// Whether the page of an address is here and quickly found; it is the last used from now on.
    #[inline]
    pub(crate) fn uses(&mut self, vaddr: u64, space: u64) -> bool {
        self.latest.has(vaddr) || self.guess(vaddr, space).is_some()
    }

    /// Another address space is the current one.
    pub(crate) fn change_space(&mut self) {
        self.latest.forget();
    }

    /// The physical address, if a page is here; no use of it.
    pub(crate) fn peek(&self, vaddr: u64, space: u64) -> Option<u64> {
        let slots = self.small.slots(vaddr >> SMALL_SHIFT);
        slots
            .chain(self.huge.slots(vaddr >> HUGE_SHIFT))
            .map(|slot| &self.entries[slot])
            .find(|entry| entry.matches(vaddr, space))
            .map(|entry| entry.translate(vaddr))
    }

    /// The page that an address is in, if it is here; it is the last used from now on.
    pub(crate) fn find(&mut self, vaddr: u64, space: u64) -> Option<Page> {
        self.tick += 1;
        let entry = &self.entries[self.search(vaddr, space)?];
        let (is_huge, is_global) = (entry.tag & HUGE != 0, entry.tag & GLOBAL != 0);
        Some(Page { page: entry.page, is_huge, is_global })
    }

    fn search(&mut self, vaddr: u64, space: u64) -> Option<usize> {
        let slots = self.small.slots(vaddr >> SMALL_SHIFT);
        let slot = slots
            .chain(self.huge.slots(vaddr >> HUGE_SHIFT))
            .find(|&slot| self.entries[slot].matches(vaddr, space))?;
        let entry = &mut self.entries[slot];
        entry.used = self.tick;
        self.latest.note(vaddr, entry.tag & HUGE != 0);
        self.guesses[(vaddr >> SMALL_SHIFT) as usize % NR_GUESSES] = slot as u32;
        Some(slot)
    }

    /// Puts a page in, in the place of the least recently used of its set.
    pub(crate) fn put(&mut self, vaddr: u64, space: u64, page: Page) {
        let (part, shift) =
            if page.is_huge { (self.huge, HUGE_SHIFT) } else { (self.small, SMALL_SHIFT) };
        let age = |&slot: &usize| {
            let entry = &self.entries[slot];
            if entry.tag & VALID == 0 { 0 } else { entry.used }
        };
        let slots = part.slots(vaddr >> shift);
        let slot = slots.min_by_key(age).expect("a set has at least one way");
        let flags =
            VALID | if page.is_huge { HUGE } else { 0 } | if page.is_global { GLOBAL } else { 0 };
        self.latest.note(vaddr, page.is_huge);
        let tag = vaddr & (u64::MAX << shift) | flags;
        self.entries[slot] = Entry { tag, page: page.page, space, used: self.tick };
        self.guesses[(vaddr >> SMALL_SHIFT) as usize % NR_GUESSES] = slot as u32;
    }

    /// Forgets every page, or those of one space that are not global.
    pub(crate) fn flush(&mut self, keep: impl Fn(u64, bool) -> bool) {
        self.latest.forget();
        for entry in &mut self.entries {
            if !keep(entry.space, entry.tag & GLOBAL != 0) {
                entry.tag = 0;
            }
        }
    }

    /// Forgets the page of an address, in this space and global.
    pub(crate) fn flush_page(&mut self, vaddr: u64, space: u64) {
        self.latest.forget();
        let both =
            self.small.slots(vaddr >> SMALL_SHIFT).chain(self.huge.slots(vaddr >> HUGE_SHIFT));
        for slot in both {
            if self.entries[slot].matches(vaddr, space) {
                self.entries[slot].tag = 0;
            }
        }
    }

    /// Bytes that the TLB takes.
    pub(crate) fn nr_bytes(&self) -> usize {
        size_of_val(&*self.entries) + size_of::<Self>()
    }
}
