//! Whether a number grew from some runs to others, beyond their noise: Welch's t.

use serde::{Deserialize, Serialize};

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

/// From some runs to others. `look` is what one look of the sampling clock adds to the number: numbers that are made
/// of few looks have that error at least, even if all runs agree by chance. `None`: there are not two runs each.
#[must_use]
pub fn growth(from: &[f64], to: &[f64], look: f64) -> Option<Growth> {
    if from.len() < 2 || to.len() < 2 {
        return None;
    }
    let (a, b) = (Sample::of(from, look), Sample::of(to, look));
    let error = (a.variance_of_mean + b.variance_of_mean).sqrt();
    let by = b.mean - a.mean;
    if error == 0.0 {
        let p = if by > 0.0 { 0.0 } else { 1.0 };
        return Some(Growth { from: a.mean, to: b.mean, error, p });
    }
    // Welch and Satterthwaite.
    let part = |sample: &Sample| sample.variance_of_mean.powi(2) / (sample.nr - 1.0);
    let freedom = error.powi(4) / (part(&a) + part(&b));
    Some(Growth {
        from: a.mean,
        to: b.mean,
        error: error * quantile_95(freedom),
        p: above(by / error, freedom),
    })
}

struct Sample {
    nr: f64,
    mean: f64,
    variance_of_mean: f64,
}

impl Sample {
    fn of(values: &[f64], look: f64) -> Self {
        let nr = values.len() as f64;
        let mean = values.iter().sum::<f64>() / nr;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (nr - 1.0);
        // Looks come as by Poisson: the variance of their number is their number, and one that was never seen may
        // have been missed by one.
        let counted = mean.max(look) * look;
        Self { nr, mean, variance_of_mean: variance.max(counted) / nr }
    }
}

/// The probability that Student's t with so many degrees of freedom is above `t`.
fn above(t: f64, freedom: f64) -> f64 {
    let tail = beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// What |t| exceeds with 5 %.
fn quantile_95(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if above(middle, freedom) > 0.025 { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // It converges fast below this point only; beyond, the function is mirrored.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    let tiny = 1e-300;
    let guarded = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for term in [even, odd] {
            d = 1.0 / guarded(1.0 + term * d);
            c = guarded(1.0 + term / c);
            last = c * d;
            fraction *= last;
        }
        if (last - 1.0).abs() < 1e-12 {
            break;
        }
    }
    front * fraction / a
}

/// Lanczos.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.001_208_650_973_866_179,
        -0.000_005_395_239_384_953,
    ];
    let sum = COEFFICIENTS
        .iter()
        .zip(1..)
        .fold(1.000_000_000_190_015, |sum, (c, at)| sum + c / (x + f64::from(at)));
    let shifted = x + 5.5;
    (x + 0.5) * shifted.ln() - shifted + (2.506_628_274_631_000_5 * sum / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_is_that_of_the_tables() {
        for (t, freedom, expected) in [
            (1.886, 2.0, 0.1),
            (2.132, 4.0, 0.05),
            (3.365, 5.0, 0.01),
            (2.764, 10.0, 0.01),
            (1.660, 100.0, 0.05),
            (0.0, 7.0, 0.5),
            (-2.132, 4.0, 0.95),
        ] {
            let p = above(t, freedom);
            assert!((p - expected).abs() < 2e-4, "{t} {freedom}: {p}");
        }
        for (freedom, expected) in [(4.0, 2.776), (10.0, 2.228), (30.0, 2.042)] {
            assert!((quantile_95(freedom) - expected).abs() < 1e-3);
        }
    }

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
}
