//! The few system calls that need care: shared memory outside the test, futexes, forks by hand.

use std::arch::asm;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicU32;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE: usize = 2 << 20;

/// Memory that the runtime never marks (it is shared), zeroed, for the life of the program. All of
/// the tester's own state is in such memory: were it marked too, a fault in the runtime could hide
/// itself.
pub fn shared<T>(count: usize) -> &'static [T]
where
    T: Sync + Unmarked,
{
    let bytes = (count * size_of::<T>()).next_multiple_of(PAGE).max(PAGE);
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert!(base != libc::MAP_FAILED, "no memory for the model");
    // SAFETY: zeroed, page-aligned, never unmapped; `Unmarked` types are valid as zeroes and atomic.
    unsafe { std::slice::from_raw_parts(base.cast::<T>(), count) }
}

/// Types that may lie in [`shared`] memory.
///
/// # Safety
/// All bytes zero must be valid, and every part an atomic (other processes write it too).
pub unsafe trait Unmarked {}

// SAFETY: an atomic, valid as zeroes.
unsafe impl Unmarked for std::sync::atomic::AtomicU8 {}
// SAFETY: an atomic, valid as zeroes.
unsafe impl Unmarked for AtomicU32 {}
// SAFETY: an atomic, valid as zeroes.
unsafe impl Unmarked for std::sync::atomic::AtomicU64 {}
// SAFETY: atomics, valid as zeroes.
unsafe impl<T: Unmarked, const N: usize> Unmarked for [T; N] {}

/// Waits while `word` is `value`, at most a second.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    let timeout = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    // SAFETY: the word and the time are valid during the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout);
    }
}

/// Wakes all who wait.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// The calling thread's errno.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Writes a whole message to standard error, without locks or heap: it also runs in a child of a
/// fork and in a signal handler.
pub fn say(text: &str) {
    // SAFETY: the text is valid during the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A page's entry in `/proc/PID/pagemap`; all ones when it cannot be read. Also after a fork.
pub fn pagemap(pid: i32, address: usize) -> u64 {
    let mut path = [0u8; 32];
    let _ = std::io::Write::write_fmt(&mut &mut path[..31], format_args!("/proc/{pid}/pagemap"));
    let mut entry = u64::MAX;
    // SAFETY: the path ends with a zero; the entry has eight bytes.
    unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        libc::pread(file, (&raw mut entry).cast(), 8, (address / PAGE * 8) as libc::off_t);
        libc::close(file);
    }
    entry
}

/// Ends the process at once, past the C library.
pub fn exit_now(status: c_int) -> ! {
    loop {
        // SAFETY: `exit_group` does not return.
        unsafe {
            asm!("syscall", in("rax") libc::SYS_exit_group, in("rdi") status,
                lateout("rax") _, out("rcx") _, out("r11") _, options(nostack));
        }
    }
}

/// A fork that no interposed function can see.
///
/// # Safety
/// As after `fork` in a program with threads: the child may only use what needs no lock. The C
/// library does not know that it is another process.
pub unsafe fn unseen_fork() -> libc::pid_t {
    let pid: i64;
    // SAFETY: the system call has no arguments; the caller's contract covers the child.
    unsafe {
        asm!("syscall", inlateout("rax") libc::SYS_fork => pid, out("rcx") _, out("r11") _);
    }
    pid as libc::pid_t
}

/// `vfork` and `execve`, by hand: the strings are read by the kernel while the child still shares
/// this process's memory, marks and all.
///
/// # Safety
/// `argv` and `envp` must be arrays of strings as `execve` wants them.
pub unsafe fn vfork_exec(
    path: &CStr,
    argv: *const *const libc::c_char,
    envp: *const *const libc::c_char,
) -> libc::pid_t {
    let pid: i64;
    // SAFETY: between the two calls the child uses registers only, so the stack that it shares with
    // its suspended parent stays as it is.
    unsafe {
        asm!(
            "mov eax, 58", "syscall", "test rax, rax", "jnz 2f",
            "mov rdi, r12", "mov rsi, r13", "mov rdx, r14", "mov eax, 59", "syscall",
            "mov edi, 127", "mov eax, 231", "syscall",
            "2:",
            in("r12") path.as_ptr(), in("r13") argv, in("r14") envp,
            out("rax") pid, out("rcx") _, out("r11") _, out("rdi") _, out("rsi") _, out("rdx") _,
        );
    }
    pid as libc::pid_t
}

/// Waits for one child; its exit status, or 128 + signal.
pub fn wait_for(pid: libc::pid_t) -> c_int {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid during the call.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            break;
        }
        if got < 0 && errno() != libc::EINTR {
            return 1000 + errno();
        }
    }
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// `quartier_next_touch` where the program has a runtime.
pub type NextTouch = unsafe extern "C" fn(*const c_void, usize) -> c_int;

/// Looks the C API up; `None` in a plain run.
pub fn next_touch() -> Option<NextTouch> {
    // SAFETY: a look-up by name.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"quartier_next_touch".as_ptr()) };
    // SAFETY: the symbol has this type (quartier.h).
    (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, NextTouch>(symbol) })
}
