//! Of the counter alone: each way of counting gives what a plain integer gives.

use proptest::prelude::*;

use super::*;
use crate::property::tries;

/// Both ways of counting, as far as they are here.
fn both(value: i64, batch: u16) -> Vec<SloppyCounter> {
    let batch = NonZeroU16::new(batch).unwrap();
    vec![SloppyCounter::with_batch(value, batch), SloppyCounter::without_rseq(value, batch)]
}

/// For as long as this thread lives. Where that is refused a test that moves may fail.
fn stay_on_one_cpu() {
    #[cfg(not(miri))]
    // SAFETY: a set of zeros is an empty set, and the call is given its size.
    unsafe {
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu::current(), &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
}

#[test]
fn a_batch_is_fetched_once_and_given_back_once() {
    stay_on_one_cpu();
    for counter in both(0, 4) {
        counter.increment();
        assert_eq!(counter.at_most(), 4, "one in use, three spare");
        (0..3).for_each(|_| counter.increment());
        assert_eq!(counter.at_most(), 4, "the spares are used");
        (0..4).for_each(|_| assert!(!counter.decrement()));
        assert_eq!(counter.at_most(), 4, "all four are spare");
        assert_eq!(counter.value(), 0);
        assert_eq!(counter.at_most(), 0, "who asks gathers them");
    }
}

#[test]
fn spares_of_a_cpu_have_a_bound() {
    for counter in both(1_000, 4) {
        let nr_cpus = cpu::nr_possible() as i64;
        for given_back in 1..=1_000 {
            counter.decrement();
            let too_high = counter.at_most() - (1_000 - given_back);
            assert!((0..=8 * nr_cpus).contains(&too_high), "{too_high}");
        }
        assert_eq!(counter.value(), 0);
    }
}

#[test]
fn once_closed_the_last_one_is_told() {
    for counter in both(1, 32) {
        (0..100).for_each(|_| counter.increment());
        (0..98).for_each(|_| assert!(!counter.decrement()));
        assert_eq!(counter.close(), 3);
        assert_eq!((counter.value(), counter.close(), counter.at_most()), (3, 3, 3));
        counter.increment();
        assert_eq!([(); 4].map(|()| counter.decrement()), [false, false, false, true]);
        assert_eq!(counter.value(), 0);
        // A mistake of the caller's stays visible.
        assert!(!counter.decrement());
        assert_eq!(counter.value(), -1);
    }
}

#[test]
fn who_closes_an_unused_counter_learns_it_there() {
    for counter in both(1, 32) {
        assert!(!counter.decrement());
        assert_eq!(counter.close(), 0);
    }
}

/// What this machine has; where there is no rseq the tests above run the same way twice.
#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn rseq_is_used_where_the_c_library_says_it_is_there() {
    let counter = SloppyCounter::new(0);
    assert_eq!(counter.uses_rseq(), Rseq::with_barrier().is_some());
    assert!(!SloppyCounter::without_rseq(0, BATCH).uses_rseq());
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Up,
    Down,
    Ask,
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => Just(Op::Up),
        20 => Just(Op::Down),
        2 => Just(Op::Ask),
        1 => Just(Op::Close),
    ]
}

proptest! {
    #![proptest_config(tries(256))]

    #[test]
    fn it_counts_as_an_integer_does(
        start in -100_i64..100,
        batch in 1_u16..40,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        for counter in both(start, batch) {
            let (mut value, mut closed) = (start, false);
            for op in &ops {
                match op {
                    Op::Up => {
                        value += 1;
                        counter.increment();
                    }
                    Op::Down => {
                        value -= 1;
                        prop_assert_eq!(counter.decrement(), closed && value == 0);
                    }
                    Op::Ask => prop_assert_eq!(counter.value(), value),
                    Op::Close => {
                        closed = true;
                        prop_assert_eq!(counter.close(), value);
                    }
                }
                prop_assert!(counter.at_most() >= value);
            }
            prop_assert_eq!(counter.value(), value);
        }
    }
}
