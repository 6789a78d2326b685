//! Which pages of a range are there: `PAGEMAP_SCAN` (Linux 6.7), which walks page tables and so costs
//! what is resident, not what is reserved.

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

/// `/proc/self/pagemap`, open.
#[derive(Debug)]
pub struct Pagemap(i32);

impl Pagemap {
    /// Opens it.
    pub fn open() -> SysResult<Self> {
        sys::open(c"/proc/self/pagemap", libc::O_RDONLY).map(Self)
    }

    /// Finds runs in `[start, end)`; gives how many, and where the scan stopped.
    pub fn scan(&self, start: usize, end: usize, runs: &mut [Run]) -> SysResult<(usize, usize)> {
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

impl Drop for Pagemap {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::PAGE;

    #[test]
    fn only_touched_pages_are_runs() {
        let base = sys::map(16 * PAGE).unwrap();
        for page in [2, 3, 9] {
            // SAFETY: inside the fresh mapping.
            unsafe { ((base + page * PAGE) as *mut u8).write(1) };
        }
        let pagemap = Pagemap::open().unwrap();
        let mut runs = [Run::default(); 8];
        let Ok((count, walked)) = pagemap.scan(base, base + 16 * PAGE, &mut runs) else {
            println!("skipped: this kernel has no PAGEMAP_SCAN (Linux 6.7)");
            return;
        };
        let found: Vec<_> = runs[..count].iter().map(|run| (run.start(), run.end())).collect();
        assert_eq!(
            found,
            [(base + 2 * PAGE, base + 4 * PAGE), (base + 9 * PAGE, base + 10 * PAGE)]
        );
        assert_eq!(walked, base + 16 * PAGE);
    }
}
