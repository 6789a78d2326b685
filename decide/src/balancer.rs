//! Which threads should be held somewhere else: the condition of thesis 4.3.4 (U = 100, T > 1, R > 0), as
//! somebody sees it who is not the scheduler. A thread's waiting time says that its CPUs are busy, that
//! there is more than one thread for them, and that one could run and does not.
//!
//! Where it should go instead is [`policy::Balance`](crate::policy::Balance)'s to say.

use std::collections::BTreeMap;

use quartier_model::Nanos;

/// A thread that waits for a CPU for this part of the time should be somewhere else,
const WAITED_PERCENT: u64 = 20;
/// if it did at so many looks, one after the other.
const LOOKS_WAITED: u32 = 2;
/// One that may go anywhere and runs less than this share of the time is not held yet: where is of no importance.
const RAN_PERCENT: u64 = 1;
/// Whoever was moved stays for so many looks, and for twice as many each time.
const LOOKS_AT_REST: u32 = 10;
const LOOKS_AT_REST_MAX: u32 = 640;
/// One that may go anywhere is held where it is, although it waits, after so many looks: no CPU is idle.
const LOOKS_TO_SETTLE: u32 = 10;

/// A thread at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whatever tells it from the others.
    pub id: u64,
    /// Whether it is held on a node; otherwise it may go anywhere.
    pub is_held: bool,
    /// Time on a CPU since it began.
    pub ran: Nanos,
    /// Time that it could have run since it began, and others had its CPU.
    pub waited: Nanos,
}

/// What should become of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It went where it would, and runs there: hold it there.
    Settle(u64),
    /// It waits where it is held: hold it where there is an idle CPU, if there is one.
    Leave(u64),
}

/// What is known of a thread from earlier looks.
#[derive(Clone, Copy, Debug)]
struct Known {
    ran: Nanos,
    waited: Nanos,
    looks_waited: u32,
    looks_to_rest: u32,
    /// How long it is to rest the next time.
    rest: u32,
}

/// Looks at threads again and again.
#[derive(Debug, Default)]
pub struct Balancer {
    known: BTreeMap<u64, Known>,
}

impl Balancer {
    /// One that has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at all threads, so much time after the last look; gives what should be done, those first that
    /// wait longest. Threads that are not seen are forgotten.
    pub fn look(&mut self, elapsed: Nanos, threads: impl IntoIterator<Item = Seen>) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let before = std::mem::take(&mut self.known);
        for seen in threads {
            let mut known = before.get(&seen.id).copied().unwrap_or_else(|| Known::of(&seen));
            let waited = seen.waited.0.saturating_sub(known.waited.0);
            if let Some(wish) = known.wish(elapsed, &seen) {
                wishes.push((waited, wish));
            }
            self.known.insert(seen.id, known);
        }
        wishes.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
        wishes.into_iter().map(|(_, wish)| wish).collect()
    }

    /// Whether any thread waited at the last look: then it is worth knowing which CPUs are idle.
    #[must_use]
    pub fn anybody_waits(&self) -> bool {
        self.known.values().any(|known| known.looks_waited > 0)
    }

    /// A thread is held somewhere else from now on.
    pub fn moved(&mut self, id: u64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.looks_waited = 0;
            known.looks_to_rest = known.rest;
            known.rest = (2 * known.rest).min(LOOKS_AT_REST_MAX);
        }
    }
}

impl Known {
    fn of(seen: &Seen) -> Self {
        let Seen { ran, waited, .. } = *seen;
        Self { ran, waited, looks_waited: 0, looks_to_rest: 0, rest: LOOKS_AT_REST }
    }

