//! The two traversals of the tree that every policy makes: up until a cluster will do, then down
//! by the policy's order, backtracking where a promise does not hold. Fixed-size arrays only.

use std::cmp::Ordering;

use quartier_model::{Distance, NodeId};

use crate::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, LEVELS_MAX, Load};

/// A cluster that may be chosen, with what it is sorted by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub id: ClusterId,
    pub load: Load,
    /// D: from the node of the requester.
    pub distance: Distance,
}

/// A CPU that may be chosen, with what it is sorted by.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuCandidate {
    pub position: usize,
    pub nr_threads: u32,
    pub usage_percent: Option<u8>,
    /// Threads on all hardware threads of its core, in this leaf, itself included.
    pub nr_threads_of_core: u32,
}

/// One pair of traversals.
pub(super) struct Attempt {
    /// Where the way up ends.
    pub stop: fn(&Load) -> bool,
    /// Whether a way up that found no such place goes down from the highest cluster all the same.
    pub goes_down_from_top: bool,
    /// What the way down may enter.
    pub is_eligible: fn(&Load) -> bool,
    /// What it enters first.
    pub order: fn(&Candidate, &Candidate) -> Ordering,
    /// Which CPUs of a leaf may be taken.
    pub takes: fn(&CpuCandidate) -> bool,
    /// Which of them is taken.
    pub cpu_order: fn(&CpuCandidate, &CpuCandidate) -> Ordering,
}

/// What stays the same during all attempts of one decision.
pub(super) struct Walk<'a> {
    pub estimates: &'a Estimates<'a>,
    pub allowed: &'a Allowed,
    pub start: ClusterId,
    /// The way up ends below clusters of a higher level than this.
    pub level_max: u8,
    pub from_node: Option<NodeId>,
    /// Clusters whose estimates were read, over all attempts.
    pub visited: u32,
}

impl Walk<'_> {
    /// Walks up, then down.
    pub fn run(&mut self, attempt: &Attempt) -> Option<CpuCandidate> {
        let top = self.climb(attempt)?;
        self.descend(attempt, top)
    }

    fn climb(&mut self, attempt: &Attempt) -> Option<ClusterId> {
        let tree = self.estimates.tree();
        let mut at = self.start;
        loop {
            let load = self.visit(at);
            if load.nr_cpus > 0 && (attempt.stop)(&load) {
                return Some(at);
            }
            let above = tree.cluster(at).parent();
            match above.filter(|&above| tree.cluster(above).level() <= self.level_max) {
                Some(above) => at = above,
                None => return (attempt.goes_down_from_top && load.nr_cpus > 0).then_some(at),
            }
        }
    }

    /// Depth is at most [`LEVELS_MAX`], so the recursion needs little stack.
    fn descend(&mut self, attempt: &Attempt, from: ClusterId) -> Option<CpuCandidate> {
        let cluster = self.estimates.tree().cluster(from);
        debug_assert!(cluster.level() <= LEVELS_MAX);
        if cluster.children().is_empty() {
            return self.choose_cpu(attempt, from);
        }
        let mut eligible = [None; FANOUT_MAX];
        for (entry, &id) in eligible.iter_mut().zip(cluster.children()) {
            let load = self.visit(id);
            if load.nr_cpus > 0 && (attempt.is_eligible)(&load) {
                let distance = self.estimates.tree().distance(self.from_node, id);
                *entry = Some(Candidate { id, load, distance });
            }
        }
        // Stable: entries with equal keys keep the tree's order.
        insertion_sort(&mut eligible, |a, b| match (a, b) {
            (Some(a), Some(b)) => (attempt.order)(a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
        eligible.into_iter().flatten().find_map(|entry| self.descend(attempt, entry.id))
    }

    fn choose_cpu(&self, attempt: &Attempt, leaf: ClusterId) -> Option<CpuCandidate> {
        let tree = self.estimates.tree();
        let positions = tree.cluster(leaf).positions();
        let mut nr_threads = [0u32; FANOUT_MAX];
        for (slot, position) in nr_threads.iter_mut().zip(positions.clone()) {
            *slot = self.estimates.nr_threads_at(position);
        }
        let candidate = |(at, position): (usize, usize)| {
            let siblings = tree.cpus[position].siblings;
            let of_core = (0..FANOUT_MAX).filter(|other| siblings >> other & 1 == 1);
            CpuCandidate {
                position,
                nr_threads: nr_threads[at],
                usage_percent: self.estimates.usage_percent_at(position),
                nr_threads_of_core: of_core
                    .fold(0, |sum: u32, other| sum.saturating_add(nr_threads[other])),
            }
        };
        positions
            .enumerate()
            .filter(|&(_, position)| self.allowed.has(position))
            .map(candidate)
            .filter(attempt.takes)
            .min_by(attempt.cpu_order)
    }

    fn visit(&mut self, id: ClusterId) -> Load {
        self.visited = self.visited.saturating_add(1);
        self.estimates.load(id, self.allowed)
    }
}

/// Stable, and never allocates, which `slice::sort_by` does not promise.
fn insertion_sort<T>(entries: &mut [T], mut order: impl FnMut(&T, &T) -> Ordering) {
    for end in 1..entries.len() {
        let mut at = end;
        while at > 0 && order(&entries[at - 1], &entries[at]) == Ordering::Greater {
            entries.swap(at - 1, at);
            at -= 1;
        }
    }
}
