//! Spread of repeated measurements.

use serde::Serialize;

/// Smallest, middle and largest of some values; all NaN of none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            at(half)
        } else {
            (at(half.wrapping_sub(1)) + at(half)) / 2.0
        };
        Self { min: at(0), median, max: at(sorted.len().wrapping_sub(1)) }
    }

    /// The spread of `a[i] / b[i]`: only what was measured in the same round is compared.
    pub fn of_ratios(a: &[f64], b: &[f64]) -> Self {
        let ratios: Vec<_> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]), Spread { min: 1.0, median: 2.5, max: 4.0 });
        assert!(Spread::of(&[]).median.is_nan());
    }

    #[test]
    fn ratios_pair_what_was_measured_together() {
        let spread = Spread::of_ratios(&[10.0, 2.0, 3.0], &[10.0, 1.0, 1.0]);
        assert_eq!(spread, Spread { min: 1.0, median: 2.0, max: 3.0 });
    }
}
