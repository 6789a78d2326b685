//! Changes of T, and the refresh of U and M.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quartier_model::CpuId;

use crate::beside::beside_counting;
use crate::cases::{Bench, Case, Part, with_other_cpu};
use crate::shape::{Load, Shape};
use crate::stats::Sample;
use crate::world::World;

/// So many threads come and go in one timing.
const NR_PAIRS: usize = 256;

/// The name of the refresh's case.
pub const REFRESH: &str = "Refresher::tick, one of 1365 clusters";

const LOAD: Load = Load::Percent(50);

/// The name of the uncontended case, with or without a record for each thread.
pub fn update_name(through_ledger: bool) -> String {
    format!("{}, random CPUs", how(through_ledger))
}

fn how(through_ledger: bool) -> &'static str {
    if through_ledger { "count, release" } else { "add_thread, remove_thread" }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for through_ledger in [true, false] {
        let alone = format!("{}, one CPU", how(through_ledger));
        let random = update_name(through_ledger);
        cases.push(Case::new(Part::Update, random, move |bench| {
            let world = bench.worlds.world(Shape::TARGET, LOAD)?;
            Ok(sample(bench, &world, through_ledger, |nr| world.creator(nr), || true))
        }));
        cases.push(Case::new(Part::Update, alone.clone(), move |bench| {
            let world = bench.worlds.world(Shape::TARGET, LOAD)?;
            Ok(sample(bench, &world, through_ledger, |_| CpuId(0), || true))
        }));
        let last = CpuId(Shape::TARGET.nr_cpus() - 1);
        for (where_, cpu) in [("far CPU", last), ("same CPU", CpuId(0))] {
            let name = format!("{}, beside one on the {where_}", how(through_ledger));
            let case = with_other_cpu(Part::Update, name, move |bench, other| {
                let world = bench.worlds.world(Shape::TARGET, LOAD)?;
                Ok(beside_counting(other, &world, cpu, through_ledger, |counted| {
                    sample(bench, &world, through_ledger, |_| CpuId(0), has_grown(counted))
                }))
            });
            cases.push(Case { compared_to: Some(alone.clone()), ..case });
        }
    }
    cases.push(Case::new(Part::Update, REFRESH, |bench| {
        let world = bench.worlds.world(Shape::TARGET, LOAD)?;
        let nr_clusters = world.shared.tree().clusters().len();
        Ok(bench.clock.mean(bench.effort, nr_clusters, |_| world.refresh()))
    }));
    cases
}

/// Whether the other thread did a good part of its work since it was last asked: a kernel with other
/// programs to run may let it wait.
fn has_grown(counted: &AtomicU64) -> impl FnMut() -> bool {
    let mut last = counted.load(Relaxed);
    move || {
        let now = counted.load(Relaxed);
        now - std::mem::replace(&mut last, now) >= NR_PAIRS as u64 / 4
    }
}

/// Threads that come and go: one operation is one coming or one going.
fn sample(
    bench: &Bench,
    world: &World,
    through_ledger: bool,
    cpu: impl Fn(usize) -> CpuId,
    counts: impl FnMut() -> bool,
) -> Sample {
    let ledger = world.shared.ledger().expect("a private tree is writable");
    let estimates = world.shared.estimates();
    bench.clock.mean_where(bench.effort, 2 * NR_PAIRS, counts, |nr| {
        for at in 0..NR_PAIRS {
            let cpu = cpu(nr * NR_PAIRS + at);
            if through_ledger {
                let record = ledger.count(world.process, cpu);
                record.into_iter().for_each(|record| _ = ledger.release(world.process, record));
            } else {
                estimates.add_thread(cpu);
                let _ = estimates.remove_thread(cpu);
            }
        }
    })
}
