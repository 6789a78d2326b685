//! Events: each is run once or given back, and its sender is told.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use quartier_percore::events::{Events, Outcome, Priority};

use crate::model;

#[test]
fn a_sender_that_waits_is_woken() {
    model(|| {
        let events = Events::new(1, 2);
        let sending = events.clone();
        let sender = thread::spawn(move || {
            let reply = sending.send(0, Priority::Normal, None, || 42).unwrap();
            assert_eq!(reply.wait(), Outcome::Done(42));
        });
        let mut listener = events.listen(0).unwrap();
        while listener.run_pending(1) == 0 {
            thread::yield_now();
        }
        sender.join().unwrap();
    });
}

#[test]
fn two_send_to_a_mailbox_with_room_for_two_and_the_third_is_given_back() {
    model(|| {
        let events = Events::new(1, 2);
        let nr_run = Arc::new(AtomicUsize::new(0));
        let send = |events: &Events, nr_run: &Arc<AtomicUsize>| {
            let nr_run = Arc::clone(nr_run);
            let work = move || {
                nr_run.fetch_add(1, Ordering::Relaxed);
            };
            usize::from(events.send(0, Priority::Normal, None, work).is_ok())
        };
        let (others, counted) = (events.clone(), Arc::clone(&nr_run));
        let other = thread::spawn(move || send(&others, &counted) + send(&others, &counted));
        let mut nr_sent = send(&events, &nr_run);
        let mut listener = events.listen(0).unwrap();
        let before = listener.run_pending(1);
        nr_sent += other.join().unwrap();
        let after = listener.run_pending(usize::MAX);
        assert_eq!(before + after, nr_sent);
        assert_eq!(nr_run.load(Ordering::Relaxed), nr_sent);
        assert!(nr_sent >= 2);
    });
}

#[test]
fn cancelled_or_run_and_never_both() {
    model(|| {
        let events = Events::new(1, 2);
        let reply = events.send(0, Priority::Normal, None, || 1).unwrap();
        let listening = events.clone();
        let other = thread::spawn(move || listening.listen(0).unwrap().run_pending(1));
        let is_cancelled = reply.cancel();
        let nr_run = other.join().unwrap();
        assert_eq!(nr_run, usize::from(!is_cancelled));
        let expected = if is_cancelled { Outcome::Cancelled } else { Outcome::Done(1) };
        assert_eq!(reply.wait(), expected);
    });
}

#[test]
fn who_waits_while_the_mailboxes_go_is_told() {
    model(|| {
        let events = Events::new(1, 2);
        let reply = events.send(0, Priority::Normal, None, || 1).unwrap();
        let other = thread::spawn(move || drop(events));
        assert_eq!(reply.wait(), Outcome::Lost);
        other.join().unwrap();
    });
}
