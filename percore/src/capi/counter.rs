//! Sloppy counters.

use std::ffi::c_int;
use std::num::NonZeroU16;

use crate::SloppyCounter;

#[unsafe(no_mangle)]
extern "C" fn quartier_counter_new(value: i64, batch: u16) -> *mut SloppyCounter {
    let counter = match NonZeroU16::new(batch) {
        None => SloppyCounter::new(value),
        Some(batch) => SloppyCounter::with_batch(value, batch),
    };
    Box::into_raw(Box::new(counter))
}

/// # Safety
/// `counter` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_free(counter: *mut SloppyCounter) {
    // SAFETY: the caller's promise.
    unsafe { super::free(counter) };
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_increment(counter: *const SloppyCounter) {
    // SAFETY: the caller's promise.
    if let Some(counter) = unsafe { counter.as_ref() } {
        counter.increment();
    }
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_decrement(counter: *const SloppyCounter) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { counter.as_ref() }.map_or(0, |counter| c_int::from(counter.decrement()))
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_value(counter: *const SloppyCounter) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { counter.as_ref() }.map_or(0, SloppyCounter::value)
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_at_most(counter: *const SloppyCounter) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { counter.as_ref() }.map_or(0, SloppyCounter::at_most)
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_close(counter: *const SloppyCounter) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { counter.as_ref() }.map_or(0, SloppyCounter::close)
}

/// # Safety
/// `counter` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_counter_uses_rseq(counter: *const SloppyCounter) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { counter.as_ref() }.map_or(0, |counter| c_int::from(counter.uses_rseq()))
}
