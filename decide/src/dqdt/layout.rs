//! What a cluster's estimates look like in memory: thesis 4.3.1's array of five entries, one for
//! each child (or CPU of a leaf) and one for their sum.
//!
//! The layout is fixed, so that processes of different builds can share it. T is apart from U and
//! M: everybody who places a thread writes T, and only the refreshing task writes U and M, so
//! they can have different permissions and never share a cache line.

use std::cmp::Ordering;

use crate::dqdt::tree::FANOUT_MAX;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Relaxed};

/// Blocks of 2⁰ to 2⁹ free pages are counted apart (thesis 5.3.3.1).
pub const BLOCK_ORDERS: usize = 10;

/// The four entries and their sum.
pub const ENTRIES: usize = FANOUT_MAX + 1;

/// Where the sum is among the five.
pub const SUM: usize = FANOUT_MAX;

/// U is kept in 1/256 of a percent, so that a moving average does not lose its small steps.
pub const USAGE_PER_PERCENT: u32 = 256;

/// T that U is of is kept in 1/256 of a thread.
pub(crate) const THREADS_SCALE: u32 = 256;

/// T of one cluster: active threads of each child, or of each CPU of a leaf.
///
/// The fifth entry, their sum, is not stored. It is added up when it is read, from the same cache
/// line: a thread then costs one atomic addition per level, not the thesis's two, and a sum never
/// disagrees with its parts.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Threads {
    pub(crate) nr_threads: [AtomicU32; FANOUT_MAX],
    /// In the root's entry: how many changes of T have begun, ever. Elsewhere unused.
    pub(crate) nr_changes: AtomicU64,
}

impl Threads {
    /// No threads.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nr_threads: std::array::from_fn(|_| AtomicU32::new(0)),
            nr_changes: AtomicU64::new(0),
        }
    }

    /// T of one of the four.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn get(&self, entry: usize) -> u32 {
        count_of(self.nr_threads[entry].load(Relaxed))
    }

    pub(crate) fn all(&self) -> [u32; FANOUT_MAX] {
        std::array::from_fn(|entry| self.get(entry))
    }

    /// Sets T of one of the four: to replay a state that was seen, whatever it was.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn set(&self, entry: usize, nr_threads: u32) {
        self.nr_threads[entry].store(nr_threads, Relaxed);
    }
}

/// T as a number. What wrapped below zero, since somebody cleared a list that was in use, is none.
pub(crate) fn count_of(stored: u32) -> u32 {
    (stored as i32).max(0) as u32
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

/// U and M of one cluster. All zero, as memory comes from the kernel, means that nothing is known.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Resources {
    /// U, plus one; 0: unknown. In 1/256 of a percent.
    pub(crate) usage: [AtomicU16; ENTRIES],
    /// T of each entry at the times that its U is of, smoothed as U is; in 1/256 of a thread.
    pub(crate) threads_seen: [AtomicU32; FANOUT_MAX],
    /// M, plus one; 0: unknown. In base pages.
    pub(crate) free_pages: [AtomicU64; ENTRIES],
    /// Free blocks of 2ⁿ pages. Only meaningful where M is known.
    pub(crate) free_blocks: [[AtomicU32; BLOCK_ORDERS]; ENTRIES],
}

