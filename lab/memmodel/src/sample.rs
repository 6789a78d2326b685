//! Sampling: only some sets of the caches are modelled, and each stands for others.
//!
//! Bits 6 to 11 of an address say which of 64 sets it is of, in every cache and before it is translated:
//! so an access that is left out costs next to nothing. What is modelled is modelled as if nothing were
//! left out, and counted `one_in` times. All TLBs are modelled, and all walks; table entries by their set.
//!
//! A program's data spreads evenly over the sets. What does not are a few lines of the kernel (run queues,
//! locks) that CPUs take from each other: one of them in a modelled set, or none, made errors of 10 % of
//! Q. So these lines are modelled in every set, and what does not depend on the rest of their set (a line
//! that another CPU took away, the right to write one, a store that is written through) counts as it is;
//! what does (a line that had to make room) is counted in modelled sets only.
//!
//! Modelled cycles are estimates then, as counts are.

use crate::kinds::Owner;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The standard error of an owner's Q, as a share of it, by how its sets differ; 0 if none is left
    /// out, and `None` if there is no Q or too few sets to tell.
    #[must_use]
    pub fn q_standard_error(&self, owner: Owner) -> Option<f64> {
        if self.sets_one_in <= 1 {
            return Some(0.0);
        }
        let counts = self.of(owner);
        let nr_sets = counts.remote_bytes_by_set.len() as u32;
        if nr_sets > u64::BITS {
            return None;
        }
        let modelled = modelled_sets(nr_sets, self.sets_one_in);
        let is_modelled = |set: &usize| modelled >> set & 1 != 0;
        let bytes = (0..nr_sets as usize).filter(is_modelled);
        let bytes: Vec<_> = bytes.map(|set| counts.remote_bytes_by_set[set] as f64).collect();
        let (nr, q) = (bytes.len() as f64, counts.remote_bytes(&self.geometry) as f64);
        if nr < 2.0 || q <= 0.0 {
            return None;
        }
        // One set of each group of neighbours is modelled, and neighbours are alike (code is read in order):
        // from one modelled set to the next is what a systematic sample's variance is told by.
        let differences = bytes.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
        let variance = differences.sum::<f64>() / (2.0 * (nr - 1.0));
        let left_out = 1.0 - nr / f64::from(nr_sets);
        Some((variance * left_out / nr).sqrt() * f64::from(nr_sets) / q)
    }
}

/// The lines, modulo their number, that are modelled where one in so many sets is: one of each
/// `one_in` neighbours, without a pattern that a program's strides could follow.
pub(crate) fn modelled_sets(nr_sets: u32, one_in: u32) -> u64 {
    let pick = |group: u32| {
        let mixed = (group + 1).wrapping_mul(0x9e37_79b9) >> 16;
        group * one_in + mixed % one_in
    };
    (0..nr_sets / one_in).fold(0, |mask, group| mask | 1 << pick(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_group_of_neighbouring_sets_is_modelled() {
        for one_in in [1, 2, 4, 8, 16, 32, 64] {
            let mask = modelled_sets(64, one_in);
            for group in 0..64 / one_in {
                let of_group = mask >> (group * one_in) & (u64::MAX >> (64 - one_in));
                assert_eq!(of_group.count_ones(), 1, "1 in {one_in}, group {group}");
            }
        }
    }
}
