//! Student's t: what chance alone would do.

/// The probability that Student's t with so many degrees of freedom is above `t`.
pub fn above(t: f64, freedom: f64) -> f64 {
    let tail = beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// What |t| exceeds with 5 %.
pub fn quantile_95(freedom: f64) -> f64 {
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
}
