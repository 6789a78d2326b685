//! The ticket lock: the study's specimen of what does not scale.

use super::QueueLock;
use crate::sync::{Acquire, AtomicU32, Relaxed, Release, Spin};

/// A counter of who comes and one of whose turn it is, on one line.
///
/// - **Order:** first come, first served.
/// - **Memory:** 8 bytes.
/// - **Loses** from a handful of waiters on: each hand-over takes the line from every waiter's CPU, and they
///   all fetch it again, so that it costs more the more are waiting, and throughput *falls* as CPUs
///   are added. Here as the thing to compare with, and for locks that two or three share.
#[derive(Debug, Default)]
pub struct TicketLock {
    next: AtomicU32,
    serving: AtomicU32,
}

impl TicketLock {
    /// A lock that nobody holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

// SAFETY: tickets differ (up to 2^32 waiters), and one is served at a time; `serving` is stored with Release
// and read with Acquire.
unsafe impl QueueLock for TicketLock {
    type Node = ();

    unsafe fn acquire(&self, (): &()) {
        let ticket = self.next.fetch_add(1, Relaxed);
        let mut spin = Spin::default();
        while self.serving.load(Acquire) != ticket {
            spin.turn();
        }
    }

    unsafe fn release(&self, (): &()) {
        // The holder alone writes it.
        let ticket = self.serving.load(Relaxed);
        self.serving.store(ticket.wrapping_add(1), Release);
    }
}
