//! Core dumps: the kernel does not ask a userfaultfd while it dumps, so marked data would be missing.
//! Before a signal that dumps core takes its default action, everything is given back; then the signal
//! takes that action.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use quartier_kernel::sys;
use syscalls::{Sysno, syscall};

use crate::helper;

/// Signals whose default action is a core dump (signal(7)).
const DUMPING: [c_int; 10] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
];

/// One bit per signal number that has our handler.
static OURS: AtomicU32 = AtomicU32::new(0);

/// Stands before the default action of every dumping signal that has it, where cores can be written.
pub fn watch() {
    if !cores_possible() {
        return;
    }
    for signal in DUMPING {
        let mut now = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: queries into `now`, which is read only on success.
        unsafe {
            if libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) != 0
                || now.assume_init_ref().sa_sigaction != libc::SIG_DFL
            {
                continue;
            }
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = give_back_first as *const () as usize;
            // Blocked while it is handled, so that a signal sent once more arrives after our return:
            // the core shows the place where it struck.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const ours, std::ptr::null_mut());
        }
        OURS.fetch_or(1 << signal, Ordering::Relaxed);
    }
}

fn cores_possible() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the limit given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) } == 0;
    // A pipe gets cores whatever the limit says (core(5)).
    known && limit.rlim_cur > 0
        || std::fs::read("/proc/sys/kernel/core_pattern").is_ok_and(|text| text.starts_with(b"|"))
}

/// What the program is told about a signal's action: ours is none of its business.
///
/// # Safety
/// `action` is null or points at an action that the C library has just filled.
pub unsafe fn hide(signal: c_int, action: *mut libc::sigaction) {
    // SAFETY: the caller's contract.
    if let Some(action) = unsafe { action.as_mut() }
        && is_ours(signal)
        && action.sa_sigaction == give_back_first as *const () as usize
    {
        action.sa_sigaction = libc::SIG_DFL;
        action.sa_flags = 0;
    }
}

/// The same for a handler's address.
#[must_use]
pub fn hide_handler(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    let ours = is_ours(signal) && handler == give_back_first as *const () as usize;
    if ours { libc::SIG_DFL } else { handler }
}

fn is_ours(signal: c_int) -> bool {
    (1..32).contains(&signal) && OURS.load(Ordering::Relaxed) >> signal & 1 == 1
}

/// The handler. It gives everything back, restores the default action, and lets the signal happen
/// again: a faulting instruction faults again on return; a signal that was sent is sent once more.
extern "C" fn give_back_first(
    signal: c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    helper::give_back();
    // SAFETY: all-zero is the default action; the thread's own id and group are queried; `info` is
    // the kernel's.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        crate::real::sigaction()(signal, &raw const default, std::ptr::null_mut());
        // Everything else was sent, by the terminal or the kernel too, or comes after its instruction.
        let is_fault = matches!(signal, libc::SIGILL | libc::SIGBUS | libc::SIGFPE | libc::SIGSEGV);
        let strikes_again = is_fault && (*info).si_code > 0;
        if !strikes_again {
            let _ = syscall!(Sysno::tgkill, sys::pid(), sys::tid(), signal);
        }
    }
}
