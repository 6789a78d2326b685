//! The parts for C programs. `include/quartier_percore.h` documents every function; here is only what it takes
//! to get from C's types to the crate's and back.
//!
//! Nothing here panics on what a caller passes: a wrong pointer aside, bad values are refused.

mod counter;
mod events;
mod lock;
mod tables;

use std::ffi::c_void;

/// A pointer of the caller's, who says which threads may use what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer(*mut c_void);

// SAFETY: it is a number here; what it points to is never touched.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Pointer {
    /// The pointer. (A method, so that closures take the whole of it.)
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Takes back what [`Box::into_raw`] gave. Null is ignored.
///
/// # Safety
/// `handle` is null or was given by `Box::into_raw`, and is used no more.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// Tells a value where the caller wants it.
///
/// # Safety
/// `to` is null or may be written.
unsafe fn tell<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}
