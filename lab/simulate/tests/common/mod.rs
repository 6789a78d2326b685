//! Small machines, and choosers for tests.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part.

use quartier_decide::dqdt::{Allowed, Estimates};
use quartier_model::CpuId;
use quartier_simulate::choosers::{Choice, Chooser, ChooserName, Request};
use quartier_simulate::clock::{Outcome, Stage};
use quartier_simulate::period::Period;
use quartier_simulate::trace::{Creation, Life, Trace};
use quartier_simulate::truth::Truth;

pub fn stage(machine: &str) -> Stage {
    Stage::new(
        machine.parse::<quartier_simulate::machines::MachineSpec>().unwrap().machine().unwrap(),
    )
}

pub fn life(creation: Creation, start_ns: u64, end_ns: u64, demand_permille: u64) -> Life {
    Life { creation, start_ns, end_ns, demand_permille, nr_pages: 1 }
}

pub fn run(stage: &Stage, trace: &Trace, name: ChooserName, period: Option<Period>) -> Outcome {
    let allowed = Allowed::all(stage.tree());
    let mut chooser = name.chooser(&allowed, stage.free_pages_min(), 1);
    stage.run(trace, chooser.as_mut(), period)
}

/// Chooses what a test says, and lets it look.
pub fn scripted<F>(choose: F) -> Scripted<F>
where
    F: FnMut(&Request, &Truth<'_>, &Estimates<'_>) -> CpuId,
{
    Scripted(choose)
}

pub struct Scripted<F>(F);

impl<F> Chooser for Scripted<F>
where
    F: FnMut(&Request, &Truth<'_>, &Estimates<'_>) -> CpuId,
{
    fn choose(
        &mut self,
        request: &Request,
        truth: &Truth<'_>,
        estimates: &Estimates<'_>,
    ) -> Choice {
        Choice { cpu: (self.0)(request, truth, estimates), reads: 1 }
    }
}
