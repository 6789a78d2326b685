//! Children of a thread that we narrowed: they are to have the affinity that the user gave, whatever
//! they are linked with, so the thread is as wide as that while it makes one.

use quartier_kernel::sys;
use quartier_session::Taken;

use crate::threads::Thread;
use crate::{affinity, create, seats};

/// The calling thread, widened for as long as the value lives.
#[derive(Debug)]
pub struct Widened(Option<(&'static Thread, Taken<'static>)>);

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
        if let Some((thread, taken)) = &self.0 {
            narrow(thread, taken);
        }
    }
}

fn narrow(thread: &Thread, taken: &Taken<'_>) {
    thread.set_widened(false);
    // The program may have set an affinity meanwhile, in a handler of a signal or another thread.
    if taken.is_held() {
        create::narrow_again(thread, taken);
    }
}

/// Widens the calling thread if we narrowed it; its seat is taken meanwhile.
fn widen() -> Option<(&'static Thread, Taken<'static>)> {
    let thread = Thread::find(sys::tid())?;
    // Also of one that may go anywhere: nobody is to hold it while its child inherits what it may use.
    let taken = seats::take(thread)?;
    affinity::set(0, affinity::base()?).ok()?;
    thread.set_widened(true);
    Some((thread, taken))
}

/// `vfork` returns twice in one stack, so what it needs to know afterwards is in the thread's entry.
pub extern "C" fn before_vfork() {
    std::mem::forget(widen());
}

/// After a `vfork`, in the parent.
pub extern "C" fn after_vfork() {
    let Some(thread) = Thread::find(sys::tid()) else { return };
    let seat = thread.seat().filter(|_| thread.is_widened());
    if let Some(taken) = seat.and_then(|seat| seat.take_over(seats::own_tid())) {
        narrow(thread, &taken);
    }
    thread.set_widened(false);
}
