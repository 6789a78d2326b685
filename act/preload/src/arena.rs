//! The runtime's own memory. It lies in the library's zero-filled segment, which is never marked, so
//! the helper can read it while the program's heap is out of reach, and the program's allocator is
//! never re-entered.

use std::alloc::{GlobalAlloc, Layout};

use talc::{ClaimOnOom, Span, Talc, Talck};

const ARENA_BYTES: usize = 16 << 20;

static mut ARENA: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

/// The global allocator of the preload library.
#[allow(missing_debug_implementations)] // Printing an allocator would allocate.
pub struct Arena(Talck<spin::Mutex<()>, ClaimOnOom>);

impl Arena {
    /// An arena over the library's static memory; one per library.
    #[must_use]
    pub const fn new() -> Self {
        // SAFETY: `ARENA` is named nowhere else, so the allocator is its only user.
        Self(Talc::new(unsafe { ClaimOnOom::new(Span::from_array(&raw mut ARENA)) }).lock())
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every call is passed on to Talck, which upholds the contract.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
}
