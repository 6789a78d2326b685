//! Signals in the middle of everything: a timer whose handler touches marked memory, on signal
//! stacks that are marked too.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::log::Op;
use crate::model::PER_PAGE;
use crate::sys::PAGE;
use crate::worker::Worker;
use crate::world::World;

static WORLD: OnceLock<&'static World> = OnceLock::new();
static NULL_DEVICE: AtomicI32 = AtomicI32::new(-1);

/// Arranges for the handler. With `restart`, interrupted system calls go on.
pub fn watch(world: &'static World, restart: bool) {
    WORLD.get_or_init(|| world);
    if NULL_DEVICE.load(Ordering::Relaxed) < 0 {
        // SAFETY: opens a device by a C string.
        let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
        NULL_DEVICE.store(null, Ordering::Relaxed);
    }
    // SAFETY: all-zero is a valid sigaction; the handler has the type that SA_SIGINFO wants.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
        action.sa_flags =
            libc::SA_SIGINFO | libc::SA_ONSTACK | if restart { libc::SA_RESTART } else { 0 };
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
    }
}

/// A signal every so many microseconds; 0 ends them.
pub fn every(microseconds: i64) {
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the timer's values are valid during the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Does something that no signal interrupts.
pub fn held<T>(what: impl FnOnce() -> T) -> T {
    let switch = |how| {
        // SAFETY: a set of one signal; the mask of the calling thread.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut set, libc::SIGALRM);
            libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
        }
    };
    switch(libc::SIG_BLOCK);
    let result = what();
    switch(libc::SIG_UNBLOCK);
    result
}

/// Gives the calling worker its signal stack.
pub fn own_stack(worker: &Worker) {
    let pages = worker.stack(false);
    let stack = libc::stack_t {
        ss_sp: worker.world.arena.address(pages.start) as *mut c_void,
        ss_flags: 0,
        ss_size: pages.len() * PAGE,
    };
    // SAFETY: the pages are this worker's for the life of the program.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
}

/// Checks a page that never changes, and has the kernel read it too.
extern "C" fn handle(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(world) = WORLD.get() else { return };
    // SAFETY: the handler must leave errno as it was.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let count = world.signals.fetch_add(1, Ordering::Relaxed) as usize;
    let zone = &world.arena.zones.constant;
    let page = zone.start + count.wrapping_mul(7919) % zone.len();
    for granule in page * PER_PAGE..(page + 1) * PER_PAGE {
        if let Err(wrong) = world.arena.check(granule) {
            world.log.begin(world.workers, Op::Verify, &(page..page + 1));
            world.log.differ(world.workers, &world.arena, granule, wrong, "in a signal handler");
        }
    }
    let (null, address) = (NULL_DEVICE.load(Ordering::Relaxed), world.arena.address(page));
    // SAFETY: a whole page of the arena, always mapped.
    let written = unsafe { libc::write(null, address as *const c_void, PAGE) };
    if written != PAGE as isize && null >= 0 {
        world.log.fail(world.workers, "write in a signal handler", written as i64);
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}
