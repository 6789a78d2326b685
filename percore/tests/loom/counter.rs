//! The counter without rseq.

use std::num::NonZeroU16;

use loom::sync::Arc;
use quartier_percore::SloppyCounter;

use crate::{model, on_cpu};

fn counter(value: i64) -> Arc<SloppyCounter> {
    Arc::new(SloppyCounter::without_rseq(value, NonZeroU16::new(2).unwrap()))
}

#[test]
fn two_cpus_count_and_nothing_is_lost() {
    model(|| {
        let counter = counter(0);
        let other = Arc::clone(&counter);
        let other = on_cpu(1, move || {
            other.increment();
            other.increment();
            other.decrement();
        });
        counter.increment();
        counter.increment();
        other.join().unwrap();
        assert_eq!(counter.value(), 3);
    });
}

#[test]
fn two_threads_of_one_cpu_count_and_nothing_is_lost() {
    model(|| {
        let counter = counter(0);
        let other = Arc::clone(&counter);
        let other = on_cpu(0, move || {
            other.increment();
            other.decrement();
        });
        counter.increment();
        counter.decrement();
        counter.increment();
        other.join().unwrap();
        assert_eq!(counter.value(), 1);
    });
}

/// A reader sees each thread between two of its steps, never within one.
#[test]
fn a_value_is_one_of_an_instant() {
    model(|| {
        let counter = counter(1);
        let other = Arc::clone(&counter);
        let other = on_cpu(1, move || {
            other.increment();
            other.decrement();
        });
        let value = counter.value();
        assert!((1..=2).contains(&value), "{value}");
        assert!(counter.at_most() >= 1);
        other.join().unwrap();
        assert_eq!(counter.value(), 1);
    });
}

#[test]
fn two_readers_and_one_who_counts() {
    model(|| {
        let counter = counter(0);
        let (second, third) = (Arc::clone(&counter), Arc::clone(&counter));
        let second = on_cpu(1, move || {
            second.increment();
            second.increment();
        });
        let third = on_cpu(0, move || assert!((0..=2).contains(&third.value())));
        assert!((0..=2).contains(&counter.value()));
        second.join().unwrap();
        third.join().unwrap();
        assert_eq!(counter.value(), 2);
    });
}

#[test]
fn exactly_one_is_told_to_be_the_last() {
    model(|| {
        let counter = counter(2);
        let other = Arc::clone(&counter);
        let other = on_cpu(1, move || {
            other.increment();
            assert!(!other.decrement(), "this thread still holds one");
            other.decrement()
        });
        assert!(counter.close() >= 1);
        let mine = counter.decrement();
        let others = other.join().unwrap();
        assert!(mine != others, "{mine} {others}");
        assert_eq!(counter.value(), 0);
    });
}

/// Two close at once; what was gathered is gathered once.
#[test]
fn closing_twice_is_closing() {
    model(|| {
        let counter = counter(0);
        counter.increment();
        let other = Arc::clone(&counter);
        let other = on_cpu(1, move || other.close());
        assert_eq!(counter.close(), 1);
        assert_eq!(other.join().unwrap(), 1);
        assert!(counter.decrement());
    });
}
