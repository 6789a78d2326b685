//! The cost model: modelled cycles, beside the counts and never part of them.
//!
//! A command costs the latency of what serves it and of each hop, divided by how many of its sort a CPU
//! has in flight; and it waits in the queues of the last level, the memory and the links that it
//! needs. Queues are not simulated event by event, as CPUs have no common clock. Time is cut into
//! *windows*; a window ends when some CPU has run for `window_cycles` modelled cycles in it. In each, the
//! time for which each resource was asked to work is summed up, and gives the wait per request for the
//! next window:
//!
//! * below `utilisation_max`: ρs / 2(1 − ρ), the mean wait of an M/D/1 queue with service time s, where
//!   ρ is the utilisation by the others, (K − 1) / K of it with K users: nobody waits for oneself;
//! * above: so long that its users, who were asking every c cycles, would ask for no more than
//!   `utilisation_max` (they are a closed system: K CPUs with one request each ask every Ks/ρ cycles).
//!
//! So a saturated resource slows its users down to what it can do, after a window. Fed from one
//! thread, the same accesses give the same cycles.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use serde::{Deserialize, Serialize};

use crate::address::Layout;
use crate::distance::Distances;
use crate::geometry::{Cost, Geometry};
use crate::kinds::Event;
use crate::meter::{Meter, NR_PLANES};
use crate::system::System;

/// A CPU hands in what it asked for this many times per window.
const REPORTS_PER_WINDOW: u64 = 8;

/// One thing that serves requests one after the other.
#[derive(Debug, Default)]
struct Resource {
    /// This window: time asked for, thousandths of a cycle.
    busy: AtomicU64,
    /// This window: requests.
    requests: AtomicU64,
    /// This window: time that its users ran, thousandths of a cycle.
    user_time: AtomicU64,
    /// Wait per request, thousandths of a cycle.
    wait: AtomicU64,
    /// The highest utilisation of any window, in 1/1000; above 1000 more was asked for than can be.
    peak: AtomicU64,
}

/// Last levels, memories and links of a machine.
#[derive(Debug)]
pub(crate) struct Queues {
    last_levels: Box<[Resource]>,
    memories: Box<[Resource]>,
    links: Box<[Resource]>,
    /// The number of the window.
    window: AtomicU32,
    closing: Mutex<()>,
    cost: Cost,
}

/// The highest utilisation that a window saw, of each sort of resource; above 1 where more was asked
/// for than the resource can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeakUtilisation {
    /// Of the last levels.
    pub last_level: f64,
    /// Of the memories.
    pub memory: f64,
    /// Of the links.
    pub link: f64,
}

impl Queues {
    pub(crate) fn new(
        geometry: &Geometry,
        layout: &Layout,
        distances: &Distances,
        nr_last_levels: usize,
    ) -> Self {
        let resources = |nr: usize| (0..nr).map(|_| Resource::default()).collect();
        Self {
            last_levels: resources(nr_last_levels),
            memories: resources(layout.nr_nodes),
            links: resources(distances.nr_links()),
            window: AtomicU32::new(0),
            closing: Mutex::new(()),
            cost: geometry.cost,
        }
    }

    pub(crate) fn peak(&self) -> PeakUtilisation {
        let peak = |resources: &[Resource]| {
            let peaks = resources.iter().map(|resource| resource.peak.load(Ordering::Relaxed));
            peaks.max().unwrap_or(0) as f64 / 1000.0
        };
        PeakUtilisation {
            last_level: peak(&self.last_levels),
            memory: peak(&self.memories),
            link: peak(&self.links),
        }
    }

    /// Ends a window that lasted so long, thousandths of a cycle, unless somebody else just does.
    fn close(&self, window: u32, lasted: u64) {
        let _closing = match self.closing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.window.load(Ordering::Acquire) != window {
            return;
        }
        for resource in self.last_levels.iter().chain(&self.memories).chain(&self.links) {
            resource.close(&self.cost, lasted as f64);
        }
        self.window.store(window.wrapping_add(1), Ordering::Release);
    }
}

impl Resource {
    fn report(&self, busy: u64, requests: u64, user_time: u64) {
        if requests > 0 {
            self.busy.fetch_add(busy, Ordering::Relaxed);
            self.requests.fetch_add(requests, Ordering::Relaxed);
            self.user_time.fetch_add(user_time, Ordering::Relaxed);
        }
    }

