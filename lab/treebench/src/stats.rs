//! Middle, range and percentiles.

use serde::{Deserialize, Serialize};

/// What one case measured in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Of one operation, from operations timed together; the middle of those timed one by one where
    /// none are timed together.
    pub mean_ns: f64,
    /// Of operations timed one by one.
    pub each: Option<Percentiles<f64>>,
    /// Of the time, how much the thread beside it really ran.
    pub other_percent: Option<f64>,
}

/// Percentiles of times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles<T> {
    /// Half of them are at most so long.
    pub p50_ns: T,
    /// Nine of ten.
    pub p90_ns: T,
    /// 99 of 100.
    pub p99_ns: T,
    /// The longest.
    pub max_ns: T,
}

impl Percentiles<f64> {
    /// Of these values, which are sorted by it; NaN of none.
    pub fn of(values: &mut [f64]) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or(f64::NAN)
        };
        Self { p50_ns: at(50), p90_ns: at(90), p99_ns: at(99), max_ns: at(100) }
    }
}

impl Percentiles<Spread> {
    /// Each of the four over the rounds.
    pub fn over(rounds: &[Percentiles<f64>]) -> Self {
        let of = |pick: fn(&Percentiles<f64>) -> f64| {
            Spread::of(&rounds.iter().map(pick).collect::<Vec<_>>())
        };
        Self {
            p50_ns: of(|round| round.p50_ns),
            p90_ns: of(|round| round.p90_ns),
            p99_ns: of(|round| round.p99_ns),
            max_ns: of(|round| round.max_ns),
        }
    }
}

/// Smallest, middle and largest of some values; all NaN of none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
        let mut values = values.to_vec();
        let median = median(&mut values);
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self { min: end(values.first()), median, max: end(values.last()) }
    }

    /// The spread of `a[i] / b[i]`: only what was measured in the same round is compared.
    pub fn of_ratios(a: &[f64], b: &[f64]) -> Self {
        let ratios: Vec<_> = a.iter().zip(b).map(|(a, b)| a / b).collect();
        Self::of(&ratios)
    }

    /// Each of the three through `change`, which must not turn their order round.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { min: change(self.min), median: change(self.median), max: change(self.max) }
    }
}

/// The middle one of these values, which are sorted by it; NaN of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
        assert!(Spread::of(&[]).max.is_nan());
    }

    #[test]
    fn ratios_pair_what_was_measured_together() {
        let spread = Spread::of_ratios(&[10.0, 2.0, 3.0], &[10.0, 1.0, 1.0]);
        assert_eq!(spread, Spread { min: 1.0, median: 2.0, max: 3.0 });
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut values: Vec<_> = (1..=200).rev().map(f64::from).collect();
        let found = Percentiles::of(&mut values);
        let expected = Percentiles { p50_ns: 100.0, p90_ns: 180.0, p99_ns: 198.0, max_ns: 200.0 };
        assert_eq!(found, expected);
        let one = Percentiles::of(&mut [7.0]);
        assert_eq!((one.p50_ns, one.max_ns), (7.0, 7.0));
        assert!(Percentiles::of(&mut []).p99_ns.is_nan());
    }

    #[test]
    fn percentiles_over_rounds_keep_their_places() {
        let round = |p50_ns| Percentiles { p50_ns, p90_ns: 2.0, p99_ns: 3.0, max_ns: 4.0 };
        let over = Percentiles::<Spread>::over(&[round(1.0), round(1.5), round(0.5)]);
        assert_eq!(over.p50_ns, Spread { min: 0.5, median: 1.0, max: 1.5 });
        assert_eq!(over.max_ns.median, 4.0);
    }
}
