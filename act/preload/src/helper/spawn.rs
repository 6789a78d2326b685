//! Starting the helper: a grandchild that shares the program's memory and nothing else.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::own;
use quartier_session::{Reason, Rung};
use syscalls::{Errno, Sysno, syscall};

use super::serve::Server;
use super::{
    CONTROL, Orders, PATIENCE_MS, STATE_FAILED, STATE_NONE, STATE_READY, STATE_STARTING, mates,
};
use crate::sys::{self, PAGE, SysResult};
use crate::uffd;
use crate::{affinity, device};

const STACK_BYTES: usize = 1 << 20;

/// Room for the helper's own thread block: above the thread pointer, and below it beyond what the C
/// library's errno is away. Calls that would write errno write here, not into a program's thread.
const THREAD_BLOCK_ABOVE: usize = 64 << 10;

/// How often, a millisecond apart, the doorbell is asked for that the last helper still has.
const HANG_UP_TRIES: usize = 1000;

/// What the helper being started is for.
static PURPOSE: AtomicU32 = AtomicU32::new(PURPOSE_SERVE);
const PURPOSE_SERVE: u32 = 0;
const PURPOSE_WATCH_SHARE: u32 = 1;

/// Orders for the helper being started; read once by it.
static ORDERS: AtomicPtr<Orders> = AtomicPtr::new(std::ptr::null_mut());
/// Not zero while a helper uses its stack: the kernel clears it when the helper is gone.
static ALIVE: AtomicU32 = AtomicU32::new(0);
/// Stack and thread block, kept from one helper to the next.
static LAUNCH: OnceLock<Launch> = OnceLock::new();

/// What the helper runs on.
#[derive(Debug)]
struct Launch {
    middle: usize,
    stack_top: usize,
    thread_pointer: usize,
}

/// Makes sure that a helper is at work; `false` when there can be none.
pub(super) fn ensure(orders: &Orders) -> bool {
    match CONTROL.state.load(Ordering::Acquire) {
        STATE_READY => true,
        STATE_FAILED => false,
        _ => start(orders),
    }
}

fn start(orders: &Orders) -> bool {
    // Leaked: a few bytes for each helper, and it may be read at any time.
    ORDERS.store(Box::into_raw(Box::new(*orders)), Ordering::Release);
    CONTROL.program.store(sys::pid() as u32, Ordering::Relaxed);
    // What the last helper no longer answered is not for this one.
    CONTROL.request.store(super::REQUEST_NONE, Ordering::Relaxed);
    CONTROL.state.store(STATE_STARTING, Ordering::Release);
    PURPOSE.store(PURPOSE_SERVE, Ordering::Release);
    let started = doorbell().and_then(|()| mates::reserve()).and_then(|()| launch());
    if started.is_err() {
        orders.slot.note(Reason::NoHelper);
        CONTROL.state.store(STATE_FAILED, Ordering::Release);
        return false;
    }
    let began = sys::now_nanos();
    while CONTROL.state.load(Ordering::Acquire) == STATE_STARTING {
        sys::futex_wait(&CONTROL.state, STATE_STARTING, 100);
        if sys::now_nanos() - began > PATIENCE_MS * 1_000_000 {
            orders.slot.note(Reason::NoHelper);
            CONTROL.state.store(STATE_FAILED, Ordering::Release);
        }
    }
    CONTROL.state.load(Ordering::Acquire) == STATE_READY
}

/// Starts a helper that watches the share of a process with one thread.
pub(super) fn watch_share() -> bool {
    PURPOSE.store(PURPOSE_WATCH_SHARE, Ordering::Release);
    launch().is_ok()
}

/// Waits until no helper uses the stack any more.
pub(super) fn wait_until_gone() {
    while ALIVE.load(Ordering::Acquire) != 0 {
        sys::futex_wait_shared(&ALIVE, 1, 10);
    }
    mates::wait_until_gone();
}

/// Reserves the doorbell page, once.
fn doorbell() -> SysResult<()> {
    if CONTROL.doorbell.load(Ordering::Relaxed) == 0 {
        CONTROL.doorbell.store(own::map(PAGE)?, Ordering::Release);
    }
    Ok(())
}

/// Clones twice, so that the helper is not the program's child: a program that waits for any child
/// never meets it.
fn launch() -> SysResult<()> {
    wait_until_gone();
    let launch = match LAUNCH.get() {
        Some(launch) => launch,
        None => {
            let fresh = reserve()?;
            LAUNCH.get_or_init(|| fresh)
        }
    };
    ALIVE.store(1, Ordering::Release);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    let argument = std::ptr::from_ref(launch).cast_mut().cast();
    // SAFETY: the child runs on its own quarter of our stack while this thread is suspended
    // (CLONE_VFORK); nobody else uses the stack, as `ALIVE` said.
    let child = unsafe { libc::clone(second, launch.middle as *mut c_void, flags, argument) };
    if child < 0 {
        ALIVE.store(0, Ordering::Release);
        return Err(Errno::EAGAIN);
    }
    // SAFETY: reaps the child just made, which has ended or is about to.
    let _ = unsafe { syscall!(Sysno::wait4, child, 0, libc::__WCLONE, 0) };
    Ok(())
}

fn reserve() -> SysResult<Launch> {
    let thread_pointer = thread_block()?;
    let stack = own::map(STACK_BYTES)?;
    let (middle, stack_top) = (stack + STACK_BYTES / 4, stack + STACK_BYTES);
    Ok(Launch { middle, stack_top, thread_pointer })
}

/// In a child after `fork`: the helper is the parent's, the stack a copy that nobody uses.
pub(super) fn forget() {
    ALIVE.store(0, Ordering::Relaxed);
    mates::forget();
}

