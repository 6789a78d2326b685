//! Choosers that know little: no tree, and T of two CPUs at most.

use quartier_decide::dqdt::Estimates;
use quartier_model::{CpuId, Distance};

use crate::choosers::{Choice, Chooser, Request};
use crate::random::Random;
use crate::truth::{CpuLoad, Truth};

/// A random CPU.
#[derive(Clone, Debug)]
pub struct Uniform {
    random: Random,
}

/// One CPU after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

/// Of two random CPUs the one with fewer threads.
#[derive(Clone, Debug)]
pub struct TwoChoices {
    random: Random,
    prefers_near: bool,
}

impl Uniform {
    /// With random numbers of its own.
    #[must_use]
    pub fn new(random: Random) -> Self {
        Self { random }
    }
}

impl Chooser for Uniform {
    fn choose(&mut self, _: &Request, truth: &Truth<'_>, _: &Estimates<'_>) -> Choice {
        Choice { cpu: any_cpu(&mut self.random, truth), reads: 0 }
    }
}

impl Chooser for RoundRobin {
    fn choose(&mut self, _: &Request, truth: &Truth<'_>, _: &Estimates<'_>) -> Choice {
        let cpu = truth.cpus()[self.next % truth.cpus().len()].cpu;
        self.next += 1;
        Choice { cpu, reads: 0 }
    }
}

impl TwoChoices {
    /// With random numbers of its own. `prefers_near` decides between equal ones.
    #[must_use]
    pub fn new(random: Random, prefers_near: bool) -> Self {
        Self { random, prefers_near }
    }

    fn key(&self, cpu: &CpuLoad, request: &Request, truth: &Truth<'_>) -> (u32, Distance) {
        let creator = request.creator.filter(|_| self.prefers_near);
        let distance = creator.map_or(Distance::LOCAL, |creator| {
            truth.machine().distance(truth.cpu(creator).node, cpu.node)
        });
        (cpu.nr_threads, distance)
    }
}

impl Chooser for TwoChoices {
    fn choose(&mut self, request: &Request, truth: &Truth<'_>, _: &Estimates<'_>) -> Choice {
        let pair = [(); 2].map(|()| any_cpu(&mut self.random, truth));
        let [first, second] = pair.map(|cpu| self.key(truth.cpu(cpu), request, truth));
        Choice { cpu: if second < first { pair[1] } else { pair[0] }, reads: 2 }
    }
}

fn any_cpu(random: &mut Random, truth: &Truth<'_>) -> CpuId {
    truth.cpus()[random.below(truth.cpus().len() as u64) as usize].cpu
}
