//! Who chooses the CPU: the decision tree, and those it is compared with.

mod blind;
mod oracle;
mod tree;

use std::fmt;

use quartier_decide::dqdt::{Allowed, Estimates};
use quartier_model::CpuId;
use serde::Serialize;

use crate::random::Random;
use crate::truth::Truth;

pub use blind::{RoundRobin, TwoChoices, Uniform};
pub use oracle::Oracle;
pub use tree::Dqdt;

/// What a new thread is to its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first of a new program.
    Exec,
    /// The first of a forked process.
    Fork,
    /// One more of the same process.
    Thread,
}

/// A thread that needs a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it is to its creator.
    pub kind: Kind,
    /// Where the creator runs; `None` for [`Kind::Exec`].
    pub creator: Option<CpuId>,
}

/// A CPU for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub cpu: CpuId,
    /// How many clusters were read, or CPUs where there is no tree.
    pub reads: u32,
}

/// A competitor.
pub trait Chooser {
    /// Chooses a CPU, and counts nothing. `truth` is the oracle's; the others read T of it, which is
    /// exact. The tree has its `estimates`.
    fn choose(&mut self, request: &Request, truth: &Truth<'_>, estimates: &Estimates<'_>)
    -> Choice;
}

/// The competitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChooserName {
    /// The decision tree.
    Dqdt,
    /// The least loaded of all CPUs, known exactly.
    Oracle,
    /// Of two random CPUs the one with fewer threads; of equal ones the nearer.
    TwoChoicesNear,
    /// Of two random CPUs the one with fewer threads; of equal ones the first.
    TwoChoices,
    /// One CPU after the other.
    RoundRobin,
    /// A random CPU.
    Random,
}

impl ChooserName {
    /// Every competitor.
    pub const ALL: [Self; 6] = [
        Self::Dqdt,
        Self::Oracle,
        Self::TwoChoicesNear,
        Self::TwoChoices,
        Self::RoundRobin,
        Self::Random,
    ];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dqdt => "dqdt",
            Self::Oracle => "oracle",
            Self::TwoChoicesNear => "two-choices-near",
            Self::TwoChoices => "two-choices",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
        }
    }

    /// Whether it reads U and M, so that the period matters.
    #[must_use]
    pub fn reads_refreshed(self) -> bool {
        self == Self::Dqdt
    }

    /// Makes it for one run.
    #[must_use]
    pub fn chooser<'a>(
        self,
        allowed: &'a Allowed,
        free_pages_min: Option<u64>,
        seed: u64,
    ) -> Box<dyn Chooser + 'a> {
        // Streams 0 to 3 are the loads'.
        let random = Random::new(seed, 16 + self as u64);
        match self {
            Self::Dqdt => Box::new(Dqdt::new(allowed, free_pages_min, random)),
            Self::Oracle => Box::new(Oracle::new(free_pages_min, random)),
            Self::TwoChoicesNear => Box::new(TwoChoices::new(random, true)),
            Self::TwoChoices => Box::new(TwoChoices::new(random, false)),
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Random => Box::new(Uniform::new(random)),
        }
    }
}

impl fmt::Display for ChooserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
