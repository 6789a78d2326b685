//! A walk over hwloc's tree with a counter for each of its PUs.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use quartier_model::CpuId;

use crate::rivals::Rival;
use crate::rivals::hwloc::{Object, Topology};

/// hwloc's tree and counters by the logical index of its PUs.
pub struct Walk {
    topology: Topology,
    counters: Box<[AtomicU32]>,
}

impl Walk {
    /// Of a topology with so many threads on each CPU.
    pub fn new(topology: Topology, nr_threads: &[u32]) -> Self {
        let counters = nr_threads.iter().copied().map(AtomicU32::new).collect();
        Self { topology, counters }
    }

    /// The least loaded PU at or below an object, if it is less loaded than `best`. Says whether it is
    /// idle: nothing can be better then.
    fn visit(&self, object: Object<'_>, best: &mut (u32, usize)) -> bool {
        if let Some(pu) = object.pu() {
            let nr_threads =
                self.counters.get(pu).map_or(u32::MAX, |counter| counter.load(Relaxed));
            if nr_threads < best.0 {
                *best = (nr_threads, pu);
            }
            return nr_threads == 0;
        }
        object.children().any(|child| self.visit(child, best))
    }
}

impl Rival for Walk {
    /// From the creator's PU upwards; at each ancestor over what lies below it and was not visited yet.
    fn choose(&self, creator: CpuId) -> CpuId {
        let mut best = (u32::MAX, creator.index());
        let Some(mut at) = self.topology.pu(creator.index()) else { return creator };
        let mut is_idle = self.visit(at, &mut best);
        while let Some(parent) = at.parent()
            && !is_idle
        {
            let mut brothers = parent.children().filter(|child| *child != at);
            is_idle = brothers.any(|child| self.visit(child, &mut best));
            at = parent;
        }
        CpuId(best.1 as u32)
    }
}
