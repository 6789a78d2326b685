//! The search that every placement makes: up the tree, then down, up to three times.
//!
//! **Bound.** A decision reads at most 2 × height clusters ([`visits_max`]; thesis 4.3.2: "au plus
//! 2 × H"). The way up starts at the parent of the requester's leaf, whose entries tell of the leaf
//! too, and all attempts go the same way; the way down reads one cluster per level. Where estimates
//! disagree (they are being changed, or only a sum satisfies a condition) the search backtracks as
//! the thesis says, as long as what is left of the bound leads to a CPU; after that the next attempt
//! goes on from where this one is. A mask that is a small part of the machine is the exception: its
//! leaves, 16 at most, are read instead of the clusters above them (see [`view`](super::view)).

use std::cmp::Ordering;

use crate::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, Tree};
use crate::policy::load::{Entry, Load, Reading};
use crate::policy::plan::{Attempt, Condition, Plan, Start};
use crate::policy::trace::{Event, Trace};
use crate::policy::view::{LEAVES_MAX, View, Wants};

/// Untried brothers that are remembered. The nearest are the cheapest; older ones seldom fit into
/// what is left of the bound.
const ALTERNATIVES_MAX: usize = 8;

/// How many clusters a decision reads at most where every CPU is allowed.
#[must_use]
pub fn visits_max(tree: &Tree) -> u32 {
    (2 * u32::from(tree.height())).max(1)
}

/// The same for a mask: one that leaves out CPUs and has no more than 16 leaves may take these.
///
/// # Panics
/// If the set of allowed CPUs was made for another tree.
#[must_use]
pub fn visits_max_within(tree: &Tree, allowed: &Allowed) -> u32 {
    assert!(allowed.fits(tree), "the set of allowed CPUs was made for another tree");
    visits_max(tree).max(allowed.leaves_if_few(LEAVES_MAX).len() as u32)
}

/// The CPU that a search ends at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub position: usize,
    /// T of it, as the decision saw it.
    pub nr_threads: u32,
    /// From 1.
    pub attempt: u8,
    pub visited: u32,
}

pub(super) struct Search<'a, T> {
    plan: Plan<'a>,
    view: View<'a>,
    tree: &'a Tree,
    visited: u32,
    visits_max: u32,
    /// The highest cluster that was read on the way up: all attempts go the same way.
    highest: Option<ClusterId>,
    /// The last one.
    way_up: Option<WayUp>,
    trace: &'a mut T,
}

/// Where a way up ended, and whether its condition holds there.
#[derive(Clone, Copy)]
struct WayUp {
    end: ClusterId,
    found: bool,
}

/// Searches as planned. `None` when no CPU is allowed, or none will do.
pub(super) fn search<T: Trace>(
    estimates: &Estimates<'_>,
    plan: Plan<'_>,
    trace: &mut T,
) -> Option<Found> {
    let tree = estimates.tree();
    let visits_max = visits_max(tree);
    let view = View::new(estimates, plan.allowed, plan.from, plan.seed);
    let few = plan.allowed.leaves_if_few(LEAVES_MAX);
    let mut search =
        Search { plan, view, tree, visited: 0, visits_max, highest: None, way_up: None, trace };
    if few.is_empty() { search.run() } else { search_leaves(few, view, search) }
}

/// The same for a mask of few leaves, which are read first.
#[cold]
fn search_leaves<T: Trace>(
    few: &[ClusterId],
    view: View<'_>,
    search: Search<'_, T>,
) -> Option<Found> {
    let wants = Wants { usage: true, memory: false };
    let mut leaves = [(ClusterId::ROOT, Load::NONE); LEAVES_MAX];
    for (known, &leaf) in leaves.iter_mut().zip(few) {
        *known = (leaf, view.sum(leaf, wants));
    }
    let view = view.with_leaves(&leaves[..few.len()]);
    Search { view, visited: few.len() as u32, ..search }.run()
}

