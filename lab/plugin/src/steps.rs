//! CPUs keep in step where they share. Emulated CPUs take turns on those of this machine: in one turn a CPU could use a line a
//! thousand times that others want too, where on a machine it would have lost it after the first. So whoever comes to a line
//! that has gone from CPU to CPU before waits for those that are behind, by modelled time; all else runs as it can.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

/// So far ahead of the last, modelled cycles, a CPU may be when it comes to a shared line: some accesses of its own cache.
const AHEAD_MAX: u64 = 40;

/// Whoever is behind and does not come after so many turns of others (it waits for something that is not modelled) is taken
/// for one that has caught up.
const TURNS_MAX: u32 = 400;

/// Lines are told apart by so many bits of a hash; two that are not are both waited for.
const LINE_BITS: u32 = 16;

/// Bytes of a line, as a power of two: no machine that is modelled has longer ones.
const LINE_SHIFT: u32 = 6;

/// How far CPUs are, and which lines they share.
#[derive(Debug)]
pub struct Steps {
    clocks: Box<[Clock]>,
    shared: Box<[AtomicU8]>,
}

/// A CPU's modelled time, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Clock {
    /// Cycles that it has spent.
    spent: AtomicU64,
    /// And what it is taken to have slept or waited besides.
    skipped: AtomicI64,
    /// It runs what is measured.
    is_measured: AtomicBool,
}

impl Clock {
    fn at(&self) -> u64 {
        let (spent, skipped) =
            (self.spent.load(Ordering::Relaxed), self.skipped.load(Ordering::Relaxed));
        spent.saturating_add_signed(skipped)
    }
}

impl Steps {
    /// For so many CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        Self {
            clocks: (0..nr_cpus).map(|_| Clock::default()).collect(),
            shared: (0..1 << LINE_BITS).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    /// A CPU has spent so many cycles in all.
    #[inline]
    pub fn spent(&self, cpu: usize, cycles: u64) {
        if let Some(clock) = self.clocks.get(cpu) {
            clock.spent.store(cycles, Ordering::Relaxed);
        }
    }

    /// What a CPU runs from now on is measured, or is not. Who begins is where the last of the others is: it has slept.
    pub fn runs(&self, cpu: usize, is_measured: bool) {
        let Some(clock) = self.clocks.get(cpu) else { return };
        if is_measured
            && !clock.is_measured.load(Ordering::Relaxed)
            && let Some((_, last)) = self.last(cpu)
        {
            let spent = clock.spent.load(Ordering::Relaxed);
            clock.skipped.store(last.wrapping_sub(spent) as i64, Ordering::Relaxed);
        }
        clock.is_measured.store(is_measured, Ordering::Relaxed);
    }

    /// CPUs take this line from each other.
    pub fn share(&self, address: u64) {
        self.shared[place_of(address)].store(1, Ordering::Relaxed);
    }

    /// Whether they do.
    #[inline]
    pub fn is_shared(&self, address: u64) -> bool {
        self.shared[place_of(address)].load(Ordering::Relaxed) != 0
    }

    /// Waits until no other CPU is far behind; `turn` lets others run.
    pub fn wait(&self, cpu: usize, turn: impl Fn()) {
        let Some(at) = self.clocks.get(cpu).map(Clock::at) else { return };
        for _ in 0..TURNS_MAX {
            match self.last(cpu) {
                Some((_, last)) if last.saturating_add(AHEAD_MAX) < at => turn(),
                _ => return,
            }
        }
        if let Some((other, last)) = self.last(cpu) {
            let behind = at.saturating_sub(last);
            self.clocks[other].skipped.fetch_add(behind as i64, Ordering::Relaxed);
        }
    }

    /// Whether no other CPU runs what is measured.
    pub fn is_alone(&self, cpu: usize) -> bool {
        self.last(cpu).is_none()
    }

    /// Of the others that run what is measured the one that is last, and where it is.
    fn last(&self, cpu: usize) -> Option<(usize, u64)> {
        let others =
            self.clocks.iter().enumerate().filter(|(other, clock)| {
                *other != cpu && clock.is_measured.load(Ordering::Relaxed)
            });
        others.map(|(other, clock)| (other, clock.at())).min_by_key(|(_, at)| *at)
    }
}

fn place_of(address: u64) -> usize {
    let line = address >> LINE_SHIFT;
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LINE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn steps(spent: &[u64]) -> Steps {
        let steps = Steps::new(spent.len());
        (0..spent.len()).for_each(|cpu| steps.runs(cpu, true));
        spent.iter().enumerate().for_each(|(cpu, cycles)| steps.spent(cpu, *cycles));
        steps
    }

    #[test]
    fn whoever_is_ahead_waits_until_the_last_has_come() {
        let steps = steps(&[1000, 500, 970]);
        let turns = Cell::new(0);
        steps.wait(0, || {
            turns.set(turns.get() + 1);
            steps.spent(1, 500 + 100 * turns.get());
        });
        // At 1000 as it was; the third is near enough all the time.
        assert_eq!(turns.get(), 5);
        steps.wait(0, || panic!("nobody is behind"));
        steps.wait(2, || panic!("nor was it ahead"));
    }

    #[test]
    fn whoever_does_not_come_is_not_waited_for_again() {
        let steps = steps(&[10_000, 5]);
        let turns = Cell::new(0);
        steps.wait(0, || turns.set(turns.get() + 1));
        assert_eq!(turns.get(), TURNS_MAX);
        steps.wait(0, || panic!("it was taken for one that has caught up"));
        // And what it does from then on counts from there.
        steps.spent(1, 1005);
        steps.wait(1, || turns.set(0));
        assert_eq!(turns.get(), 0, "now it is the one that is ahead");
    }

    #[test]
    fn who_runs_something_else_is_not_waited_for_and_begins_where_the_last_is() {
        let steps = steps(&[10_000, 5]);
        assert!(!steps.is_alone(0));
        steps.runs(1, false);
        assert!(steps.is_alone(0));
        steps.wait(0, || panic!("what it runs is not measured"));
        steps.spent(1, 7_000);
        steps.runs(1, true);
        steps.wait(0, || panic!("it has slept until now"));
        steps.wait(1, || panic!("and is not ahead either"));
    }

    #[test]
    fn a_line_is_shared_as_a_whole_once_it_was_taken() {
        let steps = steps(&[0]);
        assert!(!steps.is_shared(0x1000));
        steps.share(0x1008);
        assert!(steps.is_shared(0x1000) && steps.is_shared(0x103f) && !steps.is_shared(0x1040));
    }
}