/// A zeroed thread block whose static part reaches as far as the C library's errno.
fn thread_block() -> SysResult<usize> {
    let pointer: usize;
    // SAFETY: reads the thread pointer, which the x86-64 ABI keeps at its own offset 0.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    // SAFETY: a query of the calling thread.
    let errno = unsafe { libc::__errno_location() } as usize;
    let below = (pointer.wrapping_sub(errno) + PAGE).next_multiple_of(PAGE).min(64 << 20);
    let fake = own::map(below + THREAD_BLOCK_ABOVE)? + below;
    // SAFETY: inside the fresh mapping; offsets 0 and 16 hold the block's own address, 40 and 48 the
    // stack and pointer guards (x86-64 glibc), copied so that guarded code works.
    unsafe {
        (fake as *mut usize).write(fake);
        ((fake + 16) as *mut usize).write(fake);
        for guard in [40, 48] {
            ((fake + guard) as *mut usize).write(((pointer + guard) as *const usize).read());
        }
    }
    Ok(fake)
}

extern "C" fn second(launch: *mut c_void) -> libc::c_int {
    // SAFETY: `launch` of the suspended thread above.
    let launch = unsafe { &*launch.cast::<Launch>() };
    let flags = libc::CLONE_VM | libc::CLONE_SETTLS | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: the helper gets the upper part of the stack and a thread block of its own; it never
    // returns into code of the program.
    let helper = unsafe {
        libc::clone(
            work,
            launch.stack_top as *mut c_void,
            flags,
            std::ptr::null_mut(),
            std::ptr::null_mut::<c_void>(),
            launch.thread_pointer as *mut c_void,
            ALIVE.as_ptr(),
        )
    };
    if helper < 0 {
        ALIVE.store(0, Ordering::Release);
        report(STATE_FAILED);
    }
    0
}

extern "C" fn work(_nothing: *mut c_void) -> libc::c_int {
    settle_down();
    if PURPOSE.load(Ordering::Acquire) == PURPOSE_WATCH_SHARE {
        crate::share::watch();
        sys::exit_group(0);
    }
    // SAFETY: stored by `start` before the clone and never freed.
    let orders = unsafe { *ORDERS.load(Ordering::Acquire) };
    let Some(mut server) = set_up(orders) else {
        report(STATE_FAILED);
        sys::exit_group(1);
    };
    orders.slot.set_rung(server.rung);
    report(STATE_READY);
    server.run();
    // Its tables lie in the program's memory.
    drop(server);
    CONTROL.state.store(STATE_NONE, Ordering::Release);
    sys::futex_wake(&CONTROL.state);
    sys::exit_group(0)
}

fn report(state: u32) {
    CONTROL.state.store(state, Ordering::Release);
    sys::futex_wake(&CONTROL.state);
}

/// Leaves the program's session, descriptors and memory policy, and the CPUs that the starting thread
/// was narrowed to for those that the user allows. Signals are blocked already, inherited from that
/// thread.
fn settle_down() {
    let name = c"quartier-helper";
    // SAFETY: each call acts on the helper alone. `CLOSE_RANGE_UNSHARE` is not needed: the clone did
    // not share the table, and closing our copies leaves the program's descriptors open.
    unsafe {
        let _ = syscall!(Sysno::prctl, libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0);
        let _ = syscall!(Sysno::setsid);
        let _ = syscall!(Sysno::close_range, 0, u32::MAX, 0);
    }
    if let Some(base) = affinity::base() {
        let _ = affinity::set(0, base);
    }
    let _ = sys::prefer_node(None);
}

/// Puts the doorbell up. Who rang as the last helper went home touched a page that nobody served:
/// it is there now, and would be silent for ever, so it is taken away first.
fn hang_up(bell: uffd::Uffd) -> SysResult {
    let doorbell = CONTROL.doorbell.load(Ordering::Relaxed);
    let mut tries = 0;
    loop {
        // SAFETY: the doorbell page is ours and holds nothing.
        let _ = unsafe { sys::madvise(doorbell, PAGE, libc::MADV_DONTNEED) };
        match bell.register(doorbell, PAGE, uffd::MODE_MISSING) {
            // The last helper's descriptors are closed a moment after it is gone.
            Err(Errno::EBUSY) if tries < HANG_UP_TRIES => {
                tries += 1;
                sys::sleep_micros(1000);
            }
            result => return result,
        }
    }
}

fn set_up(orders: Orders) -> Option<Server> {
    let note = |reason| orders.slot.note(reason);
    let device = device::Source::find();
    let Some(device) = device else {
        note(Reason::NotPermitted);
        return None;
    };
    let Ok(probe) = device.open() else {
        note(Reason::NotPermitted);
        return None;
    };
    let abilities = probe.abilities().ok();
    sys::close(probe.0);
    let abilities = abilities?;
    let uffd = device.open().ok()?;
    let allowed = |rung: Rung| orders.rung_max as u32 >= rung as u32;
    let rung = if abilities.rwp && allowed(Rung::Rwp) && uffd.begin_rwp().is_ok() {
        Rung::Rwp
    } else if abilities.moves && allowed(Rung::Move) {
        if uffd.begin_move(abilities.forks_seen).is_err() {
            uffd.begin_move(false).ok()?;
            note(Reason::ForkUnseen);
        }
        Rung::Move
    } else {
        note(Reason::KernelTooOld);
        return None;
    };
    let bell = device.open().ok()?;
    bell.begin_plain().ok()?;
    hang_up(bell).ok()?;
    let program = CONTROL.program.load(Ordering::Relaxed) as i32;
    // SAFETY: creates a descriptor.
    let pidfd = unsafe { syscall!(Sysno::pidfd_open, program, 0) }.ok()? as i32;
    Server::new(orders, rung, (uffd, bell), (program, pidfd)).ok()
}
