//! A bounded queue of many senders and one receiver (after Vyukov's bounded queue): each place has a number
//! that says whose turn it is there.

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::sync::{Acquire, AtomicUsize, Relaxed, Release, UnsafeCell};

#[derive(Debug)]
pub(super) struct Ring<T> {
    places: Box<[Place<T>]>,
    /// Places that were taken by senders. They contend for it, the receiver does not read it.
    nr_taken: CachePadded<AtomicUsize>,
    /// Places that were emptied; the receiver's.
    nr_emptied: CachePadded<AtomicUsize>,
}

#[derive(Debug)]
struct Place<T> {
    /// `n`: free for what is sent as the `n`th. `n + 1`: has that.
    turn: AtomicUsize,
    thing: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a thing is written by the sender whose turn it is and taken by the receiver after that; turns are
// stored with Release and read with Acquire.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// With room for the next power of two of so many things, at least two.
    pub(super) fn new(capacity: usize) -> Self {
        let place = |turn| Place {
            turn: AtomicUsize::new(turn),
            thing: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self {
            // One place would be free for the next and full with the last at the same number.
            places: (0..capacity.max(2).next_power_of_two()).map(place).collect(),
            nr_taken: CachePadded::new(AtomicUsize::new(0)),
            nr_emptied: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Sends what `make` gives, if there is room. `make` is not called otherwise; it must not panic, or its
    /// place stays closed.
    pub(super) fn push_with(&self, make: impl FnOnce() -> T) -> bool {
        let mut number = self.nr_taken.load(Relaxed);
        loop {
            let place = self.place(number);
            let turn = place.turn.load(Acquire);
            if turn == number {
                let next = number.wrapping_add(1);
                match self.nr_taken.compare_exchange_weak(number, next, Relaxed, Relaxed) {
                    Ok(_) => {
                        // SAFETY: the place is free, and this number is this sender's alone.
                        place.thing.with_mut(|thing| unsafe { (*thing).write(make()) });
                        place.turn.store(next, Release);
                        return true;
                    }
                    Err(other) => number = other,
                }
            } else if (turn.wrapping_sub(number) as isize) < 0 {
                // It still has what was sent a round ago.
                return false;
            } else {
                number = self.nr_taken.load(Relaxed);
            }
        }
    }

    /// The thing that was sent first, if it is all there.
    ///
    /// # Safety
    /// One thread at a time calls it.
    pub(super) unsafe fn pop(&self) -> Option<T> {
        let number = self.nr_emptied.load(Relaxed);
        let place = self.place(number);
        if place.turn.load(Acquire) != number.wrapping_add(1) {
            return None;
        }
        // SAFETY: its turn says that it has a thing, and nobody else takes it.
        let thing = place.thing.with_mut(|thing| unsafe { (*thing).assume_init_read() });
        place.turn.store(number.wrapping_add(self.places.len()), Release);
        self.nr_emptied.store(number.wrapping_add(1), Relaxed);
        Some(thing)
    }

    fn place(&self, number: usize) -> &Place<T> {
        &self.places[number & (self.places.len() - 1)]
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        while let Some(thing) = unsafe { self.pop() } {
            drop(thing);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::property::tries;

    #[test]
    fn a_place_is_as_small_as_is_said() {
        assert_eq!(size_of::<Place<super::super::Event>>(), 40);
    }

    proptest! {
        #![proptest_config(tries(256))]

        #[test]
        fn it_is_a_bounded_queue(
            capacity in 0_usize..9,
            pushes in prop::collection::vec(prop::bool::weighted(0.6), 0..100),
        ) {
            let ring = Ring::new(capacity);
            let mut queue = VecDeque::new();
            for (thing, is_push) in pushes.into_iter().enumerate() {
                if is_push {
                    let is_sent = ring.push_with(|| Box::new(thing));
                    prop_assert_eq!(is_sent, queue.len() < ring.capacity());
                    if is_sent {
                        queue.push_back(thing);
                    }
                } else {
                    // SAFETY: there is one thread.
                    prop_assert_eq!(unsafe { ring.pop() }.map(|thing| *thing), queue.pop_front());
                }
            }
        }
    }
}
