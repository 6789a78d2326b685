//! Creating a thread where the decision tree wants it.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use quartier_session::{Counter, CpuBits, Pin, Reason, Taken};

use crate::attributes::{Attr, PlacedAttr, has_affinity, pthread_attr_getstack};
use crate::real::{self, StartRoutine};
use crate::runtime::{self, Runtime};
use crate::sys::{self, PAGE};
use crate::threads::Thread;
use crate::{Decide, Place, affinity, seats};

/// What a new thread finds.
struct Birth {
    start: StartRoutine,
    argument: *mut c_void,
    place: Option<Place>,
    /// The creator prefers the new thread's node while it makes it, and the thread inherits that.
    prefers: bool,
}

/// `pthread_create` with a place chosen first.
///
/// # Safety
/// The contract of `pthread_create`.
pub unsafe fn create(
    runtime: &'static Runtime,
    thread: *mut libc::pthread_t,
    attr: *const Attr,
    start: StartRoutine,
    argument: *mut c_void,
) -> c_int {
    runtime.thread_begins();
    // SAFETY: the caller's `attr`.
    let place = unsafe { choose(runtime, attr) };
    // SAFETY: the caller's contract.
    let create_at = |place| unsafe { create_at(thread, attr, start, argument, place) };
    let status = place.and_then(create_at);
    if status != Some(0) {
        runtime.uncount(place.and_then(|place| place.count));
    }
    let status = status.unwrap_or_else(|| {
        let birth = Box::into_raw(Box::new(Birth { start, argument, place: None, prefers: false }));
        // SAFETY: the caller's contract; the new thread takes `birth` over.
        let status =
            unsafe { real::pthread_create()(thread, attr, quartier_thread_start, birth.cast()) };
        if status != 0 {
            // SAFETY: no thread was made, so `birth` is still ours.
            drop(unsafe { Box::from_raw(birth) });
        }
        status
    });
    if status != 0 {
        runtime.thread_ends();
    }
    status
}

/// Asks the tree, unless the program has said itself where the thread goes.
unsafe fn choose(runtime: &Runtime, attr: *const Attr) -> Option<Place> {
    if !runtime.places() {
        return None;
    }
    let decide = runtime.decide()?;
    let creator = Thread::find(sys::tid());
    // SAFETY: the caller's `attr`.
    if creator.is_some_and(Thread::is_by_program) || unsafe { has_affinity(attr) } {
        runtime.slot().note(Reason::AffinitySet);
        return None;
    }
    let now = affinity::get(0).ok()?;
    let allowed = match (affinity::base(), creator.filter(|creator| creator.is_ours())) {
        (Some(base), Some(creator)) => {
            if !is_as_we_set_it(runtime, creator, &now) {
                runtime.slot().note(Reason::AffinitySet);
                return None;
            }
            *base
        }
        _ => now,
    };
    let place = decide.place(current_cpu(), &allowed);
    if place.is_none() {
        runtime.slot().note(Reason::NoCpu);
    }
    place
}

/// Whether the affinity of the calling thread, which is ours, is not somebody else's: its threads inherit that.
fn is_as_we_set_it(runtime: &Runtime, thread: &Thread, now: &CpuBits) -> bool {
    let is_mask = |now: &CpuBits| mask_of(runtime, thread, thread.held_on()) == Some(*now);
    if is_mask(now) {
        return true;
    }
    // It may just be held elsewhere.
    let _taken = seats::take(thread);
    affinity::get(0).is_ok_and(|now| is_mask(&now))
}

/// Creates the thread on its CPU, with its stack and thread block on its node. `None` when the
/// kernel does not take the CPU (it went offline, say).
unsafe fn create_at(
    thread: *mut libc::pthread_t,
    attr: *const Attr,
    start: StartRoutine,
    argument: *mut c_void,
    place: Place,
) -> Option<c_int> {
    // SAFETY: the caller's `attr`.
    let mut placed = unsafe { PlacedAttr::new(attr, place.cpu_os_id)? };
    // The creator writes the first pages of the new stack: they are to come from the new node.
    let prefers = sys::task_policy_is_default() && sys::prefer_node(Some(place.node_os_id)).is_ok();
    let birth = Box::into_raw(Box::new(Birth { start, argument, place: Some(place), prefers }));
    // SAFETY: the caller's contract; the new thread takes `birth` over.
    let status = unsafe {
        real::pthread_create()(thread, placed.as_ptr(), quartier_thread_start, birth.cast())
    };
    if prefers {
        let _ = sys::prefer_node(None);
    }
    if status != 0 {
        // SAFETY: no thread was made, so `birth` is still ours.
        drop(unsafe { Box::from_raw(birth) });
    }
    (status != libc::EINVAL && status != libc::EPERM).then_some(status)
}

