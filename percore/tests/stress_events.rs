//! Many who send, one who listens; some cancel, some are too late. Each test prints the seed of its schedule;
//! QUARTIER_PERCORE_SEED repeats one.
#![cfg(not(loom))]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{random, scaled};
use quartier_percore::events::{Events, Outcome, Priority};

const PRIORITIES: [Priority; 3] = [Priority::Urgent, Priority::Normal, Priority::Background];

/// Every event is run once, cancelled, expired or given back, and its sender is told which.
#[test]
fn every_event_ends_in_one_way() {
    let mut seeds = random("every_event_ends_in_one_way");
    let (nr_senders, nr_rounds) = (3, scaled(20_000) as u64);
    let events = Events::new(1, 16);
    let nr_run = Arc::new(AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let (nr_done, nr_heard) = thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let mut listener = events.listen(0).unwrap();
            let mut nr_heard = 0;
            while !is_over.load(Ordering::Acquire) {
                nr_heard += listener.run_pending(5);
                thread::yield_now();
            }
            nr_heard + listener.run_pending(usize::MAX)
        });
        let senders: Vec<_> = (0..nr_senders)
            .map(|_| {
                let mut random = fastrand::Rng::with_seed(seeds.u64(..));
                let (events, nr_run) = (events.clone(), Arc::clone(&nr_run));
                scope.spawn(move || {
                    let mut nr_done = 0;
                    for number in 0..nr_rounds {
                        let nr_run = Arc::clone(&nr_run);
                        let work = move || {
                            nr_run.fetch_add(1, Ordering::Relaxed);
                            number
                        };
                        let deadline = (random.u8(..) < 20)
                            .then(|| Instant::now() + Duration::from_micros(random.u64(..30)));
                        let priority = PRIORITIES[random.usize(..3)];
                        let Ok(reply) = events.send(0, priority, deadline, work) else {
                            thread::yield_now();
                            continue;
                        };
                        let is_cancelled = random.u8(..) < 20 && reply.cancel();
                        match reply.wait() {
                            Outcome::Done(result) => {
                                assert_eq!((result, is_cancelled), (number, false));
                                nr_done += 1;
                            }
                            Outcome::Cancelled => assert!(is_cancelled),
                            Outcome::Expired => assert!(deadline.is_some() && !is_cancelled),
                            Outcome::Lost => panic!("nobody loses it"),
                        }
                    }
                    nr_done
                })
            })
            .collect();
        let nr_done: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        is_over.store(true, Ordering::Release);
        (nr_done, listener.join().unwrap() as u64)
    });
    assert!(nr_done > 0);
    assert_eq!((nr_run.load(Ordering::Relaxed), nr_heard), (nr_done, nr_done));
}

/// Of one sender and one priority, events run in the order in which they were sent.
#[test]
fn order_is_kept() {
    let events = Events::new(1, 64);
    let nr_events = scaled(100_000) as u64;
    thread::scope(|scope| {
        let sending = events.clone();
        let last = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&last);
        scope.spawn(move || {
            for number in 1..=nr_events {
                let mut again = Some((number, Arc::clone(&told)));
                while let Some((number, told)) = again.take() {
                    let work = move || assert_eq!(told.swap(number, Ordering::Relaxed), number - 1);
                    if sending.send(0, Priority::Normal, None, work).is_err() {
                        again = Some((number, Arc::clone(&last)));
                        thread::yield_now();
                    }
                }
            }
        });
        let mut listener = events.listen(0).unwrap();
        let mut nr_run = 0;
        while nr_run < nr_events {
            nr_run += listener.run_pending(usize::MAX) as u64;
            thread::yield_now();
        }
    });
}

/// Two listeners that ask each other do not wait for ever.
#[test]
fn listeners_may_ask_each_other() {
    let events = Events::new(2, 4);
    let nr_rounds = scaled(5_000) as usize;
    let (has_asked, ready) = (AtomicU64::new(0), std::sync::Barrier::new(2));
    thread::scope(|scope| {
        for own in 0..2 {
            let (events, has_asked, ready) = (events.clone(), &has_asked, &ready);
            scope.spawn(move || {
                let mut listener = events.listen(own).unwrap();
                ready.wait();
                for round in 0..nr_rounds {
                    let reply = events.send(1 - own, Priority::Normal, None, move || round);
                    assert_eq!(listener.wait_for(reply.unwrap()), Outcome::Done(round));
                }
                has_asked.fetch_add(1, Ordering::AcqRel);
                while has_asked.load(Ordering::Acquire) < 2 {
                    listener.run_pending(usize::MAX);
                    thread::yield_now();
                }
            });
        }
    });
}
