//! Where a new thread goes: thesis 4.3.3, item 1.
//!
//! Share no CPU while an idle one is left, and stay near the creator. Up to three attempts, each a
//! way up from the creator's leaf and a way down from where it stopped:
//!
//! | attempt | up until         | down into        | sorted by        | CPU of the leaf |
//! |---------|------------------|------------------|------------------|-----------------|
//! | 1       | T < N            | T < N            | N − T ↓, D ↑     | an idle one     |
//! | 2       | T < N or U < 100 | T < N or U < 100 | U ↑, T ↑, D ↑    | least U         |
//! | 3       | the same         | any              | U ↑, T ↑, D ↑    | least U         |
//!
//! How the text is read where it leaves a choice:
//! - **Eligibility in attempt 1** is printed `T_{i−1} < N_i`; read as `T_{i−1} < N_{i−1}`, which
//!   is what attempt 2 prints, and without which a full cluster could be entered.
//! - **N − T descending** is said to fill one eligible cluster before another. What fills a cluster
//!   is the way up, which stops at the creator's own while that has an idle CPU; the sort itself
//!   prefers the emptiest, so threads that leave their creator's cluster spread.
//! - **Attempt 3** is "the same search, accepting a load of 100 %". Were that read into the way up
//!   too, it would stop at the creator's leaf at once and every further thread would pile up there
//!   until load balancing (4.3.4). It is read into the way down only: the way up ends at the top,
//!   and threads spread over the machine.
//! - **T of unequal clusters.** All clusters of a level have the same N in the thesis. Here they
//!   need not, so T is compared per CPU.
//! - **Unknown U** counts as 100: nobody vouches for room. Where no U is known attempt 2 comes down
//!   to attempt 1's condition, so it is left out, and sorting comes down to T and D.
//! - **Among equal CPUs of a leaf** the one whose core has fewest threads, then the first.
//! - **A mask** makes the tree smaller: N, T and U of a cluster are those of its allowed CPUs.
//!
//! **Bound.** While estimates agree with each other a decision reads at most
//! `3 × (5 × height + 1)` clusters ([`visits_max`]). Estimates that disagree (a refresh of U or
//! another decision is under way) can cost backtracking, at worst every cluster once per attempt.

use std::cmp::Ordering;

use quartier_model::{CpuId, NodeId};

use crate::dqdt::{Allowed, Estimates, FANOUT_MAX, LEVELS_MAX, Load, Tree};
use crate::policy::walk::{Attempt, Candidate, CpuCandidate, Walk};

/// After so many lost races for a CPU the next choice is taken as it is: someone else made
/// progress every time, and a second thread on a CPU is better than a creator that waits.
const RETRIES_MAX: u32 = 8;

/// A request for a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The CPU of the creating thread, online or not, allowed or not. `None` where unknown: the
    /// search then starts at the root.
    pub creator: Option<CpuId>,
    /// Where the new thread may run.
    pub allowed: &'a Allowed,
    /// The way up ends below clusters of a higher level (thesis: "niveau logique maximal").
    /// `None`: the height of the tree.
    pub level_max: Option<u8>,
}

impl<'a> Request<'a> {
    /// A request that may go as far as the machine goes.
    #[must_use]
    pub fn new(creator: Option<CpuId>, allowed: &'a Allowed) -> Self {
        Self { creator, allowed, level_max: None }
    }
}

/// Where a thread goes, and how that came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The CPU.
    pub cpu: CpuId,
    /// Its node; `None` where the kernel does not tell.
    pub node: Option<NodeId>,
    /// 1–3: which attempt succeeded.
    pub attempt: u8,
    /// Clusters whose estimates were read.
    pub visited: u32,
}

const ATTEMPTS: [Attempt; 3] = [
    Attempt {
        stop: has_idle_cpu,
        goes_down_from_top: false,
        is_eligible: has_idle_cpu,
        order: most_idle_first,
        takes: |cpu| cpu.nr_threads == 0,
        cpu_order: least_loaded_cpu,
    },
    Attempt {
        stop: has_room,
        goes_down_from_top: false,
        is_eligible: has_room,
        order: least_loaded,
        takes: |_| true,
        cpu_order: least_loaded_cpu,
    },
    Attempt {
        stop: has_room,
        goes_down_from_top: true,
        is_eligible: |_| true,
        order: least_loaded,
        takes: |_| true,
        cpu_order: least_loaded_cpu,
    },
];

