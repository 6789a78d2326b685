//! What a snapshot says of one process, as terms of the factors: how much it runs and waits, how far its
//! memory is, and how much that matters to it.

use quartier_model::{
    Bytes, CpuId, Factors, Intensity, Machine, Nanos, NodeId, PerNode, ProcessSeen, Snapshot,
    Standing, TaskId, ThreadSeen,
};

use super::Settings;

/// Fewer pages than this say nothing about where the others lie.
pub const SAMPLE_MIN: u64 = 16;
/// A thread that runs or waits for less than this part of the time is not worth a place of its own.
pub const ACTIVE_MIN: f64 = 0.1;

/// Parts of a whole on nodes; they add up to 1.
pub type Shares = Vec<(NodeId, f64)>;

/// A process with its threads.
#[derive(Debug)]
pub struct Terms<'a> {
    pub seen: &'a ProcessSeen,
    pub threads: Vec<ThreadTerms<'a>>,
    pub intensity: Intensity,
    /// Where its own pages lie; `None`: unknown.
    pub pages: Option<Shares>,
    pub resident: Bytes,
}

/// A thread that runs or waits, and where.
#[derive(Debug)]
pub struct ThreadTerms<'a> {
    pub seen: &'a ThreadSeen,
    /// Whether it may be placed.
    pub is_free: bool,
    /// Where it counts: one that is held may not have been seen there yet.
    pub cpu: Option<CpuId>,
    /// CPUs' worth.
    pub running: f64,
    pub waiting: f64,
    /// Where it was.
    pub at: Shares,
    /// Where the pages lie that it uses.
    pub pages: Option<Shares>,
}

/// Counts as parts of their sum; `None` where they are too few to say anything.
pub fn shares(counts: &PerNode, at_least: u64) -> Option<Shares> {
    let sum: u64 = counts.values().sum();
    let is_enough = sum >= at_least.max(1);
    let part = |(node, count): (&NodeId, &u64)| (*node, *count as f64 / sum as f64);
    is_enough.then(|| counts.iter().filter(|(_, count)| **count > 0).map(part).collect())
}

/// The part on one node.
pub fn share_on(shares: &Shares, node: NodeId) -> f64 {
    shares.iter().find(|(other, _)| *other == node).map_or(0.0, |(_, share)| *share)
}

/// The node with the largest part; of equal ones the first.
pub fn most(shares: &Shares) -> Option<NodeId> {
    let more =
        |best: (NodeId, f64), next: &(NodeId, f64)| if next.1 > best.1 { *next } else { best };
    let (first, rest) = shares.split_first()?;
    Some(rest.iter().fold(*first, more).0)
}

/// Of nothing 0, which by `sum` is −0, and shown as that.
fn total(parts: impl Iterator<Item = f64>) -> f64 {
    parts.fold(0.0, |sum, part| sum + part)
}

/// How much farther than local such pages are from a node: Σ share × (distance ratio − 1).
pub fn remoteness(machine: &Machine, from: NodeId, pages: &Shares) -> f64 {
    let ratio = |to| f64::from(machine.distance(from, to).0) / 10.0;
    pages.iter().map(|(to, share)| share * (ratio(*to) - 1.0)).sum()
}

fn part_of(time: Nanos, window: Nanos) -> f64 {
    if window.0 == 0 { 0.0 } else { time.0 as f64 / window.0 as f64 }
}

impl<'a> Terms<'a> {
    /// Of a process; threads of which it is not known where they were are left out, and those of whoever watches.
    pub fn new(
        machine: &Machine,
        settings: &Settings,
        snapshot: &Snapshot,
        seen: &'a ProcessSeen,
    ) -> Self {
        let pages = seen.sample.as_ref().and_then(|sample| shares(sample, SAMPLE_MIN));
        let is_counted = seen.standing != Standing::Watcher;
        let threads = seen.threads.iter().filter(|_| is_counted).filter_map(|thread| {
            let node_of = |cpu: CpuId| machine.cpus().get(cpu.index())?.node;
            let held_on = thread.held_on.map(|node| vec![(node, 1.0)]);
            let found_on = || shares(&thread.found_on, 1);
            let at = held_on
                .or_else(found_on)
                .or_else(|| Some(vec![(thread.cpu.and_then(node_of)?, 1.0)]))?;
            let is_there =
                |cpu: &CpuId| thread.held_on.is_none() || node_of(*cpu) == thread.held_on;
            let cpu = thread.cpu.filter(is_there);
            let cpu = cpu.or_else(|| machine.node_cpus(thread.held_on?).first().copied());
            let touched = thread.touched.as_ref().and_then(|touched| shares(touched, SAMPLE_MIN));
            let running = part_of(thread.ran, snapshot.window);
            let waiting = part_of(thread.waited, snapshot.window);
            let is_free = seen.standing_of(thread) == Standing::Free;
            Some(ThreadTerms { seen: thread, is_free, cpu, running, waiting, at, pages: touched })
        });
        let threads: Vec<_> = threads.collect();
        let resident = seen.resident.unwrap_or_default();
        let intensity = measured_intensity(settings, &threads)
            .unwrap_or_else(|| assumed_intensity(machine, seen.working_set.unwrap_or(resident)));
        Self { seen, threads, intensity, pages, resident }
    }

