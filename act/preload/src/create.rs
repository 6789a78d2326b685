//! Creating a thread where the decision tree wants it.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use quartier_session::{Counter, CpuBits, Pin, Reason};

use crate::real::{self, StartRoutine};
use crate::runtime::{self, Runtime};
use crate::sys::{self, PAGE};
use crate::threads::{Holding, Thread};
use crate::{Decide, Place, affinity};

type Attr = libc::pthread_attr_t;

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
    let mut status = None;
    if let Some(place) = place {
        // SAFETY: the caller's contract.
        status = unsafe { create_at(thread, attr, start, argument, place) };
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
        let count = place.and_then(|place| place.count);
        if let (Some(count), Some(decide)) = (count, runtime.decide()) {
            decide.uncount(count);
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
    let creator_holding = creator.map_or(Holding::AsIs, Thread::holding);
    // SAFETY: the caller's `attr`.
    if creator_holding == Holding::Programs || unsafe { has_affinity(attr) } {
        runtime.slot().note(Reason::AffinitySet);
        return None;
    }
    let allowed = match (creator_holding, affinity::base()) {
        (Holding::Ours, Some(base)) => *base,
        _ => affinity::get(0).ok()?,
    };
    let place = decide.place(current_cpu(), &allowed);
    if place.is_none() {
        runtime.slot().note(Reason::NoCpu);
    }
    place
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

/// Attributes equal to the program's, with an affinity.
struct PlacedAttr(MaybeUninit<Attr>);

impl PlacedAttr {
    unsafe fn new(from: *const Attr, cpu: u32) -> Option<Self> {
        let mut attr = Self(MaybeUninit::uninit());
        // SAFETY: initialises the attributes, which `drop` destroys.
        if unsafe { libc::pthread_attr_init(attr.as_ptr()) } != 0 {
            std::mem::forget(attr);
            return None;
        }
        // SAFETY: both are initialised attributes.
        if !from.is_null() && !unsafe { copy_attr(from, attr.as_ptr()) } {
            return None;
        }
        let bits: CpuBits = [cpu].into_iter().collect();
        // SAFETY: the mask has the length given.
        let set = unsafe {
            pthread_attr_setaffinity_np(
                attr.as_ptr(),
                CpuBits::byte_len(),
                bits.words.as_ptr().cast(),
            )
        };
        (set == 0).then_some(attr)
    }

    fn as_ptr(&mut self) -> *mut Attr {
        self.0.as_mut_ptr()
    }
}

impl Drop for PlacedAttr {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`.
        unsafe { libc::pthread_attr_destroy(self.as_ptr()) };
    }
}

unsafe extern "C" {
    fn pthread_attr_setaffinity_np(
        attr: *mut Attr,
        size: usize,
        set: *const libc::cpu_set_t,
    ) -> c_int;
    fn pthread_attr_getaffinity_np(
        attr: *const Attr,
        size: usize,
        set: *mut libc::cpu_set_t,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attr: *const Attr, detached: *mut c_int) -> c_int;
    fn pthread_attr_getscope(attr: *const Attr, scope: *mut c_int) -> c_int;
    fn pthread_attr_setscope(attr: *mut Attr, scope: c_int) -> c_int;
    fn pthread_attr_getsigmask_np(attr: *const Attr, set: *mut libc::sigset_t) -> c_int;
    fn pthread_attr_setsigmask_np(attr: *mut Attr, set: *const libc::sigset_t) -> c_int;
    fn pthread_attr_getstack(attr: *const Attr, stack: *mut *mut c_void, size: *mut usize)
    -> c_int;
    fn pthread_attr_setstack(attr: *mut Attr, stack: *mut c_void, size: usize) -> c_int;
}

/// Copies every attribute that has a getter. A byte copy would share glibc's hidden part.
unsafe fn copy_attr(from: *const Attr, to: *mut Attr) -> bool {
    let (mut detached, mut inherit, mut policy, mut scope) = (0, 0, 0, 0);
    let (mut guard, mut stack_size, mut stack) = (0, 0, std::ptr::null_mut());
    // SAFETY: all-zero is a valid sched_param and sigset_t.
    let (mut parameter, mut mask): (libc::sched_param, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: `from` and `to` are initialised attributes; every getter writes the variable given.
    unsafe {
        let mut ok = pthread_attr_getdetachstate(from, &raw mut detached) == 0
            && libc::pthread_attr_setdetachstate(to, detached) == 0
            && libc::pthread_attr_getguardsize(from, &raw mut guard) == 0
            && libc::pthread_attr_setguardsize(to, guard) == 0
            && libc::pthread_attr_getinheritsched(from, &raw mut inherit) == 0
            && libc::pthread_attr_setinheritsched(to, inherit) == 0
            && libc::pthread_attr_getschedpolicy(from, &raw mut policy) == 0
            && libc::pthread_attr_setschedpolicy(to, policy) == 0
            && libc::pthread_attr_getschedparam(from, &raw mut parameter) == 0
            && libc::pthread_attr_setschedparam(to, &raw const parameter) == 0
            && pthread_attr_getscope(from, &raw mut scope) == 0
            && pthread_attr_setscope(to, scope) == 0;
        if pthread_attr_getsigmask_np(from, &raw mut mask) == 0 {
            ok &= pthread_attr_setsigmask_np(to, &raw const mask) == 0;
        }
        // A stack of the program's own has an address; a size alone does not.
        let own_stack = pthread_attr_getstack(from, &raw mut stack, &raw mut stack_size) == 0
            && !stack.is_null()
            && (stack as usize).wrapping_add(stack_size) != 0;
        if own_stack && stack as usize > PAGE && (stack as usize) < 1 << 47 {
            ok &= pthread_attr_setstack(to, stack, stack_size) == 0;
        } else if libc::pthread_attr_getstacksize(from, &raw mut stack_size) == 0 {
            ok &= libc::pthread_attr_setstacksize(to, stack_size) == 0;
        }
        ok
    }
}

/// Whether the program gave the attributes an affinity (glibc fills the mask with ones if not).
unsafe fn has_affinity(attr: *const Attr) -> bool {
    if attr.is_null() {
        return false;
    }
    let mut bits = CpuBits::EMPTY;
    // SAFETY: initialised attributes by the caller's contract; the mask has the length given.
    let got = unsafe {
        pthread_attr_getaffinity_np(attr, CpuBits::byte_len(), bits.words.as_mut_ptr().cast())
    };
    got != 0 || bits.words.iter().any(|word| *word != u64::MAX)
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
    if let (Some(base), Some(place)) = (affinity::base(), place) {
        let _ = affinity::set(0, base);
        if let (Some(count), Some(decide)) = (place.count, runtime.decide()) {
            decide.uncount(count);
        }
    }
}

fn settle(runtime: &Runtime, thread: &'static Thread, place: Option<Place>, stack: (usize, usize)) {
    mark_end(std::ptr::from_ref(thread).cast_mut().cast());
    let Some(place) = place else { return };
    let slot = runtime.slot();
    slot.add(Counter::ThreadsPlaced, 1);
    let per_node = runtime.session.threads_per_node(runtime.slot_index());
    if let Some(count) = per_node.get(place.node_index as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    thread.hold(Holding::Ours, Some(place.node_os_id));
    thread.set_placed(place.cpu_os_id, place.count);
    if let Some(narrow) = narrow_mask(runtime, place) {
        let _ = affinity::set(0, &narrow);
    }
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

/// The CPUs that a thread with this place may use.
fn narrow_mask(runtime: &Runtime, place: Place) -> Option<CpuBits> {
    match runtime.config().pin() {
        Pin::Cpu => Some([place.cpu_os_id].into_iter().collect()),
        Pin::Node => {
            let node = runtime.decide()?.node_cpus(place.node_index);
            Some(node.intersection(affinity::base()?))
        }
        Pin::None => None,
    }
}

/// Narrows a thread of ours to its place again.
pub fn narrow_again(thread: &Thread) {
    let narrow = runtime::get().and_then(|runtime| {
        let place = runtime.decide()?.locate(thread.placed()?)?;
        narrow_mask(runtime, place)
    });
    if let Some(narrow) = narrow {
        let _ = affinity::set(0, &narrow);
    }
}

/// Holds the creator of the second thread on its node, if its affinity is as the user left it, and
/// counts it there.
pub fn hold_creator(runtime: &Runtime, decide: &dyn Decide, creator: &'static Thread) {
    let (Some(base), Ok(now)) = (affinity::base(), affinity::get(0)) else { return };
    if creator.holding() != Holding::AsIs || now != *base {
        return;
    }
    let Some(place) = decide.locate(current_cpu()) else { return };
    creator.set_placed(place.cpu_os_id, decide.count(place.cpu_os_id));
    let Some(narrow) = narrow_mask(runtime, place) else { return };
    if affinity::set(0, &narrow).is_ok() {
        creator.hold(Holding::Ours, Some(place.node_os_id));
        let per_node = runtime.session.threads_per_node(runtime.slot_index());
        if let Some(count) = per_node.get(place.node_index as usize)
            && count.load(Ordering::Relaxed) == 0
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
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
        if let (Some(count), Some(decide)) = (thread.take_count(), runtime.decide()) {
            decide.uncount(count);
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
