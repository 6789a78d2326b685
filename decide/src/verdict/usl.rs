//! The Universal Scalability Law (Gunther): throughput(N) = λN / (1 + σ(N−1) + κN(N−1)), fitted.
//!
//! N / throughput is linear in 1/λ, σ/λ and κ/λ, so least squares need no search; each number is weighted by what it is
//! worth, since it is noise *in proportion* that runs have. (The crate for this is archived, and does without confidence.)

use serde::{Deserialize, Serialize};

/// Points that the law's three numbers need, with one to say how well they fit.
pub const POINTS_MIN: usize = 4;
/// Resampled fits.
const NR_RESAMPLED: usize = 500;

/// A number, with the interval that has it with 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Fitted to all runs.
    pub middle: f64,
    /// Least.
    pub least: f64,
    /// Greatest.
    pub greatest: f64,
}

/// The law's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalability {
    /// λ: units each second on one CPU.
    pub lambda: Spread,
    /// σ, contention: the part of the work that is serial.
    pub sigma: Spread,
    /// κ, coherency: what every pair of CPUs costs.
    pub kappa: Spread,
    /// CPUs with the greatest throughput; absent: it only grows.
    pub best_cpus: Option<f64>,
    /// Of the resampling.
    pub seed: u64,
}

/// Fits the law to throughputs by CPU count; `None`: there are too few points. Confidence is from resampling the runs
/// of each point (bootstrap).
#[must_use]
pub fn scalability(points: &[(u32, Vec<f64>)], seed: u64) -> Option<Scalability> {
    let points: Vec<_> = points.iter().filter(|(_, runs)| !runs.is_empty()).collect();
    if points.len() < POINTS_MIN {
        return None;
    }
    let all = points.iter().flat_map(|(nr, runs)| runs.iter().map(|rate| (f64::from(*nr), *rate)));
    let fitted = fit(&all.collect::<Vec<_>>())?;
    let mut random = SplitMix(seed);
    let mut resampled: [Vec<f64>; 3] = Default::default();
    for _ in 0..NR_RESAMPLED {
        let again = points.iter().flat_map(|(nr, runs)| {
            let drawn: Vec<_> = runs.iter().map(|_| runs[random.below(runs.len())]).collect();
            drawn.into_iter().map(|rate| (f64::from(*nr), rate))
        });
        let again: Vec<_> = again.collect();
        let Some(of) = fit(&again) else { continue };
        resampled.iter_mut().zip(of).for_each(|(list, value)| list.push(value));
    }
    let [lambda, sigma, kappa] = [0, 1, 2].map(|at| spread(fitted[at], &mut resampled[at]));
    let best_cpus =
        (kappa.middle > 0.0).then(|| ((1.0 - sigma.middle).max(0.0) / kappa.middle).sqrt());
    Some(Scalability { lambda, sigma, kappa, best_cpus, seed })
}

fn spread(middle: f64, values: &mut [f64]) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let last = values.len().saturating_sub(1) as f64;
        values.get((last * part).round() as usize).copied().unwrap_or(middle)
    };
    Spread { middle, least: at(0.025).min(middle), greatest: at(0.975).max(middle) }
}

/// λ, σ and κ. Neither of the latter is negative: which would be, is none.
fn fit(runs: &[(f64, f64)]) -> Option<[f64; 3]> {
    let columns = |nr: f64| [1.0, nr - 1.0, nr * (nr - 1.0)];
    let mut best: Option<(f64, [f64; 3])> = None;
    for used in [[true, true, true], [true, true, false], [true, false, true], [true, false, false]]
    {
        let mut matrix = [[0.0; 4]; 3];
        for (nr, rate) in runs {
            let (of, value) = (columns(*nr), nr / rate);
            let weight = value.powi(-2);
            for row in 0..3 {
                for column in 0..3 {
                    let both = used[row] && used[column];
                    matrix[row][column] += if both { of[row] * of[column] * weight } else { 0.0 };
                }
                matrix[row][3] += if used[row] { of[row] * value * weight } else { 0.0 };
            }
        }
        for row in 0..3 {
            if !used[row] {
                matrix[row][row] = 1.0;
            }
        }
        let Some(solved) =
            solve(matrix).filter(|solved| solved[0] > 0.0 && solved[1] >= 0.0 && solved[2] >= 0.0)
        else {
            continue;
        };
        let error: f64 = runs
            .iter()
            .map(|(nr, rate)| {
                let fitted: f64 = columns(*nr).iter().zip(solved).map(|(of, by)| of * by).sum();
                (fitted * rate / nr - 1.0).powi(2)
            })
            .sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, solved));
        }
    }
    let (_, [one, contention, coherency]) = best?;
    Some([1.0 / one, contention / one, coherency / one])
}

/// Gauss's elimination, with pivots.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let pivot = (at..3).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs()))?;
        matrix.swap(at, pivot);
        if matrix[at][at].abs() < 1e-12 {
            return None;
        }
        for row in (0..3).filter(|row| *row != at) {
            let by = matrix[row][at] / matrix[at][at];
            let pivot = matrix[at];
            matrix[row].iter_mut().zip(pivot).for_each(|(value, of)| *value -= by * of);
        }
    }
    Some([0, 1, 2].map(|at| matrix[at][3] / matrix[at][at]))
}

/// Steele, Lea and Flood's.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(lambda: f64, sigma: f64, kappa: f64, noise: f64) -> Vec<(u32, Vec<f64>)> {
        let rate = |nr: f64| lambda * nr / (1.0 + sigma * (nr - 1.0) + kappa * nr * (nr - 1.0));
        [1, 2, 4, 8, 16, 32]
            .map(|nr| {
                let rate = rate(f64::from(nr));
                (nr, vec![rate * (1.0 - noise), rate, rate * (1.0 + noise)])
            })
            .to_vec()
    }

    #[test]
    fn the_law_is_found_again() {
        let seed = 1;
        for (sigma, kappa) in [(0.05, 0.001), (0.2, 0.0), (0.0, 0.01), (0.0, 0.0)] {
            let fitted = scalability(&law(1000.0, sigma, kappa, 0.01), seed).unwrap();
            assert!((fitted.lambda.middle / 1000.0 - 1.0).abs() < 0.02, "{fitted:?}");
            assert!((fitted.sigma.middle - sigma).abs() < 0.01, "{fitted:?}");
            assert!((fitted.kappa.middle - kappa).abs() < 0.001, "{fitted:?}");
            assert!(fitted.sigma.least <= sigma + 1e-9 && fitted.sigma.greatest >= sigma - 1e-9);
        }
        let collapse = scalability(&law(1000.0, 0.0, 0.01, 0.0), seed).unwrap();
        assert!((collapse.best_cpus.unwrap() - 10.0).abs() < 0.1, "{collapse:?}");
    }

    #[test]
    fn three_points_fit_anything() {
        assert_eq!(scalability(&law(1.0, 0.1, 0.0, 0.0)[..3], 1), None);
    }
}
