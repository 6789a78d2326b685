//! Blocking signals while a thread of the program works for us.

use std::mem::MaybeUninit;

/// Signals that an instruction causes. Blocked, they would end the program without its handler.
const OF_INSTRUCTIONS: [libc::c_int; 6] =
    [libc::SIGSYS, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// Signals blocked in the calling thread, for as long as the value lives.
#[derive(Debug)]
pub struct AllBlocked(libc::sigset_t);

impl AllBlocked {
    /// Blocks all signals.
    #[must_use]
    pub fn new() -> Self {
        Self::but(&[])
    }

    /// Blocks all signals but those that an instruction of the thread causes.
    #[must_use]
    pub fn but_of_instructions() -> Self {
        Self::but(&OF_INSTRUCTIONS)
    }

    fn but(signals: &[libc::c_int]) -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are written by the calls before they are read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in signals {
                libc::sigdelset(all.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
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
