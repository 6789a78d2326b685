//! Quantities with their unit in the type.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A size in bytes. Parsed from and printed as `512M` (powers of 1024).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// How much a CPU does beside the others of its machine, which is 1024 for the most powerful one (the kernel's
/// `cpu_capacity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capacity(pub u32);

impl Capacity {
    /// Of the most powerful CPU.
    pub const MOST: Self = Self(1024);
}

/// A distance of the ACPI SLIT: 10 is local, 20 is twice as far; 255 means unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distance(pub u8);

impl Distance {
    /// The distance of a node to itself (ACPI 6.5, 5.2.17).
    pub const LOCAL: Self = Self(10);
    /// What the kernel assumes for another node when firmware says nothing (`REMOTE_DISTANCE`).
    pub const REMOTE: Self = Self(20);
    /// "Unreachable" in the SLIT.
    pub const UNREACHABLE: Self = Self(255);
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const SUFFIXES: [(&str, u64); 5] =
    [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("", 1)];

impl Bytes {
    /// `mib` mebibytes.
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (suffix, unit) =
            SUFFIXES.into_iter().find(|(_, unit)| self.0 >= *unit).unwrap_or(("", 1));
        let text = if self.0.is_multiple_of(unit) {
            format!("{}{suffix}", self.0 / unit)
        } else {
            format!("{:.1}{suffix}", self.0 as f64 / unit as f64)
        };
        f.pad(&text)
    }
}

/// Why a size could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a size: give a whole number of bytes, or one with K, M, G or T (512M)")]
pub struct ParseBytesError(String);

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseBytesError(text.to_owned());
        let trimmed = text.trim();
        let upper = trimmed.to_ascii_uppercase();
        let upper = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let (digits, unit) = SUFFIXES
            .into_iter()
            .find_map(|(suffix, unit)| upper.strip_suffix(suffix).map(|rest| (rest, unit)))
            .ok_or_else(error)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        let count: u64 = digits.parse().map_err(|_| error())?;
        count.checked_mul(unit).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            nanos @ 0..1_000 => format!("{nanos} ns"),
            nanos @ 1_000..1_000_000 => format!("{:.1} µs", nanos as f64 / 1e3),
            nanos @ 1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
            nanos => format!("{:.2} s", nanos as f64 / 1e9),
        };
        f.pad(&text)
    }
}

macro_rules! arithmetic {
    ($($name:ident),*) => {$(
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
    )*};
}
arithmetic!(Bytes, Nanos);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_with_and_without_a_suffix() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 64 << 10),
            ("512m", 512 << 20),
            ("2GiB", 2 << 30),
            ("1TB", 1 << 40),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "12X", "99999999999999T", "4 4"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_units_survive_printing(count in 1u64..1 << 20, shift in 0u32..4) {
            let size = Bytes(count << (10 * shift));
            let printed = size.to_string();
            if !printed.contains('.') {
                prop_assert_eq!(printed.parse(), Ok(size));
            }
        }
    }
}
