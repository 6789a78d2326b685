//! Children of a thread that we narrowed: they are to have the affinity that the user gave, whatever
//! they are linked with, so the thread is as wide as that while it makes one.

use quartier_kernel::sys;
use quartier_session::CpuBits;

use crate::affinity;
use crate::threads::{Holding, Thread};

/// The calling thread, widened for as long as the value lives.
#[derive(Debug)]
pub struct Widened(Option<CpuBits>);

impl Widened {
    /// Widens the calling thread if we narrowed it.
    #[must_use]
    pub fn new() -> Self {
        Self(widen())
    }
}

impl Default for Widened {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Widened {
    fn drop(&mut self) {
        if let Some(narrow) = &self.0 {
            let _ = affinity::set(0, narrow);
        }
    }
}

/// Widens the calling thread if we narrowed it; gives what it was.
fn widen() -> Option<CpuBits> {
    let narrowed = Thread::find(sys::tid()).is_some_and(|thread| thread.holding() == Holding::Ours);
    let base = affinity::base().filter(|_| narrowed)?;
    let narrow = affinity::get(0).ok()?;
    affinity::set(0, base).ok()?;
    Some(narrow)
}

/// `vfork` returns twice in one stack, so what it needs to know afterwards is in the thread's entry.
pub extern "C" fn before_vfork() {
    if let (Some(_), Some(thread)) = (widen(), Thread::find(sys::tid())) {
        thread.set_widened(true);
    }
}

/// After a `vfork`, in the parent.
pub extern "C" fn after_vfork() {
    let Some(thread) = Thread::find(sys::tid()) else { return };
    if thread.take_widened() {
        crate::create::narrow_again(thread);
    }
}
