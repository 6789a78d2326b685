//! How long U and M stay as they are.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

/// The time between two refreshes of U and M, in nanoseconds. Read and printed as `10ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Period(pub NonZeroU64);

/// Why a text is no period.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no period: give a whole number of us, ms or s (10ms), at least 100us")]
pub struct PeriodError(String);

const UNITS: [(&str, u64); 3] = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Shorter ones would be most of a run's time and tell nothing more.
const NANOS_MIN: u64 = 100_000;

impl Period {
    /// The periods that are compared.
    pub const ALL: [Self; 4] =
        [Self::from_ms(1), Self::from_ms(10), Self::from_ms(100), Self::from_ms(1000)];

    /// So many milliseconds.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub const fn from_ms(milliseconds: u64) -> Self {
        Self(NonZeroU64::new(milliseconds * 1_000_000).expect("not 0"))
    }

    /// In nanoseconds.
    #[must_use]
    pub fn nanos(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PeriodError(text.chars().take(80).collect());
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = UNITS.into_iter().find(|(name, _)| *name == &text[digits.len()..]);
        let (_, nanos) = unit.ok_or_else(error)?;
        let count: u64 = digits.trim_end().parse().map_err(|_| error())?;
        let nanos = count.checked_mul(nanos).filter(|nanos| *nanos >= NANOS_MIN);
        nanos.and_then(NonZeroU64::new).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit): &&(&str, u64)| self.nanos().is_multiple_of(*unit);
        let text = match UNITS.iter().rev().find(fits) {
            Some((name, unit)) => format!("{} {name}", self.nanos() / unit),
            None => format!("{} ns", self.nanos()),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_and_printed() {
        for (text, printed) in [("10ms", "10 ms"), ("1000ms", "1 s"), ("250us", "250 us")] {
            assert_eq!(text.parse::<Period>().unwrap().to_string(), printed);
        }
        for text in ["", "10", "ms", "-1ms", "1us", "0s", "1.5s", "1 h", "99999999999s"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }
}
