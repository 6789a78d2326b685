//! Starting the helper: a grandchild that shares the program's memory and nothing else.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::own;
use quartier_session::{Reason, Rung};
use syscalls::{Errno, Sysno, syscall};

use super::letterbox::{BOX, State};
use super::serve::Server;
use super::{Orders, mates};
use crate::sys::{self, PAGE, SysResult};
use crate::uffd;
use crate::{affinity, device};

const STACK_BYTES: usize = 1 << 20;

/// How often a program waits for its helper, a tenth of a second each, before it goes on without one.
const START_WAITS: u32 = 100;

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
    while BOX.state() == State::Closing && BOX.alive.load(Ordering::Acquire) != 0 {
        sys::sleep_micros(20);
    }
    match BOX.state() {
        State::Ready => true,
        State::Failed => false,
        _ => start(orders),
    }
}

fn start(orders: &Orders) -> bool {
    // Leaked: a few bytes for each helper, and it may be read at any time.
    ORDERS.store(Box::into_raw(Box::new(*orders)), Ordering::Release);
    BOX.program.store(sys::pid() as u32, Ordering::Relaxed);
    // What the last helper no longer answered is not for this one.
    BOX.answer(true);
    BOX.set_state(State::Starting);
    PURPOSE.store(PURPOSE_SERVE, Ordering::Release);
    if doorbell().and_then(|()| mates::reserve()).and_then(|()| launch()).is_ok() {
        // Waits are counted, not time: the program may be stopped meanwhile.
        for _ in 0..START_WAITS {
            if BOX.state() != State::Starting || BOX.alive.load(Ordering::Acquire) == 0 {
                break;
            }
            BOX.wait_for_start();
            BOX.let_helper_go_on();
        }
    }
    if BOX.change_state(State::Starting, State::Failed) {
        orders.slot.note(Reason::NoHelper);
    }
    // One that went home already is asked for again.
    BOX.state() != State::Failed
}

/// Starts a helper that watches the share of a process with one thread.
pub(super) fn watch_share() -> bool {
    PURPOSE.store(PURPOSE_WATCH_SHARE, Ordering::Release);
    launch().is_ok()
}

/// Waits until no helper uses the stack any more.
pub(super) fn wait_until_gone() {
    while BOX.alive.load(Ordering::Acquire) != 0 {
        sys::futex_wait_shared(&BOX.alive, 1, 10);
        BOX.let_helper_go_on();
    }
    mates::wait_until_gone();
}

/// Reserves the doorbell page, once.
fn doorbell() -> SysResult<()> {
    if BOX.doorbell.load(Ordering::Relaxed) == 0 {
        BOX.doorbell.store(own::map(PAGE)?, Ordering::Release);
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
    BOX.helper.store(0, Ordering::Release);
    BOX.alive.store(1, Ordering::Release);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    let argument = std::ptr::from_ref(launch).cast_mut().cast();
    // SAFETY: the child runs on its own quarter of our stack while this thread is suspended
    // (CLONE_VFORK); nobody else uses the stack, as `Letterbox::alive` said.
    let child = unsafe { libc::clone(second, launch.middle as *mut c_void, flags, argument) };
    if child < 0 {
        BOX.alive.store(0, Ordering::Release);
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
    // Named from its first moment: the launcher may find it stopped.
    // SAFETY: sets the name of this process, which the helper inherits.
    let _ =
        unsafe { syscall!(Sysno::prctl, libc::PR_SET_NAME, c"quartier-helper".as_ptr(), 0, 0, 0) };
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
            BOX.alive.as_ptr(),
        )
    };
    if helper < 0 {
        BOX.alive.store(0, Ordering::Release);
        BOX.set_state(State::Failed);
    }
    BOX.helper.store(helper.max(0) as u32, Ordering::Release);
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
        BOX.set_state(State::Failed);
        sys::exit_group(1);
    };
    orders.slot.set_rung(server.rung);
    // Who started us may have given up.
    if BOX.change_state(State::Starting, State::Ready) {
        server.run();
    }
    server.say_goodbye();
    // Its tables lie in the program's memory.
    drop(server);
    BOX.change_state(State::Ready, State::None);
    sys::exit_group(0)
}

/// Leaves the program's session, descriptors and memory policy, and the CPUs that the starting thread
/// was narrowed to for those that the user allows. Signals are blocked already, inherited from that
/// thread.
fn settle_down() {
    // SAFETY: each call acts on the helper alone. `CLOSE_RANGE_UNSHARE` is not needed: the clone did
    // not share the table, and closing our copies leaves the program's descriptors open.
    unsafe {
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
    let doorbell = BOX.doorbell.load(Ordering::Relaxed);
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
    let program = BOX.program.load(Ordering::Relaxed) as i32;
    // SAFETY: creates a descriptor.
    let pidfd = unsafe { syscall!(Sysno::pidfd_open, program, 0) }.ok()? as i32;
    Server::new(orders, rung, (uffd, bell), (program, pidfd)).ok()
}
