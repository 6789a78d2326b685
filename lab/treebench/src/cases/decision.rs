//! Decisions under several loads, alone and beside updates.

use std::hint::black_box;
use std::time::Duration;

use quartier_decide::policy::decide;

use crate::beside::beside_updates;
use crate::cases::{Bench, Case, Part, with_other_cpu};
use crate::clock::Effort;
use crate::shape::{Load, Shape};
use crate::stats::Sample;
use crate::world::World;

/// Reading and writing so much puts everything else out of a core's own caches.
const EVICTING_BYTES: usize = 8 << 20;

/// An eviction takes a thousand times as long as what is measured after it.
const COLD_BUDGET: Duration = Duration::from_millis(300);

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// The decision alone.
    Decide,
    /// The decision, and the thread counted through the ledger.
    Place,
}

impl Decider {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Decide, Self::Place];

    /// The function's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Place => "place",
        }
    }

    fn sample(self, bench: &Bench, world: &World) -> Sample {
        match self {
            Self::Decide => sample_decide(bench, world),
            Self::Place => sample_place(bench, world),
        }
    }
}

/// The name of a decision's case.
pub fn decision_name(decider: Decider, load: Load, is_beside_updates: bool) -> String {
    let beside = if is_beside_updates { "beside updates" } else { "alone" };
    format!("{}, {load}, {beside}", decider.name())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for decider in Decider::ALL {
        for load in Load::ALL {
            let alone = decision_name(decider, load, false);
            cases.push(Case::new(Part::Decision, alone.clone(), move |bench| {
                Ok(decider.sample(bench, &*bench.worlds.world(Shape::TARGET, load)?))
            }));
            let name = decision_name(decider, load, true);
            let case = with_other_cpu(Part::Decision, name, move |bench, other| {
                let world = bench.worlds.world(Shape::TARGET, load)?;
                Ok(beside_updates(other, &world, || decider.sample(bench, &world)))
            });
            cases.push(Case { compared_to: Some(alone), ..case });
        }
    }
    let load = Load::Percent(90);
    let cold = Case::new(Part::Decision, format!("decide, {load}, cold caches"), move |bench| {
        Ok(sample_cold(bench, &*bench.worlds.world(Shape::TARGET, load)?))
    });
    cases.push(Case { compared_to: Some(decision_name(Decider::Decide, load, false)), ..cold });
    cases
}

/// Decisions that count nothing. Never inlined: all cases then run the same machine code.
#[inline(never)]
pub(super) fn sample_decide(bench: &Bench, world: &World) -> Sample {
    let estimates = world.shared.estimates();
    bench.clock.sample(bench.effort, |nr| decide(black_box(&estimates), &world.request(nr)), |_| ())
}

#[inline(never)]
fn sample_place(bench: &Bench, world: &World) -> Sample {
    let ledger = world.shared.ledger().expect("a private tree is writable");
    bench.clock.sample(
        bench.effort,
        |nr| black_box(&ledger).place(world.process, &world.request(nr)),
        |placed| {
            let record = placed.and_then(|placed| placed.record);
            record.into_iter().for_each(|record| _ = ledger.release(world.process, record));
        },
    )
}

fn sample_cold(bench: &Bench, world: &World) -> Sample {
    let estimates = world.shared.estimates();
    let mut evicting = vec![0u8; EVICTING_BYTES];
    let effort = Effort { budget: COLD_BUDGET.min(6 * bench.effort.budget), ..bench.effort };
    bench.clock.singles(
        effort,
        |nr| decide(black_box(&estimates), &world.request(nr)),
        |_| {
            evicting.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            black_box(&mut evicting);
        },
    )
}
