//! The functions of the C library that ours stand in for. Each passes straight on in a process
//! without a session.

pub mod blocks;
pub mod raw;

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

use quartier_kernel::uffd::USERFAULTFD_IOC_NEW;
use quartier_session::{CpuBits, Reason};
use syscalls::Sysno;

use crate::children::Widened;
use crate::helper::Marked;
use crate::real::{self, StartRoutine, Strings};
use crate::threads::Thread;
use crate::{affinity, cores, create, fork, runtime, seats, sys};

type Attr = libc::pthread_attr_t;
type CpuSet = libc::cpu_set_t;

/// `pthread_create(3)`: the decision tree is asked first.
///
/// # Safety
/// The contract of `pthread_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attr: *const Attr,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    unsafe {
        match runtime::get() {
            Some(runtime) => create::create(runtime, thread, attr, start, argument),
            None => real::pthread_create()(thread, attr, start, argument),
        }
    }
}

/// `thrd_create(3)`: glibc's own does not come by `pthread_create`.
///
/// # Safety
/// The contract of `thrd_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn thrd_create(
    thread: *mut libc::pthread_t,
    start: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    const THRD_SUCCESS: c_int = 0;
    const THRD_ERROR: c_int = 2;
    const THRD_NOMEM: c_int = 3;
    // SAFETY: the result is returned in the same register; `thrd_join` looks at its low 32 bits.
    let start =
        unsafe { std::mem::transmute::<extern "C" fn(*mut c_void) -> c_int, StartRoutine>(start) };
    // SAFETY: the caller's contract is passed on.
    match unsafe { pthread_create(thread, std::ptr::null(), start, argument) } {
        0 => THRD_SUCCESS,
        libc::ENOMEM | libc::EAGAIN => THRD_NOMEM,
        _ => THRD_ERROR,
    }
}

/// `sched_setaffinity(2)`: from now on the thread is the program's to place.
///
/// # Safety
/// The contract of `sched_setaffinity(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sched_setaffinity(
    tid: libc::pid_t,
    size: usize,
    set: *const CpuSet,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    seats::program_sets(|| find(tid), || unsafe { real::sched_setaffinity()(tid, size, set) })
}

/// `sched_getaffinity(2)`: tells a thread that we narrowed what the user allows it.
///
/// # Safety
/// The contract of `sched_getaffinity(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sched_getaffinity(
    tid: libc::pid_t,
    size: usize,
    set: *mut CpuSet,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    unsafe {
        let status = real::sched_getaffinity()(tid, size, set);
        if status == 0 {
            widen(find(tid), size, set.cast());
        }
        status
    }
}

/// `pthread_setaffinity_np(3)`.
///
/// # Safety
/// The contract of `pthread_setaffinity_np(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_setaffinity_np(
    thread: libc::pthread_t,
    size: usize,
    set: *const CpuSet,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    let set = || unsafe { real::pthread_setaffinity_np()(thread, size, set) };
    seats::program_sets(|| Thread::find_handle(thread), set)
}

/// `pthread_getaffinity_np(3)`.
///
/// # Safety
/// The contract of `pthread_getaffinity_np(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_getaffinity_np(
    thread: libc::pthread_t,
    size: usize,
    set: *mut CpuSet,
) -> c_int {
    // SAFETY: the caller's contract is passed on.
    unsafe {
        let status = real::pthread_getaffinity_np()(thread, size, set);
        if status == 0 {
            widen(Thread::find_handle(thread), size, set.cast());
        }
        status
    }
}

fn find(tid: libc::pid_t) -> Option<&'static Thread> {
    Thread::find(if tid == 0 { sys::tid() } else { tid })
}

/// Writes what the user allows over a mask that we narrowed.
unsafe fn widen(thread: Option<&Thread>, size: usize, set: *mut u8) {
    let narrowed = thread.is_some_and(Thread::is_ours);
    if let (true, Some(base)) = (narrowed, affinity::base()) {
        let bytes = base.words.as_ptr().cast::<u8>();
        // SAFETY: the caller's set has `size` bytes.
        unsafe { bytes.copy_to_nonoverlapping(set, size.min(CpuBits::byte_len())) };
    }
}

/// `posix_spawn(3)`: the child gets the affinity that the user gave.
///
/// # Safety
/// The contract of `posix_spawn(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    let _wide = Widened::new();
    // SAFETY: the caller's contract is passed on.
    unsafe { real::posix_spawn()(pid, path, actions, attributes, argv, envp) }
}

