//! Reading a cluster's entries, reduced to the CPUs that are allowed.
//!
//! A mask that follows the tree's lines costs nothing: each entry counts whole or not at all. Where
//! it cuts a cluster in two, that cluster's T also counts threads on the wrong side. So the few
//! leaves of a small mask (a container's cpuset, `taskset`) are read first, and everything above is
//! added up from them, exactly. A larger mask that cuts many clusters is served by what the whole
//! clusters say: `T < N` still promises an idle CPU (its pigeonholes are the allowed CPUs) but may miss
//! one, and U is that of the neighbours too.

use quartier_model::{Distance, NodeId};

use crate::dqdt::{Allowed, ClusterId, Estimates, FANOUT_MAX, Resources, SUM};
use crate::policy::load::{Entry, Load, Part, Reading, stored};

/// A mask of at most so many leaves is read leaf by leaf.
pub(super) const LEAVES_MAX: usize = 16;

/// Leaves that were read in advance.
pub(super) type Leaves = [(ClusterId, Load)];

/// What to read beside N, T and D.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants {
    pub usage: bool,
    pub memory: bool,
}

impl Wants {
    fn any(self) -> bool {
        self.usage || self.memory
    }
}

/// Makes readings.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    estimates: &'a Estimates<'a>,
    allowed: &'a Allowed,
    /// Distances from the requester's node, by node.
    distances: &'a [Distance],
    seed: Option<u64>,
    leaves: &'a Leaves,
}

impl<'a> View<'a> {
    pub fn new(
        estimates: &'a Estimates<'a>,
        allowed: &'a Allowed,
        from: Option<NodeId>,
        seed: Option<u64>,
    ) -> Self {
        let distances = estimates.tree().distances_from(from);
        Self { estimates, allowed, distances, seed, leaves: &[] }
    }

    /// The same, with these leaves instead of the estimates of all above them.
    pub fn with_leaves(self, leaves: &'a Leaves) -> Self {
        Self { leaves, ..self }
    }

    /// Whether whole clusters are added up from leaves that were read.
    pub fn is_from_leaves(&self) -> bool {
        !self.leaves.is_empty()
    }

    /// The fifth entry of a cluster.
    pub fn sum(&self, id: ClusterId, wants: Wants) -> Load {
        let tree = self.estimates.tree();
        let resources = self.estimates.resources_of(id);
        let free_pages =
            if wants.memory { resources.and_then(|all| all.free_pages(SUM)) } else { None };
        if self.allowed.is_whole(tree, id) && !self.is_from_leaves() {
            let (nr_cpus, nr_cores) = self.allowed.sizes_in(id);
            let nr_threads = self.estimates.nr_threads(id);
            let usage_percent = resources
                .filter(|_| wants.usage)
                .and_then(|all| all.usage_now(SUM, nr_threads, nr_cpus));
            let free_pages = stored(free_pages);
            return Load { nr_cpus, nr_cores, nr_threads, usage_percent, free_pages };
        }
        let sum = if self.is_from_leaves() {
            self.sum_of_known_leaves(id)
        } else {
            let reading = self.read(id, Wants { memory: false, ..wants });
            let usable = reading.entries().iter().filter(|entry| entry.load.nr_cpus > 0);
            add_up(usable.map(|entry| &entry.load))
        };
        // In a leaf two entries may be one core.
        let (nr_cpus, nr_cores) = self.allowed.sizes_in(id);
        Load { nr_cpus, nr_cores, free_pages: stored(free_pages), ..sum }
    }

    /// The first four entries of a cluster.
    pub fn read(&self, id: ClusterId, wants: Wants) -> Reading {
        let mut reading =
            Reading { cluster: id, nr_entries: 0, entries: [Entry::NONE; FANOUT_MAX] };
        self.read_into(id, wants, &mut reading);
        reading
    }

    /// The same in place of an earlier reading.
    #[inline]
    pub fn read_into(&self, id: ClusterId, wants: Wants, reading: &mut Reading) {
        reading.cluster = id;
        if self.estimates.tree().cluster(id).is_leaf() {
            self.read_cpus(reading);
        } else {
            self.read_children(reading, wants);
        }
    }

    fn read_children(&self, reading: &mut Reading, wants: Wants) {
        let cluster = self.estimates.tree().cluster(reading.cluster);
        let nr_threads = self.estimates.threads_of(reading.cluster).all();
        let resources = self.estimates.resources_of(reading.cluster).filter(|_| wants.any());
        reading.nr_entries = cluster.nr_children;
        for (at, entry) in reading.entries.iter_mut().enumerate().take(cluster.children().len()) {
            let child = cluster.child(at as u8);
            entry.place = at as u8;
            entry.distance = self.distance(child);
            entry.random = self.seed.map_or(0, |seed| mixed(seed, child.0));
            entry.load = self.load(child, nr_threads[at], resources, at, wants);
        }
    }

