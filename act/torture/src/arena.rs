//! The memory under test: one range of addresses, cut into zones.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::model::{self, GRANULE, Tags, Wrong};
use crate::sys::{self, NextTouch, PAGE};

/// Far below where the kernel puts mappings of its own choice, so that a hole here stays a hole.
const BASE: usize = 0x2000_0000_0000;

/// What can be done with a page, as the tester left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Readable and writable.
    Writable = 0,
    /// Readable.
    ReadOnly = 1,
    /// `PROT_NONE`: there, but not to be touched.
    Closed = 2,
    /// Not mapped.
    Hole = 3,
}

/// Which part of the arena is for what, in pages.
#[derive(Clone, Debug)]
pub struct Zones {
    /// Private memory, with everything done to it.
    pub main: Range<usize>,
    /// Shared memory.
    pub shared: Range<usize>,
    /// Locked private memory.
    pub locked: Range<usize>,
    /// Private memory whose contents never change: read by all, also in signal handlers.
    pub constant: Range<usize>,
    /// Stacks for signals and short-lived threads; no model.
    pub stacks: Range<usize>,
}

impl Zones {
    fn new(main_pages: usize) -> Self {
        let mut at = 0;
        let mut next = |pages| {
            at += pages;
            at - pages..at
        };
        let eighth = (main_pages / 8).max(64);
        Self {
            main: next(main_pages),
            shared: next(eighth),
            locked: next(64),
            constant: next(eighth),
            stacks: next(64 * STACK_PAGES),
        }
    }

    /// All pages that have a model.
    #[must_use]
    pub fn modelled(&self) -> Range<usize> {
        0..self.constant.end
    }
}

/// Pages of a stack in the stack zone.
pub const STACK_PAGES: usize = 32;

/// The memory under test and its model.
#[derive(Debug)]
pub struct Arena {
    base: usize,
    /// The zones.
    pub zones: Zones,
    /// Tags of all granules.
    pub tags: Tags,
    states: &'static [AtomicU8],
    next_touch: Option<NextTouch>,
}

