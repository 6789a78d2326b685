//! `fork`: the child must find all its data, and a runtime with one thread.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::threads::{self, Thread};
use crate::{affinity, arena, helper, ranges, runtime, sys};

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// Registers for every fork that the C library makes. Registered first, `prepare` runs last, when
/// the program's own handlers have touched what they need.
pub fn watch() {
    // SAFETY: three functions of the type that the C library calls.
    unsafe { pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
}

/// Whether the thread that forks may be narrowed by then, told to its child.
static NARROWED: AtomicU32 = AtomicU32::new(0);

pub extern "C" fn prepare() {
    let Some(runtime) = runtime::get() else { return };
    let narrowed = Thread::find(sys::tid()).is_some_and(Thread::is_ours);
    NARROWED.store(u32::from(narrowed), Ordering::Relaxed);
    helper::before_fork(&runtime.orders());
    arena::hold();
}

/// Before a fork by a raw system call, of which we do not see the end: everything goes back for
/// good. The child finds out by its process id that the helper is not its own.
pub fn prepare_raw() {
    if let Some(runtime) = runtime::get() {
        runtime.stop_next_touch(quartier_session::Reason::Forked);
    }
}

/// The same before a `clone` with these flags, if it is a fork.
pub fn prepare_clone(flags: u64) {
    if flags & libc::CLONE_VM as u64 == 0 {
        prepare_raw();
    }
}

pub extern "C" fn in_parent() {
    if runtime::get().is_some() {
        arena::release();
        helper::after_fork();
    }
}

pub extern "C" fn in_child() {
    let Some(runtime) = runtime::get() else { return };
    arena::release();
    ranges::forget_all();
    let rseq = crate::create::rseq_area();
    ranges::keep_first(rseq);
    threads::forget_all();
    runtime.begin_again();
    Thread::enter(sys::tid() as u32, rseq, (0, 0));
    if NARROWED.load(Ordering::Relaxed) != 0
        && let Some(base) = affinity::base()
    {
        let _ = affinity::set(0, base);
    }
}
