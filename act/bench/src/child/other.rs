//! Creation of threads.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::ensure;
use quartier_kernel::sys;

use super::Other;
use crate::stats::Spread;

/// Not 0: the companion may go.
static END: AtomicU32 = AtomicU32::new(0);

/// Creates and joins threads one after another, beside one that lives throughout (so that the
/// process becomes parallel once).
pub fn threads(count: usize) -> anyhow::Result<Other> {
    let began = Instant::now();
    let companion = create(wait_for_end)?;
    let first_create_ns = began.elapsed().as_nanos() as f64;
    let (mut create_ns, mut create_join_ns) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let began = Instant::now();
        let thread = create(return_at_once)?;
        create_ns.push(began.elapsed().as_nanos() as f64);
        join(thread);
        create_join_ns.push(began.elapsed().as_nanos() as f64);
    }
    END.store(1, Ordering::Release);
    sys::futex_wake(&END);
    join(companion);
    Ok(Other {
        first_create_ns,
        create_ns: Spread::of(&create_ns).median,
        create_join_ns: Spread::of(&create_join_ns).median,
        ..Other::default()
    })
}

fn create(start: extern "C" fn(*mut c_void) -> *mut c_void) -> anyhow::Result<libc::pthread_t> {
    let mut thread = 0;
    let none: *mut c_void = std::ptr::null_mut();
    // SAFETY: `start` needs no argument; the thread is joined by the caller.
    let status = unsafe { libc::pthread_create(&raw mut thread, none.cast(), start, none) };
    ensure!(status == 0, "pthread_create: {}", std::io::Error::from_raw_os_error(status));
    Ok(thread)
}

fn join(thread: libc::pthread_t) {
    // SAFETY: a thread of ours, joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
}

extern "C" fn return_at_once(_nothing: *mut c_void) -> *mut c_void {
    std::ptr::null_mut()
}

extern "C" fn wait_for_end(_nothing: *mut c_void) -> *mut c_void {
    while END.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&END, 0, 1000);
    }
    std::ptr::null_mut()
}
