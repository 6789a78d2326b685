//! Whether a number grows, beyond the noise of the runs: from some runs to others by Welch's t, and over all CPU counts of a sweep
//! by one weighted sum of their means.
//!
//! How the cost of contention grows nobody knows beforehand: with each CPU a little, or all at once with the last. So the
//! weights are those of R. P. Abelson and J. W. Tukey (Efficient Utilization of Non-Numerical Information in Quantitative
//! Analysis: General Theory and the Case of Simple Order, The Annals of Mathematical Statistics 34, 1963, pages 1347 to 1369):
//! of all weights they lose least where the growth has the shape that suits them worst. A line fitted to log2(CPUs) is as good where
//! growth is even, and worse at cliffs: over six counts it correlates with a step at the last one by 0.65, these do by 0.75. With
//! two counts this is Welch's t; with three the one in the middle has no say, as whatever grows may be anywhere in between.
//!
//! Only runs of one count tell how much runs differ there, so each count has its own variance (Welch, Satterthwaite): at many CPUs
//! runs differ more, and what does not follow the weights' shape is no noise.

use serde::{Deserialize, Serialize};

use super::student::{above, quantile_95};

/// How a number grew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// Mean of the first runs.
    pub from: f64,
    /// Mean of the others.
    pub to: f64,
    /// Half of the interval that has the difference in it with 95 %.
    pub error: f64,
    /// How probable so large a growth or a larger one is by chance alone.
    pub p: f64,
}

impl Growth {
    /// The difference.
    #[must_use]
    pub fn by(&self) -> f64 {
        self.to - self.from
    }
}

/// How a number grew over the CPU counts of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trend {
    /// At each of them, ascending.
    pub levels: Vec<Level>,
    /// How probable so clear a growth or a clearer one is by chance alone.
    pub p: f64,
}

/// A number on so many CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// CPUs.
    pub nr_cpus: u32,
    /// Mean of the runs.
    pub mean: f64,
    /// Half of the interval that has it with 95 %.
    pub error: f64,
}

/// From some runs to others. `look` is what one look of the sampling clock adds to the number: numbers that are made
/// of few looks have that error at least, even if all runs agree by chance. `None`: there are not two runs each.
#[must_use]
pub fn growth(from: &[f64], to: &[f64], look: f64) -> Option<Growth> {
    let samples = [Sample::of(from, look)?, Sample::of(to, look)?];
    let sum = Sum::of(&samples, &[-1.0, 1.0]);
    let [from, to] = samples.map(|sample| sample.mean);
    Some(Growth { from, to, error: sum.error_95(), p: sum.p() })
}

/// Over CPU counts with their runs, ascending; a count with fewer than two runs tells nothing. `look` as above. `None`: there are not
/// two counts that tell something.
#[must_use]
pub fn trend(points: &[(u32, Vec<f64>)], look: f64) -> Option<Trend> {
    let told =
        points.iter().filter_map(|(nr_cpus, runs)| Some((*nr_cpus, Sample::of(runs, look)?)));
    let (counts, samples): (Vec<u32>, Vec<Sample>) = told.unzip();
    if samples.len() < 2 {
        return None;
    }
    let level = |(nr_cpus, sample): (&u32, &Sample)| Level {
        nr_cpus: *nr_cpus,
        mean: sample.mean,
        error: sample.variance_of_mean.sqrt() * quantile_95(sample.nr - 1.0),
    };
    Some(Trend {
        levels: counts.iter().zip(&samples).map(level).collect(),
        p: Sum::of(&samples, &weights(samples.len())).p(),
    })
}

/// Abelson's and Tukey's, for so many numbers in a row.
fn weights(nr: usize) -> Vec<f64> {
    let up_to = |step: usize| (step as f64 * (nr - step) as f64 / nr as f64).sqrt();
    (1..=nr).map(|at| up_to(at - 1) - up_to(at)).collect()
}

struct Sample {
    nr: f64,
    mean: f64,
    variance_of_mean: f64,
}

impl Sample {
    /// `None`: of fewer than two runs nobody knows how much they differ.
    fn of(values: &[f64], look: f64) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let nr = values.len() as f64;
        let mean = values.iter().sum::<f64>() / nr;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (nr - 1.0);
        // Looks come as by Poisson: the variance of their number is their number, and one that was never seen may
        // have been missed by one.
        let counted = mean.max(look) * look;
        Some(Self { nr, mean, variance_of_mean: variance.max(counted) / nr })
    }
}

/// A weighted sum of means whose weights add up to nothing: if it is above nothing by more than its error, there is growth.
struct Sum {
    value: f64,
    error: f64,
    freedom: f64,
}

