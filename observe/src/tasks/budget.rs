//! What looking at pages may take.

use std::time::Duration;

use quartier_model::Nanos;

/// So much may be spent at once, if nothing was for so long.
const SAVED_UP: Duration = Duration::from_secs(25);

/// Something that may take a part of one CPU's time, and at the beginning, or after it was not needed for a while, a
/// little at once.
#[derive(Debug)]
pub struct Budget {
    /// Of one CPU.
    part: f64,
    left: Duration,
    filled: Nanos,
}

/// What is looked at of pages, and what each may take.
#[derive(Debug)]
pub struct Budgets {
    /// Reading lists of mappings.
    pub mappings: Budget,
    /// Asking where pages lie.
    pub samples: Budget,
    /// Who touches them.
    pub touches: Budget,
}

impl Budgets {
    /// They take so much of one CPU together.
    pub fn new(part: f64) -> Self {
        let [mappings, samples, touches] = shares(part).map(Budget::new);
        Self { mappings, samples, touches }
    }

    /// So much from now on.
    pub fn set(&mut self, part: f64) {
        [self.mappings.part, self.samples.part, self.touches.part] = shares(part);
    }
}

/// What mappings, samples and touches may take of all.
fn shares(part: f64) -> [f64; 3] {
    [0.2, 0.4, 0.4].map(|share| part * share)
}

impl Budget {
    fn new(part: f64) -> Self {
        Self { part, left: SAVED_UP.mul_f64(part), filled: Nanos(0) }
    }

    /// What time brings.
    pub fn fill(&mut self, at: Nanos) {
        let since = at - std::mem::replace(&mut self.filled, at);
        let more = Duration::from_nanos(since.0).mul_f64(self.part);
        self.left = SAVED_UP.mul_f64(self.part).min(self.left.saturating_add(more));
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.is_zero()
    }

    /// It took so long.
    pub fn spend(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// What is spent of it in so many seconds by somebody who always spends all.
    fn spent(budget: &mut Budget, from: u64, until: u64) -> Duration {
        let each = Duration::from_micros(10);
        let mut spent = Duration::ZERO;
        for at in from..until {
            budget.fill(Nanos(at * SECOND));
            while !budget.is_spent() {
                budget.spend(each);
                spent += each;
            }
        }
        spent
    }

    #[test]
    fn all_that_is_looked_at_takes_its_part_of_a_cpu_and_no_more() {
        let mut budgets = Budgets::new(0.005);
        let mut all =
            [&mut budgets.mappings, &mut budgets.samples, &mut budgets.touches].map(|budget| {
                spent(budget, 0, 1);
                spent(budget, 1, 1001)
            });
        all.sort();
        let ms = all.map(|spent| spent.as_millis());
        assert_eq!(ms, [1000, 2000, 2000]);
    }

    #[test]
    fn what_was_not_needed_is_saved_up_to_a_bound() {
        let mut budget = Budgets::new(0.005).samples;
        assert_eq!(spent(&mut budget, 0, 1).as_millis(), 50);
        assert_eq!(spent(&mut budget, 1_000_000, 1_000_001).as_millis(), 50);
    }

    #[test]
    fn another_part_counts_from_then_on() {
        let mut budgets = Budgets::new(0.005);
        spent(&mut budgets.samples, 0, 1);
        budgets.set(0.05);
        assert_eq!(spent(&mut budgets.samples, 1, 101).as_millis(), 2000);
    }
}