    /// Sets the wait for the next window from the demand of this one.
    fn close(&self, cost: &Cost, window: f64) {
        let busy = self.busy.swap(0, Ordering::Relaxed) as f64;
        let requests = self.requests.swap(0, Ordering::Relaxed) as f64;
        let user_time = self.user_time.swap(0, Ordering::Relaxed) as f64;
        if requests == 0.0 {
            self.wait.store(0, Ordering::Relaxed);
            return;
        }
        let utilisation = busy / window;
        let service = busy / requests;
        let nr_users = user_time / window;
        let most = cost.utilisation_max;
        let by_others = utilisation.min(most) * (1.0 - 1.0 / nr_users.max(1.0));
        let queue = by_others * service / (2.0 * (1.0 - by_others));
        let before = self.wait.load(Ordering::Relaxed) as f64;
        let slowed = before + nr_users * service * (1.0 / most - 1.0 / utilisation);
        self.wait.store(queue.max(slowed) as u64, Ordering::Relaxed);
        self.peak.fetch_max((utilisation * 1000.0) as u64, Ordering::Relaxed);
    }

    fn wait(&self) -> u64 {
        self.wait.load(Ordering::Relaxed)
    }
}

/// What a request asks of whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The last level that is asked.
    pub(crate) cache: Option<u16>,
    /// The node whose memory reads or writes a line.
    pub(crate) memory: Option<u16>,
    /// The node that a command goes to.
    pub(crate) path: Option<u16>,
    /// Bytes of data that go there.
    pub(crate) to_bytes: u32,
    /// Bytes of data that come back.
    pub(crate) from_bytes: u32,
    /// The CPU goes on meanwhile.
    pub(crate) is_posted: bool,
    /// Lines that the memory moves.
    pub(crate) nr_lines: u32,
    pub(crate) nr_requests: u32,
}

impl Request {
    /// A line that is written, and nobody waits.
    pub(crate) fn write(cache: Option<u16>, to_bytes: u32) -> Self {
        let (memory, path) = (None, None);
        let (from_bytes, is_posted, nr_lines, nr_requests) = (0, true, 1, 1);
        Self { cache, memory, path, to_bytes, from_bytes, is_posted, nr_lines, nr_requests }
    }
}

/// Bytes to and from a node since the last report.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    to_bytes: u64,
    from_bytes: u64,
    requests: u64,
}

/// The wait in the links to a node and back, as of a window.
#[derive(Clone, Copy, Debug)]
struct PathWait {
    window: u32,
    millicycles: u64,
}

/// The modelled time of a CPU, and what it asked for since its last report.
#[derive(Debug)]
pub(crate) struct Clock {
    window: u32,
    /// When this CPU first saw the window, and when it reported last, thousandths of a cycle.
    window_began: u64,
    reported: u64,
    last_levels: Box<[u32]>,
    memories: Box<[u32]>,
    traffic: Box<[Traffic]>,
    path_waits: Box<[PathWait]>,
    cycles_per_instruction: u64,
}

impl Clock {
    pub(crate) fn new(system: &System) -> Self {
        let nr_nodes = system.layout.nr_nodes;
        let never = PathWait { window: u32::MAX, millicycles: 0 };
        Self {
            window: 0,
            window_began: 0,
            reported: 0,
            last_levels: vec![0; system.node_of_last_level.len()].into(),
            memories: vec![0; nr_nodes].into(),
            traffic: vec![Traffic::default(); nr_nodes].into(),
            path_waits: vec![never; nr_nodes].into(),
            cycles_per_instruction: millicycles(system.geometry.cost.cycles_per_instruction),
        }
    }