impl Resources {
    /// Nothing known.
    #[must_use]
    pub fn new() -> Self {
        Self {
            usage: std::array::from_fn(|_| AtomicU16::new(0)),
            threads_seen: std::array::from_fn(|_| AtomicU32::new(0)),
            free_pages: std::array::from_fn(|_| AtomicU64::new(0)),
            free_blocks: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU32::new(0))),
        }
    }

    pub(crate) fn usage(&self, entry: usize) -> Option<Usage> {
        Usage::from_stored(self.usage[entry].load(Relaxed))
    }

    /// U in percent as it is by now, of an entry (or of the sum) with so many CPUs and so many threads.
    ///
    /// U is as old as the last refresh, T is exact, so T tells what has changed since: a thread more is
    /// taken to want a whole CPU, a thread less took its share of U with it. Without this, everybody who
    /// decides between two refreshes would choose what was idle at the first. More than 100 means that
    /// threads have to wait.
    pub(crate) fn usage_now(&self, entry: usize, nr_threads: u32, nr_cpus: u32) -> Option<u8> {
        let usage = u64::from(self.usage(entry)?.scaled());
        let seen = |at: usize| self.threads_seen[at].load(Relaxed);
        let seen = if entry == SUM {
            (0..FANOUT_MAX).map(seen).fold(0, u32::saturating_add)
        } else {
            seen(entry)
        };
        let (seen, now) = (u64::from(seen), u64::from(nr_threads) * u64::from(THREADS_SCALE));
        // The divisions are most of what a decision on a busy machine costs: none where nothing has
        // changed, which is usual.
        let usage = match now.cmp(&seen) {
            Ordering::Equal => usage,
            Ordering::Less => usage * now / seen,
            // 100 percent of a CPU for each thread: both scales are 1/256.
            Ordering::Greater => usage + (now - seen) * 100 / u64::from(nr_cpus).max(1),
        };
        let percent = (usage + u64::from(USAGE_PER_PERCENT) / 2) / u64::from(USAGE_PER_PERCENT);
        Some(percent.min(u64::from(u8::MAX)) as u8)
    }

    pub(crate) fn set_usage(&self, entry: usize, usage: Option<Usage>) {
        self.usage[entry].store(usage.map_or(0, Usage::to_stored), Relaxed);
    }

    pub(crate) fn free_pages(&self, entry: usize) -> Option<u64> {
        self.free_pages[entry].load(Relaxed).checked_sub(1)
    }

    pub(crate) fn free_memory(&self, entry: usize) -> Option<FreeMemory> {
        let pages = self.free_pages(entry)?;
        let block = |order: usize| self.free_blocks[entry][order].load(Relaxed);
        Some(FreeMemory { pages, blocks: std::array::from_fn(block) })
    }

    /// Blocks first: whoever reads between the two sees old pages with new blocks, both of which
    /// were true a moment ago.
    pub(crate) fn set_free_memory(&self, entry: usize, memory: Option<&FreeMemory>) {
        let Some(memory) = memory else { return self.free_pages[entry].store(0, Relaxed) };
        for (slot, &blocks) in self.free_blocks[entry].iter().zip(&memory.blocks) {
            slot.store(blocks, Relaxed);
        }
        self.free_pages[entry].store(memory.pages.saturating_add(1), Relaxed);
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::new()
    }
}

/// U: how busy a CPU or a cluster is, 0 to 100 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usage(u16);

impl Usage {
    /// Nothing runs.
    pub const IDLE: Self = Self(0);
    /// 100 percent.
    pub const FULL: Self = Self(100 * USAGE_PER_PERCENT as u16);

    /// From 1/256 of a percent; more than 100 percent is 100.
    #[must_use]
    pub fn from_scaled(scaled: u32) -> Self {
        Self(scaled.min(u32::from(Self::FULL.0)) as u16)
    }

    /// In 1/256 of a percent.
    #[must_use]
    pub fn scaled(self) -> u32 {
        u32::from(self.0)
    }

    /// From whole percents.
    #[must_use]
    pub fn from_percent(percent: u32) -> Self {
        Self::from_scaled(percent.saturating_mul(USAGE_PER_PERCENT))
    }

    /// From the part of a period that a CPU was busy. `None` for an empty period.
    #[must_use]
    pub fn from_busy(busy: u64, period: u64) -> Option<Self> {
        let scaled = u128::from(busy) * u128::from(Self::FULL.0);
        let scaled = scaled.checked_div(u128::from(period))?;
        Some(Self::from_scaled(scaled.min(u128::from(u32::MAX)) as u32))
    }

    /// Rounded to whole percents: what policies compare, as the thesis's integers.
    #[must_use]
    pub fn percent(self) -> u8 {
        ((self.scaled() + USAGE_PER_PERCENT / 2) / USAGE_PER_PERCENT) as u8
    }

    fn from_stored(stored: u16) -> Option<Self> {
        Some(Self::from_scaled(u32::from(stored.checked_sub(1)?)))
    }

    fn to_stored(self) -> u16 {
        self.0 + 1
    }
}

/// M: free memory of a node, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeMemory {
    /// Free base pages.
    pub pages: u64,
    /// Free blocks of 2⁰ to 2⁹ contiguous pages. Larger ones count as as many of 2⁹.
    pub blocks: [u32; BLOCK_ORDERS],
}

impl FreeMemory {
    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.pages = self.pages.saturating_add(other.pages);
        for (sum, blocks) in self.blocks.iter_mut().zip(&other.blocks) {
            *sum = sum.saturating_add(*blocks);
        }
        self
    }

    /// Whether a contiguous block of 2^`order` pages is there, whole or as part of a larger one.
    #[must_use]
    pub fn has_block(&self, order: usize) -> bool {
        self.blocks.iter().skip(order).any(|&blocks| blocks > 0)
    }
}
