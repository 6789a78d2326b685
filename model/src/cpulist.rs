//! Sets of OS ids in the kernel's list format (`0-3,8,10-11`), as cpusets and /sys print them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::CPUS_MAX;

/// The largest id that is read. No kernel has a larger one, of nodes neither, and a list that names
/// larger ones could be of any size.
const ID_MAX: u32 = CPUS_MAX as u32 - 1;

/// A set of OS ids of CPUs or nodes, in the kernel's list format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<u32>);

/// Why a list could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{list}` is not a list of ids such as 0-3,8: {reason}")]
pub struct CpuListError {
    list: String,
    reason: String,
}

impl CpuList {
    /// The ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    /// How many ids are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason: &str| {
            let list = text.trim().chars().take(80).collect();
            CpuListError { list, reason: reason.to_owned() }
        };
        let number = |digits: &str| {
            let digits = digits.trim();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(error("an id is a whole number"));
            }
            let id = digits.parse::<u32>().ok().filter(|id| *id <= ID_MAX);
            id.ok_or_else(|| {
                error(&format!(
                    "an id is at most {ID_MAX}, since Linux has at most {CPUS_MAX} CPUs"
                ))
            })
        };
        let mut ids = BTreeSet::new();
        for range in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last {
                return Err(error("a range runs upwards"));
            }
            ids.extend(first..=last);
        }
        Ok(Self(ids))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while let Some(next) = ids.next_if(|&id| last.checked_add(1) == Some(id)) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_the_kernel_prints() {
        let list: CpuList = "0-3,8,10-11\n".parse().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8, 10, 11]);
        assert!("\n".parse::<CpuList>().unwrap().is_empty());
        for bad in ["a", "3-1", "1-", "-1"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_that_no_kernel_has_are_refused_before_they_take_memory() {
        assert_eq!("0-8191".parse::<CpuList>().unwrap().len(), CPUS_MAX);
        for bad in ["8192", "0-8192", "0-4294967295", "0-4294967296", "99999999999999999999"] {
            let refused = bad.parse::<CpuList>().unwrap_err().to_string();
            assert!(refused.contains("an id is at most 8191"), "{refused}");
        }
    }

    #[test]
    fn the_largest_number_has_no_successor() {
        let list = |ids: &[u32]| ids.iter().copied().collect::<CpuList>().to_string();
        assert_eq!(list(&[u32::MAX]), "4294967295");
        assert_eq!(list(&[0, u32::MAX - 1, u32::MAX]), "0,4294967294-4294967295");
    }

    proptest! {
        #[test]
        fn printing_and_reading_are_inverse(ids in prop::collection::btree_set(0u32..5000, 0..200)) {
            let list: CpuList = ids.iter().copied().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
