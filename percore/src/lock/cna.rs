//! The compact NUMA-aware lock: an MCS lock that hands over within the holder's node, for a while.
//!
//! There are two queues. The main one is MCS's. Who releases looks along it for the first waiter of the
//! own node; those who are passed over go, in their order, to the end of the *secondary* queue, which is
//! handed on with the lock (`granted` points to its first, who knows its last). After `local_max`
//! hand-overs while somebody was in it, or when nobody of the node waits, the whole secondary queue
//! goes back before the main one, and its first gets the lock.

use std::fmt;
use std::ptr;

use super::QueueLock;
use crate::sync::{AcqRel, Acquire, AtomicPtr, AtomicU32, AtomicUsize, Relaxed, Release, Spin};

/// Hand-overs within a node in a row, where nobody says otherwise.
#[cfg(not(loom))]
const LOCAL_MAX: u32 = 256;

/// A queue lock that prefers the holder's node (Dice and Kogan).
///
/// - **Order:** of one node, first come, first served. Who has `p` waiters before it is overtaken by
///   later ones at most `(p + 1) × local_max` times, whatever the others do.
/// - **Memory:** 16 bytes and the function that tells the node; 32 on the stack of each who waits or holds.
/// - **Loses** to [`McsLock`](super::McsLock) on one node (a look at the next waiter's node each time),
///   and where fairness within microseconds matters more than throughput.
pub struct CnaLock<F = fn() -> usize> {
    last: AtomicPtr<CnaNode>,
    /// Hand-overs within a node in a row, while others waited. The holder's.
    nr_local: AtomicU32,
    local_max: u32,
    node_of_caller: F,
}

impl<F> fmt::Debug for CnaLock<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { last, nr_local, local_max, node_of_caller: _ } = self;
        formatter
            .debug_struct("CnaLock")
            .field("last", last)
            .field("nr_local", nr_local)
            .field("local_max", local_max)
            .finish_non_exhaustive()
    }
}

/// A place in a queue.
#[derive(Debug, Default)]
pub struct CnaNode {
    next: AtomicPtr<CnaNode>,
    /// Null while it waits; then the first of the secondary queue, or [`NOBODY`].
    granted: AtomicPtr<CnaNode>,
    /// Of the first of the secondary queue: the last of it.
    secondary_last: AtomicPtr<CnaNode>,
    /// The NUMA node that the thread was on when it came.
    numa_node: AtomicUsize,
}

/// The lock is granted and the secondary queue is empty.
const NOBODY: *mut CnaNode = ptr::without_provenance_mut(1);

#[cfg(not(loom))]
impl CnaLock {
    /// A lock that nobody holds. Nodes are the kernel's ([`cpu::current_node`](crate::cpu::current_node));
    /// where it does not say, all is one node and this is an MCS lock.
    #[must_use]
    pub fn new() -> Self {
        Self::with(|| crate::cpu::current_node().unwrap_or(0), LOCAL_MAX)
    }
}

#[cfg(not(loom))]
impl Default for CnaLock {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Fn() -> usize> CnaLock<F> {
    /// The same with nodes as a function tells them for its caller, and a bound for hand-overs within
    /// a node while others wait; 0 makes it an MCS lock.
    pub fn with(node_of_caller: F, local_max: u32) -> Self {
        Self {
            last: AtomicPtr::new(ptr::null_mut()),
            nr_local: AtomicU32::new(0),
            local_max,
            node_of_caller,
        }
    }

    /// Enters the queue. Whether the lock is this node's at once.
    fn enter(&self, node: &CnaNode) -> bool {
        let own = ptr::from_ref(node).cast_mut();
        node.next.store(ptr::null_mut(), Relaxed);
        node.granted.store(ptr::null_mut(), Relaxed);
        node.numa_node.store((self.node_of_caller)(), Relaxed);
        let before = self.last.swap(own, AcqRel);
        // SAFETY: whoever is last leaves when the next one is told, which is this one.
        let Some(before) = (unsafe { before.as_ref() }) else {
            node.granted.store(NOBODY, Relaxed);
            return true;
        };
        before.next.store(own, Release);
        false
    }