    fn wish(&mut self, elapsed: Nanos, seen: &Seen) -> Option<Wish> {
        let is_share = |part: u64, percent: u64| {
            part.saturating_mul(100) >= elapsed.0.saturating_mul(percent) && elapsed.0 > 0
        };
        let ran = seen.ran.0.saturating_sub(self.ran.0);
        let waits = is_share(seen.waited.0.saturating_sub(self.waited.0), WAITED_PERCENT);
        (self.ran, self.waited) = (seen.ran, seen.waited);
        self.looks_waited = if waits { self.looks_waited + 1 } else { 0 };
        self.looks_to_rest = self.looks_to_rest.saturating_sub(1);
        match seen.is_held {
            false => {
                let is_in_place = !waits || self.looks_waited >= LOOKS_TO_SETTLE;
                (is_share(ran, RAN_PERCENT) && is_in_place).then_some(Wish::Settle(seen.id))
            }
            true => {
                let has_waited = self.looks_waited >= LOOKS_WAITED && self.looks_to_rest == 0;
                has_waited.then_some(Wish::Leave(seen.id))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Nanos = Nanos(100_000_000);

    /// A thread that runs and waits for so many percent of the time.
    #[derive(Clone, Copy)]
    struct Thread {
        id: u64,
        held: bool,
        ran_percent: u64,
        waited_percent: u64,
    }

    /// Looks so many times; gives the looks at which each wish was uttered.
    fn looks(
        balancer: &mut Balancer,
        threads: &[Thread],
        nr: u64,
        moves: bool,
    ) -> Vec<(u64, Wish)> {
        let mut uttered = Vec::new();
        for look in 1..=nr {
            let seen = threads.iter().map(|thread| Seen {
                id: thread.id,
                is_held: thread.held,
                ran: Nanos(look * thread.ran_percent * LOOK.0 / 100),
                waited: Nanos(look * thread.waited_percent * LOOK.0 / 100),
            });
            for wish in balancer.look(LOOK, seen.collect::<Vec<_>>()) {
                uttered.push((look, wish));
                if let (Wish::Leave(id), true) = (wish, moves) {
                    balancer.moved(id);
                }
            }
        }
        uttered
    }

    fn thread(id: u64, held: bool, ran_percent: u64, waited_percent: u64) -> Thread {
        Thread { id, held, ran_percent, waited_percent }
    }

    #[test]
    fn who_waits_at_two_looks_leaves_and_the_longest_waiter_first() {
        let threads = [thread(1, true, 60, 30), thread(2, true, 50, 45), thread(3, true, 90, 5)];
        // The first look only begins the account.
        let uttered = looks(&mut Balancer::new(), &threads, 3, false);
        let (two, one) = (Wish::Leave(2), Wish::Leave(1));
        assert_eq!(uttered, [(3, two), (3, one)]);
    }

    #[test]
    fn who_was_moved_rests_twice_as_long_each_time() {
        let uttered = looks(&mut Balancer::new(), &[thread(1, true, 50, 50)], 80, true);
        let at: Vec<u64> = uttered.iter().map(|(look, _)| *look).collect();
        assert_eq!(at, [3, 13, 33, 73]);
    }

    #[test]
    fn a_thread_is_held_once_it_runs_without_waiting() {
        let mut balancer = Balancer::new();
        assert_eq!(looks(&mut balancer, &[thread(1, false, 0, 0)], 20, true), [], "it sleeps");
        let runs = looks(&mut Balancer::new(), &[thread(1, false, 80, 10)], 2, true);
        assert_eq!(runs, [(2, Wish::Settle(1))]);
        let waits = looks(&mut Balancer::new(), &[thread(1, false, 50, 50)], 11, true);
        assert_eq!(waits, [(11, Wish::Settle(1))], "where every CPU is busy");
    }

    #[test]
    fn a_thread_that_was_away_begins_anew() {
        let mut balancer = Balancer::new();
        looks(&mut balancer, &[thread(1, true, 50, 50)], 2, true);
        looks(&mut balancer, &[], 1, true);
        let again = looks(&mut balancer, &[thread(1, true, 50, 50)], 2, true);
        assert_eq!(again, []);
        assert_eq!(balancer.look(Nanos(0), []), [], "no time at all");
    }
}
