//! Counts: of anything, of references, and of what is asked for exactly.

use std::hint::black_box;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fast_counter::ConcurrentCounter;
use quartier_percore::SloppyCounter;

use super::{Case, NR_THREADS_MAX, case, done};

fn without_rseq(value: i64) -> SloppyCounter {
    SloppyCounter::without_rseq(value, NonZeroU16::new(32).expect("is not zero"))
}

pub fn counting() -> Vec<Case> {
    let sloppy = |word, name, counter: SloppyCounter| {
        case(
            word,
            name,
            counter,
            |counter, _| {
                counter.increment();
                true
            },
            |counter, nr| counter.value() == nr as i64,
        )
    };
    vec![
        case(
            "atomic",
            "AtomicU64",
            AtomicU64::new(0),
            |counter, _| done(counter.fetch_add(1, Ordering::Relaxed)),
            |counter, nr| counter.load(Ordering::Acquire) == nr,
        ),
        sloppy("sloppy", "SloppyCounter", SloppyCounter::new(0)),
        sloppy("sloppy-without-rseq", "SloppyCounter without rseq", without_rseq(0)),
        case(
            "fast-counter",
            "fast-counter",
            ConcurrentCounter::new(NR_THREADS_MAX),
            |counter, _| {
                counter.add(1);
                true
            },
            |counter, nr| counter.sum() == nr as isize,
        ),
    ]
}

/// One is held all the time, so none of those that are given back is the last.
pub fn references() -> Vec<Case> {
    let sloppy = |word, name, counter: SloppyCounter| {
        case(
            word,
            name,
            counter,
            |counter, _| {
                counter.increment();
                !black_box(counter.decrement())
            },
            |counter, _| counter.value() == 1,
        )
    };
    vec![
        case(
            "atomic",
            "AtomicI64",
            AtomicI64::new(1),
            |counter, _| {
                counter.fetch_add(1, Ordering::Relaxed);
                black_box(counter.fetch_sub(1, Ordering::AcqRel)) > 1
            },
            |counter, _| counter.load(Ordering::Acquire) == 1,
        ),
        sloppy("sloppy", "SloppyCounter", SloppyCounter::new(1)),
        sloppy("sloppy-without-rseq", "SloppyCounter without rseq", without_rseq(1)),
    ]
}

/// How rarely must it be read to be worth it?
pub fn values<const TIMES: u32>() -> Vec<Case> {
    let all = |nr: u64| (nr * u64::from(TIMES)) as i64;
    let sloppy = |word, name, counter: SloppyCounter| {
        case(
            word,
            name,
            counter,
            |counter, _| {
                (0..TIMES).for_each(|_| counter.increment());
                done(counter.value())
            },
            move |counter, nr| counter.value() == all(nr),
        )
    };
    vec![
        case(
            "atomic",
            "AtomicI64",
            AtomicI64::new(0),
            |counter, _| {
                for _ in 0..TIMES {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                done(counter.load(Ordering::Acquire))
            },
            move |counter, nr| counter.load(Ordering::Acquire) == all(nr),
        ),
        sloppy("sloppy", "SloppyCounter", SloppyCounter::new(0)),
        sloppy("sloppy-without-rseq", "SloppyCounter without rseq", without_rseq(0)),
    ]
}
