//! The least loaded of all CPUs, for those who know everything at no cost.
//!
//! What it knows is the true demand on every CPU at this moment, beyond 100 % too, and the true free
//! memory. It does not know the future: neither a thread's demand nor its life, which nobody knows
//! when a thread is created. Whatever it is asked for, balance comes first, and the CPU with the
//! smallest demand wins. Among CPUs that are equally good for balance it wants what the policy that it
//! is compared with wants; else an arbitrary choice would put all programs side by side, and their
//! threads would find no room near them:
//!
//! | for     | among equal CPUs                                                      |
//! |---------|-----------------------------------------------------------------------|
//! | threads | the nearest to the creator                                            |
//! | forks   | the node with the smallest demand, then the nearest to the parent     |
//! | exec    | a node with free memory, then the smallest demand, then a random one  |

use quartier_decide::dqdt::Estimates;
use quartier_model::{Distance, NodeId};

use crate::choosers::{Choice, Chooser, Kind, Request};
use crate::random::Random;
use crate::truth::{CpuLoad, Truth};

/// The chooser with global knowledge.
#[derive(Clone, Debug)]
pub struct Oracle {
    free_pages_min: Option<u64>,
    random: Random,
}

/// What decides between CPUs of the same demand, smallest first: shortness of memory, demand on the
/// node, distance.
type Key = (bool, u64, Distance);

impl Oracle {
    /// A node with no more free pages than `free_pages_min` is short of memory.
    #[must_use]
    pub fn new(free_pages_min: Option<u64>, random: Random) -> Self {
        Self { free_pages_min, random }
    }

    fn key(&self, cpu: &CpuLoad, kind: Kind, from: Option<NodeId>, truth: &Truth<'_>) -> Key {
        let node = truth.node(cpu.node);
        let distance =
            from.map_or(Distance::LOCAL, |from| truth.machine().distance(from, cpu.node));
        let of_node = node.demand_per_cpu_permille();
        match kind {
            Kind::Thread => (false, 0, distance),
            Kind::Fork => (false, of_node, distance),
            Kind::Exec => {
                let is_short = self.free_pages_min.is_some_and(|min| node.free_pages <= min);
                (is_short, of_node, distance)
            }
        }
    }
}

impl Chooser for Oracle {
    fn choose(&mut self, request: &Request, truth: &Truth<'_>, _: &Estimates<'_>) -> Choice {
        let cpus = truth.cpus();
        let from = request.creator.map(|creator| truth.cpu(creator).node);
        // Of equal keys the first wins: a new program begins to look anywhere.
        let first = match request.kind {
            Kind::Exec => self.random.below(cpus.len() as u64) as usize,
            _ => 0,
        };
        let (before, after) = cpus.split_at(first);
        let least = cpus.iter().map(|cpu| cpu.demand_permille).min();
        let equal = after.iter().chain(before).filter(|cpu| Some(cpu.demand_permille) == least);
        let best = equal.min_by_key(|cpu| self.key(cpu, request.kind, from, truth));
        let cpu = best.expect("a machine has a CPU").cpu;
        Choice { cpu, reads: cpus.len() as u32 }
    }
}
