//! The runtime's own memory. It lies in the library's zero-filled segment, which is never marked, so
//! the helper can read it while the program's heap is out of reach, and the program's allocator is
//! never re-entered.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;

use talc::{ClaimOnOom, Span, Talc, Talck};

const ARENA_BYTES: usize = 16 << 20;

/// How often a thread that forks tries to find the allocator at rest. A fork in a signal handler may
/// have interrupted it, and then it never is.
const REST_TRIES: usize = 10_000_000;

static mut MEMORY: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

type Allocator = Talck<spin::Mutex<()>, ClaimOnOom>;

// SAFETY: `MEMORY` is named nowhere else, so the allocator is its only user.
static ALLOCATOR: Allocator =
    Talc::new(unsafe { ClaimOnOom::new(Span::from_array(&raw mut MEMORY)) }).lock();

/// The global allocator of the preload library.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arena;

// SAFETY: every call is passed on to Talck, which upholds the contract.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        unsafe { ALLOCATOR.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { ALLOCATOR.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        unsafe { ALLOCATOR.realloc(ptr, layout, new_size) }
    }
}

type Guard = lock_api::MutexGuard<'static, spin::Mutex<()>, Talc<ClaimOnOom>>;

/// The allocator's lock over a fork.
struct Held(UnsafeCell<Option<Guard>>);

// SAFETY: only the thread that holds the allocator's lock looks into it (see `hold`, `release`).
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Takes the allocator's lock before a fork, so that the child does not find it taken by a thread that
/// it does not have.
pub fn hold() {
    for _ in 0..REST_TRIES {
        if let Some(guard) = ALLOCATOR.try_lock() {
            // SAFETY: the lock is ours, so nobody else is here.
            unsafe { *HELD.0.get() = Some(guard) };
            return;
        }
        std::hint::spin_loop();
    }
}

/// Gives it back after the fork, in parent and child alike.
pub fn release() {
    // SAFETY: between `hold` and here the lock is ours, so nobody else is here; if `hold` gave up,
    // there is nothing, and another fork has not begun: it would wait in `hold` as well.
    drop(unsafe { (*HELD.0.get()).take() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_over_a_fork_is_free_afterwards() {
        hold();
        assert!(ALLOCATOR.try_lock().is_none());
        release();
        assert!(ALLOCATOR.try_lock().is_some());
        release();
    }
}