impl Sum {
    fn of(samples: &[Sample], weights: &[f64]) -> Self {
        // From the first one on: of means that are the same not even a rounding error remains.
        let first = samples.first().map_or(0.0, |sample| sample.mean);
        let (mut value, mut variance, mut by_freedom) = (0.0, 0.0, 0.0);
        for (sample, weight) in samples.iter().zip(weights) {
            let own = weight.powi(2) * sample.variance_of_mean;
            value += weight * (sample.mean - first);
            variance += own;
            by_freedom += own.powi(2) / (sample.nr - 1.0);
        }
        // Welch and Satterthwaite.
        Self { value, error: variance.sqrt(), freedom: variance.powi(2) / by_freedom }
    }

    /// How probable it is by chance that the sum is so large.
    fn p(&self) -> f64 {
        if self.error > 0.0 {
            above(self.value / self.error, self.freedom)
        } else if self.value > 0.0 {
            0.0
        } else {
            1.0
        }
    }

    /// Half of the interval that has the sum in it with 95 %.
    fn error_95(&self) -> f64 {
        if self.error > 0.0 { self.error * quantile_95(self.freedom) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_the_noise_did_not_grow() {
        let grown = growth(&[1.0, 1.1, 0.9, 1.05], &[2.0, 2.1, 1.9, 2.05], 0.0).unwrap();
        assert!(grown.p < 1e-4 && (grown.by() - 1.0).abs() < 1e-9, "{grown:?}");
        let same = growth(&[1.0, 1.4, 0.7, 1.2], &[1.1, 1.3, 0.8, 1.25], 0.0).unwrap();
        assert!(same.p > 0.3, "{same:?}");
        assert!(growth(&[2.0, 2.1, 1.9], &[1.0, 1.1, 0.9], 0.0).unwrap().p > 0.99);
        assert_eq!(growth(&[1.0], &[2.0, 2.0], 0.0), None);
    }

    #[test]
    fn few_looks_prove_nothing_even_if_all_runs_agree() {
        // One look each, three each: by chance.
        assert!(growth(&[0.01; 3], &[0.03; 3], 0.01).unwrap().p > 0.02);
        // A hundred and three hundred: not by chance.
        assert!(growth(&[1.0; 3], &[3.0; 3], 0.01).unwrap().p < 1e-3);
    }

    #[test]
    fn weights_are_those_of_the_paper_and_add_up_to_nothing() {
        let expected = [-0.866, -0.134, 0.134, 0.866];
        assert!(weights(4).iter().zip(expected).all(|(found, of)| (found - of).abs() < 1e-3));
        for nr in 2..10 {
            let weights = weights(nr);
            assert!(weights.iter().sum::<f64>().abs() < 1e-12, "{weights:?}");
            assert!(weights.is_sorted(), "{weights:?}");
        }
    }

    fn runs(means: &[f64], noise: f64) -> Vec<(u32, Vec<f64>)> {
        let of = |mean: &f64| vec![mean - noise, *mean, mean + noise];
        means.iter().enumerate().map(|(at, mean)| (1 << at, of(mean))).collect()
    }

    #[test]
    fn with_two_counts_it_is_welchs_t() {
        let points = [(1, vec![1.0, 1.3, 0.8]), (8, vec![1.9, 1.4, 2.0, 1.6])];
        let both = growth(&points[0].1, &points[1].1, 0.01).unwrap();
        let found = trend(&points, 0.01).unwrap();
        assert!((found.p - both.p).abs() < 1e-12, "{found:?} {both:?}");
        assert_eq!(found.levels.iter().map(|level| level.nr_cpus).collect::<Vec<_>>(), [1, 8]);
        assert_eq!([found.levels[0].mean, found.levels[1].mean], [both.from, both.to]);
    }

    #[test]
    fn growth_of_any_shape_is_seen_and_what_stays_or_falls_is_none() {
        for grows in [
            &[1.0, 2.0, 3.0, 4.0, 5.0][..],
            &[1.0, 1.0, 1.0, 1.0, 2.0],
            &[1.0, 2.0, 2.0, 2.0, 2.0],
            &[0.0, 0.0, 1.0, 1.0],
        ] {
            let found = trend(&runs(grows, 0.05), 0.0).unwrap();
            assert!(found.p < 1e-3, "{grows:?}: {found:?}");
        }
        for stays in [&[1.0, 1.02, 0.99, 1.01][..], &[2.0, 1.5, 1.2, 1.1], &[1.0, 1.5, 0.5, 1.0]] {
            let found = trend(&runs(stays, 0.05), 0.0).unwrap();
            assert!(found.p > 0.05, "{stays:?}: {found:?}");
        }
        // Not even where all runs agree.
        for nr in 2..7 {
            assert!(trend(&runs(&vec![0.1; nr], 0.0), 0.0).unwrap().p >= 0.5, "{nr}");
        }
    }

    #[test]
    fn a_count_with_one_run_tells_nothing() {
        let mut points = runs(&[1.0, 1.0, 2.0], 0.1);
        points[1].1 = vec![9.0];
        let found = trend(&points, 0.0).unwrap();
        assert_eq!(found.levels.iter().map(|level| level.nr_cpus).collect::<Vec<_>>(), [1, 4]);
        points[2].1.truncate(1);
        assert_eq!(trend(&points, 0.0), None);
    }
}
