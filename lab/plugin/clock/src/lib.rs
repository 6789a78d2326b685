//! Loaded into a QEMU before it starts: what it reads of the clock, and waits for, passes as many times slower as
//! `QUARTIER_CLOCK_SLOWER` says, and so do its guest's timers. A counted guest works some hundred times slower than a machine; at the same clock its ticks would come a
//! hundred times as often for each unit of work.
#![deny(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use quartier_marker::CLOCK_SLOWER;
use rustix::time::{ClockId, clock_gettime as read};

const NS_PER_S: u64 = 1_000_000_000;

/// Of the kernel's sets of signals, which are smaller than the C library's.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// 0: not yet read.
static TIMES: AtomicU64 = AtomicU64::new(0);

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

/// Seconds and nanoseconds, by the slow clock.
fn slowed(seconds: u64, nanoseconds: u64, times: u64) -> (u64, u64) {
    let ns =
        (u128::from(seconds) * u128::from(NS_PER_S) + u128::from(nanoseconds)) / u128::from(times);
    let (seconds, nanoseconds) = (ns / u128::from(NS_PER_S), ns % u128::from(NS_PER_S));
    (seconds as u64, nanoseconds as u64)
}

/// The C library's, for all who are linked to it: the clock that only goes forward is slow, and every other is what it is.
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
    let now = read(ClockId::Monotonic);
    let (seconds, nanoseconds) = slowed(now.tv_sec as u64, now.tv_nsec as u64, times());
    // SAFETY: as the caller promises.
    unsafe {
        time.write(libc::timespec { tv_sec: seconds as i64, tv_nsec: nanoseconds as i64 });
    }
    0
}

/// A timeout by the slow clock, on the kernel's.
fn waited_for(time: libc::timespec, times: u64) -> libc::timespec {
    let ns = i128::from(time.tv_sec) * i128::from(NS_PER_S) + i128::from(time.tv_nsec);
    let ns = ns.saturating_mul(i128::from(times));
    let tv_sec = i64::try_from(ns / i128::from(NS_PER_S)).unwrap_or(i64::MAX);
    libc::timespec { tv_sec, tv_nsec: (ns % i128::from(NS_PER_S)) as i64 }
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
    let mut timeout = unsafe { timeout.as_ref() }.map(|time| waited_for(*time, times()));
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
    fn time_passes_so_many_times_slower() {
        assert_eq!(slowed(40, 500, 20), (2, 25));
        assert_eq!(slowed(41, 0, 20), (2, 50_000_000));
        assert_eq!(slowed(7, 999_999_999, 1), (7, 999_999_999));
        assert_eq!(slowed(u64::MAX, 0, 1), (u64::MAX, 0));
    }

    #[test]
    fn a_timeout_takes_as_much_longer_and_never_overflows() {
        let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let parts = |time: libc::timespec| (time.tv_sec, time.tv_nsec);
        assert_eq!(parts(waited_for(time(1, 100_000_000), 20)), (22, 0));
        assert_eq!(parts(waited_for(time(0, 7), 1)), (0, 7));
        assert_eq!(waited_for(time(i64::MAX, 0), 20).tv_sec, i64::MAX);
    }
}