    /// Notes a request that stands for `weight` of them; how long the CPU stalls for it, thousandths
    /// of a cycle.
    pub(crate) fn charge(
        &mut self,
        system: &System,
        meter: &Meter,
        node: u16,
        request: &Request,
        weight: u32,
    ) -> u64 {
        let cost = &system.geometry.cost;
        let mut latency = 0;
        let mut wait = 0;
        if let Some(cache) = request.cache {
            self.last_levels[usize::from(cache)] += request.nr_requests * weight;
            latency += u64::from(cost.last_level_cycles);
            wait += system.queues.last_levels[usize::from(cache)].wait();
        }
        if let Some(memory) = request.memory {
            self.memories[usize::from(memory)] += request.nr_lines * weight;
            latency += u64::from(cost.memory_cycles);
            wait += system.queues.memories[usize::from(memory)].wait();
        }
        if let Some(target) = request.path.filter(|&target| target != node) {
            let traffic = &mut self.traffic[usize::from(target)];
            traffic.to_bytes += u64::from(request.to_bytes * weight);
            traffic.from_bytes += u64::from(request.from_bytes * weight);
            traffic.requests += u64::from(weight);
            latency += u64::from(system.hops(node, target)) * u64::from(cost.hop_cycles);
            wait += self.path_wait(system, node, target);
        }
        self.report_if_due(system, meter, node);
        let in_flight =
            if request.is_posted { cost.writes_in_flight } else { cost.reads_in_flight };
        let stall = latency * 1000 * u64::from(request.nr_requests) / u64::from(in_flight) + wait;
        stall * u64::from(weight)
    }

    fn path_wait(&mut self, system: &System, node: u16, target: u16) -> u64 {
        let known = &mut self.path_waits[usize::from(target)];
        if known.window != self.window {
            let mut millicycles = 0;
            let mut add = |link: usize| millicycles += system.queues.links[link].wait();
            system.distances.each_link(node, target, &mut add);
            system.distances.each_link(target, node, &mut add);
            *known = PathWait { window: self.window, millicycles };
        }
        known.millicycles
    }

    /// Modelled time of the CPU, counted or not.
    fn now(&self, meter: &Meter) -> u64 {
        let sum = |event| (0..NR_PLANES).map(|plane| meter.event(plane, event)).sum::<u64>();
        sum(Event::Instructions) * self.cycles_per_instruction
            + sum(Event::ModelledStallMillicycles)
    }

    fn report_if_due(&mut self, system: &System, meter: &Meter, node: u16) {
        let now = self.now(meter);
        let window_length = system.geometry.cost.window_cycles * 1000;
        if now - self.reported < window_length / REPORTS_PER_WINDOW {
            return;
        }
        self.report(system, node, now - self.reported);
        self.reported = now;
        let lasted = now - self.window_began;
        if lasted >= window_length {
            system.queues.close(self.window, lasted);
        }
        let window = system.queues.window.load(Ordering::Acquire);
        if window != self.window {
            self.window = window;
            self.window_began = now;
        }
    }

    fn report(&mut self, system: &System, node: u16, user_time: u64) {
        let (queues, cost) = (&system.queues, &system.geometry.cost);
        let service = millicycles(cost.last_level_service_cycles);
        for (requests, resource) in self.last_levels.iter_mut().zip(&queues.last_levels) {
            let requests = u64::from(std::mem::take(requests));
            resource.report(requests * service, requests, user_time);
        }
        let service =
            service_time(u64::from(system.geometry.line_bytes), cost.memory_bytes_per_cycle);
        for (lines, resource) in self.memories.iter_mut().zip(&queues.memories) {
            let lines = u64::from(std::mem::take(lines));
            resource.report(lines * service, lines, user_time);
        }
        for (target, traffic) in self.traffic.iter_mut().enumerate() {
            let Traffic { to_bytes, from_bytes, requests } = std::mem::take(traffic);
            if requests == 0 {
                continue;
            }
            let rate = cost.link_bytes_per_cycle;
            for (from, to, bytes) in
                [(node, target as u16, to_bytes), (target as u16, node, from_bytes)]
            {
                let busy = service_time(bytes, rate);
                let nr = if bytes == 0 { 0 } else { requests };
                let ask = |link: usize| queues.links[link].report(busy, nr, user_time);
                system.distances.each_link(from, to, ask);
            }
        }
    }

    /// Bytes that tallies take.
    pub(crate) fn nr_bytes(&self) -> usize {
        let per_node = size_of_val(&*self.traffic) + size_of_val(&*self.path_waits);
        per_node + size_of_val(&*self.last_levels) + size_of_val(&*self.memories)
    }
}

/// Thousandths of a cycle.
pub(crate) fn millicycles(cycles: f64) -> u64 {
    (cycles * 1000.0) as u64
}

fn service_time(bytes: u64, bytes_per_cycle: f64) -> u64 {
    (bytes as f64 * 1000.0 / bytes_per_cycle) as u64
}
