//! What each CPU has for itself, without a lock: its callbacks come one at a time.

use std::cell::UnsafeCell;

/// One `T` for each CPU.
#[derive(Debug)]
pub struct Cpus<T>(Box<[Slot<T>]>);

/// A CPU's own cache lines: what one writes all the time must not be next to another's.
#[derive(Debug)]
#[repr(align(128))]
struct Slot<T>(UnsafeCell<Option<T>>);

// SAFETY: JUSTIFICATION: a lock on every access of a guest would cost more than the model. A slot is
// only reached through `Cpus::get` and `Cpus::set`, whose callers promise to be its CPU's callback.
unsafe impl<T> Sync for Slot<T> {}
// SAFETY: as for `Sync`; it is made by the thread that loads the plugin.
unsafe impl<T> Send for Slot<T> {}

impl<T> Cpus<T> {
    /// Room for so many CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        Self((0..nr_cpus).map(|_| Slot(UnsafeCell::new(None))).collect())
    }

    /// Gives a CPU its own; whether there is room.
    ///
    /// # Safety
    /// Only in CPU `index`'s first callback.
    pub unsafe fn set(&self, index: usize, own: T) -> bool {
        let Some(slot) = self.0.get(index) else { return false };
        // SAFETY: as the caller promises, nobody has it yet.
        unsafe { *slot.0.get() = Some(own) };
        true
    }

    /// A CPU's own.
    ///
    /// # Safety
    /// Only in a callback while CPU `index` runs it, and once in each.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn get(&self, index: usize) -> Option<&mut T> {
        // SAFETY: as the caller promises, nobody else has it now.
        unsafe { (*self.0.get(index)?.0.get()).as_mut() }
    }
}
