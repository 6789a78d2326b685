//! Where several threads go that belong together.
//!
//! Beyond the thesis, for a known failure of balancers that look at whole processes: one that does
//! not fit a node is left where it is, or scattered. Here it is split along the tree. The smallest
//! cluster near the creator that has a core for every thread takes them all; inside it, a child
//! that holds the whole group alone gets it, else the children with most idle cores are filled one
//! after the other, the nearest first if that takes no more of them. So the group spans as few clusters
//! as it can, on every level.
//!
//! Where the machine has not enough idle cores the rest is shared out by the size of clusters.

use std::cmp::Ordering;

use quartier_model::CpuId;

use crate::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, Tree};
use crate::policy::load::{Entry, Reading};
use crate::policy::plan::by_distance;
use crate::policy::view::{View, Wants};

/// A request for the CPUs of a group.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The CPU that the group should be near. `None`: anywhere.
    pub near: Option<CpuId>,
    /// Where its threads may run.
    pub allowed: &'a Allowed,
}

/// Chooses a CPU for each thread of a group, as many as `cpus` is long; counts nothing. Gives how
/// many clusters were read: at most the way up and every cluster that a thread goes into. `None`
/// when no CPU is allowed.
///
/// # Panics
/// If `request.allowed` was made for another tree.
#[must_use]
pub fn decide(estimates: &Estimates<'_>, request: &Group<'_>, cpus: &mut [CpuId]) -> Option<u32> {
    let tree = estimates.tree();
    let fits = request.allowed.fits(tree);
    assert!(fits, "the set of allowed CPUs was made for another tree");
    if request.allowed.is_empty() {
        return None;
    }
    let leaf = request.near.and_then(|near| tree.leaf_of(near));
    let from = leaf.and_then(|leaf| tree.cluster(leaf).node());
    let view = View::new(estimates, request.allowed, from, None);
    let mut visited = 0;
    let top = climb(tree, &view, leaf.unwrap_or(ClusterId::ROOT), cpus.len() as u32, &mut visited);
    split(tree, &view, top, cpus, &mut visited);
    Some(visited)
}

/// The smallest cluster around the start that has a core for each of so many threads.
fn climb(
    tree: &Tree,
    view: &View<'_>,
    start: ClusterId,
    nr_threads: u32,
    visited: &mut u32,
) -> ClusterId {
    let mut at = start;
    loop {
        *visited += 1;
        let sum = view.sum(at, Wants::default());
        match tree.cluster(at).parent() {
            Some(above) if sum.nr_cores.saturating_sub(sum.nr_threads) < nr_threads => at = above,
            _ => return at,
        }
    }
}

fn split(tree: &Tree, view: &View<'_>, at: ClusterId, cpus: &mut [CpuId], visited: &mut u32) {
    if cpus.is_empty() {
        return;
    }
    *visited += 1;
    let reading = view.read(at, Wants::default());
    if tree.cluster(at).is_leaf() {
        return fill_leaf(tree, view, &reading, cpus);
    }
    let mut left = cpus;
    for (entry, share) in reading.entries().iter().zip(shares(&reading, left.len())) {
        let (part, rest) = left.split_at_mut(share);
        left = rest;
        split(tree, view, tree.cluster(at).child(entry.place), part, visited);
    }
}

/// One CPU after the other: the one whose core has fewest threads, then the one with fewest.
fn fill_leaf(tree: &Tree, view: &View<'_>, reading: &Reading, cpus: &mut [CpuId]) {
    let siblings = |entry: &Entry| tree.cpus[view.position(reading, entry)].siblings;
    let mut nr_added = [0u32; FANOUT_MAX];
    for cpu in cpus {
        let load = |entry: &&Entry| {
            let of_core = (0..FANOUT_MAX).filter(|other| siblings(entry) >> other & 1 == 1);
            let added: u32 = of_core.map(|other| nr_added[other]).sum();
            let own = nr_added[usize::from(entry.place)];
            let of_core = entry.nr_threads_of_core.saturating_add(added);
            (of_core, entry.load.nr_threads.saturating_add(own))
        };
        let allowed = reading.entries().iter().filter(|entry| entry.load.nr_cpus > 0);
        if let Some(least) = allowed.min_by_key(load) {
            nr_added[usize::from(least.place)] += 1;
            *cpu = tree.cpu_at(view.position(reading, least));
        }
    }
}

/// Puts the nearest entry first where as few entries hold the group then as without: its creator's
/// node, say, that has one idle core less than the others.
fn nearest_first(
    order: &mut [usize],
    nr_threads: usize,
    idle: impl Fn(usize) -> usize,
    distance: impl Fn(usize, usize) -> Ordering,
) {
    let held_by = |order: &[usize]| {
        let held = order.iter().scan(0, |held, &at| {
            *held += idle(at);
            Some(*held)
        });
        held.take_while(|held| *held < nr_threads).count()
    };
    let with_room = (0..order.len()).filter(|&at| idle(order[at]) > 0);
    let Some(nearest) = with_room.min_by(|&a, &b| distance(order[a], order[b])) else { return };
    let mut other = [0; FANOUT_MAX];
    let other = &mut other[..order.len()];
    other.copy_from_slice(order);
    other[..=nearest].rotate_right(1);
    if held_by(other) <= held_by(order) {
        order.copy_from_slice(other);
    }
}

/// How many threads of a group each entry gets; together all of them.
fn shares(reading: &Reading, nr_threads: usize) -> [usize; FANOUT_MAX] {
    let mut shares = [0; FANOUT_MAX];
    let entries = reading.entries();
    let idle = |entry: &Entry| entry.load.nr_cores.saturating_sub(entry.load.nr_threads) as usize;
    // The tightest of those that hold all; of equal ones the nearest.
    let holds_all = entries.iter().filter(|entry| idle(entry) >= nr_threads);
    let tightest = |a: &&Entry, b: &&Entry| idle(a).cmp(&idle(b)).then_with(|| by_distance(a, b));
    if let Some(alone) = holds_all.min_by(tightest) {
        shares[usize::from(alone.place)] = nr_threads;
        return shares;
    }
    let mut order = [0, 1, 2, 3];
    let order = &mut order[..entries.len()];
    order.sort_unstable_by(|&a, &b| {
        let (a, b) = (&entries[a], &entries[b]);
        idle(b).cmp(&idle(a)).then_with(|| by_distance(a, b)).then(a.place.cmp(&b.place))
    });
    nearest_first(
        order,
        nr_threads,
        |at| idle(&entries[at]),
        |a, b| by_distance(&entries[a], &entries[b]),
    );
    let mut left = nr_threads;
    for &at in order.iter() {
        shares[at] = idle(&entries[at]).min(left);
        left -= shares[at];
    }
    for _ in 0..left {
        // One more where threads per CPU stay fewest: T₁ / N₁ < T₂ / N₂ without the division.
        let after = |at: usize| u64::from(entries[at].load.nr_threads) + shares[at] as u64 + 1;
        let size = |at: usize| u64::from(entries[at].load.nr_cpus);
        let with_cpus = order.iter().copied().filter(|&at| size(at) > 0);
        let least = with_cpus.min_by(|&a, &b| (after(a) * size(b)).cmp(&(after(b) * size(a))));
        if let Some(at) = least {
            shares[at] += 1;
        }
    }
    shares
}