impl<T: Trace> Search<'_, T> {
    fn run(&mut self) -> Option<Found> {
        (0..self.plan.attempts.len()).find_map(|attempt| {
            let top = self.climb(attempt)?;
            self.descend(attempt, top)
        })
    }

    /// Where the attempt goes down from.
    fn climb(&mut self, nr: usize) -> Option<ClusterId> {
        let attempt = &self.plan.attempts[nr];
        if let Some(stop) = &attempt.stop {
            self.way_up = Some(self.go_up(nr, stop));
        }
        let WayUp { end, found } = self.way_up?;
        let goes_down = found || attempt.goes_down_from_top;
        (goes_down && self.plan.allowed.nr_in(end) > 0).then_some(end)
    }

    /// Goes up until the condition holds.
    fn go_up(&mut self, nr: usize, stop: &'static Condition) -> WayUp {
        let wants = self.wants(&self.plan.attempts[nr]);
        let mut at = match self.plan.start {
            Start::Down(top) => return WayUp { end: top, found: true },
            Start::At(cluster) => cluster,
            Start::Below(leaf, parent) => {
                self.count_way_up(parent);
                let load = self.view.entry(parent, self.tree.cluster(leaf).place, leaf, wants);
                if self.stops(nr, stop, leaf, &load) {
                    return WayUp { end: leaf, found: true };
                }
                parent
            }
        };
        loop {
            self.count_way_up(at);
            let sum = self.view.sum(at, wants);
            if self.stops(nr, stop, at, &sum) {
                return WayUp { end: at, found: true };
            }
            let above = self.tree.cluster(at).parent();
            match above.filter(|&above| self.tree.cluster(above).level() <= self.plan.level_max) {
                Some(above) => at = above,
                None => return WayUp { end: at, found: false },
            }
        }
    }

    fn stops(
        &mut self,
        nr: usize,
        stop: &'static Condition,
        cluster: ClusterId,
        load: &Load,
    ) -> bool {
        let stops = load.nr_cpus > 0 && (stop.holds)(load, self.plan.free_pages_min);
        let (load, attempt, condition) = (*load, nr as u8 + 1, stop.text);
        self.note(|| match stops {
            true => Event::Stopped { cluster, load, attempt, condition },
            false => Event::Passed { cluster, load, attempt, condition },
        });
        stops
    }

    /// Parents come before their children in the list: a smaller id is further up.
    fn count_way_up(&mut self, at: ClusterId) {
        if self.highest.is_none_or(|highest| at < highest) {
            self.highest = Some(at);
            self.count();
        }
    }

    /// Leaves that were read in advance are counted, and all above is made of them.
    fn count(&mut self) {
        self.visited += u32::from(!self.view.is_from_leaves());
    }

    /// Whether the way up read a cluster. Of the leaf below its start it read the parent's entry.
    fn was_read(&self, top: ClusterId) -> bool {
        let is_below = matches!(self.plan.start, Start::Below(leaf, _) if leaf == top);
        !is_below && self.highest.is_some_and(|highest| top >= highest)
    }

    fn wants(&self, attempt: &Attempt) -> Wants {
        Wants { usage: attempt.wants_usage, memory: self.plan.free_pages_min.is_some() }
    }

    fn descend(&mut self, mut attempt: usize, top: ClusterId) -> Option<Found> {
        let mut alternatives = Alternatives::default();
        let mut at = top;
        let mut is_read = self.was_read(top);
        let needed = u32::from(self.tree.cluster(top).level()) + u32::from(!is_read);
        if !self.view.is_from_leaves() && self.visited + needed > self.visits_max {
            return None;
        }
        let mut reading =
            Reading { cluster: at, nr_entries: 0, entries: [Entry::NONE; FANOUT_MAX] };
        loop {
            if !is_read {
                self.count();
            }
            is_read = false;
            let wants = self.wants(&self.plan.attempts[attempt]);
            self.view.read_into(at, wants, &mut reading);
            if T::IS_ON {
                let load = self.view.sum(at, Wants { usage: true, ..wants });
                self.trace.note(Event::Visited { cluster: at, load });
            }
            let sorted = self.eligible(attempt, &reading);
            match sorted.first().map(|best| &reading.entries[best]) {
                Some(best) if self.tree.cluster(at).is_leaf() => {
                    return Some(Found {
                        position: self.view.position(&reading, best),
                        nr_threads: best.load.nr_threads,
                        attempt: attempt as u8 + 1,
                        visited: self.visited,
                    });
                }
                Some(best) => {
                    let cluster = self.tree.cluster(at);
                    sorted.others_last_first().for_each(|at| alternatives.push(cluster.child(at)));
                    at = cluster.child(best.place);
                }
                None => {
                    self.note(|| Event::Failed { cluster: at, attempt: attempt as u8 + 1 });
                    match self.affordable(&mut alternatives) {
                        Some(brother) => at = brother,
                        // The next attempt asks for less; the last one, where it takes anything,
                        // finds a CPU in whatever has one.
                        None => {
                            attempt = self.next_attempt(attempt)?;
                            is_read = true;
                        }
                    }
                }
            }
        }
    }

    fn next_attempt(&self, attempt: usize) -> Option<usize> {
        Some(attempt + 1).filter(|&next| next < self.plan.attempts.len())
    }

    /// The last brother that the bound still lets the search go down from, all the way.
    fn affordable(&self, alternatives: &mut Alternatives) -> Option<ClusterId> {
        let left = self.visits_max.saturating_sub(self.visited);
        let fits = |id: ClusterId| u32::from(self.tree.cluster(id).level()) < left;
        std::iter::from_fn(|| alternatives.pop()).find(|&id| fits(id))
    }

    /// The eligible entries of a reading, best first. Of a leaf only the best is asked for.
    fn eligible(&mut self, nr: usize, reading: &Reading) -> Sorted {
        let attempt = &self.plan.attempts[nr];
        let is_leaf = self.tree.cluster(reading.cluster).is_leaf();
        let order = if is_leaf { attempt.cpu_order.compare } else { attempt.order.compare };
        let keep = if is_leaf && !T::IS_ON { 1 } else { FANOUT_MAX };
        let mut sorted = Sorted::default();
        for (at, entry) in reading.entries().iter().enumerate() {
            if self.is_eligible(attempt, is_leaf, entry) {
                sorted.insert(at, keep, |a, b| order(&reading.entries[a], &reading.entries[b]));
            }
        }
        if T::IS_ON {
            self.note_entries(nr, attempt, is_leaf, reading, &sorted);
        }
        sorted
    }

    fn is_eligible(&self, attempt: &Attempt, is_leaf: bool, entry: &Entry) -> bool {
        entry.load.nr_cpus > 0
            && if is_leaf {
                (attempt.takes.holds)(entry)
            } else {
                (attempt.eligible.holds)(&entry.load, self.plan.free_pages_min)
            }
    }

    fn note_entries(
        &mut self,
        nr: usize,
        attempt: &'static Attempt,
        is_leaf: bool,
        reading: &Reading,
        sorted: &Sorted,
    ) {
        let number = nr as u8 + 1;
        for (at, entry) in reading.entries().iter().enumerate() {
            let (part, load) = (self.view.part(reading, entry), entry.load);
            let condition = if is_leaf { attempt.takes.text } else { attempt.eligible.text };
            let order = if is_leaf { attempt.cpu_order.text } else { attempt.order.text };
            let condition = if load.nr_cpus == 0 { "N > 0 (nothing allowed)" } else { condition };
            self.trace.note(match sorted.rank(at) {
                Some(rank) => Event::Eligible { part, load, rank, attempt: number, order },
                None => Event::Rejected { part, load, attempt: number, condition },
            });
        }
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if T::IS_ON {
            self.trace.note(event());
        }
    }
}