    /// When nobody is in the main queue behind `node`: hands the lock to the secondary one, or to nobody.
    /// `false` if somebody came meanwhile.
    fn release_last(&self, node: &CnaNode, secondary: *mut CnaNode) -> bool {
        let own = ptr::from_ref(node).cast_mut();
        // SAFETY: the secondary queue waits for this holder or a later one.
        let Some(first) = (unsafe { secondary.as_ref() }) else {
            return self.last.compare_exchange(own, ptr::null_mut(), AcqRel, Relaxed).is_ok();
        };
        let last = first.secondary_last.load(Relaxed);
        if self.last.compare_exchange(own, last, AcqRel, Relaxed).is_err() {
            return false;
        }
        self.nr_local.store(0, Relaxed);
        first.granted.store(NOBODY, Release);
        true
    }
}

/// For models, in which nobody may spin.
#[cfg(loom)]
impl<F: Fn() -> usize> CnaLock<F> {
    /// Enters the queue and does not wait.
    pub fn enter_only(&self, node: &CnaNode) -> bool {
        self.enter(node)
    }
}

#[cfg(loom)]
impl CnaNode {
    /// Whether the lock is this node's.
    pub fn is_granted(&self) -> bool {
        !self.granted.load(Acquire).is_null()
    }
}

/// The first waiter of the same node, from `next` on; those before it go to the secondary queue, whose first is
/// told too. `None`, and nothing is changed, if nobody is seen.
///
/// # Safety
/// `holder` holds the lock, and `next` is behind it in the main queue.
unsafe fn next_of_node<'a>(
    holder: &CnaNode,
    next: &'a CnaNode,
    secondary: *mut CnaNode,
) -> Option<(&'a CnaNode, *mut CnaNode)> {
    let numa_node = holder.numa_node.load(Relaxed);
    let (mut passed, mut candidate) = (None, next);
    while candidate.numa_node.load(Relaxed) != numa_node {
        passed = Some(candidate);
        // SAFETY: waiters stay until one of them is granted the lock, which only its holder does.
        candidate = unsafe { candidate.next.load(Acquire).as_ref() }?;
    }
    let Some(passed) = passed else { return Some((candidate, secondary)) };
    let (first_passed, last_passed) = (ptr::from_ref(next), ptr::from_ref(passed));
    passed.next.store(ptr::null_mut(), Relaxed);
    // SAFETY: as above.
    let first = unsafe { secondary.as_ref() }.unwrap_or(next);
    if !secondary.is_null() {
        // SAFETY: as above.
        let last = unsafe { &*first.secondary_last.load(Relaxed) };
        last.next.store(first_passed.cast_mut(), Relaxed);
    }
    first.secondary_last.store(last_passed.cast_mut(), Relaxed);
    Some((candidate, ptr::from_ref(first).cast_mut()))
}

// SAFETY: whoever finds the queue empty has the lock. Everybody else is in one of two queues that the holder
// alone changes (but for the end of the main one), and is granted the lock once, by a Release that it
// acquires; with it come all changes of the queues.
unsafe impl<F: Fn() -> usize> QueueLock for CnaLock<F> {
    type Node = CnaNode;

    unsafe fn acquire(&self, node: &CnaNode) {
        if self.enter(node) {
            return;
        }
        let mut spin = Spin::default();
        while node.granted.load(Acquire).is_null() {
            spin.turn();
        }
    }

    unsafe fn release(&self, node: &CnaNode) {
        let granted = node.granted.load(Relaxed);
        let secondary = if granted == NOBODY { ptr::null_mut() } else { granted };
        let mut next = node.next.load(Acquire);
        if next.is_null() {
            if self.release_last(node, secondary) {
                return;
            }
            // Somebody is the last already, and about to say so here.
            let mut spin = Spin::default();
            while next.is_null() {
                spin.turn();
                next = node.next.load(Acquire);
            }
        }
        // SAFETY: waiters stay until one of them is granted the lock, below.
        let next = unsafe { &*next };
        let nr_local = self.nr_local.load(Relaxed);
        if nr_local < self.local_max {
            // SAFETY: `node` holds the lock.
            if let Some((chosen, secondary)) = unsafe { next_of_node(node, next, secondary) } {
                let (nr_local, granted) =
                    if secondary.is_null() { (0, NOBODY) } else { (nr_local + 1, secondary) };
                self.nr_local.store(nr_local, Relaxed);
                chosen.granted.store(granted, Release);
                return;
            }
        }
        self.nr_local.store(0, Relaxed);
        // SAFETY: as above.
        let Some(first) = (unsafe { secondary.as_ref() }) else {
            next.granted.store(NOBODY, Release);
            return;
        };
        // SAFETY: as above.
        let last = unsafe { &*first.secondary_last.load(Relaxed) };
        last.next.store(ptr::from_ref(next).cast_mut(), Relaxed);
        first.granted.store(NOBODY, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
