//! Events: functions with an argument, results that are pointers.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use super::{Pointer, free, tell};
use crate::events::{Events, Listener, Outcome, Priority, Refusal, Reply};

type Work = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Wake = unsafe extern "C" fn(usize, *mut c_void);

/// # Safety
/// `wake` is null or may be called with `context` from any thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_events_new(
    nr_mailboxes: usize,
    capacity: usize,
    wake: Option<Wake>,
    context: *mut c_void,
) -> *mut Events {
    let context = Pointer(context);
    let events = match wake {
        None => Events::new(nr_mailboxes, capacity),
        // SAFETY: the caller's promise.
        Some(wake) => Events::with_wake(nr_mailboxes, capacity, move |target| unsafe {
            wake(target, context.get());
        }),
    };
    Box::into_raw(Box::new(events))
}

/// # Safety
/// `events` is null, or was made and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_events_free(events: *mut Events) {
    // SAFETY: the caller's promise.
    unsafe { free(events) };
}

/// # Safety
/// `events` is null, or was made and not freed; `work` may be called with `argument` on another thread; `reply` is
/// null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_events_send(
    events: *const Events,
    target: usize,
    priority: c_int,
    timeout_ns: i64,
    work: Option<Work>,
    argument: *mut c_void,
    reply: *mut *mut Reply<Pointer>,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(events), Some(work)) = (unsafe { events.as_ref() }, work) else {
        return -libc::EINVAL;
    };
    let priority = match priority {
        0 => Priority::Urgent,
        1 => Priority::Normal,
        2 => Priority::Background,
        _ => return -libc::EINVAL,
    };
    let argument = Pointer(argument);
    // SAFETY: the caller's promise.
    let work = move || Pointer(unsafe { work(argument.get()) });
    match events.send(target, priority, instant_after(timeout_ns), work) {
        Ok(sent) => {
            if !reply.is_null() {
                // SAFETY: the caller's promise.
                unsafe { tell(reply, Box::into_raw(Box::new(sent))) };
            }
            0
        }
        Err(refused) => match refused.why {
            Refusal::Full { .. } => -libc::ENOBUFS,
            Refusal::NoMailbox { .. } => -libc::ENODEV,
        },
    }
}

/// Never, for what is negative or too far away for a clock.
fn instant_after(timeout_ns: i64) -> Option<Instant> {
    let timeout = Duration::from_nanos(u64::try_from(timeout_ns).ok()?);
    Instant::now().checked_add(timeout)
}

/// # Safety
/// `events` is null, or was made and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_events_listen(events: *const Events, target: usize) -> *mut Listener {
    // SAFETY: the caller's promise.
    let listener = unsafe { events.as_ref() }.and_then(|events| events.listen(target));
    listener.map_or(std::ptr::null_mut(), |listener| Box::into_raw(Box::new(listener)))
}

/// # Safety
/// `listener` is null, or was made by this thread and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_listener_free(listener: *mut Listener) {
    // SAFETY: the caller's promise.
    unsafe { free(listener) };
}

/// # Safety
/// `listener` is null, or was made by this thread and not freed.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_listener_run_pending(
    listener: *mut Listener,
    nr_max: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe { listener.as_mut() }.map_or(0, |listener| listener.run_pending(nr_max))
}

/// # Safety
/// `listener` is null, or was made by this thread and not freed; `work` may be called with `argument`.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_listener_defer(
    listener: *mut Listener,
    work: Option<Work>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(listener), Some(work)) = (unsafe { listener.as_mut() }, work) else {
        return -libc::EINVAL;
    };
    listener.defer(move || {
        // SAFETY: the caller's promise.
        unsafe { work(argument) };
    });
    0
}

/// # Safety
/// `listener` is null, or was made by this thread and not freed; `reply` is null, or was given and is used no more;
/// `result` is null or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_listener_wait_for(
    listener: *mut Listener,
    reply: *mut Reply<Pointer>,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let listener = unsafe { listener.as_mut() };
    let (Some(listener), false) = (listener, reply.is_null()) else { return -libc::EINVAL };
    // SAFETY: the caller's promise.
    unsafe { outcome(listener.wait_for(*Box::from_raw(reply)), result) }
}

/// # Safety
/// `reply` is null, or was given and is used no more if this returns anything but -ETIMEDOUT; `result` is null or
/// may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_reply_wait(
    reply: *mut Reply<Pointer>,
    timeout_ns: i64,
    result: *mut *mut c_void,
) -> c_int {
    if reply.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    let taken = unsafe { reply.read() };
    let known = match instant_after(timeout_ns) {
        None => Ok(taken.wait()),
        Some(until) => taken.wait_until(until),
    };
    match known {
        Ok(known) => {
            // SAFETY: the caller's promise; the reply was read from it, and the box is all that is left.
            unsafe {
                drop(Box::from_raw(reply.cast::<std::mem::MaybeUninit<Reply<Pointer>>>()));
                outcome(known, result)
            }
        }
        Err(again) => {
            // SAFETY: it was read from there, and goes back.
            unsafe { reply.write(again) };
            -libc::ETIMEDOUT
        }
    }
}

/// # Safety
/// `reply` is null, or was given and not waited for.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_reply_cancel(reply: *const Reply<Pointer>) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { reply.as_ref() }.map_or(0, |reply| c_int::from(reply.cancel()))
}

/// # Safety
/// `reply` is null, or was given and is used no more.
#[unsafe(no_mangle)]
unsafe extern "C" fn quartier_reply_free(reply: *mut Reply<Pointer>) {
    // SAFETY: the caller's promise.
    unsafe { free(reply) };
}

/// # Safety
/// `to` is null or may be written.
unsafe fn outcome(outcome: Outcome<Pointer>, to: *mut *mut c_void) -> c_int {
    match outcome {
        Outcome::Done(result) => {
            // SAFETY: the caller's promise.
            unsafe { tell(to, result.get()) };
            0
        }
        Outcome::Expired => -libc::ETIME,
        Outcome::Cancelled => -libc::ECANCELED,
        Outcome::Lost => -libc::EOWNERDEAD,
    }
}
