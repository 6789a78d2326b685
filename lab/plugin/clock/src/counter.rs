//! The processor's own counter of time, as it is read by QEMU for a guest that reads it: at the guest's pace, like every other clock
//! of it. The kernel lets a process have such reads as signals (`PR_SET_TSC`, Linux 2.6.26).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use rustix::process::{TimeStampCounterReadability, set_time_stamp_counter_readability};

/// How fast it counts in the guest.
const TICKS_PER_NS: u64 = 2;

/// What reads it.
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// The kernel's own code in every process is no larger.
const VDSO_BYTES: u64 = 2 * 4096;

fn readable(is_readable: bool) -> bool {
    let readability = match is_readable {
        true => TimeStampCounterReadability::Readable,
        false => TimeStampCounterReadability::RaiseSIGSEGV,
    };
    set_time_stamp_counter_readability(readability).is_ok()
}

/// From now on this thread, and every one that it begins, reads the guest's; whether the kernel does that.
pub fn follow() -> bool {
    let mut action = empty_action();
    action.sa_sigaction = emulate as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: a handler with that interface, which is there as long as the process: QEMU is told never to unload what is preloaded.
    let is_set = unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) } == 0;
    is_set && readable(false)
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all zeros is an action: the default one.
    unsafe { std::mem::zeroed() }
}

/// An instruction that reads the counter goes on with the guest's; everything else is what it is.
extern "C" fn emulate(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: this thread's own number; who is interrupted may be about to read it.
    let error = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives both, and nobody else has them now.
    go_on(unsafe { &*info }, unsafe { &mut *context.cast::<libc::ucontext_t>() });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

fn go_on(info: &libc::siginfo_t, context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as u64;
    // The kernel's code for a fault that is not one of memory.
    let bytes = if info.si_code == libc::SI_KERNEL { read_by(at) } else { None };
    let Some(bytes) = bytes else {
        // It comes again, and ends the process as it would have.
        // SAFETY: the default action.
        unsafe { libc::sigaction(libc::SIGSEGV, &empty_action(), std::ptr::null_mut()) };
        return;
    };
    let ticks = if is_of_kernel(at) { true_ticks() } else { crate::guest_ns() * TICKS_PER_NS };
    registers[libc::REG_RAX as usize] = i64::from(ticks as u32);
    registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
    if bytes == RDTSCP.len() as u64 {
        registers[libc::REG_RCX as usize] = 0;
    }
    registers[libc::REG_RIP as usize] = (at + bytes) as i64;
}

/// How long the instruction there is that reads the counter; None: it is another.
fn read_by(at: u64) -> Option<u64> {
    // SAFETY: the processor has just read the instruction there; no byte behind one that does not match is read.
    let is = |index: usize, byte: u8| unsafe { *(at as *const u8).add(index) == byte };
    let begins_with = |bytes: &[u8]| bytes.iter().enumerate().all(|(at, byte)| is(at, *byte));
    [&RDTSC[..], &RDTSCP[..]]
        .into_iter()
        .find(|bytes| begins_with(bytes))
        .map(|bytes| bytes.len() as u64)
}

/// The kernel's own code (`vdso`), which tells this machine's time by it.
fn is_of_kernel(at: u64) -> bool {
    // SAFETY: only reads what the process was started with.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    (vdso..vdso + VDSO_BYTES).contains(&at)
}

fn true_ticks() -> u64 {
    if !readable(true) {
        return 0;
    }
    // SAFETY: every x86-64 processor has it, and it has just been made readable.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    readable(false);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_at_the_guests_pace_and_this_machines_clock_is_its_own() {
        let real = || {
            let (mut now, mut time) = (empty_time(), empty_time());
            // SAFETY: a place for a time; the first through the kernel's own code.
            unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
            // SAFETY: the same, of the kernel itself.
            unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &mut time) };
            (now, time)
        };
        let thread = std::thread::spawn(move || {
            if !follow() {
                return;
            }
            // SAFETY: emulated.
            let ticks = || unsafe { std::arch::x86_64::_rdtsc() };
            let (before, first) = (crate::guest_ns(), ticks());
            let second = ticks();
            assert!(first >= before * TICKS_PER_NS && second >= first);
            assert!(ticks() <= crate::guest_ns() * TICKS_PER_NS);
            let mut aside = 0;
            // SAFETY: emulated.
            let ticks = unsafe { std::arch::x86_64::__rdtscp(&mut aside) };
            assert!(ticks >= second);
            let (by_code, by_kernel) = real();
            assert!((by_code.tv_sec - by_kernel.tv_sec).abs() <= 1, "not the guest's");
            readable(true);
        });
        thread.join().unwrap();
    }

    fn empty_time() -> libc::timespec {
        libc::timespec { tv_sec: 0, tv_nsec: 0 }
    }
}
