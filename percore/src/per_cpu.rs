//! A value for each CPU, held for as long as one thread uses it. Nobody waits: a thread of the same CPU that
//! finds it held (its user lost the CPU) goes another way.

use crossbeam_utils::CachePadded;

use crate::cpu;
use crate::sync::{Acquire, AtomicBool, Relaxed, Release, Spin, UnsafeCell};

#[derive(Debug)]
pub(crate) struct PerCpu<T> {
    slots: Box<[CachePadded<Slot<T>>]>,
}

#[derive(Debug)]
struct Slot<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: a value is reached through `Slot::held` alone, which gives it to one thread at a time.
unsafe impl<T: Send> Sync for Slot<T> {}

/// Lets go, also when the user of the value panics.
struct Held<'a, T>(&'a Slot<T>);

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.is_held.store(false, Release);
    }
}

impl<T> Slot<T> {
    fn held(&self) -> Option<Held<'_, T>> {
        // Looked at first: an exchange would take the line from its holder for nothing.
        let is_free = !self.is_held.load(Relaxed)
            && self.is_held.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        is_free.then(|| Held(self))
    }
}

impl<T> Held<'_, T> {
    fn with<R>(&mut self, use_it: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: whoever has a `Held` is alone, and borrows it for as long.
        self.0.value.with_mut(|value| use_it(unsafe { &mut *value }))
    }
}

impl<T> PerCpu<T> {
    pub(crate) fn new(mut make: impl FnMut() -> T) -> Self {
        let slot = |_| {
            CachePadded::new(Slot {
                is_held: AtomicBool::new(false),
                value: UnsafeCell::new(make()),
            })
        };
        Self { slots: (0..cpu::nr_possible()).map(slot).collect() }
    }

    /// Uses the value of the CPU that this thread is on; `None` when somebody else does.
    #[inline]
    pub(crate) fn with_own<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> Option<R> {
        let own = &self.slots[cpu::place_among(self.slots.len())];
        Some(own.held()?.with(use_it))
    }

    /// Uses each value once, and waits for those who use one just now.
    pub(crate) fn with_each(&self, mut use_it: impl FnMut(&mut T)) {
        for slot in &self.slots {
            let mut spin = Spin::default();
            loop {
                if let Some(mut held) = slot.held() {
                    held.with(&mut use_it);
                    break;
                }
                spin.turn();
            }
        }
    }
}
