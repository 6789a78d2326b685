//! Which pages of a range are there: `PAGEMAP_SCAN` (Linux 6.7), which walks page tables and so costs
//! what is resident, not what is reserved.

use syscalls::Errno;

use crate::sys::{self, SysResult};

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;
const PAGEMAP_SCAN: usize =
    (3 << 30) | (size_of::<ScanArgument>() << 16) | (b'f' as usize) << 8 | 16;

#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Neighbouring pages that are present or swapped out. Pages that map the shared zero page are left
/// out: their first write allocates on the writer's node anyway.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

impl Run {
    /// First byte.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// One past the last byte.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// Whether it is mapped by huge pages.
    #[must_use]
    pub fn huge(&self) -> bool {
        self.categories & PAGE_IS_HUGE != 0
    }

    /// Whether the pages are in memory (and not swapped out).
    #[must_use]
    pub fn present(&self) -> bool {
        self.categories & PAGE_IS_PRESENT != 0
    }
}

/// `/proc/self/pagemap`, open. Copies are the same descriptor, which stays open.
#[derive(Clone, Copy, Debug)]
pub struct Pagemap(i32);

impl Pagemap {
    /// Opens it.
    pub fn open() -> SysResult<Self> {
        sys::open(c"/proc/self/pagemap", libc::O_RDONLY).map(Self)
    }

    /// The runs in `[start, end)` in order, read from the kernel as they are asked for. After an error
    /// there is no more.
    pub fn runs(self, start: usize, end: usize) -> Runs {
        Runs { pagemap: self, from: start, end, read: [Run::default(); BATCH], next: 0, count: 0 }
    }

    /// Reads runs from the start of `[start, end)`; gives how many, and where the walk stopped.
    fn scan(self, start: usize, end: usize, runs: &mut [Run]) -> SysResult<(usize, usize)> {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags: 0,
            start: start as u64,
            end: end as u64,
            walk_end: 0,
            vec: runs.as_mut_ptr() as u64,
            vec_len: runs.len() as u64,
            max_pages: 0,
            category_inverted: PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_PFNZERO,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT | PAGE_IS_HUGE,
        };
        // SAFETY: the structure of this request; `vec` has room for `vec_len` runs.
        let count = unsafe { sys::ioctl(self.0, PAGEMAP_SCAN, &mut argument) }?;
        Ok((count, argument.walk_end as usize))
    }
}

/// Runs read from the kernel at a time.
const BATCH: usize = 128;

/// How often, a millisecond apart, a scan is tried for which the kernel has no memory.
const MEMORY_TRIES: u32 = 10_000;

/// The runs of a range, none of them beyond it; see [`Pagemap::runs`].
#[derive(Debug)]
pub struct Runs {
    pagemap: Pagemap,
    /// Where the next read begins.
    from: usize,
    end: usize,
    read: [Run; BATCH],
    next: usize,
    count: usize,
}

impl Runs {
    /// The kernel needs a few pages for the scan, and may have none for a moment.
    fn scan_patiently(&mut self, start: usize) -> SysResult<(usize, usize)> {
        for _ in 0..MEMORY_TRIES {
            let result = self.pagemap.scan(start, self.end, &mut self.read);
            if result != Err(Errno::ENOMEM) {
                return result;
            }
            sys::sleep_micros(1000);
        }
        Err(Errno::ENOMEM)
    }
}

impl Iterator for Runs {
    type Item = SysResult<Run>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            if self.from >= self.end {
                return None;
            }
            let start = self.from;
            // Whatever comes of it, this walk does not begin at the same place again.
            self.from = self.end;
            match self.scan_patiently(start) {
                Err(error) => return Some(Err(error)),
                Ok((0, _)) => return None,
                Ok((count, walked)) => {
                    (self.next, self.count) = (0, count);
                    if walked > start {
                        self.from = walked;
                    }
                }
            }
        }
        let run = self.read[self.next];
        self.next += 1;
        Some(Ok(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::PAGE;

    /// A mapping with the pages touched that `touched` says.
    fn mapping(pages: usize, touched: impl Fn(usize) -> bool) -> usize {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, nothing more.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base as usize;
        for page in (0..pages).filter(|page| touched(*page)) {
            // SAFETY: inside the fresh mapping.
            unsafe { ((base + page * PAGE) as *mut u8).write(1) };
        }
        base
    }

    /// The runs of a range in pages from its start; `None` where the kernel has no page map scan.
    fn runs(base: usize, pages: usize) -> Option<Vec<(usize, usize)>> {
        let runs = Pagemap::open().unwrap().runs(base, base + pages * PAGE);
        let runs: SysResult<Vec<_>> = runs.collect();
        if runs.is_err() {
            println!("skipped: this kernel has no PAGEMAP_SCAN (Linux 6.7)");
        }
        let in_pages = |run: &Run| ((run.start() - base) / PAGE, (run.end() - base) / PAGE);
        Some(runs.ok()?.iter().map(in_pages).collect())
    }

    #[test]
    fn only_touched_pages_are_runs() {
        let base = mapping(16, |page| [2, 3, 9].contains(&page));
        let Some(found) = runs(base, 16) else { return };
        assert_eq!(found, [(2, 4), (9, 10)]);
    }

    #[test]
    fn more_runs_than_are_read_at_a_time_are_all_there() {
        let base = mapping(8 * BATCH + 3, |page| page % 2 == 0);
        for pages in [2 * BATCH - 1, 2 * BATCH, 2 * BATCH + 1, 8 * BATCH + 3] {
            let Some(found) = runs(base, pages) else { return };
            let expected: Vec<_> = (0..pages).step_by(2).map(|page| (page, page + 1)).collect();
            assert_eq!(found, expected, "{pages} pages");
        }
    }
}