/// Indices of at most four entries, in order.
#[derive(Default)]
struct Sorted {
    at: [u8; FANOUT_MAX],
    len: u8,
}

impl Sorted {
    /// Stable, and never allocates, which `slice::sort_by` does not promise.
    fn insert(&mut self, new: usize, keep: usize, compare: impl Fn(usize, usize) -> Ordering) {
        let mut place = usize::from(self.len);
        if place == keep {
            place -= 1;
            if compare(usize::from(self.at[place]), new) != Ordering::Greater {
                return;
            }
        } else {
            self.len += 1;
        }
        self.at[place] = new as u8;
        while place > 0 && compare(usize::from(self.at[place - 1]), new) == Ordering::Greater {
            self.at.swap(place - 1, place);
            place -= 1;
        }
    }

    fn first(&self) -> Option<usize> {
        (self.len > 0).then_some(usize::from(self.at[0]))
    }

    /// All but the first, the last first.
    fn others_last_first(&self) -> impl Iterator<Item = u8> + '_ {
        self.at[1..usize::from(self.len).max(1)].iter().rev().copied()
    }

    /// From 1.
    fn rank(&self, entry: usize) -> Option<u8> {
        let at =
            self.at[..usize::from(self.len)].iter().position(|&at| usize::from(at) == entry)?;
        Some(at as u8 + 1)
    }
}

/// Brothers to go on with, the last one first.
#[derive(Default)]
struct Alternatives {
    ids: [u32; ALTERNATIVES_MAX],
    len: usize,
}

impl Alternatives {
    /// Forgets the oldest where there is no room.
    fn push(&mut self, id: ClusterId) {
        if self.len == ALTERNATIVES_MAX {
            self.ids.copy_within(1.., 0);
            self.len -= 1;
        }
        self.ids[self.len] = id.0;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<ClusterId> {
        self.len = self.len.checked_sub(1)?;
        Some(ClusterId(self.ids[self.len]))
    }
}