/// Chooses a CPU, and counts nothing. `None` when no online CPU is allowed (or none within
/// `level_max`).
///
/// # Panics
/// If `request.allowed` was made for another tree.
#[must_use]
pub fn decide(estimates: &Estimates<'_>, request: &Request<'_>) -> Option<Decision> {
    choose(estimates, request).map(|(decision, _)| decision)
}

/// Chooses a CPU and counts the thread there, so that concurrent deciders see it. The caller takes
/// it off again with [`Estimates::remove_thread`] when the thread exits or was never made.
///
/// # Panics
/// If `request.allowed` was made for another tree.
#[must_use]
pub fn decide_and_count(estimates: &Estimates<'_>, request: &Request<'_>) -> Option<Decision> {
    let mut visited = 0u32;
    for _ in 0..RETRIES_MAX {
        let (decision, chosen) = choose(estimates, request)?;
        visited = visited.saturating_add(decision.visited);
        if estimates.add_if_unchanged(chosen.position, chosen.nr_threads) {
            return Some(Decision { visited, ..decision });
        }
    }
    let (decision, _) = choose(estimates, request)?;
    estimates.add_thread(decision.cpu);
    Some(Decision { visited: visited.saturating_add(decision.visited), ..decision })
}

/// How many clusters a decision reads at most while estimates agree with each other.
#[must_use]
pub fn visits_max(tree: &Tree) -> u32 {
    let height = u32::from(tree.height());
    let up = height + 1;
    let down = FANOUT_MAX as u32 * height;
    ATTEMPTS.len() as u32 * (up + down)
}

fn choose(estimates: &Estimates<'_>, request: &Request<'_>) -> Option<(Decision, CpuCandidate)> {
    let tree = estimates.tree();
    assert!(request.allowed.fits(tree), "the set of allowed CPUs was made for another tree");
    let leaf = request.creator.and_then(|creator| tree.leaf_of(creator));
    let mut walk = Walk {
        estimates,
        allowed: request.allowed,
        start: leaf.unwrap_or(tree.root()),
        level_max: request.level_max.unwrap_or(LEVELS_MAX),
        from_node: leaf.and_then(|leaf| tree.cluster(leaf).node()),
        visited: 0,
    };
    let (attempt, chosen) = (1..)
        .zip(&ATTEMPTS)
        .filter(|(nr, _)| *nr != 2 || estimates.has_usage())
        .find_map(|(nr, attempt)| Some((nr, walk.run(attempt)?)))?;
    let cpu = &tree.cpus[chosen.position];
    let node = tree.cluster(cpu.leaf).node();
    Some((Decision { cpu: cpu.id, node, attempt, visited: walk.visited }, chosen))
}

fn has_idle_cpu(load: &Load) -> bool {
    load.nr_threads < load.nr_cpus
}

fn has_room(load: &Load) -> bool {
    has_idle_cpu(load) || usage_or_full(load.usage_percent) < 100
}

fn usage_or_full(percent: Option<u8>) -> u8 {
    percent.unwrap_or(100)
}

fn most_idle_first(a: &Candidate, b: &Candidate) -> Ordering {
    let idle = |entry: &Candidate| entry.load.nr_cpus.saturating_sub(entry.load.nr_threads);
    idle(b).cmp(&idle(a)).then(a.distance.cmp(&b.distance))
}

fn least_loaded(a: &Candidate, b: &Candidate) -> Ordering {
    let usage = |entry: &Candidate| usage_or_full(entry.load.usage_percent);
    // T_a / N_a against T_b / N_b, without the division.
    let threads = |entry: &Candidate, other: &Candidate| {
        u64::from(entry.load.nr_threads) * u64::from(other.load.nr_cpus)
    };
    usage(a)
        .cmp(&usage(b))
        .then(threads(a, b).cmp(&threads(b, a)))
        .then(a.distance.cmp(&b.distance))
}

fn least_loaded_cpu(a: &CpuCandidate, b: &CpuCandidate) -> Ordering {
    let key = |cpu: &CpuCandidate| {
        (usage_or_full(cpu.usage_percent), cpu.nr_threads, cpu.nr_threads_of_core)
    };
    key(a).cmp(&key(b))
}