    /// Those that are worth a place.
    pub fn active(&self) -> impl Iterator<Item = &ThreadTerms<'a>> {
        self.threads.iter().filter(|thread| thread.demand() >= ACTIVE_MIN)
    }

    /// Those of them that may be placed.
    pub fn to_place(&self) -> impl Iterator<Item = &ThreadTerms<'a>> {
        self.active().filter(|thread| thread.is_free)
    }

    /// Whether nobody holds it anywhere, and the kernel may take it to any CPU.
    pub fn is_left_to_kernel(&self) -> bool {
        let is_so = |thread: &ThreadTerms<'_>| thread.is_free && thread.seen.held_on.is_none();
        self.seen.pin.is_none() && self.active().all(is_so)
    }

    /// Whether the administrator wants it on a node where not all of it is held.
    pub fn is_off_its_pin(&self) -> bool {
        let is_off = |pin| self.seen.free_threads().any(|thread| thread.held_on != Some(pin));
        self.seen.pin.is_some_and(is_off)
    }

    pub fn id(&self) -> TaskId {
        self.seen.id
    }

    pub fn running(&self) -> f64 {
        total(self.threads.iter().map(|thread| thread.running))
    }

    pub fn waiting(&self) -> f64 {
        total(self.threads.iter().map(|thread| thread.waiting))
    }

    /// The pages that a thread uses, as far as is known.
    pub fn pages_of<'b>(&'b self, thread: &'b ThreadTerms<'_>) -> Option<&'b Shares> {
        thread.pages.as_ref().or(self.pages.as_ref())
    }

    /// How remote its memory is from its threads, the mean over the time that they ran.
    pub fn remoteness(&self, machine: &Machine) -> Option<f64> {
        self.mean(|thread, pages| thread.remoteness(machine, pages))
    }

    /// The part of its memory that is on the nodes of its threads, likewise.
    pub fn local(&self) -> Option<f64> {
        self.mean(|thread, pages| {
            thread.at.iter().map(|(node, share)| share * share_on(pages, *node)).sum()
        })
    }

    /// Something of its threads and the pages that they use, the mean over the time that they ran.
    fn mean(&self, of: impl Fn(&ThreadTerms<'_>, &Shares) -> f64) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for thread in &self.threads {
            sum += thread.demand() * of(thread, self.pages_of(thread)?);
            weight += thread.demand();
        }
        (weight > 0.0).then(|| sum / weight)
    }

    /// The node where most of its memory is; of equal ones the first.
    pub fn home(&self) -> Option<NodeId> {
        most(self.pages.as_ref()?)
    }

    /// How much of its memory is not on a node.
    pub fn bytes_off(&self, node: NodeId) -> Bytes {
        let here = self.pages.as_ref().map_or(0.0, |pages| share_on(pages, node));
        Bytes((self.resident.0 as f64 * (1.0 - here)) as u64)
    }

    /// The factors, but for what it would gain elsewhere.
    pub fn factors(&self, machine: &Machine, contention: Option<f64>) -> Factors {
        Factors {
            process: self.id(),
            running: self.running(),
            waiting: self.waiting(),
            remoteness: self.remoteness(machine),
            intensity: self.intensity,
            speedup: None,
            contention,
        }
    }
}

impl ThreadTerms<'_> {
    /// CPUs' worth that it could use.
    pub fn demand(&self) -> f64 {
        self.running + self.waiting
    }

    /// How remote these pages are from where it was.
    pub fn remoteness(&self, machine: &Machine, pages: &Shares) -> f64 {
        self.at.iter().map(|(node, share)| share * remoteness(machine, *node, pages)).sum()
    }
}

/// Misses of the last level × what one costs ÷ running time.
fn measured_intensity(settings: &Settings, threads: &[ThreadTerms<'_>]) -> Option<Intensity> {
    let counted = threads.iter().filter(|thread| thread.seen.ran.0 > 0);
    let (mut misses, mut ran) = (0u64, 0u64);
    for thread in counted {
        misses = misses.saturating_add(thread.seen.llc_misses?);
        ran = ran.saturating_add(thread.seen.ran.0);
    }
    let waited = misses as f64 * settings.llc_miss.0 as f64;
    (ran > 0).then(|| Intensity::Measured((waited / ran as f64).min(1.0)))
}

/// Half of the time for memory much larger than a last-level cache, a quarter for one as large,
/// little for what fits into it.
fn assumed_intensity(machine: &Machine, used: Bytes) -> Intensity {
    const LLC_ASSUMED: Bytes = Bytes::from_mib(32);
    let llc = machine.llcs().iter().filter_map(|llc| llc.size).max().unwrap_or(LLC_ASSUMED);
    Intensity::Assumed(0.5 * used.0 as f64 / (used.0 + llc.0.max(1)) as f64)
}
