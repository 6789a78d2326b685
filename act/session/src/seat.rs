//! Seats: the threads whose affinity Quartier decides over. The runtime in a program seats each thread that
//! it places; the launcher may hold it elsewhere later (thesis 4.3.4).
//!
//! Whoever changes the affinity of a seated thread takes its seat first and puts it back afterwards, so no
//! two do at once. A program that sets an affinity itself takes the seat too, and leaves it for good:
//! nobody of ours touches that thread again.
//!
//! A seat is one word and a record, all zero at first. Whoever dies with a seat taken leaves it
//! taken: [`Seat::take_over`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Seats of a run. A thread that finds none is not held.
pub const NR_SEATS: usize = 16_384;

/// One thread's seat. All zero: free.
#[repr(C)]
#[derive(Debug)]
pub struct Seat {
    /// State (2 bits), thread id (22), index of its process's slot (16), node's OS id plus one (16), and how often
    /// it was taken (8): so each holder's word is his own.
    word: AtomicU64,
    /// How the decision tree counts the thread, plus one; 0: not at all.
    record: AtomicU32,
    /// The thread that has taken it; 0: not known.
    taker: AtomicU32,
}

/// Who sits there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sitting {
    /// Thread id.
    pub tid: u32,
    /// Index of the process's slot.
    pub process: usize,
    /// OS id of the node that it is held on; `None`: it may go wherever the user allows, for the time
    /// being.
    pub node_os_id: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum State {
    Free = 0,
    /// Nobody is changing its affinity.
    Seated = 1,
    /// Somebody is.
    Taken = 2,
    /// It is the program's to change.
    Left = 3,
}

const TID_BITS: u32 = 22;
const TID_AT: u32 = 2;
const PROCESS_AT: u32 = TID_AT + TID_BITS;
const NODE_AT: u32 = PROCESS_AT + 16;
const TURN_AT: u32 = NODE_AT + 16;

fn word(state: State, sitting: &Sitting, turn: u64) -> u64 {
    let node = sitting.node_os_id.map_or(0, |node| (u64::from(node) + 1) & 0xffff);
    let tid = u64::from(sitting.tid) & ((1 << TID_BITS) - 1);
    let process = sitting.process as u64 & 0xffff;
    turn << TURN_AT | node << NODE_AT | process << PROCESS_AT | tid << TID_AT | state as u64
}

fn state(word: u64) -> State {
    match word & 3 {
        1 => State::Seated,
        2 => State::Taken,
        3 => State::Left,
        _ => State::Free,
    }
}

fn turn(word: u64) -> u64 {
    word >> TURN_AT
}

fn sitting(word: u64) -> Sitting {
    Sitting {
        tid: (word >> TID_AT) as u32 & ((1 << TID_BITS) - 1),
        process: (word >> PROCESS_AT & 0xffff) as usize,
        node_os_id: ((word >> NODE_AT & 0xffff) as u32).checked_sub(1),
    }
}

