//! A scan over one counter for each CPU.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use quartier_model::{CpuId, Distance};

use crate::rivals::Rival;
use crate::shape::Shape;

/// A CPU's counter.
pub trait Counter {
    /// With this value.
    fn new(nr_threads: u32) -> Self;
    /// Its value.
    fn get(&self) -> u32;
}

/// Sixteen to a cache line: quick to scan, and every change takes the line from fifteen others.
#[derive(Debug)]
pub struct Packed(AtomicU32);

/// A cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub struct Padded(AtomicU32);

macro_rules! counter {
    ($name:ident) => {
        impl Counter for $name {
            fn new(nr_threads: u32) -> Self {
                Self(AtomicU32::new(nr_threads))
            }

            fn get(&self) -> u32 {
                self.0.load(Relaxed)
            }
        }
    };
}
counter!(Packed);
counter!(Padded);

/// Counters and the distances between nodes.
#[derive(Debug)]
pub struct Scan<C> {
    counters: Box<[C]>,
    /// Row-major.
    distances: Box<[u8]>,
    nr_nodes: usize,
    cpus_per_node: usize,
}

impl<C: Counter> Scan<C> {
    /// Of a machine with so many threads on each CPU.
    pub fn new(shape: Shape, nr_threads: &[u32]) -> Self {
        let nodes = || 0..shape.nr_nodes();
        let row = |from| nodes().map(move |to| shape.distance(from, to));
        Self {
            counters: nr_threads.iter().map(|nr_threads| C::new(*nr_threads)).collect(),
            distances: nodes().flat_map(row).collect(),
            nr_nodes: shape.nr_nodes() as usize,
            cpus_per_node: shape.cpus_per_node as usize,
        }
    }
}

impl<C: Counter> Rival for Scan<C> {
    /// Begins at the creator's node, so that an idle CPU there ends it.
    fn choose(&self, creator: CpuId) -> CpuId {
        let home = creator.index() / self.cpus_per_node;
        let distances = &self.distances[home * self.nr_nodes..][..self.nr_nodes];
        let mut best = (u32::MAX, u8::MAX, creator.index());
        for node in (home..self.nr_nodes).chain(0..home) {
            let distance = distances[node];
            let first = node * self.cpus_per_node;
            let counters = &self.counters[first..][..self.cpus_per_node];
            // One comparison for each counter: as many threads will do where it is nearer.
            let mut below = best.0.saturating_add(u32::from(distance < best.1));
            for (cpu, counter) in (first..).zip(counters) {
                let nr_threads = counter.get();
                if nr_threads < below {
                    below = nr_threads;
                    best = (nr_threads, distance, cpu);
                }
            }
            if (best.0, best.1) == (0, Distance::LOCAL.0) {
                break;
            }
        }
        CpuId(best.2 as u32)
    }
}
