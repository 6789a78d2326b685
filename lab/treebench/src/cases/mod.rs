//! What is measured: a list of cases, each of which measures itself once in every round.

mod collect;
mod decision;
mod height;
mod making;
mod rival;
mod update;

use serde::{Deserialize, Serialize};

use crate::beside::{HostCpus, until_beside};
use crate::clock::{Clock, Effort};
use crate::rivals::{Absent, Hwloc};
use crate::stats::Sample;
use crate::world::Worlds;

pub use decision::{Decider, decision_name};
pub use update::{REFRESH, update_name};

/// What all cases use.
#[derive(Debug)]
pub struct Bench {
    /// The clock.
    pub clock: Clock,
    /// How often each is timed in one round.
    pub effort: Effort,
    /// Where what runs.
    pub host: HostCpus,
    /// Machines that were made.
    pub worlds: Worlds,
    /// hwloc, or why it is not there.
    pub hwloc: Result<Hwloc, Absent>,
}

/// Parts of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Decisions, alone and beside updates.
    Decision,
    /// The same without the tree.
    Rival,
    /// Counting threads, and the refresh of U and M.
    Update,
    /// What the host asks for U and M.
    Collect,
    /// Decisions against the height of the tree.
    Height,
    /// Making and opening a tree.
    Making,
}

impl Part {
    /// Every part, in the order of the result.
    pub const ALL: [Self; 6] =
        [Self::Decision, Self::Rival, Self::Update, Self::Collect, Self::Height, Self::Making];

    /// Its heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Decision => "One decision, 1024 clusters x 4 CPUs",
            Self::Rival => "The same machine and load without the tree (ratio: over decide, alone)",
            Self::Update => "One change of T; the refresh of U and M, for one cluster",
            Self::Collect => "What U and M cost to collect on this host",
            Self::Height => "One decision against the height of the tree",
            Self::Making => "Making and opening a tree",
        }
    }
}

/// What became of a case in one round.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Sample),
    /// It cannot be measured here; why, and what to do about it.
    Unknown(String),
}

/// How a case measures itself.
pub type Run = Box<dyn FnMut(&Bench) -> anyhow::Result<Outcome>>;

/// A measurement.
pub struct Case {
    /// Where it belongs.
    pub part: Part,
    /// Its name, which no other case has.
    pub name: String,
    /// The case of the same round that it is compared with.
    pub compared_to: Option<String>,
    /// The line of the plot that it is a point of, and the height of its tree.
    pub point: Option<(&'static str, u32)>,
    /// Measures.
    pub run: Run,
}

impl Case {
    fn new(
        part: Part,
        name: impl Into<String>,
        mut run: impl FnMut(&Bench) -> anyhow::Result<Sample> + 'static,
    ) -> Self {
        let run = Box::new(move |bench: &Bench| Ok(Outcome::Measured(run(bench)?)));
        Self { part, name: name.into(), compared_to: None, point: None, run }
    }

    /// Every case, in the order in which one round runs them.
    pub fn all() -> Vec<Self> {
        [
            decision::cases(),
            rival::cases(),
            update::cases(),
            collect::cases(),
            height::cases(),
            making::cases(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A case that needs a second CPU.
fn with_other_cpu(
    part: Part,
    name: String,
    run: impl Fn(&Bench, usize) -> anyhow::Result<Sample> + 'static,
) -> Case {
    let run = Box::new(move |bench: &Bench| match bench.host.other {
        Some(other) => Ok(Outcome::Measured(until_beside(|| run(bench, other))?)),
        None => Ok(Outcome::Unknown("needs two CPUs, and this process may use one".to_owned())),
    });
    Case { part, name, compared_to: None, point: None, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_case_each_and_what_is_compared_with_is_there() {
        let all = Case::all();
        let names: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
        for (at, case) in all.iter().enumerate() {
            assert!(!names[..at].contains(&case.name.as_str()), "{}", case.name);
            let is_there = |name: &String| names[..at].contains(&name.as_str());
            assert!(case.compared_to.as_ref().is_none_or(is_there), "{}", case.name);
        }
    }
}
