//! CPUs keep in step where they share. Emulated CPUs take turns on those of this machine: in one turn a CPU could use a line a
//! thousand times that others want too, where on a machine it would have lost it after the first. So whoever comes to a line
//! that has gone from CPU to CPU of late waits for those that are behind, by modelled time; all else runs as it can.

mod lines;
mod woken;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use lines::Lines;
pub use lines::Mask;
use woken::Woken;

/// So far ahead of the last, modelled cycles, a CPU may be when it comes to a shared line: some accesses of its own cache.
const AHEAD_MAX: u64 = 40;

/// And so far ahead of any other, wherever it is: a small part of the window in which the model sums up what memories and links are
/// asked for.
const AHEAD_OF_ALL_MAX: u64 = 1 << 15;

/// Whoever is behind and does not get on in so many turns of others (it waits for something that is not modelled) is taken
/// for one that has caught up.
const TURNS_MAX: u32 = 400;

/// What a CPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Measured,
    /// Something else, which has taken it from something that is measured and would go on.
    InsteadOfMeasured,
    /// Something else.
    Other,
    /// It is idle.
    Nothing,
}

/// How far CPUs are, and which lines they share.
#[derive(Debug)]
pub struct Steps {
    clocks: Box<[Clock]>,
    lines: Lines,
    /// How many CPUs run what is measured, or would.
    nr_busy: AtomicUsize,
    woken: Woken,
    /// Of [`Clock::alone`].
    phase: AtomicUsize,
    /// Where the CPU that is ahead of all others was when that was last looked at.
    furthest: AtomicU64,
    /// How long only other things ran, cycles.
    besides: AtomicU64,
}

/// A CPU's modelled time, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Clock {
    /// Cycles that it has spent.
    spent: AtomicU64,
    /// And what it is taken to have slept or waited besides.
    skipped: AtomicI64,
    /// Cycles of those that it spent while no other CPU was busy: while the program has one thread, and while it has several.
    alone: [AtomicU64; 2],
    /// Until it has spent so many it need not look where the others are.
    goes_on_until: AtomicU64,
    /// What it runs.
    task: AtomicU64,
    /// That is measured,
    is_measured: AtomicBool,
    /// or would if nothing else had it.
    is_held_up: AtomicBool,
    /// Something else, whatever it has taken it from,
    is_other: AtomicBool,
    /// up to so many cycles of the CPU's.
    other_until: AtomicU64,
}

impl Clock {
    fn at(&self) -> u64 {
        let (spent, skipped) =
            (self.spent.load(Ordering::Relaxed), self.skipped.load(Ordering::Relaxed));
        spent.saturating_add_signed(skipped)
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.is_measured.load(Ordering::Relaxed) || self.is_held_up.load(Ordering::Relaxed)
    }
}

