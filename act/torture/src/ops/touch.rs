//! Loads and stores.

use std::ops::Range;

use crate::arena::State;
use crate::log::Op;
use crate::model::{self, PER_PAGE};
use crate::worker::Worker;

/// Checks a few granules.
pub fn read(worker: &mut Worker) {
    let pages = worker.readable(1);
    worker.log(Op::Read, &pages);
    for page in pages {
        for _ in 0..1 + worker.rng.below(3) {
            let granule = page * PER_PAGE + worker.rng.below(PER_PAGE);
            worker.check(granule, "load");
        }
    }
}

/// Writes a few granules.
pub fn write(worker: &mut Worker) {
    let pages = worker.writable(1);
    worker.log(Op::Write, &pages);
    for page in pages {
        for _ in 0..1 + worker.rng.below(3) {
            let granule = page * PER_PAGE + worker.rng.below(PER_PAGE);
            let tag = worker.tag();
            worker.world.arena.fill(granule, tag);
        }
    }
}

/// Goes through a range, one granule of each page, reading.
pub fn sweep_read(worker: &mut Worker) {
    sweep(worker, false);
}

/// The same, writing.
pub fn sweep_write(worker: &mut Worker) {
    sweep(worker, true);
}

fn sweep(worker: &mut Worker, write: bool) {
    let pages = if write { worker.writable(400) } else { worker.readable(400) };
    worker.log(if write { Op::SweepWrite } else { Op::SweepRead }, &pages);
    let backwards = worker.rng.once_in(3);
    let tag = worker.tag();
    let at = worker.rng.below(PER_PAGE);
    let one = |page: usize| {
        let granule = page * PER_PAGE + at;
        if write {
            worker.world.arena.fill(granule, tag);
        } else {
            worker.check(granule, "sweep");
        }
    };
    if backwards { pages.rev().for_each(one) } else { pages.for_each(one) }
}

/// Reads and writes shared and locked memory, and reads what never changes.
pub fn other_zones(worker: &mut Worker) {
    let arena = &worker.world.arena;
    let zone = match worker.rng.below(3) {
        0 => arena.zones.shared.clone(),
        1 => arena.zones.locked.clone(),
        _ => arena.zones.constant.clone(),
    };
    let page = worker.own_page_of(&zone);
    worker.log(Op::Zones, &(page..page + 1));
    let granule = page * PER_PAGE + worker.rng.below(PER_PAGE);
    worker.check(granule, "other zone");
    if zone == arena.zones.constant {
        arena.write_again(granule, arena.tags.get(granule));
    } else {
        let tag = worker.tag();
        arena.fill(granule, tag);
    }
}

/// Checks every granule of the worker's own part.
pub fn check_all(worker: &mut Worker, where_: &str) {
    worker.log(Op::CheckAll, &worker.span);
    for page in worker.span.clone() {
        if matches!(worker.world.arena.state(page), State::Writable | State::ReadOnly) {
            for granule in page * PER_PAGE..(page + 1) * PER_PAGE {
                worker.check(granule, where_);
            }
        }
    }
}

/// Reads pages that other workers read at the same moment (all draw the same pages), and sometimes
/// writes to one what is there already. The model does not change.
pub fn race(worker: &mut Worker, steps: usize) {
    let zones = &worker.world.arena.zones;
    let mut together = crate::rng::Rng::new(worker.world.seed, worker.rng.next() & 1, u64::MAX);
    for _ in 0..steps {
        let zone = if together.once_in(3) { &zones.constant } else { &zones.main };
        let start = zone.start + together.below(zone.len());
        let pages = start..(start + together.length(100)).min(zone.end);
        worker.log(Op::Race, &pages);
        race_through(worker, pages);
    }
}

fn race_through(worker: &mut Worker, pages: Range<usize>) {
    let arena = &worker.world.arena;
    for page in pages {
        let state = arena.state(page);
        if !matches!(state, State::Writable | State::ReadOnly) {
            continue;
        }
        let granule = page * PER_PAGE + worker.rng.below(PER_PAGE);
        worker.check(granule, "race");
        let tag = arena.tags.get(granule);
        // Not what may become zero: who reads it at that moment could see half of each.
        if state == State::Writable && tag & model::MAYBE_ZERO == 0 && worker.rng.once_in(4) {
            arena.write_again(granule, tag);
        }
    }
}
