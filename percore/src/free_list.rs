//! A free list with a part for each CPU (per-CPU magazines: Bonwick and Adams, "Magazines and Vmem", USENIX 2001).
//!
//! What a CPU gives back it gets again first, while it is still in its caches; half of its part goes to
//! the shared list, or comes from there, at a time.

use crossbeam_utils::CachePadded;

use crate::per_cpu::PerCpu;
use crate::sync::{self, Mutex};

/// Things that wait to be used again.
///
/// - **Bounds:** at most `own_max` × CPUs + `shared_max` things. What rests with other CPUs is not found:
///   [`pop`](Self::pop) may give `None` while there are up to `own_max` × (CPUs − 1) of them.
/// - **Waits** for the shared list's mutex once for each half of `own_max` in one direction, or
///   when another thread of the same CPU lost it in the middle of a call. It never allocates.
/// - **Memory:** room for all of that from the start, and 128 bytes for each CPU.
/// - **Loses** where some CPUs only give and others only take: every half of a part goes through the
///   shared list (still one of many, not each), and things leave the node that they are from.
#[derive(Debug)]
pub struct FreeList<T> {
    own: PerCpu<Vec<T>>,
    own_max: usize,
    shared: CachePadded<Mutex<Vec<T>>>,
    shared_max: usize,
}

impl<T> FreeList<T> {
    /// An empty list. `own_max` is at least 2, so that half of it is something.
    #[must_use]
    pub fn new(own_max: usize, shared_max: usize) -> Self {
        let own_max = own_max.max(2);
        Self {
            own: PerCpu::new(|| Vec::with_capacity(own_max)),
            own_max,
            shared: CachePadded::new(Mutex::new(Vec::with_capacity(shared_max))),
            shared_max,
        }
    }

    /// Keeps a thing.
    ///
    /// # Errors
    /// The thing, when both the CPU's part and the shared list are full.
    pub fn push(&self, thing: T) -> Result<(), T> {
        let mut thing = Some(thing);
        self.own.with_own(|own| {
            if own.len() == self.own_max {
                self.unload(own);
            }
            if own.len() < self.own_max {
                own.extend(thing.take());
            }
        });
        // Kept, or this CPU's part is full or in use.
        let Some(thing) = thing else { return Ok(()) };
        let mut shared = sync::lock(&self.shared);
        if shared.len() == self.shared_max {
            return Err(thing);
        }
        shared.push(thing);
        Ok(())
    }

    /// A thing that was kept, latest first where this CPU kept some.
    #[must_use]
    pub fn pop(&self) -> Option<T> {
        let own = self.own.with_own(|own| {
            if own.is_empty() {
                self.load(own);
            }
            own.pop()
        });
        match own {
            Some(thing) => thing,
            None => sync::lock(&self.shared).pop(),
        }
    }

    /// All that is kept, of every CPU. Waits for whoever uses a part just now.
    #[must_use]
    pub fn take_all(&self) -> Vec<T> {
        let mut all = Vec::new();
        self.own.with_each(|own| all.append(own));
        all.append(&mut sync::lock(&self.shared));
        all
    }

    /// The older half goes to the shared list, as far as it has room.
    #[cold]
    fn unload(&self, own: &mut Vec<T>) {
        let mut shared = sync::lock(&self.shared);
        let room = self.shared_max - shared.len();
        shared.extend(own.drain(..(self.own_max / 2).min(room)));
    }

    /// Half a part comes from the shared list, as far as there is so much.
    #[cold]
    fn load(&self, own: &mut Vec<T>) {
        let mut shared = sync::lock(&self.shared);
        let rest = shared.len().saturating_sub(self.own_max / 2);
        own.extend(shared.drain(rest..));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