impl Steps {
    /// For so many CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        Self {
            clocks: (0..nr_cpus).map(|_| Clock::default()).collect(),
            lines: Lines::new(),
            nr_busy: AtomicUsize::new(0),
            woken: Woken::default(),
            phase: AtomicUsize::new(0),
            furthest: AtomicU64::new(0),
            besides: AtomicU64::new(0),
        }
    }

    /// A CPU that runs what is measured has spent so many cycles in all.
    #[inline]
    pub fn spent(&self, cpu: usize, cycles: u64) {
        let Some(clock) = self.clocks.get(cpu) else { return };
        // Only its own CPU writes these.
        if self.is_alone(cpu) {
            let alone = &clock.alone[self.phase.load(Ordering::Relaxed)];
            let more = cycles.saturating_sub(clock.spent.load(Ordering::Relaxed));
            alone.store(alone.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
        clock.spent.store(cycles, Ordering::Relaxed);
    }

    /// Whether the program has several threads from now on.
    pub fn parallel(&self, is_parallel: bool) {
        self.phase.store(usize::from(is_parallel), Ordering::Relaxed);
    }

    /// What a CPU has spent alone in one of the two phases.
    pub fn alone(&self, cpu: usize, phase: usize) -> u64 {
        self.clocks.get(cpu).map_or(0, |clock| clock.alone[phase].load(Ordering::Relaxed))
    }

    /// What task a CPU runs from now on instead of another, when it has spent so many cycles. Who begins is where it was woken, or if that
    /// is not known where the last of the others is, as it has slept, or was; who was held up is where it was: on a machine what measures would
    /// not be there.
    pub fn runs(&self, cpu: usize, (what, task): (What, u64), left: Option<u64>, cycles: u64) {
        let Some(clock) = self.clocks.get(cpu) else { return };
        self.reaches(clock);
        self.passes_besides(clock, cycles);
        if let Some(left) = left {
            self.woken.forget(left);
        }
        clock.task.store(task, Ordering::Relaxed);
        let is_held_up = match what {
            What::Measured => {
                let woken = self.woken.forget(task);
                if !clock.is_measured.load(Ordering::Relaxed) {
                    let was_at = clock.at();
                    let slept = !clock.is_held_up.load(Ordering::Relaxed);
                    let last = || {
                        let furthest = self.furthest.load(Ordering::Relaxed);
                        self.last(cpu, Mask::ALL).map_or(furthest, |(_, last)| last)
                    };
                    let woken = woken.map(|woken| woken.max(was_at));
                    let at = if slept { woken.unwrap_or_else(last) } else { was_at };
                    clock.skipped.store(at.wrapping_sub(cycles) as i64, Ordering::Relaxed);
                    clock.spent.store(cycles, Ordering::Relaxed);
                }
                false
            }
            What::InsteadOfMeasured => true,
            What::Other => clock.is_held_up.load(Ordering::Relaxed),
            What::Nothing => false,
        };
        let was_busy = clock.is_busy();
        clock.is_measured.store(what == What::Measured, Ordering::Relaxed);
        clock.is_held_up.store(is_held_up, Ordering::Relaxed);
        let is_other = matches!(what, What::InsteadOfMeasured | What::Other);
        clock.is_other.store(is_other, Ordering::Relaxed);
        match (was_busy, clock.is_busy()) {
            (false, true) => self.nr_busy.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.nr_busy.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// A CPU wakes a task that is measured, which sleeps.
    pub fn wakes(&self, cpu: usize, task: u64) {
        let by_measured = self.clocks.get(cpu).filter(|by| by.is_measured.load(Ordering::Relaxed));
        let at = by_measured.map(Clock::at).or_else(|| Some(self.last(usize::MAX, Mask::ALL)?.1));
        let runs = self.clocks.iter().any(|clock| clock.task.load(Ordering::Relaxed) == task);
        if let Some(at) = at.filter(|_| !runs) {
            self.woken.note(task, at);
        }
    }

    /// A task does not come any more.
    pub fn ended(&self, task: u64) {
        self.woken.forget(task);
    }

    /// A CPU has taken this line from another.
    pub fn share(&self, cpu: usize, address: u64) {
        self.lines.share(address, cpu, self.at(cpu));
    }

    /// Who takes it from each other, by one's own time.
    #[inline]
    pub fn sharing(&self, cpu: usize, address: u64) -> Option<Mask> {
        self.lines.sharing(address, self.at(cpu))
    }

    #[inline]
    fn at(&self, cpu: usize) -> u64 {
        self.clocks.get(cpu).map_or(0, Clock::at)
    }

    /// A CPU comes to a line that these take from each other: it waits until none of them is behind; `turn` lets others run.
    pub fn wait(&self, cpu: usize, cpus: Mask, turn: impl Fn()) {
        self.wait_for(cpu, cpus, AHEAD_MAX, turn);
    }

    /// Whether it is time for a CPU that has got on to look where the others are.
    #[inline]
    pub fn looks(&self, cpu: usize) -> bool {
        let Some(clock) = self.clocks.get(cpu) else { return false };
        let spent = clock.spent.load(Ordering::Relaxed);
        let looks = spent >= clock.goes_on_until.load(Ordering::Relaxed);
        if looks {
            clock.goes_on_until.store(spent + AHEAD_OF_ALL_MAX / 4, Ordering::Relaxed);
        }
        looks
    }

    /// A CPU that has got on waits until nobody is far behind.
    pub fn wait_for_all(&self, cpu: usize, turn: impl Fn()) {
        self.wait_for(cpu, Mask::ALL, AHEAD_OF_ALL_MAX, turn);
    }

    /// A CPU that may run something else has spent so many cycles in all; whether it is time to look how late it is.
    #[inline]
    pub fn spent_besides(&self, cpu: usize, cycles: impl FnOnce() -> u64) -> bool {
        // An idle CPU's code is nothing.
        let Some(clock) =
            self.clocks.get(cpu).filter(|clock| clock.is_other.load(Ordering::Relaxed))
        else {
            return false;
        };
        let (until, cycles) = (clock.other_until.load(Ordering::Relaxed), cycles());
        cycles >= until + AHEAD_OF_ALL_MAX / 4 && self.passes_besides(clock, cycles)
    }

    /// Time has passed with something else up to so many cycles of a CPU, if that runs such, and if nothing measured runs anywhere.
    fn passes_besides(&self, clock: &Clock, cycles: u64) -> bool {
        let until = clock.other_until.swap(cycles, Ordering::Relaxed);
        let nr = |is: fn(&Clock) -> &AtomicBool| {
            self.clocks.iter().filter(|clock| is(clock).load(Ordering::Relaxed)).count() as u64
        };
        let is_besides =
            clock.is_other.load(Ordering::Relaxed) && nr(|clock| &clock.is_measured) == 0;
        if is_besides {
            // All of them at the same time, about.
            let passed = cycles.saturating_sub(until) / nr(|clock| &clock.is_other).max(1);
            self.besides.fetch_add(passed, Ordering::Relaxed);
        }
        is_besides
    }

    /// Whether any CPU has something to do.
    pub fn is_working(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        self.clocks.iter().any(|clock| is(&clock.is_measured) || is(&clock.is_other))
    }

    /// A CPU may be farther with what is measured than any was.
    fn reaches(&self, clock: &Clock) {
        if clock.is_measured.load(Ordering::Relaxed) {
            self.furthest.fetch_max(clock.at(), Ordering::Relaxed);
        }
    }

    /// How late it is in the whole guest, cycles: how far that CPU has come with what is measured, or one that was farther, and what only
    /// others took.
    pub fn time(&self, cpu: usize) -> u64 {
        if let Some(clock) = self.clocks.get(cpu) {
            self.reaches(clock);
        }
        self.furthest.load(Ordering::Relaxed) + self.besides.load(Ordering::Relaxed)
    }

    fn wait_for(&self, cpu: usize, cpus: Mask, ahead_max: u64, turn: impl Fn()) {
        let Some(at) = self.clocks.get(cpu).map(Clock::at) else { return };
        let mut seen = None;
        let mut nr_turns = 0;
        loop {
            let Some((other, last)) = self.last(cpu, cpus) else { return };
            if last.saturating_add(ahead_max) >= at {
                return;
            }
            if seen != Some((other, last)) {
                (seen, nr_turns) = (Some((other, last)), 0);
            }
            if nr_turns == TURNS_MAX {
                let behind = at.saturating_sub(last);
                self.clocks[other].skipped.fetch_add(behind as i64, Ordering::Relaxed);
                return;
            }
            nr_turns += 1;
            turn();
        }
    }

    /// Whether no other CPU runs what is measured, nor would if it could, nor will in a moment.
    #[inline]
    pub fn is_alone(&self, cpu: usize) -> bool {
        let own = self.clocks.get(cpu).is_some_and(Clock::is_busy);
        self.nr_busy.load(Ordering::Relaxed) == usize::from(own) && self.woken.is_empty()
    }

    /// Of these others that run what is measured the one that is last, and where it is.
    fn last(&self, cpu: usize, cpus: Mask) -> Option<(usize, u64)> {
        let others = self.clocks.iter().enumerate().filter(|(other, clock)| {
            *other != cpu && cpus.has(*other) && clock.is_measured.load(Ordering::Relaxed)
        });
        others.map(|(other, clock)| (other, clock.at())).min_by_key(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn steps(spent: &[u64]) -> Steps {
        let steps = Steps::new(spent.len());
        (0..spent.len()).for_each(|cpu| runs(&steps, cpu, What::Measured, 0));
        spent.iter().enumerate().for_each(|(cpu, cycles)| steps.spent(cpu, *cycles));
        steps
    }

    /// Each CPU has a task of its own, with the number behind its own.
    fn runs(steps: &Steps, cpu: usize, what: What, cycles: u64) {
        let task = if what == What::Measured { cpu as u64 + 1 } else { 99 };
        steps.runs(cpu, (what, task), None, cycles);
    }

    #[test]
    fn whoever_is_ahead_waits_until_the_last_has_come() {
        let steps = steps(&[1000, 500, 970]);
        let turns = Cell::new(0);
        steps.wait(0, Mask::ALL, || {
            turns.set(turns.get() + 1);
            steps.spent(1, 500 + 100 * turns.get());
        });
        // At 1000 as it was; the third is near enough all the time.
        assert_eq!(turns.get(), 5);
        steps.wait(0, Mask::ALL, || panic!("nobody is behind"));
        steps.wait(2, Mask::ALL, || panic!("nor was it ahead"));
    }

    #[test]
    fn whoever_does_not_come_is_not_waited_for_again() {
        let steps = steps(&[10_000, 5]);
        let turns = Cell::new(0);
        steps.wait(0, Mask::ALL, || turns.set(turns.get() + 1));
        assert_eq!(turns.get(), TURNS_MAX);
        steps.wait(0, Mask::ALL, || panic!("it was taken for one that has caught up"));
        // And what it does from then on counts from there.
        steps.spent(1, 1005);
        steps.wait(1, Mask::ALL, || turns.set(0));
        assert_eq!(turns.get(), 0, "now it is the one that is ahead");
    }

    #[test]
    fn whoever_gets_on_is_waited_for_however_slowly_that_is() {
        let steps = steps(&[10_000, 0]);
        let turns = Cell::new(0);
        steps.wait(0, Mask::ALL, || {
            turns.set(turns.get() + 1);
            steps.spent(1, 5 * u64::from(turns.get() / (TURNS_MAX - 1)));
        });
        assert!(turns.get() > 1000 * TURNS_MAX);
    }

    #[test]
    fn nobody_is_far_ahead_of_another_wherever_it_is() {
        let steps = steps(&[AHEAD_OF_ALL_MAX + 7, 3]);
        let turns = Cell::new(0);
        let waits = || {
            turns.set(0);
            if steps.looks(0) {
                steps.wait_for_all(0, || {
                    turns.set(turns.get() + 1);
                    steps.spent(1, 3 + turns.get());
                });
            }
            turns.get()
        };
        assert_eq!(waits(), 4);
        assert_eq!(waits(), 0, "not looked at again so soon");
        steps.spent(0, 2 * AHEAD_OF_ALL_MAX);
        assert_eq!(waits(), AHEAD_OF_ALL_MAX - 3);
    }

    #[test]
    fn who_runs_something_else_is_not_waited_for_and_begins_where_the_last_is() {
        let steps = steps(&[10_000, 5]);
        assert!(!steps.is_alone(0));
        runs(&steps, 1, What::Other, 5);
        assert!(steps.is_alone(0));
        steps.wait(0, Mask::ALL, || panic!("what it runs is not measured"));
        runs(&steps, 1, What::Measured, 7_000);
        steps.wait(0, Mask::ALL, || panic!("it has slept until now"));
        steps.wait(1, Mask::ALL, || panic!("and is not ahead either"));
    }

    #[test]
    fn who_is_held_up_leaves_nobody_alone_and_goes_on_where_it_was() {
        let steps = steps(&[10_000, 9_990]);
        runs(&steps, 1, What::InsteadOfMeasured, 9_990);
        steps.wait(0, Mask::ALL, || panic!("it cannot come"));
        runs(&steps, 1, What::Other, 0);
        assert!(!steps.is_alone(0));
        steps.spent(0, 12_000);
        // What had the CPU meanwhile is not its own.
        runs(&steps, 1, What::Measured, 50_000);
        let turns = Cell::new(0);
        steps.wait(0, Mask::ALL, || {
            turns.set(turns.get() + 1);
            steps.spent(1, 50_000 + 1_000 * turns.get());
        });
        assert_eq!(turns.get(), 2, "it comes from 9,990");
        // What was taken from one CPU has gone on elsewhere if that one has nothing to do.
        runs(&steps, 1, What::InsteadOfMeasured, 52_000);
        runs(&steps, 1, What::Nothing, 53_000);
        assert!(steps.is_alone(0));
    }

    #[test]
    fn who_is_woken_begins_where_that_was_however_long_it_takes_here() {
        let steps = steps(&[10_000, 5]);
        runs(&steps, 1, What::Nothing, 5);
        assert!(steps.is_alone(0));
        steps.wakes(0, 2);
        assert!(!steps.is_alone(0), "it comes in a moment");
        // Twice is once, and who runs is not woken.
        steps.spent(0, 11_000);
        steps.wakes(0, 2);
        steps.wakes(0, 1);
        steps.spent(0, 20_000);
        runs(&steps, 1, What::Measured, 700);
        assert_eq!(steps.clocks[1].at(), 10_000);
        assert!(!steps.is_alone(0) && steps.woken.is_empty());
        // Before its CPU was done with something else it cannot have begun.
        steps.spent(1, 30_700);
        runs(&steps, 1, What::Nothing, 30_700);
        steps.wakes(0, 2);
        runs(&steps, 1, What::Measured, 30_800);
        assert_eq!(steps.clocks[1].at(), 40_000);
        // Who is woken and does not come has ended.
        runs(&steps, 1, What::Nothing, 30_900);
        steps.wakes(1, 2);
        assert!(!steps.is_alone(0));
        steps.ended(2);
        assert!(steps.is_alone(0));
        // By whoever does not run what is measured: where the last is.
        steps.wakes(1, 2);
        assert_eq!(steps.woken.forget(2), Some(20_000));
    }

    #[test]
    fn who_begins_when_nobody_works_is_where_the_guest_is() {
        let steps = steps(&[10_000, 5]);
        assert_eq!((steps.time(1), steps.time(0), steps.time(1)), (5, 10_000, 10_000));
        runs(&steps, 1, What::Nothing, 5);
        steps.spent(0, 12_000);
        runs(&steps, 0, What::Nothing, 12_000);
        assert_eq!(steps.time(0), 12_000);
        runs(&steps, 1, What::Measured, 700);
        steps.spent(1, 800);
        assert_eq!((steps.clocks[1].at(), steps.time(1)), (12_100, 12_100));
    }

    #[test]
    fn time_passes_with_others_where_nothing_is_measured() {
        let steps = steps(&[0, 0, 0]);
        runs(&steps, 1, What::Other, 500);
        assert!(!steps.spent_besides(1, || 50_500), "something is measured");
        (0..3).for_each(|cpu| runs(&steps, cpu, What::Other, 50_500));
        runs(&steps, 2, What::Nothing, 50_500);
        assert!(!steps.spent_besides(1, || 50_600), "looked at later");
        assert!(steps.spent_besides(1, || 70_500) && steps.spent_besides(0, || 70_500));
        assert!(!steps.spent_besides(2, || 90_500), "it idles");
        assert_eq!(steps.time(0), 20_000, "two at the same time");
        // However often they take turns.
        (1..=100).for_each(|turn| runs(&steps, 1, What::Other, 70_500 + 100 * turn));
        assert_eq!(steps.time(0), 25_000);
    }

    #[test]
    fn what_a_cpu_does_alone_is_known_by_phase() {
        let steps = Steps::new(2);
        runs(&steps, 0, What::Measured, 1_000);
        steps.spent(0, 1_100);
        steps.parallel(true);
        steps.spent(0, 1_105);
        runs(&steps, 1, What::Measured, 70);
        steps.spent(0, 2_000);
        steps.spent(1, 500);
        runs(&steps, 0, What::Nothing, 2_010);
        steps.spent(1, 510);
        assert_eq!(
            [0, 1].map(|cpu| [0, 1].map(|phase| steps.alone(cpu, phase))),
            [[100, 5], [0, 10]]
        );
        runs(&steps, 0, What::Measured, 9_000);
        runs(&steps, 1, What::Nothing, 520);
        steps.spent(0, 9_001);
        assert_eq!(steps.alone(0, 1), 6, "what it ran meanwhile is not the program's");
    }

    #[test]
    fn nobody_waits_for_those_who_do_not_share() {
        let steps = steps(&[1000, 5, 500]);
        steps.wait(0, Mask::default().with(0), || panic!("nobody else takes it"));
        let turns = Cell::new(0);
        steps.wait(0, Mask::default().with(0).with(2), || {
            turns.set(turns.get() + 1);
            steps.spent(2, 980);
        });
        assert_eq!(turns.get(), 1);
    }
}
