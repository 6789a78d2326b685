//! Blocking signals while a thread of the program works for us.

use std::mem::MaybeUninit;

/// All signals blocked in the calling thread, for as long as the value lives.
#[derive(Debug)]
pub struct AllBlocked(libc::sigset_t);

impl AllBlocked {
    /// Blocks all signals.
    #[must_use]
    pub fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are written by the calls before they are read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Default for AllBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in `new`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}