    /// One of a cluster's entries: T as given, N of the child, the rest from the cluster's resources.
    #[inline(always)]
    fn load(
        &self,
        child: ClusterId,
        nr_threads: u32,
        resources: Option<&Resources>,
        at: usize,
        wants: Wants,
    ) -> Load {
        let resources = resources.filter(|_| wants.any());
        let nr_cpus_in_all = self.estimates.tree().cluster(child).nr_cpus();
        let usage_percent = resources
            .filter(|_| wants.usage)
            .and_then(|all| all.usage_now(at, nr_threads, nr_cpus_in_all));
        let free_pages = resources.filter(|_| wants.memory).and_then(|all| all.free_pages(at));
        let free_pages = stored(free_pages);
        if self.is_from_leaves() {
            return Load { free_pages, ..self.sum_of_known_leaves(child) };
        }
        let (nr_cpus, nr_cores) = self.allowed.sizes_in(child);
        Load { nr_cpus, nr_cores, nr_threads, usage_percent, free_pages }
    }

    fn distance(&self, to: ClusterId) -> Distance {
        let home = self.estimates.tree().cluster(to).home();
        let known = home.and_then(|home| self.distances.get(home.index()));
        known.copied().unwrap_or(Distance::UNREACHABLE)
    }

    /// The entry of a cluster for one of its children.
    pub fn entry(&self, parent: ClusterId, place: u8, child: ClusterId, wants: Wants) -> Load {
        let at = usize::from(place);
        let resources = self.estimates.resources_of(parent);
        self.load(child, self.estimates.entry(parent, at), resources, at, wants)
    }

    fn sum_of_known_leaves(&self, id: ClusterId) -> Load {
        let tree = self.estimates.tree();
        let positions = tree.cluster(id).positions();
        let inside = |leaf: ClusterId| positions.contains(&tree.cluster(leaf).positions().start);
        add_up(self.leaves.iter().filter(|(leaf, _)| inside(*leaf)).map(|(_, load)| load))
    }

    fn read_cpus(&self, reading: &mut Reading) {
        let tree = self.estimates.tree();
        let positions = tree.cluster(reading.cluster).positions();
        let nr_threads = self.estimates.threads_of(reading.cluster).all();
        let resources = self.estimates.resources_of(reading.cluster);
        reading.nr_entries = positions.len() as u8;
        for (at, position) in positions.enumerate() {
            let siblings = tree.cpus[position].siblings;
            let is_allowed = u32::from(self.allowed.has(position));
            reading.entries[at] = Entry {
                load: Load {
                    nr_cpus: is_allowed,
                    nr_cores: is_allowed,
                    nr_threads: nr_threads[at],
                    usage_percent: resources.and_then(|all| all.usage_now(at, nr_threads[at], 1)),
                    free_pages: None,
                },
                nr_threads_of_core: match siblings.count_ones() {
                    1 => nr_threads[at],
                    _ => sum_of(siblings, &nr_threads),
                },
                place: at as u8,
                distance: Distance::LOCAL,
                random: self.seed.map_or(0, |seed| mixed(seed, !(position as u32))),
            };
        }
    }

    /// What an entry of a reading stands for.
    pub fn part(&self, reading: &Reading, entry: &Entry) -> Part {
        let tree = self.estimates.tree();
        let cluster = tree.cluster(reading.cluster);
        if cluster.is_leaf() {
            Part::Cpu(tree.cpu_at(self.position(reading, entry)))
        } else {
            Part::Cluster(cluster.child(entry.place))
        }
    }

    /// The position of a leaf's CPU in the order of the tree.
    pub fn position(&self, reading: &Reading, entry: &Entry) -> usize {
        let cluster = self.estimates.tree().cluster(reading.cluster);
        cluster.positions().start + usize::from(entry.place)
    }
}

/// The sum of those whose bits are set.
fn sum_of(mask: u8, nr_threads: &[u32; FANOUT_MAX]) -> u32 {
    let chosen = nr_threads.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
    chosen.fold(0, |sum, (_, nr_threads)| sum.saturating_add(*nr_threads))
}

/// N and T are sums, U is the mean weighted by N, unknown when a part's is.
fn add_up<'a>(loads: impl Iterator<Item = &'a Load>) -> Load {
    let mut sum = Load::NONE;
    let mut usage = Some(0u64);
    for load in loads {
        sum.nr_cpus += load.nr_cpus;
        sum.nr_cores += load.nr_cores;
        sum.nr_threads = sum.nr_threads.saturating_add(load.nr_threads);
        usage = usage
            .zip(load.usage_percent)
            .map(|(sum, percent)| sum + u64::from(percent) * u64::from(load.nr_cpus));
    }
    let mean = usage.and_then(|usage| usage.checked_div(u64::from(sum.nr_cpus)));
    sum.usage_percent = mean.map(|mean| mean as u8);
    sum
}

/// The finaliser of SplitMix64: a different number for each cluster of each request.
fn mixed(seed: u64, id: u32) -> u64 {
    let mut z = seed.wrapping_add((u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