/// The first code of a new thread. Naked, so that no frame of ours stays below the program's:
/// cancellation and backtraces find the program's function directly above the C library.
#[unsafe(naked)]
extern "C" fn quartier_thread_start(_birth: *mut c_void) -> *mut c_void {
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {prepare}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        prepare = sym prepare,
    )
}

/// Two registers: what to call, and with what.
#[repr(C)]
struct Call {
    start: StartRoutine,
    argument: *mut c_void,
}

/// Runs on the new thread: enters it, lets it move within its node, and brings its thread block home.
extern "C" fn prepare(birth: *mut c_void) -> Call {
    // SAFETY: made by `create` or `create_at` for this thread alone.
    let birth = unsafe { Box::from_raw(birth.cast::<Birth>()) };
    if birth.prefers {
        let _ = sys::prefer_node(None);
    }
    if let Some(runtime) = runtime::get() {
        let tid = sys::tid() as u32;
        let stack = own_stack();
        match Thread::enter(tid, rseq_area(), stack) {
            Some(thread) => settle(runtime, thread, birth.place, stack),
            None => {
                runtime.slot().note(Reason::TooManyThreads);
                mark_end(std::ptr::without_provenance_mut(1));
                give_up(runtime, birth.place);
            }
        }
    }
    Call { start: birth.start, argument: birth.argument }
}

fn give_up(runtime: &Runtime, place: Option<Place>) {
    let (Some(place), Some(base)) = (place, affinity::base()) else { return };
    let _ = affinity::set(0, base);
    runtime.uncount(place.count);
}

fn settle(runtime: &Runtime, thread: &'static Thread, place: Option<Place>, stack: (usize, usize)) {
    mark_end(std::ptr::from_ref(thread).cast_mut().cast());
    let Some(place) = place else { return };
    let slot = runtime.slot();
    let Some(taken) = seats::sit(runtime, thread, place) else {
        slot.note(Reason::TooManyThreads);
        return give_up(runtime, Some(place));
    };
    // Its creator may have set an affinity for it already.
    let only_cpu = [place.cpu_os_id].into_iter().collect();
    if thread.is_by_program() || affinity::get(0) != Ok(only_cpu) {
        thread.set_by_program();
        slot.set_user_affinity();
        return taken.leave();
    }
    slot.add(Counter::ThreadsPlaced, 1);
    let per_node = runtime.session.threads_per_node(runtime.slot_index());
    if let Some(count) = per_node.get(place.node_index as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    // Beyond the idle cores a thread makes another wait, or waits itself, while a core that was counted as
    // busy may do nothing: the kernel sees which does, so the thread is held later, where it runs then.
    let node = (place.has_idle_core || !runtime.is_balanced()).then_some(place.node_os_id);
    if let Some(mask) = mask_of(runtime, thread, node) {
        let _ = affinity::set(0, &mask);
    }
    taken.put_back_on(node);
    bring_home(stack, place.node_os_id);
}

/// A stack that the C library kept from an ended thread may lie on that thread's node: its last
/// pages, with the thread block, are moved if so.
fn bring_home((start, end): (usize, usize), node: u32) {
    const PAGES: usize = 16;
    let here = std::ptr::from_ref(&start) as usize & !(PAGE - 1);
    if end <= here || start > here {
        return;
    }
    let first = here.saturating_sub(PAGE).max(start);
    let (mut pages, mut status) = ([0; PAGES], [0; PAGES]);
    let count = ((end - first) / PAGE).min(PAGES);
    for (index, page) in pages[..count].iter_mut().enumerate() {
        *page = first + index * PAGE;
    }
    if sys::query_nodes(&pages[..count], &mut status).is_ok()
        && status[..count].iter().any(|at| *at >= 0 && *at != node as i32)
    {
        let _ = sys::move_pages(&pages[..count], &[node as i32; PAGES], &mut status);
    }
}

/// The CPUs that a thread of ours may use that is held on this node, or not held.
fn mask_of(runtime: &Runtime, thread: &Thread, node_os_id: Option<u32>) -> Option<CpuBits> {
    let base = affinity::base()?;
    let Some(node_os_id) = node_os_id else { return Some(*base) };
    match runtime.config().pin() {
        Pin::Cpu => Some([thread.placed()?].into_iter().collect()),
        Pin::Node => {
            let decide = runtime.decide()?;
            Some(decide.node_cpus(decide.node_index(node_os_id)?).intersection(base))
        }
        Pin::None => None,
    }
}

/// Narrows the calling thread, whose seat is taken, to where it is held.
pub fn narrow_again(thread: &Thread, taken: &Taken<'_>) {
    let node = taken.sitting().node_os_id;
    let mask = runtime::get().and_then(|runtime| mask_of(runtime, thread, node));
    if let Some(mask) = mask {
        let _ = affinity::set(0, &mask);
    }
}

/// Holds the creator of the second thread on its node, if its affinity is as the user left it, and
/// counts it there.
pub fn hold_creator(runtime: &Runtime, decide: &dyn Decide, creator: &'static Thread) {
    let (Some(base), Ok(now)) = (affinity::base(), affinity::get(0)) else { return };
    if creator.is_by_program() || creator.is_ours() || now != *base {
        return;
    }
    let Some(place) = decide.locate(current_cpu()) else { return };
    let place = Place { count: decide.count(place.cpu_os_id), ..place };
    let Some(taken) = seats::sit(runtime, creator, place) else {
        return runtime.uncount(place.count);
    };
    let node = Some(place.node_os_id);
    let narrowed = mask_of(runtime, creator, node).map(|mask| affinity::set(0, &mask));
    if narrowed.is_none_or(|narrowed| narrowed.is_err()) {
        return runtime.uncount(seats::give_up(creator, taken));
    }
    taken.put_back_on(node);
    let per_node = runtime.session.threads_per_node(runtime.slot_index());
    if let Some(count) = per_node.get(place.node_index as usize)
        && count.load(Ordering::Relaxed) == 0
    {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The key whose destructor tells us that a thread ends.
static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

/// Makes the key. While there is one thread: no fork may find it half made.
pub fn make_key() {
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the destructor has the type that the C library calls.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ended)) } == 0).then_some(key)
    });
}

