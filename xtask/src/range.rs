//! Numbers of several runs, as people read them.

/// The least and the greatest of them, or one number where they look alike; `None` where there are none.
pub fn words(numbers: &[f64], digits: usize) -> Option<String> {
    let least = numbers.iter().copied().reduce(f64::min)?;
    let greatest = numbers.iter().copied().reduce(f64::max)?;
    let (least, greatest) = (format!("{least:.digits$}"), format!("{greatest:.digits$}"));
    Some(if least == greatest { least } else { format!("{least}–{greatest}") })
}

/// The middle one, of an even number the greater of the two; `None` where there are none.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_that_differ() {
        for (numbers, expected) in [
            (&[][..], None),
            (&[2.0], Some("2.0")),
            (&[2.01, 2.04], Some("2.0")),
            (&[3.0, 1.0, 2.0], Some("1.0–3.0")),
        ] {
            assert_eq!(words(numbers, 1).as_deref(), expected);
        }
    }

    #[test]
    fn a_median_is_one_of_them() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(3.0));
    }
}
