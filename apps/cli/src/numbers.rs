//! Whole numbers on the command line: one way to read them, and one sentence about what is none.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a whole number of a range, for any option: `value_parser = number(1..=64)`. Such an option
/// wants `allow_negative_numbers = true` besides: else clap takes `-1` for another option, and says so.
pub fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: Clone + Display + FromStr + PartialOrd + Send + Sync + 'static,
{
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number
            .ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_told_the_range() {
        assert_eq!(number(1..=64u8)("64"), Ok(64));
        assert_eq!(number(0..=u64::MAX)("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "x", "-1", "0", "65", "256", "1.5", "1e1", "0x10", "99999999999999999999"]
        {
            let refused = number(1..=64u8)(text).unwrap_err();
            assert_eq!(refused, "give a whole number from 1 to 64", "{text}");
        }
    }
}
