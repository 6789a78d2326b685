//! Functions of the C library that hand the kernel a call as it is: what lies behind them we can only
//! see beforehand.

use std::ffi::{c_int, c_long, c_void};

use quartier_session::Reason;
use syscalls::Sysno;

use super::{before_ioctl, failed, find, widen};
use crate::helper::{self, Hold};
use crate::{fork, real, runtime, seats};

/// The body of a function that calls `before`, which gives the function to go on in, and jumps there
/// with every register as it was.
macro_rules! jump_after {
    ($before:ident) => {
        std::arch::naked_asm!(
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "sub rsp, 8",
            "call {before}",
            "add rsp, 8",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            before = sym $before,
        )
    };
}

/// `syscall(2)`. It cannot be plain Rust: after a raw `clone` with a new stack the child returns on
/// that stack, where no frame of ours is. So: look at the number, call `before` for the few that
/// concern us, and go on in the real function.
///
/// # Safety
/// The contract of `syscall(2)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn syscall(_number: c_long) -> c_long {
    jump_after!(before)
}

/// `clone(2)`: without `CLONE_VM` a fork of which we do not see the end. The child may begin on another
/// stack, so this is as [`syscall`].
///
/// # Safety
/// The contract of `clone(2)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn clone(
    _start: extern "C" fn(*mut c_void) -> c_int,
    _stack: *mut c_void,
    _flags: c_int,
) -> c_int {
    jump_after!(before_clone)
}

/// `clone(2)` by its other name.
///
/// # Safety
/// The contract of `clone(2)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __clone(
    _start: extern "C" fn(*mut c_void) -> c_int,
    _stack: *mut c_void,
    _flags: c_int,
) -> c_int {
    jump_after!(before_clone)
}

extern "C" fn before_clone(_start: usize, _stack: usize, flags: c_int) -> *const c_void {
    fork::prepare_clone(flags as u64);
    real::clone() as *const c_void
}

/// What must happen before a raw system call; gives the function to go on in.
extern "C" fn before(
    number: c_long,
    first: c_long,
    second: c_long,
    _third: c_long,
    fourth: c_long,
) -> *const c_void {
    let real = real::syscall() as *const c_void;
    let Some(runtime) = runtime::get() else { return real };
    match number {
        libc::SYS_userfaultfd => runtime.stop_next_touch(Reason::UsesUserfaultfd),
        libc::SYS_ioctl => before_ioctl(second as usize),
        // The mask is the third argument; what counts is that the program sets one.
        libc::SYS_sched_setaffinity => seats::program_will_set(find(first as libc::pid_t)),
        libc::SYS_sched_getaffinity => return raw_getaffinity as *const c_void,
        libc::SYS_mremap | libc::SYS_mbind => return held as *const c_void,
        libc::SYS_fork => fork::prepare_raw(),
        libc::SYS_clone => fork::prepare_clone(first as u64),
        libc::SYS_clone3 => {
            // SAFETY: the program's `clone_args`, whose first word is the flags.
            let flags = unsafe { (first as *const u64).as_ref() };
            if let (8.., Some(flags)) = (second, flags) {
                fork::prepare_clone(*flags);
            }
        }
        libc::SYS_set_mempolicy | libc::SYS_move_pages | libc::SYS_migrate_pages => {
            // A query moves nothing, the default policy is none, and a child that shares the memory sets
            // its own.
            let nodes = fourth;
            let harmless = number == libc::SYS_move_pages && nodes == 0
                || number == libc::SYS_set_mempolicy && (first == 0 || !runtime.is_here());
            if !harmless {
                runtime.stop_next_touch(Reason::PolicySet);
            }
        }
        _ => {}
    }
    real
}

/// `syscall(SYS_sched_getaffinity, …)`: the same answer as the function gives, but the size.
unsafe extern "C" fn raw_getaffinity(
    number: c_long,
    tid: c_long,
    size: usize,
    set: *mut u8,
) -> c_long {
    // SAFETY: the caller's contract; the real function takes its arguments in the same registers.
    unsafe {
        let real: unsafe extern "C" fn(c_long, c_long, usize, *mut u8) -> c_long =
            std::mem::transmute(real::syscall());
        let written = real(number, tid, size, set);
        if written > 0 {
            widen(find(tid as libc::pid_t), written as usize, set);
        }
        written
    }
}

/// `mremap(2)`: it takes one mapping at a time, and marking may have cut the program's into several,
/// so marked data in its way is given back first.
///
/// # Safety
/// The contract of `mremap(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    let (address, flags, new_address) = (address as usize, flags as usize, new_address as usize);
    // SAFETY: the caller's contract is passed on; without MREMAP_FIXED the kernel ignores the last address.
    // A result of -1 is `MAP_FAILED`.
    unsafe {
        held(libc::SYS_mremap, address, old_len, new_len, flags, new_address, 0) as *mut c_void
    }
}

fn before_mremap(from: usize, old_len: usize, new_len: usize, flags: c_int, to: usize) {
    helper::give_back_range(from, from.saturating_add(old_len.max(1)));
    if flags & libc::MREMAP_FIXED != 0 {
        helper::give_back_range(to, to.saturating_add(new_len));
    }
}

/// `SYS_mremap` and `SYS_mbind`: what lies there is given back, and not marked again before the call is
/// through. A range that was bound has a policy then.
unsafe extern "C" fn held(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let _hold = runtime::get().map(|_| Hold::new());
    let call = if number == libc::SYS_mremap {
        before_mremap(first, second, third, fourth as c_int, fifth);
        Sysno::mremap
    } else {
        helper::give_back_range(first, first.saturating_add(second));
        Sysno::mbind
    };
    // SAFETY: the caller's contract is passed on.
    match unsafe { syscalls::syscall!(call, first, second, third, fourth, fifth, sixth) } {
        Ok(value) => value as c_long,
        Err(error) => c_long::from(failed(-c_long::from(error.into_raw()))),
    }
}
