//! A counter whose CPUs keep spare references (sloppy counters: Boyd-Wickizer et al., "An Analysis of
//! Linux Scalability to Many Cores", OSDI 2010).
//!
//! The shared count is references in use and spares together. Who needs a reference takes a spare of the
//! own CPU, who has done with one leaves it there; the shared count's cache line is touched once for a
//! batch of either. As the study has it, the count is expensive to know: [`SloppyCounter::value`] stops the
//! use of spares, gathers them, and lets it go on. What we add: it is exact at one instant even while
//! others count, and [`SloppyCounter::close`] gathers the spares for good, so that from then on whoever
//! gives the last reference back is told (as the kernel's `percpu_ref` does).

use std::num::NonZeroU16;

use crossbeam_utils::CachePadded;

use crate::cpu::{self, Rseq, Slots};
use crate::sync::{self, AcqRel, Acquire, AtomicI64, AtomicU32, Mutex, Relaxed, Release};

/// A CPU's word while spares must not be used (without `rseq`).
const CLOSED: i64 = -1;

/// Added to the shared count when the counter is closed for good: above half of it means closed.
const CLOSED_BIAS: i64 = 1 << 62;

/// Spares that a CPU takes or gives back at a time, where nobody says otherwise.
const BATCH: NonZeroU16 = NonZeroU16::new(32).expect("is not zero");

/// A count of references, or of anything, that every CPU can change at once.
///
/// - **Bounds:** [`at_most`](Self::at_most), which is one load, is never too low, and too high by at most
///   2 × batch × CPUs. [`value`](Self::value) and [`close`](Self::close) are exact.
/// - **Never waits:** increments and decrements take no lock and finish in a bounded number of steps (without
///   `rseq`: unless others of the same CPU count all the time). They may be called from signal handlers.
/// - **Memory:** 128 bytes × (CPUs + 2).
/// - **Loses** when it is read often (a system call and a line of each CPU, each time; batches begin
///   anew), when few CPUs share it, and when there are very many counters of few references each.
/// - After `fork` without `exec`, use it in the child only if no other thread counted at that moment.
#[derive(Debug)]
pub struct SloppyCounter {
    spares: Box<[CachePadded<AtomicI64>]>,
    rseq: Option<Rseq>,
    batch: i64,
    /// With `rseq`: not 0 while spares must not be used.
    is_closed: AtomicU32,
    shared: CachePadded<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// References in use and all spares.
    count: AtomicI64,
    /// Held by whoever moves references between the count and spares. On the same line: who wants one,
    /// wants both.
    moving: Mutex<()>,
}

impl SloppyCounter {
    /// A counter with a value, for all CPUs of this machine.
    #[must_use]
    pub fn new(value: i64) -> Self {
        Self::with_batch(value, BATCH)
    }

    /// The same with another batch: how many references go between a CPU and the shared count at a time.
    #[must_use]
    pub fn with_batch(value: i64, batch: NonZeroU16) -> Self {
        Self::build(value, batch, Rseq::with_barrier())
    }

    /// The same with atomic instructions although there is `rseq`: for tests and comparisons.
    #[must_use]
    pub fn without_rseq(value: i64, batch: NonZeroU16) -> Self {
        Self::build(value, batch, None)
    }

    fn build(value: i64, batch: NonZeroU16, rseq: Option<Rseq>) -> Self {
        Self {
            spares: (0..cpu::nr_possible()).map(|_| CachePadded::new(AtomicI64::new(0))).collect(),
            rseq,
            batch: i64::from(batch.get()),
            is_closed: AtomicU32::new(0),
            shared: CachePadded::new(Shared {
                count: AtomicI64::new(value),
                moving: Mutex::new(()),
            }),
        }
    }

    /// Whether it counts without atomic instructions.
    #[must_use]
    pub fn uses_rseq(&self) -> bool {
        self.rseq.is_some()
    }

    /// One reference more.
    #[inline]
    pub fn increment(&self) {
        if !self.change_spares(-1) {
            self.increment_shared();
        }
    }

    /// One reference less. Whether it was the last one of a counter that is [closed](Self::close).
    #[inline]
    pub fn decrement(&self) -> bool {
        !self.change_spares(1) && self.decrement_shared()
    }

