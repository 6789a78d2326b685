//! Numbers as a person reads them: three digits and a unit. The exact ones are in the JSON.
//!
//! Rounding never turns something into nothing or a part into the whole: a share of 0.001 % is not
//! `0 %`, and one of 99.999 % not `100 %`.

const LETTERS: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];

/// Up to this many, things are counted in full.
const IN_FULL_MAX: u64 = 9_999;

/// A count: `9,876`, `12.3 k`, `1.23 M`.
#[must_use]
pub fn count(nr: u64) -> String {
    if nr <= IN_FULL_MAX {
        return grouped(nr);
    }
    scaled(nr as f64)
}

/// A count in full: `12,345,678`.
#[must_use]
pub fn grouped(nr: u64) -> String {
    let digits = nr.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Something large that is no count: `12.3 M`.
#[must_use]
pub fn scaled(value: f64) -> String {
    let mut value = value;
    let mut letter = 0;
    // 999.5 would be written as 1000.
    while value >= 999.5 && letter + 1 < LETTERS.len() {
        value /= 1000.0;
        letter += 1;
    }
    format!("{}{}", significant(value), LETTERS[letter])
}

/// Three digits that count: `0.0451`, `1.23`, `45.6`, `789`, `12,345`.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "unknown".to_owned() };
    }
    let size = value.abs();
    if size < 0.000_05 {
        return "< 0.0001".to_owned();
    }
    let decimals = match size {
        ..0.099_95 => 4,
        ..0.999_5 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    if decimals == 0 && size < u64::MAX as f64 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(size.round() as u64));
    }
    format!("{value:.decimals$}")
}

/// A share in percent: `45.6 %`, `0.12 %`, `< 0.01 %`.
#[must_use]
pub fn percent(percent: f64) -> String {
    match percent {
        0.0 | 100.0 => format!("{percent:.0} %"),
        ..0.005 => "< 0.01 %".to_owned(),
        ..0.995 => format!("{percent:.2} %"),
        99.95..100.0 => "> 99.9 %".to_owned(),
        100.0.. => format!("{percent:.0} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// Bytes given as MiB, the thesis's unit: `0.451 MiB`, `12,345 MiB`.
#[must_use]
pub fn mib(mib: f64) -> String {
    format!("{} MiB", significant(mib))
}

/// A time given in milliseconds: `1.23 µs`, `45.6 ms`, `7.89 s`.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    match ms {
        0.0 => "0 ms".to_owned(),
        ..0.000_999_5 => format!("{} ns", significant(ms * 1e6)),
        ..0.999_5 => format!("{} µs", significant(ms * 1e3)),
        ..999.5 => format!("{} ms", significant(ms)),
        _ => format!("{} s", significant(ms / 1e3)),
    }
}

/// Two numbers with one unit: `133 – 137 ms`, or one where both look the same.
#[must_use]
pub fn between(least: &str, greatest: &str) -> String {
    if least == greatest {
        return least.to_owned();
    }
    match (least.rsplit_once(' '), greatest.rsplit_once(' ')) {
        (Some((least, unit)), Some((_, other))) if unit == other && !least.starts_with('<') => {
            format!("{least} – {greatest}")
        }
        _ => format!("{least} – {greatest}"),
    }
}

/// How many times: `0.089×`, `0.936×`, `8.45×`, `12.3×`.
#[must_use]
pub fn times(ratio: f64) -> String {
    match ratio {
        0.0 => "0×".to_owned(),
        ..0.000_5 => "< 0.001×".to_owned(),
        ..0.1 => format!("{ratio:.3}×"),
        _ => format!("{}×", significant(ratio)),
    }
}

/// A number of things: `1 node`, `4 nodes`, `12.3 k commands`.
#[must_use]
pub fn of(nr: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(nr), if nr == 1 { "" } else { "s" })
}

/// A share of a whole in percent; absent where there is no whole.
#[must_use]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// A value that may be absent.
#[must_use]
pub fn or_none(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (9_999, "9,999"),
            (10_000, "10.0 k"),
            (12_345, "12.3 k"),
            (999_499, "999 k"),
            (999_500, "1.00 M"),
            (1_234_567, "1.23 M"),
            (1 << 63, "9.22 E"),
            (u64::MAX, "18.4 E"),
        ];
        for (nr, text) in cases {
            assert_eq!(count(nr), text);
        }
        for (value, text) in [
            (0.045_12, "0.0451"),
            (0.999_6, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (12_345.4, "12,345"),
            (1e-9, "< 0.0001"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn a_little_is_not_nothing_and_nearly_all_is_not_all() {
        let cases = [
            (0.0, "0 %"),
            (1e-7, "< 0.01 %"),
            (0.123, "0.12 %"),
            (0.996, "1.0 %"),
            (45.64, "45.6 %"),
            (99.99, "> 99.9 %"),
            (100.0, "100 %"),
        ];
        for (value, text) in cases {
            assert_eq!(percent(value), text);
        }
        assert_eq!(or_none(share(1, 0), percent), "–");
        assert_eq!(or_none(share(1, 4), percent), "25.0 %");
    }

    #[test]
    fn units_fit_their_numbers() {
        for (ms, text) in [
            (0.0, "0 ms"),
            (2e-6, "2.00 ns"),
            (0.5, "500 µs"),
            (0.9996, "1.00 ms"),
            (1234.0, "1.23 s"),
        ] {
            assert_eq!(milliseconds(ms), text);
        }
        assert_eq!([0.0, 0.0888, 8.444, 1e-9].map(times), ["0×", "0.089×", "8.44×", "< 0.001×"]);
        assert_eq!(between("1.0 ms", "2.0 ms"), "1.0 – 2.0 ms");
        assert_eq!(between("1.0 µs", "2.0 ms"), "1.0 µs – 2.0 ms");
        assert_eq!(between("2.0 ms", "2.0 ms"), "2.0 ms");
        assert_eq!(grouped(12_345_678), "12,345,678");
        assert_eq!((of(1, "node"), of(4, "node")), ("1 node".to_owned(), "4 nodes".to_owned()));
    }
}
