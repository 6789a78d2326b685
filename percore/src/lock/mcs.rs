//! The MCS lock: each waiter spins on a line of its own.

use std::ptr;

use super::QueueLock;
use crate::sync::{AcqRel, Acquire, AtomicBool, AtomicPtr, Relaxed, Release, Spin};

/// A queue of waiters, of which the lock knows the last (Mellor-Crummey and Scott).
///
/// - **Order:** first come, first served.
/// - **Memory:** 8 bytes, and 16 on the stack of each who waits or holds.
/// - **Loses** to a ticket lock where nobody waits (an exchange more), and between nodes to
///   [`CnaLock`](super::CnaLock): the lock, and what it guards, goes to whichever node is next.
#[derive(Debug, Default)]
pub struct McsLock {
    last: AtomicPtr<McsNode>,
}

/// A place in the queue.
#[derive(Debug, Default)]
pub struct McsNode {
    next: AtomicPtr<McsNode>,
    is_granted: AtomicBool,
}

impl McsLock {
    /// A lock that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

// SAFETY: whoever finds the queue empty has the lock; everybody else waits for the one before, which grants
// it once, with a Release that the waiter acquires.
unsafe impl QueueLock for McsLock {
    type Node = McsNode;

    unsafe fn acquire(&self, node: &McsNode) {
        let own = ptr::from_ref(node).cast_mut();
        node.next.store(ptr::null_mut(), Relaxed);
        node.is_granted.store(false, Relaxed);
        let before = self.last.swap(own, AcqRel);
        // SAFETY: whoever is in the queue leaves it when the next one is told, which is this one.
        let Some(before) = (unsafe { before.as_ref() }) else { return };
        before.next.store(own, Release);
        let mut spin = Spin::default();
        while !node.is_granted.load(Acquire) {
            spin.turn();
        }
    }

    unsafe fn release(&self, node: &McsNode) {
        let own = ptr::from_ref(node).cast_mut();
        let mut next = node.next.load(Acquire);
        if next.is_null() {
            if self.last.compare_exchange(own, ptr::null_mut(), AcqRel, Relaxed).is_ok() {
                return;
            }
            // Somebody is the last already, and about to say so here.
            let mut spin = Spin::default();
            while next.is_null() {
                spin.turn();
                next = node.next.load(Acquire);
            }
        }
        // SAFETY: it waits for this.
        unsafe { &*next }.is_granted.store(true, Release);
    }
}
