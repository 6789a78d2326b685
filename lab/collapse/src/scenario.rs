//! The study's hot path on modelled cores: look a mount up, then take a reference, work, and give it back, some
//! times.
//!
//! Stock, the look-up is inside a ticket lock whose two words are on one line, as the study's `spin_lock` has
//! them. Each ticket that is taken and each release writes that line, so every waiter's copy goes, and
//! all of them fetch it again, one after the other; the next holder is somewhere among them. So a
//! hand-over takes the longer the more are waiting. With a queue lock each waits on a line of its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use quartier_memmodel::Access;

use crate::machine::{CORES_MAX, Machine, line, own_line};

/// What the study changed, one after the other; and what a better lock alone would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A ticket lock around the table, one atomic reference count.
    Stock,
    /// An MCS lock instead.
    QueueLock,
    /// The own core's table first.
    PerCoreTables,
    /// Beside that, spare references of each core.
    SloppyCounters,
}

impl Kernel {
    pub const ALL: [Self; 4] =
        [Self::Stock, Self::QueueLock, Self::PerCoreTables, Self::SloppyCounters];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "ticket lock around a table",
            Self::QueueLock => "MCS lock around it",
            Self::PerCoreTables => "with per-core tables",
            Self::SloppyCounters => "with sloppy counters",
        }
    }
}

/// What a core does between two look-ups, and for how long it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Cycles of work that nobody else has to do with, within a tenth.
    pub work_cycles: u64,
    /// References taken and given back, with a part of the work between.
    pub nr_references: u64,
    /// Cycles that are counted; a quarter as many go before.
    pub cycles: u64,
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub nr_cores: usize,
    /// Rounds of all cores in a million cycles.
    pub throughput: f64,
    /// From a release to the next holder's look-up, where somebody waited; absent where nobody did.
    pub hand_over_cycles: Option<f64>,
    /// Copies of lines that writes took from other cores, in a round.
    pub nr_taken: f64,
}

/// Cycles of hashing and comparing in a look-up.
const LOOKUP_CYCLES: u64 = 40;
/// Waiters look again within so many cycles of each other: the length of a turn of their loop.
const TURN_CYCLES: u64 = 20;

const LOCK_NODE: usize = 0;

/// What a core does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    LookUp,
    /// Reads the lock's line again.
    LookAgain,
    Release,
    TakeReference,
    GiveBack,
}

struct Run<'a> {
    machine: &'a mut Machine,
    kernel: Kernel,
    load: Load,
    random: fastrand::Rng,
    /// By time; ties go to the lower core.
    due: BinaryHeap<Reverse<(u64, usize, Step)>>,
    next_ticket: u64,
    serving: u64,
    tickets: [u64; CORES_MAX],
    /// Cores that have a copy of the lock's line and spin on it.
    spinning: Vec<usize>,
    /// The holder of the queue lock and those who wait, each on its own line.
    queue: VecDeque<usize>,
    nr_spares: [u64; CORES_MAX],
    /// References that a core has yet to take in this round.
    nr_to_take: [u64; CORES_MAX],
    released_at: Option<u64>,
    nr_rounds: u64,
    hand_overs: (u64, u64),
}

/// Runs a kernel on the first cores of a machine, node after node.
pub fn run(machine: &mut Machine, kernel: Kernel, nr_cores: usize, load: Load) -> Point {
    let mut run = Run {
        machine,
        kernel,
        load,
        random: fastrand::Rng::with_seed(load.seed),
        due: BinaryHeap::new(),
        next_ticket: 0,
        serving: 0,
        tickets: [0; CORES_MAX],
        spinning: Vec::new(),
        queue: VecDeque::new(),
        nr_spares: [0; CORES_MAX],
        nr_to_take: [load.nr_references; CORES_MAX],
        released_at: None,
        nr_rounds: 0,
        hand_overs: (0, 0),
    };
    for core in 0..nr_cores {
        let begin = run.random.u64(..load.work_cycles.max(1));
        run.due.push(Reverse((begin, core, Step::LookUp)));
    }
    let warm = load.cycles / 4;
    run.until(warm);
    (run.nr_rounds, run.hand_overs) = (0, (0, 0));
    let taken_before = run.machine.nr_taken();
    run.until(warm + load.cycles);
    let (nr_hand_overs, cycles) = run.hand_overs;
    let nr_rounds = run.nr_rounds as f64;
    Point {
        nr_cores,
        throughput: nr_rounds * 1e6 / load.cycles as f64,
        hand_over_cycles: (nr_hand_overs > 0).then(|| cycles as f64 / nr_hand_overs as f64),
        nr_taken: (run.machine.nr_taken() - taken_before) as f64 / nr_rounds.max(1.0),
    }
}

