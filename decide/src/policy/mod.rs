//! Placement policies, one file each; what they share is the search over the tree.
//!
//! | policy | for | starts at |
//! |---|---|---|
//! | [`Thread`] | a new thread | its creator's leaf |
//! | [`Fork`] | a new process that shares with its parent | two levels above the parent's node |
//! | [`Exec`] | a new program | the root |
//! | [`Balance`] | a thread to take off an overloaded CPU | that CPU's leaf |
//! | [`memory`] | pages | the requester's node |
//! | [`group`] | several threads that belong together | their creator's leaf |

mod balance;
mod exec;
mod fork;
pub mod group;
mod load;
pub mod memory;
mod plan;
mod search;
mod thread;
mod trace;
mod view;

use quartier_model::{CpuId, NodeId};

pub use balance::{Balance, CpuState, ShouldBalance};
pub use exec::{Exec, default_free_pages_min};
pub use fork::{FORK_LEVELS, Fork};
pub use load::{Load, Part};
pub use plan::{Placement, Plan};
pub use search::{visits_max, visits_max_within};
pub use thread::{Strategy, Thread};
pub use trace::{Event, NoTrace, Trace};

use crate::dqdt::Estimates;
use search::{Found, search};

/// After so many lost races for a CPU the next choice is taken as it is: someone else made
/// progress every time, and a second thread on a CPU is better than a creator that waits.
const RETRIES_MAX: u32 = 8;

/// A CPU for a thread, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The CPU.
    pub cpu: CpuId,
    /// Its node; `None` where the kernel does not tell.
    pub node: Option<NodeId>,
    /// 1–3: which attempt succeeded.
    pub attempt: u8,
    /// Clusters whose estimates were read; at most [`visits_max`]. Of the last try, if others took
    /// the CPU first.
    pub visited: u32,
}

/// Chooses a CPU, and counts nothing. `None` when no online CPU is allowed, or none will do.
///
/// # Panics
/// If the request's set of allowed CPUs was made for another tree.
#[must_use]
pub fn decide(estimates: &Estimates<'_>, request: &impl Placement) -> Option<Decision> {
    explain(estimates, request, &mut NoTrace)
}

/// The same, telling `trace` each step.
///
/// # Panics
/// If the request's set of allowed CPUs was made for another tree.
#[must_use]
pub fn explain(
    estimates: &Estimates<'_>,
    request: &impl Placement,
    trace: &mut impl Trace,
) -> Option<Decision> {
    find(estimates, request, trace).map(|found| decision(estimates, &found))
}

/// Chooses a CPU and counts the thread there, so that concurrent deciders see it. The caller takes
/// it off again with [`Estimates::remove_thread`] when the thread exits or was never made.
/// [`Ledger::place`](crate::dqdt::Ledger::place) also remembers whose thread it is.
///
/// # Panics
/// If the request's set of allowed CPUs was made for another tree.
#[must_use]
pub fn decide_and_count(estimates: &Estimates<'_>, request: &impl Placement) -> Option<Decision> {
    let count = |position, seen| match seen {
        Some(seen) => estimates.add_if_unchanged(position, seen),
        None => estimates.add_at(position),
    };
    decide_and(estimates, request, count).map(|(decision, _)| decision)
}

/// Chooses, and counts with `count(position, seen)`, which refuses when T of the CPU is not what was
/// seen. At last `seen` is `None`: count whatever it is. Gives the position too.
pub(crate) fn decide_and(
    estimates: &Estimates<'_>,
    request: &impl Placement,
    mut count: impl FnMut(usize, Option<u32>) -> bool,
) -> Option<(Decision, usize)> {
    for tries in 0..=RETRIES_MAX {
        let found = find(estimates, request, &mut NoTrace)?;
        let seen = (tries < RETRIES_MAX).then_some(found.nr_threads);
        if count(found.position, seen) {
            return Some((decision(estimates, &found), found.position));
        }
    }
    None
}

fn find(
    estimates: &Estimates<'_>,
    request: &impl Placement,
    trace: &mut impl Trace,
) -> Option<Found> {
    let plan = request.plan(estimates.tree());
    let fits = plan.allowed.fits(estimates.tree());
    assert!(fits, "the set of allowed CPUs was made for another tree");
    search(estimates, plan, trace)
}

fn decision(estimates: &Estimates<'_>, found: &Found) -> Decision {
    let cpu = estimates.tree().cpu_at(found.position);
    let Found { attempt, visited, .. } = *found;
    Decision { cpu, node: estimates.tree().node_of(cpu), attempt, visited }
}
