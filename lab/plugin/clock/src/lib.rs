//! Loaded into a QEMU before it starts: what it reads of the clock, and waits for, passes as many times slower as
//! `QUARTIER_CLOCK_SLOWER` says, and so do its guest's timers; and while the instrument tells how far counted work has come
//! (`quartier_clock_works`), as that does. A counted guest works some hundred times slower than a machine, and with more CPUs more so: at another clock its
//! ticks, and all that the kernel does by them, would come as much more often for each unit of work.
#![deny(unsafe_code)]

mod counter;
mod passing;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use passing::Passing;
use quartier_marker::CLOCK_SLOWER;

const NS_PER_S: u64 = 1_000_000_000;

/// Of the kernel's sets of signals, which are smaller than the C library's.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// While there is work, what waits for a time looks so often whether that has come: how long it takes here is not known before.
const LOOK_NS: u64 = 1_000_000;

/// And without, as work may begin.
const LOOK_IDLE_NS: u64 = 20_000_000;

/// 0: not yet read.
static TIMES: AtomicU64 = AtomicU64::new(0);

/// Nothing that holds it reads the processor's counter, whose reads come here as signals, and none of QEMU's own handlers reads a clock.
static PASSING: Mutex<Passing> = Mutex::new(Passing::new());

/// Whether all clocks of a guest follow: where the processor's counter does not, work does not make the others slower either.
static FOLLOWS: AtomicBool = AtomicBool::new(false);

fn times() -> u64 {
    let known = TIMES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let said = std::env::var(CLOCK_SLOWER).ok().and_then(|text| text.parse().ok());
    let times = said.unwrap_or(1).max(1);
    TIMES.store(times, Ordering::Relaxed);
    times
}

fn passing() -> MutexGuard<'static, Passing> {
    PASSING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, as of now.
fn looked() -> MutexGuard<'static, Passing> {
    let mut passing = passing();
    passing.look(now_ns());
    passing
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
}

/// By this machine's clock. Of the kernel itself: its code in this process reads the processor's counter.
#[allow(unsafe_code)]
fn now_ns() -> u64 {
    let mut time = timespec(0);
    // SAFETY: a place for a time, of this function's own.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// By the guest's.
fn guest_ns() -> u64 {
    looked().guest_ns(times())
}

/// Whether this process is a QEMU, and not the one that becomes it: what that would set its successor would have, without who handles it.
#[allow(unsafe_code)]
fn is_qemu() -> bool {
    // SAFETY: a name that ends; what has it is not used.
    unsafe {
        !libc::dlsym(libc::RTLD_DEFAULT, c"qemu_plugin_register_vcpu_init_cb".as_ptr()).is_null()
    }
}

/// Before QEMU begins.
extern "C" fn begin() {
    FOLLOWS.store(is_qemu() && counter::follow(), Ordering::Relaxed);
}

#[allow(unsafe_code)]
#[used]
// SAFETY: what is listed there is called without arguments, once, when the library is loaded.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Of the guest's work so much modelled time has passed in all, and whether there is more of it.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn quartier_clock_works(worked_ns: u64, is_working: bool) {
    if FOLLOWS.load(Ordering::Relaxed) {
        passing().works(now_ns(), worked_ns, is_working);
    }
}

/// The C library's, for all who are linked to it: the clock that only goes forward is the guest's, and every other is what it is.
///
/// # Safety
/// `time` is a place for a time, as for the C library's own.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    if clock != libc::CLOCK_MONOTONIC {
        // SAFETY: what the caller asked for, of the kernel itself: the C library's own is this one.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    }
    let now = timespec(guest_ns());
    // SAFETY: as the caller promises.
    unsafe { time.write(now) };
    0
}

/// A timeout by the slow clock, on the kernel's.
fn waited_for(time: libc::timespec, times: u64) -> libc::timespec {
    let ns = i128::from(time.tv_sec) * i128::from(NS_PER_S) + i128::from(time.tv_nsec);
    let ns = ns.saturating_mul(i128::from(times));
    let tv_sec = i64::try_from(ns / i128::from(NS_PER_S)).unwrap_or(i64::MAX);
    libc::timespec { tv_sec, tv_nsec: (ns % i128::from(NS_PER_S)) as i64 }
}

/// The same, or a look while there is work.
fn waits_for(time: libc::timespec) -> libc::timespec {
    let is_now = time.tv_sec == 0 && time.tv_nsec == 0;
    if !is_now && looked().is_working() {
        return timespec(LOOK_NS);
    }
    let waited_for = waited_for(time, times());
    let is_long = waited_for.tv_sec > 0 || waited_for.tv_nsec as u64 > LOOK_IDLE_NS;
    if is_long && FOLLOWS.load(Ordering::Relaxed) { timespec(LOOK_IDLE_NS) } else { waited_for }
}

/// The C library's, by which QEMU waits until its next timer is due: of a time by the slow clock. Else it would wake up for each part
/// of that which passes, and look again, all the time.
///
/// # Safety
/// As for the C library's own.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    files: *mut libc::pollfd,
    nr_files: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: nothing, or a time, as the caller promises. The kernel writes to what it gets, so that is a copy.
    let mut timeout = unsafe { timeout.as_ref() }.map(|time| waits_for(*time));
    let timeout = timeout.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: what the caller asked for, of the kernel itself, and a time of this function's own.
    let nr = unsafe {
        libc::syscall(libc::SYS_ppoll, files, nr_files, timeout, mask, KERNEL_SIGNAL_SET_BYTES)
    };
    nr as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_takes_as_much_longer_and_never_overflows() {
        let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let parts = |time: libc::timespec| (time.tv_sec, time.tv_nsec);
        assert_eq!(parts(waited_for(time(1, 100_000_000), 20)), (22, 0));
        assert_eq!(parts(waited_for(time(0, 7), 1)), (0, 7));
        assert_eq!(waited_for(time(i64::MAX, 0), 20).tv_sec, i64::MAX);
    }
}
