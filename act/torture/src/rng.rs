//! Random numbers that a seed determines (splitmix64).

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed and up to two more numbers (a phase and a worker, say).
    #[must_use]
    pub fn new(seed: u64, first: u64, second: u64) -> Self {
        let mut rng = Self(seed);
        rng.0 = rng.next() ^ first.wrapping_mul(0xA24B_AED4_963E_E407);
        rng.0 = rng.next() ^ second.wrapping_mul(0x9FB2_1C65_1E98_DF25);
        rng
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit` (0 if that is 0).
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A length from 1 to `max`: mostly small, sometimes anything.
    pub fn length(&mut self, max: usize) -> usize {
        let limit = match self.below(16) {
            0..=7 => 4,
            8..=12 => 40,
            13..=14 => 300,
            _ => max,
        };
        1 + self.below(limit.min(max).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_limit_and_seeds_differ() {
        let mut rng = Rng::new(1, 2, 3);
        for limit in 1..1000 {
            assert!(rng.below(limit) < limit);
            assert!((1..=limit).contains(&rng.length(limit)));
        }
        assert_ne!(Rng::new(1, 2, 3).next(), Rng::new(1, 3, 2).next());
    }
}