/// Arranges for [`thread_ended`] to run when the calling thread ends, however it ends.
fn mark_end(thread: *mut c_void) {
    if let Some(Some(key)) = KEY.get() {
        // SAFETY: a key made above.
        unsafe { libc::pthread_setspecific(*key, thread) };
    }
}

unsafe extern "C" fn thread_ended(thread: *mut c_void) {
    let Some(runtime) = runtime::get() else { return };
    if thread as usize > 1 {
        // SAFETY: the static entry that `settle` stored for this thread.
        let thread = unsafe { &*thread.cast::<Thread>() };
        // A child of a fork that nobody saw has its parent's threads in its table.
        if runtime.is_here() {
            runtime.uncount(seats::stand_up(thread));
        }
        thread.leave();
    }
    runtime.thread_ends();
}

/// The CPU (OS id) on which the calling thread is.
pub fn current_cpu() -> u32 {
    // SAFETY: a query.
    unsafe { libc::sched_getcpu() }.try_into().unwrap_or(0)
}

/// The calling thread's stack with its thread block; an empty range if the C library does not say.
fn own_stack() -> (usize, usize) {
    let mut attr = MaybeUninit::uninit();
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: `attr` is initialised by the first call and destroyed by the last.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) != 0 {
            return (0, 0);
        }
        let got = pthread_attr_getstack(attr.as_ptr(), &raw mut start, &raw mut size);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
        if got != 0 {
            return (0, 0);
        }
    }
    (start as usize, start as usize + size)
}

/// The address of the calling thread's `rseq` area (glibc 2.35 registers one); 0 without.
pub fn rseq_area() -> usize {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    let offset = OFFSET.get_or_init(|| {
        // SAFETY: looks two symbols up; both are data of the type read when they exist.
        unsafe {
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
            (!size.is_null() && !offset.is_null() && *size != 0).then(|| *offset)
        }
    });
    let pointer: usize;
    // SAFETY: reads the thread pointer, which the x86-64 ABI keeps at its own offset 0.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    offset.map_or(0, |offset| pointer.wrapping_add_signed(offset))
}
