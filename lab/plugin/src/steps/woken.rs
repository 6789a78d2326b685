//! Tasks that were woken and do not run yet: until one has a CPU that has a turn on this machine some time may pass, and on the machine
//! that is modelled none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By modelled time, where that was of each.
#[derive(Debug, Default)]
pub struct Woken {
    at: Mutex<HashMap<u64, u64>>,
    /// How many there are, for those who need not know more.
    nr: AtomicUsize,
}

impl Woken {
    /// A task was woken; twice is once.
    pub fn note(&self, task: u64, at: u64) {
        let mut all = self.all();
        all.entry(task).or_insert(at);
        self.nr.store(all.len(), Ordering::Relaxed);
    }

    /// It runs, or does not come: where it was woken, if it was.
    pub fn forget(&self, task: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let mut all = self.all();
        let at = all.remove(&task);
        self.nr.store(all.len(), Ordering::Relaxed);
        at
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nr.load(Ordering::Relaxed) == 0
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_from_when_it_was_woken_first_until_it_runs() {
        let woken = Woken::default();
        assert!(woken.is_empty() && woken.forget(1).is_none());
        woken.note(1, 50);
        woken.note(1, 70);
        woken.note(2, 60);
        assert_eq!((woken.forget(1), woken.forget(1), woken.is_empty()), (Some(50), None, false));
        assert_eq!((woken.forget(2), woken.is_empty()), (Some(60), true));
    }
}