impl Arena {
    /// Maps an arena with so many pages in the main zone; constant pages are filled.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(main_pages: usize) -> io::Result<Self> {
        let zones = Zones::new(main_pages);
        let pages = zones.stacks.end;
        let arena = Self {
            base: BASE,
            tags: Tags(sys::shared(zones.modelled().end * model::PER_PAGE)),
            states: sys::shared(pages),
            next_touch: sys::next_touch(),
            zones,
        };
        arena.map(0..pages, libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE)?;
        arena.map(arena.zones.shared.clone(), libc::MAP_SHARED | libc::MAP_FIXED)?;
        arena.lock(arena.zones.locked.clone(), true);
        for page in arena.zones.constant.clone() {
            for granule in page * model::PER_PAGE..(page + 1) * model::PER_PAGE {
                arena.fill(granule, 1 + granule as u32);
            }
        }
        Ok(arena)
    }

    /// The address of a page.
    #[must_use]
    pub fn address(&self, page: usize) -> usize {
        self.base + page * PAGE
    }

    /// The address of a granule.
    #[must_use]
    pub fn granule_address(&self, granule: usize) -> usize {
        self.base + granule * GRANULE
    }

    /// A page's state.
    #[must_use]
    pub fn state(&self, page: usize) -> State {
        match self.states[page].load(Ordering::Relaxed) {
            0 => State::Writable,
            1 => State::ReadOnly,
            2 => State::Closed,
            _ => State::Hole,
        }
    }

    /// Notes the state of a page range.
    pub fn set_state(&self, pages: Range<usize>, state: State) {
        pages.for_each(|page| self.states[page].store(state as u8, Ordering::Relaxed));
    }

    fn word(&self, granule: usize, index: usize) -> *mut u64 {
        (self.granule_address(granule) + index * 8) as *mut u64
    }

    /// Reads a word of a granule.
    #[must_use]
    pub fn read(&self, granule: usize, index: usize) -> u64 {
        // SAFETY: inside the arena; the model says that the page is readable (a wrong model ends the
        // test with a signal, which is what it is for). Others may write it: volatile.
        unsafe { self.word(granule, index).read_volatile() }
    }

    /// Writes a granule's contents and notes them.
    pub fn fill(&self, granule: usize, tag: u32) {
        self.write_again(granule, tag);
        self.tags.set(granule, tag);
    }

    /// Writes a granule's contents without noting: what is there already, or the caller notes it.
    pub fn write_again(&self, granule: usize, tag: u32) {
        let first = granule % model::PER_PAGE * model::WORDS;
        for index in 0..model::WORDS {
            // SAFETY: as in `read`, and the page is writable.
            unsafe { self.word(granule, index).write_volatile(model::word(tag, first + index)) };
        }
    }

    /// Checks a granule against the model.
    ///
    /// # Errors
    /// The first wrong word.
    pub fn check(&self, granule: usize) -> Result<(), Wrong> {
        model::check(self.tags.get(granule), granule, |index| self.read(granule, index))
    }

    /// Maps fresh memory over a page range.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(&self, pages: Range<usize>, flags: i32) -> io::Result<()> {
        let (address, bytes) = (self.address(pages.start), pages.len() * PAGE);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: inside the arena, which only the tester uses.
        let got =
            unsafe { libc::mmap(address as *mut c_void, bytes, protection, flags, -1, 0) } as usize;
        match got {
            usize::MAX => Err(io::Error::last_os_error()),
            _ if got == address => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        }
    }

    /// Unmaps a page range.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unmap(&self, pages: Range<usize>) -> io::Result<()> {
        let (address, bytes) = (self.address(pages.start), pages.len() * PAGE);
        // SAFETY: inside the arena, which only the tester uses.
        done(unsafe { libc::munmap(address as *mut c_void, bytes) })
    }

    /// Moves `from` to `to` (of the same or another length), with more `mremap` flags.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remap(&self, from: Range<usize>, to: Range<usize>, flags: i32) -> io::Result<()> {
        let flags = flags | libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both ranges inside the arena, which only the tester uses.
        let got = unsafe {
            libc::mremap(
                self.address(from.start) as *mut c_void,
                from.len() * PAGE,
                to.len() * PAGE,
                flags,
                self.address(to.start) as *mut c_void,
            )
        };
        done(if got == libc::MAP_FAILED { -1 } else { 0 })
    }

    /// `madvise` on a page range.
    ///
    /// # Errors
    /// The kernel's.
    pub fn advise(&self, pages: Range<usize>, advice: i32) -> io::Result<()> {
        let (address, bytes) = (self.address(pages.start), pages.len() * PAGE);
        // SAFETY: inside the arena; the caller keeps the model.
        done(unsafe { libc::madvise(address as *mut c_void, bytes, advice) })
    }

    /// `mprotect` on a page range.
    ///
    /// # Errors
    /// The kernel's.
    pub fn protect(&self, pages: Range<usize>, protection: i32) -> io::Result<()> {
        let (address, bytes) = (self.address(pages.start), pages.len() * PAGE);
        // SAFETY: inside the arena; the caller keeps the model.
        done(unsafe { libc::mprotect(address as *mut c_void, bytes, protection) })
    }

    /// `mlock` or `munlock`, which may fail by a limit.
    pub fn lock(&self, pages: Range<usize>, lock: bool) {
        let (address, bytes) = (self.address(pages.start) as *const c_void, pages.len() * PAGE);
        // SAFETY: inside the arena; contents stay.
        unsafe { if lock { libc::mlock(address, bytes) } else { libc::munlock(address, bytes) } };
    }

    /// Whether a page is mapped, by the kernel's word.
    #[must_use]
    pub fn is_mapped(&self, page: usize) -> bool {
        let mut resident = 0u8;
        // SAFETY: a query of one page; the answer is one byte.
        unsafe { libc::mincore(self.address(page) as *mut c_void, PAGE, &raw mut resident) == 0 }
    }

    /// Marks bytes for next touch; does nothing in a plain run.
    pub fn mark(&self, address: usize, bytes: usize) {
        if let Some(next_touch) = self.next_touch {
            // SAFETY: the C API; it changes no contents.
            unsafe { next_touch(address as *const c_void, bytes) };
        }
    }

    /// Whether there is a runtime to mark with.
    #[must_use]
    pub fn can_mark(&self) -> bool {
        self.next_touch.is_some()
    }
}

fn done(status: i32) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
