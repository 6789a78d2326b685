//! What nobody is named for: with the names it is all that was lost.

use serde::{Deserialize, Serialize};

use super::growth::Growth;
use super::judge::Lost;
use super::suspects::Suspect;

/// So many are told by themselves.
const TOLD_MAX: usize = 8;

/// What is lost besides those that are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Part of the lost scaling, percent.
    pub share_percent: f64,
    /// Of that, what is most first.
    pub parts: Vec<Part>,
    /// And all else, percent of the lost scaling: less than nothing where that costs less on more CPUs.
    pub others_percent: f64,
}

/// A part of it: not tested as those are that are named, so it may be chance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// In words.
    pub what: String,
    /// Seconds of CPU time for each unit, on the fewest CPUs and on the most.
    pub per_unit_s: Growth,
    /// Part of the lost scaling, percent.
    pub share_percent: f64,
    /// And how far that may be off, with 95 %.
    pub share_error_percent: f64,
}

impl Rest {
    /// Of what is worth telling, and how it grew, without those that are told and explain so many percent.
    pub fn of(
        grown: impl Iterator<Item = (String, Growth)>,
        lost: &Lost,
        told_percent: f64,
    ) -> Self {
        let part = |(what, per_unit_s): (String, Growth)| Part {
            what,
            per_unit_s,
            share_percent: lost.share_percent(per_unit_s.by()),
            share_error_percent: lost.share_percent(per_unit_s.error),
        };
        let mut parts: Vec<_> = grown.map(part).collect();
        parts.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
        parts.truncate(TOLD_MAX);
        let share_percent = 100.0 - told_percent;
        let told: f64 = parts.iter().map(|part| part.share_percent).sum();
        Self { share_percent, parts, others_percent: share_percent - told }
    }
}

/// A suspect in words, as one of many: what the kernel was entered for is one, whoever entered it.
pub fn words(suspect: &Suspect) -> String {
    let object = |before: &str, object: &Option<String>| {
        object.as_ref().map_or_else(String::new, |object| format!("{before}`{object}`"))
    };
    match suspect {
        Suspect::Lock(lock) => format!("the lock `{lock}`"),
        Suspect::LockIn(function) => format!("a lock in `{function}`"),
        Suspect::Code(function, with) => format!("`{function}`{}", object(" with ", with)),
        Suspect::Memory(function, of) => {
            format!("`{function}`, which waits for memory{}", object(", that of ", of))
        }
        Suspect::Kernel(entry, _) => format!("the kernel, entered for {entry}"),
        Suspect::Serial(function) => format!("CPUs with nothing to do while `{function}` runs"),
        Suspect::Uneven(function) => {
            format!("CPUs with nothing to do beside what is left of `{function}`")
        }
        Suspect::Waits(waits) => format!("threads that wait for {}", waits.words()),
        Suspect::Spent(spent) => spent.words().to_owned(),
    }
}
