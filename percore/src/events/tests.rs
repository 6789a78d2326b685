//! Of events on one thread: order, deadlines, cancelling, and what becomes of what nobody runs.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

fn log() -> Arc<Mutex<Vec<u32>>> {
    Arc::default()
}

fn note(log: &Arc<Mutex<Vec<u32>>>, number: u32) -> impl FnOnce() + Send + 'static {
    let log = Arc::clone(log);
    move || log.lock().unwrap().push(number)
}

#[test]
fn the_most_urgent_runs_first_and_of_one_priority_the_first() {
    let (events, log) = (Events::new(1, 8), log());
    let mut listener = events.listen(0).unwrap();
    listener.defer({
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(7)
    });
    for (number, priority) in [
        (5, Priority::Background),
        (3, Priority::Normal),
        (1, Priority::Urgent),
        (4, Priority::Normal),
        (2, Priority::Urgent),
        (6, Priority::Background),
    ] {
        drop(events.send(0, priority, None, note(&log, number)).unwrap());
    }
    assert_eq!(listener.run_pending(4), 4);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4]);
    assert_eq!(listener.run_pending(usize::MAX), 3);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(listener.run_pending(usize::MAX), 0);
}

#[test]
fn a_full_mailbox_gives_the_function_back() {
    let events = Events::new(2, 4);
    for _ in 0..4 {
        drop(events.send(1, Priority::Normal, None, || ()).unwrap());
    }
    let refused = events.send(1, Priority::Normal, None, || 42).unwrap_err();
    assert_eq!(refused.why, Refusal::Full { target: 1, capacity: 4 });
    assert_eq!((refused.work)(), 42);
    let said = refused.why.to_string();
    assert!(said.contains("mailbox 1 is full: 4 events"), "{said}");
    drop(events.send(1, Priority::Urgent, None, || ()).unwrap());
    let refused = events.send(2, Priority::Normal, None, || ()).unwrap_err();
    assert_eq!(refused.why, Refusal::NoMailbox { target: 2, nr_mailboxes: 2 });
}

#[test]
fn one_listens_at_a_time() {
    let events = Events::new(1, 4);
    let listener = events.listen(0).unwrap();
    assert!(events.listen(0).is_none());
    assert!(events.listen(1).is_none());
    let reply = events.send(0, Priority::Normal, None, || 1).unwrap();
    drop(listener);
    assert_eq!(events.listen(0).unwrap().run_pending(1), 1, "it waited for the next one");
    assert_eq!(reply.wait(), Outcome::Done(1));
}

#[test]
fn what_is_too_late_does_not_run() {
    let (events, log) = (Events::new(1, 4), log());
    let mut listener = events.listen(0).unwrap();
    let now = Instant::now();
    let late = events.send(0, Priority::Normal, Some(now), note(&log, 1)).unwrap();
    let later = now + Duration::from_secs(3600);
    let in_time = events.send(0, Priority::Normal, Some(later), note(&log, 2)).unwrap();
    assert_eq!(listener.run_pending(usize::MAX), 1);
    assert_eq!(late.wait(), Outcome::Expired);
    assert_eq!(in_time.wait(), Outcome::Done(()));
    assert_eq!(*log.lock().unwrap(), [2]);
}

#[test]
fn what_is_cancelled_does_not_run() {
    let (events, log) = (Events::new(1, 4), log());
    let mut listener = events.listen(0).unwrap();
    let reply = events.send(0, Priority::Normal, None, note(&log, 1)).unwrap();
    assert!(!reply.is_known());
    assert!(reply.cancel());
    assert_eq!(listener.run_pending(usize::MAX), 0);
    assert_eq!(reply.wait(), Outcome::Cancelled);
    let reply = events.send(0, Priority::Normal, None, note(&log, 2)).unwrap();
    assert_eq!(listener.run_pending(usize::MAX), 1);
    assert!(!reply.cancel(), "it has run");
    assert_eq!(*log.lock().unwrap(), [2]);
}

#[test]
fn what_nobody_runs_is_lost_when_the_mailboxes_are() {
    let events = Events::new(1, 4);
    let reply = events.send(0, Priority::Normal, None, || 1).unwrap();
    let soon = Instant::now() + Duration::from_millis(1);
    let reply = reply.wait_until(soon).unwrap_err();
    drop(events);
    assert_eq!(reply.wait(), Outcome::Lost);
}

#[test]
fn a_panic_of_an_event_loses_it_and_no_other() {
    let events = Events::new(1, 4);
    let mut listener = events.listen(0).unwrap();
    let panics = events.send(0, Priority::Normal, None, || -> u32 { panic!("as the test wants") });
    let after = events.send(0, Priority::Normal, None, || 2).unwrap();
    let run = std::panic::AssertUnwindSafe(|| listener.run_pending(usize::MAX));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(panics.unwrap().wait(), Outcome::Lost);
    assert_eq!(listener.run_pending(usize::MAX), 1);
    assert_eq!(after.wait(), Outcome::Done(2));
}

#[test]
fn an_urgent_event_wakes_the_listener() {
    let woken = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&woken);
    let wake = move |target: usize| {
        told.fetch_add(100 + target, Ordering::Relaxed);
    };
    let events = Events::with_wake(3, 4, wake);
    drop(events.send(1, Priority::Normal, None, || ()).unwrap());
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    drop(events.send(2, Priority::Urgent, None, || ()).unwrap());
    assert_eq!(woken.load(Ordering::Relaxed), 102);
}

#[test]
fn what_is_deferred_may_be_of_this_thread_only() {
    let events = Events::new(1, 4);
    let mut listener = events.listen(0).unwrap();
    let own = Rc::new(RefCell::new(0));
    let deferred = Rc::clone(&own);
    listener.defer(move || *deferred.borrow_mut() += 1);
    assert_eq!(listener.run_pending(usize::MAX), 1);
    assert_eq!(*own.borrow(), 1);
}