/// `posix_spawnp(3)`.
///
/// # Safety
/// The contract of `posix_spawnp(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    envp: Strings,
) -> c_int {
    let _wide = Widened::new();
    // SAFETY: the caller's contract is passed on.
    unsafe { real::posix_spawnp()(pid, file, actions, attributes, argv, envp) }
}

/// `system(3)`.
///
/// # Safety
/// The contract of `system(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    let _wide = Widened::new();
    // SAFETY: the caller's contract is passed on.
    unsafe { real::system()(command) }
}

/// `popen(3)`.
///
/// # Safety
/// The contract of `popen(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    let _wide = Widened::new();
    // SAFETY: the caller's contract is passed on.
    unsafe { real::popen()(command, mode) }
}

/// `vfork(2)`. The child runs on the parent's stack, so nothing may be left on it over the call: the
/// return address waits in a register, which parent and child each have for themselves.
///
/// # Safety
/// The contract of `vfork(2)`.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jnz 2f",
        "ret",
        "2:",
        "push rax",
        "call {after}",
        "pop rax",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov rdi, rax",
        "jmp {failed}",
        before = sym crate::children::before_vfork,
        after = sym crate::children::after_vfork,
        failed = sym failed,
        number = const libc::SYS_vfork,
    )
}

/// Sets errno from a raw result; returns -1.
extern "C" fn failed(result: c_long) -> libc::pid_t {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}

/// `sigaction(2)`: the program does not see a handler of ours (see `cores`).
///
/// # Safety
/// The contract of `sigaction(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's contract is passed on; `old` is filled on success.
    unsafe {
        let status = real::sigaction()(signal, new, old);
        if status == 0 {
            cores::hide(signal, old);
        }
        status
    }
}

/// `signal(2)`.
///
/// # Safety
/// The contract of `signal(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the caller's contract is passed on.
    cores::hide_handler(number, unsafe { real::signal()(number, handler) })
}

/// `signal(2)` in programs built for System V semantics.
///
/// # Safety
/// The contract of `signal(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __sysv_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the caller's contract is passed on.
    cores::hide_handler(number, unsafe { real::__sysv_signal()(number, handler) })
}

/// `ioctl(2)`: the program may be about to open a userfaultfd of its own, by the device.
///
/// # Safety
/// The contract of `ioctl(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    before_ioctl(request as usize);
    // SAFETY: the caller's contract is passed on; a call without an argument has any value there.
    match unsafe { syscalls::syscall!(Sysno::ioctl, fd, request, argument) } {
        Ok(value) => value as c_int,
        Err(error) => failed(-c_long::from(error.into_raw())),
    }
}

/// Only that request has this number, whatever it is sent to.
fn before_ioctl(request: usize) {
    if request == USERFAULTFD_IOC_NEW
        && let Some(runtime) = runtime::get()
    {
        runtime.stop_next_touch(Reason::UsesUserfaultfd);
    }
}

/// `_Fork(3)`: a fork without the handlers that `fork` runs, so ours are run here.
///
/// # Safety
/// The contract of `_Fork(3)`.
#[allow(non_snake_case)] // The C library's name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _Fork() -> libc::pid_t {
    fork::prepare();
    // SAFETY: the caller's contract is passed on.
    let pid = unsafe { real::_Fork()() };
    match pid {
        0 => fork::in_child(),
        _ => fork::in_parent(),
    }
    pid
}

/// `_exit(2)`: the account is closed first.
///
/// # Safety
/// The contract of `_exit(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    runtime::end();
    sys::exit_group(status)
}

/// `_Exit(3)`.
///
/// # Safety
/// The contract of `_Exit(3)`.
#[allow(non_snake_case)] // The C library's name.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function.
    unsafe { _exit(status) }
}

/// Marks what is resident in a range, so that each block goes to the next thread that touches it.
/// Declared, with its errors, in `include/quartier.h`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn quartier_next_touch(address: *const c_void, bytes: usize) -> c_int {
    let start = address as usize & !(sys::PAGE - 1);
    let end = (address as usize).saturating_add(bytes).saturating_add(sys::PAGE - 1);
    let error = match runtime::get() {
        Some(runtime) => match runtime.mark_range(start, end & !(sys::PAGE - 1)) {
            Marked::Done => return 0,
            Marked::NotNow => libc::EAGAIN,
            Marked::Off => libc::EPERM,
        },
        None => libc::ENOSYS,
    };
    failed(-c_long::from(error))
}
