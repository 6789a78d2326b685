//! Queue locks: who comes first goes first, and (but for the ticket lock) a hand-over touches one waiter's line.
//!
//! | lock | a hand-over costs | order | from |
//! |---|---|---|---|
//! | [`TicketLock`] | every waiter's CPU reads the line anew | first come, first served | the study's `spin_lock` |
//! | [`McsLock`] | one line of the next waiter | first come, first served | Mellor-Crummey and Scott, TOCS 1991 |
//! | [`CnaLock`] | the same, mostly within the node | the holder's node first, with a bound | Dice and Kogan, "Compact NUMA-aware Locks", EuroSys 2019 |
//!
//! All of them spin for some microseconds and then give the CPU away at each turn. None is for threads that
//! outnumber the CPUs: the lock may be handed to one that is not running, and all others wait for
//! the scheduler. A mutex that sleeps (the standard library's, `parking_lot`'s) is the better one there.

mod cna;
mod mcs;
mod ticket;

pub use cna::{CnaLock, CnaNode};
pub use mcs::{McsLock, McsNode};
pub use ticket::TicketLock;

use crate::sync::UnsafeCell;

/// A lock whose holder and waiters bring a node of their own.
///
/// # Safety
/// From when [`acquire`](Self::acquire) returns until [`release`](Self::release) is called, nobody else's
/// `acquire` returns; what was written before `release` is seen after the next `acquire`.
pub unsafe trait QueueLock {
    /// What a thread brings, from before it waits until it has released.
    type Node: Default;

    /// Waits until the lock is this thread's.
    ///
    /// # Safety
    /// The node is used for nothing else, and stays where it is, until `release` of it has returned.
    unsafe fn acquire(&self, node: &Self::Node);

    /// Hands it over.
    ///
    /// # Safety
    /// The lock was acquired with this node, and not released since.
    unsafe fn release(&self, node: &Self::Node);
}

/// A value that is used by one thread at a time.
#[derive(Debug)]
pub struct Exclusive<T, L> {
    lock: L,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `with` alone, by one thread at a time.
unsafe impl<T: Send, L: QueueLock + Sync> Sync for Exclusive<T, L> {}

impl<T, L: QueueLock> Exclusive<T, L> {
    /// A value behind a lock.
    pub fn new(lock: L, value: T) -> Self {
        Self { lock, value: UnsafeCell::new(value) }
    }

    /// Waits for the value and uses it. The node lies in this call's frame, so nothing is allocated. Within
    /// `use_it`, the same value is never to be had.
    pub fn with<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> R {
        let node = L::Node::default();
        // SAFETY: the node lives in this frame, which `Release` outlives in no case.
        unsafe { self.lock.acquire(&node) };
        let _release = Release { lock: &self.lock, node: &node };
        // SAFETY: the lock is this thread's until `_release` is dropped.
        self.value.with_mut(|value| use_it(unsafe { &mut *value }))
    }
}

/// Releases, also when the user of the value panics.
struct Release<'a, L: QueueLock> {
    lock: &'a L,
    node: &'a L::Node,
}

impl<L: QueueLock> Drop for Release<'_, L> {
    fn drop(&mut self) {
        // SAFETY: made once it was acquired with this node, and dropped once.
        unsafe { self.lock.release(self.node) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