impl Run<'_> {
    fn until(&mut self, end: u64) {
        while let Some(&Reverse((now, core, step))) = self.due.peek()
            && now < end
        {
            self.due.pop();
            match step {
                Step::LookUp => match self.kernel {
                    Kernel::Stock => self.take_ticket(core, now),
                    Kernel::QueueLock => self.queue_up(core, now),
                    Kernel::PerCoreTables | Kernel::SloppyCounters => self.look_up_own(core, now),
                },
                Step::LookAgain => self.look_again(core, now),
                Step::Release if self.kernel == Kernel::QueueLock => self.hand_over(core, now),
                Step::Release => self.release(core, now),
                Step::TakeReference => self.take_reference(core, now),
                Step::GiveBack => self.give_back(core, now),
            }
        }
    }

    fn later(&mut self, core: usize, at: u64, step: Step) {
        self.due.push(Reverse((at, core, step)));
    }

    fn take_ticket(&mut self, core: usize, now: u64) {
        let done = self.write_lock(core, now, Access::Atomic);
        self.tickets[core] = self.next_ticket;
        self.next_ticket += 1;
        // What it reads with its ticket, from the same line.
        self.enter_or_spin(core, done);
    }

    fn look_again(&mut self, core: usize, now: u64) {
        let done = self.machine.access(core, line(LOCK_NODE, 0), Access::Load, now);
        self.enter_or_spin(core, done);
    }

    fn enter_or_spin(&mut self, core: usize, now: u64) {
        if self.tickets[core] == self.serving {
            self.enter(core, now);
        } else {
            self.spinning.push(core);
        }
    }

    fn enter(&mut self, core: usize, now: u64) {
        if let Some(released_at) = self.released_at.take() {
            self.hand_overs.0 += 1;
            self.hand_overs.1 += now - released_at;
        }
        let looked_up = self.look_up(core, now, |number| line(LOCK_NODE, 8 + number));
        self.later(core, looked_up, Step::Release);
    }

    fn release(&mut self, core: usize, now: u64) {
        self.write_lock(core, now, Access::Store);
        self.serving += 1;
        self.released_at = (self.serving < self.next_ticket).then_some(now);
        // The store is on its way, and nobody waits for it here.
        self.later(core, now + 1, Step::TakeReference);
    }

    fn queue_up(&mut self, core: usize, now: u64) {
        let done = self.machine.access(core, line(LOCK_NODE, 0), Access::Atomic, now);
        if let Some(&before) = self.queue.back() {
            let linked = self.machine.access(core, own_line(before, 16), Access::Store, done);
            self.machine.access(core, own_line(core, 16), Access::Load, linked);
        } else {
            self.enter(core, done);
        }
        self.queue.push_back(core);
    }

    fn hand_over(&mut self, core: usize, now: u64) {
        self.queue.pop_front();
        self.released_at = self.queue.front().map(|_| now);
        if let Some(&next) = self.queue.front() {
            let granted = self.machine.access(core, own_line(next, 16), Access::Store, now);
            let seen = self.machine.access(next, own_line(next, 16), Access::Load, granted);
            self.enter(next, seen);
        } else {
            self.machine.access(core, line(LOCK_NODE, 0), Access::Atomic, now);
        }
        self.later(core, now + 1, Step::TakeReference);
    }

    /// Writes the lock's line: all who spin on a copy of it look again. When it is written.
    fn write_lock(&mut self, core: usize, now: u64, access: Access) -> u64 {
        let done = self.machine.access(core, line(LOCK_NODE, 0), access, now);
        for waiter in std::mem::take(&mut self.spinning) {
            let turn = self.random.u64(..TURN_CYCLES);
            self.later(waiter, done + turn, Step::LookAgain);
        }
        done
    }

    fn look_up_own(&mut self, core: usize, now: u64) {
        let looked_up = self.look_up(core, now, |number| own_line(core, number));
        self.later(core, looked_up, Step::TakeReference);
    }

    /// A bucket and an entry of it.
    fn look_up(&mut self, core: usize, now: u64, place: impl Fn(u64) -> u64) -> u64 {
        let bucket = self.machine.access(core, place(0), Access::Load, now);
        self.machine.access(core, place(1), Access::Load, bucket) + LOOKUP_CYCLES
    }

    fn take_reference(&mut self, core: usize, now: u64) {
        // Without a spare it is one of the shared count, and comes back as a spare.
        let done = if self.kernel != Kernel::SloppyCounters || self.nr_spares[core] == 0 {
            self.count(core, now)
        } else {
            self.nr_spares[core] -= 1;
            self.machine.access(core, own_line(core, 8), Access::Store, now)
        };
        let part = self.load.work_cycles / self.load.nr_references;
        let tenth = part / 10;
        let work = part - tenth + self.random.u64(..=2 * tenth);
        self.later(core, done + work, Step::GiveBack);
    }

    fn give_back(&mut self, core: usize, now: u64) {
        let done = if self.kernel == Kernel::SloppyCounters {
            self.nr_spares[core] += 1;
            self.machine.access(core, own_line(core, 8), Access::Store, now)
        } else {
            self.count(core, now)
        };
        self.nr_to_take[core] -= 1;
        if self.nr_to_take[core] > 0 {
            return self.later(core, done, Step::TakeReference);
        }
        self.nr_to_take[core] = self.load.nr_references;
        self.nr_rounds += 1;
        self.later(core, done, Step::LookUp);
    }

    /// Changes the shared reference count.
    fn count(&mut self, core: usize, now: u64) -> u64 {
        self.machine.access(core, line(LOCK_NODE, 4), Access::Atomic, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the command does by itself, for a shorter time.
    const LOAD: Load = Load { work_cycles: 46_000, nr_references: 3, cycles: 2_000_000, seed: 1 };

    fn point(kernel: Kernel, nr_cores: usize) -> Point {
        run(&mut Machine::new().unwrap(), kernel, nr_cores, LOAD)
    }

    #[test]
    fn one_core_has_no_use_for_the_cures() {
        let [stock, queue, tables, sloppy] = Kernel::ALL.map(|kernel| point(kernel, 1).throughput);
        assert!((0.97..1.03).contains(&(queue / sloppy)), "{queue} {sloppy}");
        assert!((0.97..1.03).contains(&(stock / sloppy)), "{stock} {sloppy}");
        assert!((0.97..1.03).contains(&(tables / sloppy)), "{tables} {sloppy}");
        assert_eq!(point(Kernel::Stock, 1).hand_over_cycles, None, "nobody waits");
    }

    #[test]
    fn a_hand_over_costs_more_the_more_are_waiting_and_throughput_falls() {
        let [some, many] = [44, 48].map(|nr_cores| point(Kernel::Stock, nr_cores));
        let best = (1..=CORES_MAX)
            .step_by(4)
            .map(|nr_cores| point(Kernel::Stock, nr_cores).throughput)
            .fold(0.0, f64::max);
        assert!(many.throughput < 0.7 * best, "{many:?}, at best {best}");
        assert!(many.hand_over_cycles > some.hand_over_cycles, "{some:?} {many:?}");
        // The study's slides: 500 to 4000 cycles.
        assert!(many.hand_over_cycles.unwrap() > 500.0, "{many:?}");
    }

    #[test]
    fn a_queue_lock_is_handed_over_as_fast_to_one_of_many() {
        let hand_over = |nr_cores| point(Kernel::QueueLock, nr_cores).hand_over_cycles.unwrap();
        assert!(hand_over(48) < 1.5 * hand_over(24), "{} {}", hand_over(24), hand_over(48));
    }

    #[test]
    fn each_cure_scales_farther_than_what_it_cures() {
        let [stock, queue, tables, sloppy] = Kernel::ALL.map(|kernel| point(kernel, 48).throughput);
        assert!(queue > 1.5 * stock, "{stock} {queue}");
        assert!(tables > 1.5 * stock, "{stock} {tables}");
        assert!(sloppy > 1.05 * tables, "{tables} {sloppy}");
        let alone = point(Kernel::SloppyCounters, 1).throughput;
        assert!(sloppy > 47.0 * alone, "{alone} {sloppy}");
        assert!(point(Kernel::SloppyCounters, 48).nr_taken < 0.01);
    }

    #[test]
    fn a_seed_tells_the_whole_run() {
        assert_eq!(point(Kernel::Stock, 24), point(Kernel::Stock, 24));
    }
}
