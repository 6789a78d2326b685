//! Threads that count at once, on one CPU and on all, disturbed by signals and readers. Each test prints
//! the seed of its schedule; QUARTIER_PERCORE_SEED repeats one.
#![cfg(not(loom))]

mod common;

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::thread;

use common::{Storm, hold_on_cpu, random, scaled};
use quartier_percore::SloppyCounter;

fn each_way(batch: u16) -> [SloppyCounter; 2] {
    let batch = NonZeroU16::new(batch).unwrap();
    [SloppyCounter::with_batch(0, batch), SloppyCounter::without_rseq(0, batch)]
}

/// The kernel takes threads of one CPU off at any instruction: an interrupted section that went
/// on would write an old number over what others counted meanwhile.
#[test]
fn threads_of_one_cpu_lose_nothing() {
    for counter in each_way(1_000) {
        let nr_rounds = scaled(3_000_000);
        let storm = Storm::begin();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    hold_on_cpu(0);
                    let _member = storm.join();
                    for _ in 0..nr_rounds {
                        counter.increment();
                        counter.increment();
                        counter.decrement();
                    }
                });
            }
        });
        storm.end();
        assert_eq!(counter.value(), 4 * nr_rounds);
    }
}

/// What each thread holds is known within one, so the exact value has bounds at any time.
#[test]
fn whoever_asks_is_told_the_value_of_one_instant() {
    for counter in each_way(8) {
        let is_over = AtomicBool::new(false);
        let held = AtomicI64::new(0);
        let mut seeds = random("whoever_asks_is_told_the_value_of_one_instant");
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let mut random = fastrand::Rng::with_seed(seeds.u64(..));
                    let (counter, held, is_over) = (&counter, &held, &is_over);
                    scope.spawn(move || {
                        let mut own = 0_i64;
                        while !is_over.load(Ordering::Relaxed) {
                            if own == 0 || own < 50 && random.bool() {
                                counter.increment();
                                own += 1;
                            } else {
                                counter.decrement();
                                own -= 1;
                            }
                        }
                        held.fetch_add(own, Ordering::Relaxed);
                    })
                })
                .collect();
            for _ in 0..scaled(20_000) {
                let value = counter.value();
                assert!((0..=150).contains(&value), "{value}");
            }
            is_over.store(true, Ordering::Relaxed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(counter.value(), held.into_inner());
    }
}

/// A reference count: exactly one learns that it was the last.
#[test]
fn exactly_one_is_told_to_be_the_last() {
    let mut seeds = random("exactly_one_is_told_to_be_the_last");
    for _ in 0..scaled(200) {
        for counter in each_way(4) {
            let nr_last = AtomicU32::new(0);
            // One reference of each thread, and the owner's, which closing gives back.
            (0..4).for_each(|_| counter.increment());
            thread::scope(|scope| {
                for _ in 0..3 {
                    let mut random = fastrand::Rng::with_seed(seeds.u64(..));
                    let (counter, nr_last) = (&counter, &nr_last);
                    scope.spawn(move || {
                        for _ in 0..random.u32(..200) {
                            counter.increment();
                            assert!(!counter.decrement(), "this thread still holds one");
                        }
                        nr_last.fetch_add(u32::from(counter.decrement()), Ordering::Relaxed);
                    });
                }
                assert!(counter.close() >= 1);
                nr_last.fetch_add(u32::from(counter.decrement()), Ordering::Relaxed);
            });
            assert_eq!(nr_last.into_inner(), 1);
        }
    }
}

/// What the kernel was told of a process holds for its child, or is told again.
#[test]
#[cfg(not(miri))]
fn a_child_counts_on() {
    for counter in each_way(32) {
        counter.increment();
        // SAFETY: the child uses this thread's own counter and ends; it allocates nothing.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            counter.increment();
            let status = i32::from(counter.value() != 2);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: it is this process's child, and the status a number of this frame.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(counter.value(), 1);
    }
}