impl Seat {
    /// Takes a free seat for a thread; `None` if somebody has it. `by`: the thread that takes it.
    #[must_use]
    pub fn claim(&self, sitting: &Sitting, by: u32) -> Option<Taken<'_>> {
        let now = self.word.load(Ordering::Relaxed);
        if state(now) != State::Free {
            return None;
        }
        let taken = self.take_as(now, sitting, by)?;
        self.record.store(0, Ordering::Relaxed);
        Some(taken)
    }

    /// Who sits there, whosever it is to place.
    #[must_use]
    pub fn sitting(&self) -> Option<Sitting> {
        let word = self.word.load(Ordering::Acquire);
        (state(word) != State::Free).then(|| sitting(word))
    }

    /// The same, unless the thread is the program's to place.
    #[must_use]
    pub fn placed(&self) -> Option<Sitting> {
        let word = self.word.load(Ordering::Acquire);
        matches!(state(word), State::Seated | State::Taken).then(|| sitting(word))
    }

    /// Takes the seat to change its thread's affinity. `None` if it is taken, the program's, or free.
    #[must_use]
    pub fn take(&self, by: u32) -> Option<Taken<'_>> {
        self.take_if(|state| state == State::Seated, by)
    }

    /// Takes the seat because its thread ends, whosever it is to place. `None` if it is taken, or free.
    #[must_use]
    pub fn take_at_end(&self, by: u32) -> Option<Taken<'_>> {
        self.take_if(|state| matches!(state, State::Seated | State::Left), by)
    }

    /// Takes a seat from whoever has taken it: he is dead, or waits for us. Whatever he does with it then
    /// changes nothing.
    #[must_use]
    pub fn take_over(&self, by: u32) -> Option<Taken<'_>> {
        self.take_if(|state| state == State::Taken, by)
    }

    fn take_if(&self, may: impl Fn(State) -> bool, by: u32) -> Option<Taken<'_>> {
        let now = self.word.load(Ordering::Acquire);
        if may(state(now)) { self.take_as(now, &sitting(now), by) } else { None }
    }

    fn take_as(&self, now: u64, sitting: &Sitting, by: u32) -> Option<Taken<'_>> {
        let taken = word(State::Taken, sitting, turn(now).wrapping_add(1) & 0xff);
        self.word.compare_exchange(now, taken, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        self.taker.store(by, Ordering::Relaxed);
        Some(Taken { seat: self, word: taken })
    }

    /// Whether somebody has taken it.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        state(self.word.load(Ordering::Acquire)) == State::Taken
    }

    /// The thread that has taken it, if anybody has and it is known.
    #[must_use]
    pub fn taker(&self) -> Option<u32> {
        let taker = self.taker.load(Ordering::Relaxed);
        (self.is_taken() && taker != 0).then_some(taker)
    }

    /// Frees the seat of a thread that has ended without a word, if it still is that thread's; gives how it was
    /// counted.
    pub fn forget(&self, sitting: &Sitting, by: u32) -> Option<u32> {
        let taken = self.take_if(|state| state != State::Free, by)?;
        if taken.sitting() != *sitting {
            return None;
        }
        let record = taken.set_record(None);
        taken.give_up();
        record
    }
}

/// A seat that is taken: its thread's affinity is the holder's to change. Put back when dropped. What a holder
/// does from whom it was taken over changes nothing.
#[derive(Debug)]
pub struct Taken<'a> {
    seat: &'a Seat,
    word: u64,
}

