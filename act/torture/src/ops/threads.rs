//! Short-lived threads on stacks of the program's own, in memory that gets marked.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use crate::log::Op;
use crate::model::PER_PAGE;
use crate::sys::PAGE;
use crate::worker::Worker;

/// A thread that checks a page and ends; its stack is the worker's second.
pub fn short_lived(worker: &mut Worker) {
    let pages = worker.readable(1);
    worker.log(Op::Thread, &pages);
    if pages.is_empty() {
        return;
    }
    let stack = worker.stack(true);
    let address = worker.world.arena.address(stack.start);
    if worker.rng.once_in(2) {
        worker.world.arena.mark(address, stack.len() * PAGE);
    }
    let mut job = (std::ptr::from_ref(worker), pages.start * PER_PAGE);
    let mut attr = MaybeUninit::uninit();
    let mut thread = 0;
    // SAFETY: the attributes are initialised first; the stack belongs to this worker, and the
    // thread, as well as `job`, is gone when the join returns.
    unsafe {
        libc::pthread_attr_init(attr.as_mut_ptr());
        let bytes = stack.len() * PAGE;
        let mut status = pthread_attr_setstack(attr.as_mut_ptr(), address as *mut c_void, bytes);
        if status == 0 {
            let job = (&raw mut job).cast();
            status = libc::pthread_create(&raw mut thread, attr.as_ptr(), check_page, job);
        }
        libc::pthread_attr_destroy(attr.as_mut_ptr());
        if status != 0 {
            worker.fail("pthread_create on a stack of its own", status.into());
        }
        libc::pthread_join(thread, std::ptr::null_mut());
    }
}

unsafe extern "C" {
    fn pthread_attr_setstack(
        attr: *mut libc::pthread_attr_t,
        stack: *mut c_void,
        size: usize,
    ) -> i32;
}

extern "C" fn check_page(job: *mut c_void) -> *mut c_void {
    // SAFETY: `job` of the joining thread above; the worker is only read.
    let (worker, granule) = unsafe { *job.cast::<(*const Worker, usize)>() };
    // SAFETY: as above.
    let worker = unsafe { &*worker };
    (granule..granule + PER_PAGE).for_each(|granule| worker.check(granule, "short-lived thread"));
    std::ptr::null_mut()
}
