//! Random numbers that are the same on every machine: integers only, since logarithms may differ in
//! their last bit.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A seeded source of random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// A source of its own for each stream of a seed: what one draws changes nothing for another.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        scaled(self.any(), end)
    }

    /// From `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True so often.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// From `first` to below `first` × 2^`nr_octaves`, each octave equally often: few are long.
    pub fn over_octaves(&mut self, first: u64, nr_octaves: u64) -> u64 {
        let octave = first << self.below(nr_octaves);
        octave + self.below(octave)
    }

    /// Times between events that do not know of one another, by von Neumann's way: only comparisons.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.any();
            if self.descent_is_odd(first) {
                return whole * mean + scaled(first, mean);
            }
            whole += 1;
        }
    }

    /// Whether the numbers from `first` on descend an odd number of times before one is larger.
    fn descent_is_odd(&mut self, first: u64) -> bool {
        let (mut last, mut is_odd) = (first, true);
        loop {
            let next = self.any();
            if next >= last {
                return is_odd;
            }
            (last, is_odd) = (next, !is_odd);
        }
    }
}

/// A number of 64 bits as a part of `end`.
fn scaled(number: u64, end: u64) -> u64 {
    ((u128::from(number) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(mut draw: impl FnMut(&mut Random) -> u64) -> u64 {
        let mut random = Random::new(1, 0);
        (0..20_000).map(|_| draw(&mut random)).sum::<u64>() / 20_000
    }

    #[test]
    fn means_are_as_asked_for() {
        assert!((97_000..103_000).contains(&mean(|random| random.exponential(100_000))));
        assert!((490..510).contains(&mean(|random| random.between(1, 1000))));
        // (1 + 2 + 4 + 8) × 1.5 / 4
        assert!((5500..5750).contains(&mean(|random| random.over_octaves(1000, 4))));
    }

    #[test]
    fn exponential_times_have_their_tail() {
        let mut random = Random::new(2, 0);
        let nr_long = (0..20_000).filter(|_| random.exponential(1000) > 2000).count();
        // e⁻² of them.
        assert!((2550..2860).contains(&nr_long), "{nr_long}");
    }

    #[test]
    fn numbers_are_those_of_the_first_day() {
        let mut random = Random::new(7, 3);
        let first = [random.below(1000), random.below(1000), random.below(1000)];
        assert_eq!(first, [181, 92, 979]);
    }
}