    /// A number that the count is not above, at one load. Too high by the spares.
    #[must_use]
    pub fn at_most(&self) -> i64 {
        without_bias(self.shared.count.load(Acquire))
    }

    /// The count at one instant of this call. Waits for whoever moves a batch of references just now.
    #[must_use]
    pub fn value(&self) -> i64 {
        let _moving = sync::lock(&self.shared.moving);
        let count = self.shared.count.load(Acquire);
        if is_closed(count) {
            return without_bias(count);
        }
        let spares = self.gather();
        let value = self.shared.count.fetch_sub(spares, AcqRel) - spares;
        self.reopen();
        value
    }

    /// Gives up spares for good, so that the last [`decrement`](Self::decrement) is told that it is. The
    /// count at that instant: if it is zero already, nobody else will be told. Counting goes on, at
    /// the price of a plain atomic counter.
    pub fn close(&self) -> i64 {
        let _moving = sync::lock(&self.shared.moving);
        let count = self.shared.count.load(Acquire);
        if is_closed(count) {
            return without_bias(count);
        }
        let spares = self.gather();
        self.shared.count.fetch_add(CLOSED_BIAS - spares, AcqRel) - spares
    }

    /// Most spares of a CPU. After a batch has come or gone it is half full, so that the next one
    /// is a batch away in either direction.
    fn spares_max(&self) -> i64 {
        2 * self.batch
    }

    /// Adds to the own CPU's spares, if there may be so many and it is open.
    #[inline]
    fn change_spares(&self, delta: i64) -> bool {
        if let Some(rseq) = self.rseq {
            let slots = Slots { words: &self.spares, is_closed: &self.is_closed };
            return rseq.add_within(slots, delta, self.spares_max());
        }
        self.change_spares_atomically(delta)
    }

    fn change_spares_atomically(&self, delta: i64) -> bool {
        let own = &self.spares[cpu::place_among(self.spares.len())];
        let mut spares = own.load(Relaxed);
        loop {
            let sum = spares + delta;
            if spares == CLOSED || sum < 0 || sum > self.spares_max() {
                return false;
            }
            match own.compare_exchange_weak(spares, sum, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(other) => spares = other,
            }
        }
    }

    #[cold]
    fn increment_shared(&self) {
        let moving = sync::try_lock(&self.shared.moving);
        // Moving a batch is worth no wait: whoever cannot takes one reference.
        if moving.is_none() || is_closed(self.shared.count.load(Relaxed)) {
            self.shared.count.fetch_add(1, AcqRel);
            return;
        }
        self.shared.count.fetch_add(self.batch, AcqRel);
        // On another CPU by now, there may be enough.
        if !self.change_spares(self.batch - 1) {
            self.shared.count.fetch_sub(self.batch - 1, AcqRel);
        }
    }

    #[cold]
    fn decrement_shared(&self) -> bool {
        let moving = sync::try_lock(&self.shared.moving);
        let is_batch = moving.is_some() && self.change_spares(-self.batch);
        let nr = if is_batch { self.batch + 1 } else { 1 };
        self.shared.count.fetch_sub(nr, AcqRel) == CLOSED_BIAS + 1
    }

    /// Takes all spares and leaves them closed; only for whoever is moving.
    fn gather(&self) -> i64 {
        if let Some(rseq) = self.rseq {
            self.is_closed.store(1, Release);
            rseq.restart_all();
            self.spares.iter().map(|spares| spares.swap(0, AcqRel)).sum()
        } else {
            self.spares.iter().map(|spares| spares.swap(CLOSED, AcqRel)).sum()
        }
    }

    /// Undoes the closing of [`gather`](Self::gather).
    fn reopen(&self) {
        if self.rseq.is_some() {
            self.is_closed.store(0, Release);
        } else {
            self.spares.iter().for_each(|spares| spares.store(0, Release));
        }
    }
}

fn is_closed(count: i64) -> bool {
    count > CLOSED_BIAS / 2
}

fn without_bias(count: i64) -> i64 {
    if is_closed(count) { count - CLOSED_BIAS } else { count }
}

#[cfg(all(test, not(loom)))]
mod tests;