impl Taken<'_> {
    /// Who sits there.
    #[must_use]
    pub fn sitting(&self) -> Sitting {
        sitting(self.word)
    }

    /// Whether it still is the holder's.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.seat.word.load(Ordering::Acquire) == self.word
    }

    /// Puts it back, the thread being held on that node from now on, or nowhere. Says whether it still was the
    /// holder's.
    pub fn put_back_on(self, node_os_id: Option<u32>) -> bool {
        let held = self.put_back(State::Seated, node_os_id);
        std::mem::forget(self);
        held
    }

    /// The thread is the program's to place. It stays counted.
    pub fn leave(self) {
        self.put_back(State::Left, None);
        std::mem::forget(self);
    }

    /// The seat is free again.
    pub fn give_up(self) {
        self.exchange(turn(self.word) << TURN_AT | State::Free as u64);
        std::mem::forget(self);
    }

    fn put_back(&self, state: State, node_os_id: Option<u32>) -> bool {
        let sitting = Sitting { node_os_id, ..self.sitting() };
        self.exchange(word(state, &sitting, turn(self.word)))
    }

    fn exchange(&self, new: u64) -> bool {
        if self.is_held() {
            self.seat.taker.store(0, Ordering::Relaxed);
        }
        let exchanged =
            self.seat.word.compare_exchange(self.word, new, Ordering::AcqRel, Ordering::Relaxed);
        exchanged.is_ok()
    }

    /// Notes how the decision tree counts the thread; gives how it did. Nothing where the seat was taken over.
    pub fn set_record(&self, record: Option<u32>) -> Option<u32> {
        if !self.is_held() {
            return None;
        }
        let record = record.map_or(0, |record| record.wrapping_add(1));
        self.seat.record.swap(record, Ordering::AcqRel).checked_sub(1)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.put_back(State::Seated, self.sitting().node_os_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Seat {
        Seat { word: AtomicU64::new(0), record: AtomicU32::new(0), taker: AtomicU32::new(0) }
    }

    const ME: u32 = 7;

    const LARGEST: Sitting =
        Sitting { tid: (1 << TID_BITS) - 1, process: 0xffff, node_os_id: Some(0xfffe) };

    #[test]
    fn who_sits_there_is_read_as_it_was_written() {
        for sitting in [
            LARGEST,
            Sitting { tid: 1, process: 0, node_os_id: None },
            Sitting { tid: 77, process: 3, node_os_id: Some(0) },
        ] {
            let seat = free();
            seat.claim(&sitting, ME).unwrap().put_back_on(sitting.node_os_id);
            assert_eq!(seat.placed(), Some(sitting));
            assert!(seat.claim(&sitting, ME).is_none(), "somebody sits there");
        }
        assert_eq!(free().sitting(), None);
        assert!(free().take(ME).is_none());
    }

    #[test]
    fn one_at_a_time_changes_an_affinity() {
        let seat = free();
        let taken = seat.claim(&LARGEST, ME).unwrap();
        assert!(seat.take(ME).is_none() && seat.take_at_end(ME).is_none());
        assert_eq!(seat.placed(), Some(LARGEST), "known meanwhile");
        drop(taken);
        seat.take(ME).unwrap().put_back_on(Some(5));
        assert_eq!(seat.placed().unwrap().node_os_id, Some(5));
    }

    #[test]
    fn a_thread_that_was_left_alone_is_not_taken_again_and_stays_counted() {
        let seat = free();
        let taken = seat.claim(&LARGEST, ME).unwrap();
        assert_eq!(taken.set_record(Some(0)), None);
        taken.leave();
        assert!(seat.take(ME).is_none());
        assert_eq!((seat.placed(), seat.sitting().map(|who| who.tid)), (None, Some(LARGEST.tid)));
        let taken = seat.take_at_end(ME).unwrap();
        assert_eq!(taken.set_record(None), Some(0));
        taken.give_up();
        assert_eq!(seat.sitting(), None);
        // Whoever comes next does not inherit a record.
        seat.claim(&LARGEST, ME).unwrap().set_record(Some(9));
        seat.take(ME).unwrap().give_up();
        assert_eq!(seat.claim(&LARGEST, ME).unwrap().set_record(None), None);
    }

    #[test]
    fn who_has_ended_is_forgotten_and_nobody_else() {
        let seat = free();
        let other = Sitting { tid: 5, ..LARGEST };
        drop(seat.claim(&LARGEST, ME));
        seat.forget(&other, ME);
        assert_eq!(seat.sitting(), Some(LARGEST));
        std::mem::forget(seat.take(ME));
        assert!(seat.is_taken());
        seat.take_over(ME).unwrap().put_back_on(None);
        let seen = seat.sitting().unwrap();
        seat.forget(&seen, ME);
        assert_eq!(seat.sitting(), None);
        assert!(seat.take_over(ME).is_none());
    }

    #[test]
    fn who_comes_back_late_changes_nothing() {
        let seat = free();
        let late = seat.claim(&LARGEST, ME).unwrap();
        seat.take_over(ME).unwrap().leave();
        assert!(!late.is_held() && !late.put_back_on(Some(1)));
        assert_eq!((seat.placed(), seat.sitting().is_some()), (None, true));
    }

    #[test]
    fn who_comes_back_late_takes_it_from_nobody_who_has_it_now() {
        let seat = free();
        let late = seat.claim(&LARGEST, ME).unwrap();
        let over = seat.take_over(8).unwrap();
        assert_eq!(seat.taker(), Some(8));
        drop(late);
        assert!(seat.is_taken() && over.is_held());
        over.give_up();
        let next = seat.claim(&Sitting { tid: 5, ..LARGEST }, 9).unwrap();
        assert!(next.put_back_on(Some(2)), "and who comes next has it");
    }

    #[test]
    fn threads_that_want_the_same_seat_get_it_one_after_the_other() {
        let seat = free();
        drop(seat.claim(&LARGEST, ME));
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for node in 0..4u32 {
                let (seat, inside) = (&seat, &inside);
                scope.spawn(move || {
                    let mut times = 0;
                    while times < 2000 {
                        let Some(taken) = seat.take(ME) else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        times += 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        taken.put_back_on(Some(node));
                    }
                });
            }
        });
    }
}
