//! The decision tree, as it decides for real programs.

use quartier_decide::dqdt::{Allowed, Estimates};
use quartier_decide::policy::{Exec, Fork, Placement, Thread, decide};

use crate::choosers::{Choice, Chooser, Kind, Request};
use crate::random::Random;
use crate::truth::Truth;

/// The policies of `quartier-decide` over every CPU.
#[derive(Clone, Debug)]
pub struct Dqdt<'a> {
    allowed: &'a Allowed,
    free_pages_min: Option<u64>,
    random: Random,
}

impl<'a> Dqdt<'a> {
    /// With the thesis's threshold for M, and random numbers for the ties of [`Exec`].
    #[must_use]
    pub fn new(allowed: &'a Allowed, free_pages_min: Option<u64>, random: Random) -> Self {
        Self { allowed, free_pages_min, random }
    }
}

impl Chooser for Dqdt<'_> {
    fn choose(&mut self, request: &Request, _: &Truth<'_>, estimates: &Estimates<'_>) -> Choice {
        let &Request { kind, creator } = request;
        let &mut Self { allowed, free_pages_min, .. } = self;
        match kind {
            Kind::Thread => decided(estimates, &Thread::new(creator, allowed)),
            Kind::Fork => decided(estimates, &Fork { parent: creator, allowed }),
            Kind::Exec => {
                let seed = self.random.any();
                decided(estimates, &Exec { allowed, free_pages_min, seed })
            }
        }
    }
}

fn decided(estimates: &Estimates<'_>, request: &impl Placement) -> Choice {
    let decision = decide(estimates, request).expect("every CPU is allowed");
    Choice { cpu: decision.cpu, reads: decision.visited }
}
