//! Atomics, cells and waiting: the machine's, or loom's where interleavings are explored (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Mutex, RwLock};
use std::ops::{Deref, DerefMut};
pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Mutex, RwLock};
use std::sync::{PoisonError, TryLockError};
use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::thread::{Thread, current as current_thread};
#[cfg(not(loom))]
pub(crate) use std::thread::{Thread, current as current_thread};

/// Sleeps until this thread is unparked, the instant is there, or for no reason.
pub(crate) fn park(until: Option<Instant>) {
    #[cfg(loom)]
    {
        assert!(until.is_none(), "a model has no clock");
        loom::thread::park();
    }
    #[cfg(not(loom))]
    match until {
        None => std::thread::park(),
        Some(until) => {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

/// The standard library's cell with loom's interface.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
        use_it(self.0.get())
    }
}

/// Waits for another thread without a system call at first: spins some thousand cycles, then gives the CPU
/// away at each turn, for the other may have none.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    #[cfg(not(loom))]
    nr_turns: u32,
}

impl Spin {
    /// Turns before the CPU is given away: some 40 cycles each, so about what a hand-over between
    /// sockets and a short critical section take together.
    #[cfg(not(loom))]
    const TURNS_MAX: u32 = 128;

    pub(crate) fn turn(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.nr_turns < Self::TURNS_MAX {
            self.nr_turns += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// A mutex of which nobody minds that a holder panicked: what it guards is whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl DerefMut<Target = T> + '_ {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same without waiting: `None` while somebody holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<impl DerefMut<Target = T> + '_> {
    match mutex.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The same for reading.
pub(crate) fn read<T>(lock: &RwLock<T>) -> impl Deref<Target = T> + '_ {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// The same for writing.
pub(crate) fn write<T>(lock: &RwLock<T>) -> impl DerefMut<Target = T> + '_ {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
