//! The guest's memory, mapped from the files that QEMU has it in: a word is read in nanoseconds, where
//! asking QEMU for one takes a walk of the guest's tables first.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::layout::{Layout, Range};
use crate::walk::Memory;

/// All of it, for reading.
#[derive(Debug)]
pub struct Ram {
    layout: Layout,
    /// Where each range of the layout is mapped.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place(*const u8);

// SAFETY: JUSTIFICATION: every CPU's thread walks tables. Mappings are never changed or removed, and
// read by atomic loads alone.
unsafe impl Send for Place {}
// SAFETY: as for `Send`.
unsafe impl Sync for Place {}

impl Ram {
    /// Maps every range of `layout`.
    ///
    /// # Errors
    /// A file is not open, or shorter than its ranges.
    pub fn map(layout: Layout) -> Result<Self, String> {
        let places = layout.ranges().iter().map(map).collect::<Result<_, _>>()?;
        Ok(Self { layout, places })
    }
}

fn map(range: &Range) -> Result<Place, String> {
    let cannot = |why: &dyn std::fmt::Display| {
        format!("cannot read the memory of node {}: {why}", range.node)
    };
    // SAFETY: the number is only looked up; if nothing is open there, the next call says so.
    let file = unsafe { BorrowedFd::borrow_raw(range.file) };
    let size = rustix::fs::fstat(file).map_err(|error| cannot(&error))?.st_size;
    // Past a file's end a mapping exists, and reading it kills.
    if (size as u64) < range.offset + range.bytes {
        return Err(cannot(&"its file is too short"));
    }
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let place = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            range.bytes as usize,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            range.offset,
        )
    };
    place.map(|place| Place(place.cast())).map_err(|error| cannot(&error))
}

impl Memory for Ram {
    fn word(&self, address: u64) -> Option<u64> {
        let index = self.layout.find(address)?;
        let offset = (address - self.layout.ranges()[index].start) as usize & !7;
        // SAFETY: `find` says that the address is in the range, all of which is mapped and stays so;
        // ranges begin and end at pages, so that eight bytes at a multiple of eight are within it. The
        // guest may write them meanwhile, hence an atomic load; nothing is written here.
        let word =
            unsafe { AtomicU64::from_ptr(self.places[index].0.add(offset).cast_mut().cast()) };
        Some(word.load(Ordering::Relaxed))
    }
}
