//! Changes of mappings under the marks.

use std::ops::Range;

use crate::arena::State;
use crate::log::Op;
use crate::signals;
use crate::sys::{HUGE, PAGE};
use crate::worker::Worker;

pub fn dont_need(worker: &mut Worker) {
    let pages = worker.mapped(700);
    worker.log(Op::DontNeed, &pages);
    let arena = &worker.world.arena;
    // Locked memory refuses (EINVAL): so it is unlocked first.
    arena.lock(pages.clone(), false);
    if !pages.is_empty() && arena.advise(pages.clone(), libc::MADV_DONTNEED).is_ok() {
        pages.for_each(|page| arena.tags.zero_page(page));
    }
}

pub fn free(worker: &mut Worker) {
    let pages = worker.mapped(700);
    worker.log(Op::Free, &pages);
    let arena = &worker.world.arena;
    arena.lock(pages.clone(), false);
    // Noted first: it may happen at any time from here on.
    pages.clone().for_each(|page| arena.tags.free_page(page));
    if !pages.is_empty() {
        let _ = arena.advise(pages, libc::MADV_FREE);
    }
}

pub fn protect(worker: &mut Worker) {
    let pages = worker.mapped(100);
    worker.log(Op::Protect, &pages);
    if pages.is_empty() {
        return;
    }
    let (protection, state) = match worker.rng.below(2) {
        0 => (libc::PROT_NONE, State::Closed),
        _ => (libc::PROT_READ, State::ReadOnly),
    };
    if worker.world.arena.protect(pages.clone(), protection).is_ok() {
        worker.world.arena.set_state(pages, state);
    }
}

/// Opens what is closed. Twice as often as closing, so that most pages can be touched.
pub fn unprotect(worker: &mut Worker) {
    let pages = worker.pick_where(400, |state| state != State::Hole);
    worker.log(Op::Unprotect, &pages);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    if !pages.is_empty() && worker.world.arena.protect(pages.clone(), both).is_ok() {
        worker.world.arena.set_state(pages, State::Writable);
    }
}

/// Two ranges of one length in the worker's own part that do not overlap.
fn two_ranges(worker: &mut Worker) -> Option<(Range<usize>, Range<usize>)> {
    let from = worker.mapped(700);
    let huge = HUGE / PAGE;
    // Now and then whole page tables move.
    let from = if worker.rng.once_in(8) && worker.span.len() > 3 * huge {
        let start = from.start.next_multiple_of(huge);
        start..start + huge
    } else {
        from
    };
    let room = worker.span.len().checked_sub(from.len())?;
    let start = worker.span.start + worker.rng.below(room + 1);
    let to = start..start + from.len();
    let inside = from.end <= worker.span.end && !from.is_empty();
    let apart = to.end <= from.start || from.end <= to.start;
    let mapped = |page: usize| worker.world.arena.state(page) != State::Hole;
    (inside && apart && from.clone().all(mapped)).then_some((from, to))
}

pub fn move_pages(worker: &mut Worker) {
    let Some((from, to)) = two_ranges(worker) else { return worker.log(Op::Move, &(0..0)) };
    worker.log_move(Op::Move, &from, &to);
    remap(worker, from, to, 0);
}

pub fn move_keeping(worker: &mut Worker) {
    let Some((from, to)) = two_ranges(worker) else { return worker.log(Op::MoveKeep, &(0..0)) };
    worker.log_move(Op::MoveKeep, &from, &to);
    remap(worker, from, to, libc::MREMAP_DONTUNMAP);
}

fn remap(worker: &mut Worker, from: Range<usize>, to: Range<usize>, flags: i32) {
    let arena = &worker.world.arena;
    arena.lock(from.clone(), false);
    if flags != 0 {
        // So that a move that fails half-way can be told: what is there then was moved.
        let _ = arena.unmap(to.clone());
        arena.set_state(to.clone(), State::Hole);
    }
    // Linux from 6.17 on moves several mappings one by one. A signal before a mergeable one
    // (`MADV_MERGEABLE`) makes it begin again, and what it has moved already is then replaced by the
    // empty pages that it kept: so a signal waits. Without anything kept the second try fails.
    let moved = if flags == 0 {
        arena.remap(from.clone(), to.clone(), flags)
    } else {
        signals::held(|| arena.remap(from.clone(), to.clone(), flags))
    };
    if moved.is_err() {
        worker.log_move(Op::MoveFailed, &from, &to);
        from.zip(to).for_each(|(source, target)| note_failed_move(worker, source, target));
        return;
    }
    for (source, target) in from.clone().zip(to) {
        arena.tags.move_page(source, target);
        arena.set_state(target..target + 1, arena.state(source));
    }
    if flags == 0 {
        arena.set_state(from, State::Hole);
    } else {
        from.for_each(|page| arena.tags.zero_page(page));
    }
}

/// A move over more than one mapping fails, but not as if nothing had happened: the target may be
/// gone, and from Linux 6.17 on the first mappings may have moved.
fn note_failed_move(worker: &Worker, source: usize, target: usize) {
    let arena = &worker.world.arena;
    let one = |page: usize| page..page + 1;
    let was_hole = arena.state(target) == State::Hole;
    match (arena.is_mapped(source), arena.is_mapped(target)) {
        // Moved, and the source unmapped.
        (false, _) => {
            arena.tags.move_page(source, target);
            arena.set_state(one(target), arena.state(source));
            arena.set_state(one(source), State::Hole);
        }
        // Moved, and the source kept.
        (true, true) if was_hole => {
            arena.tags.move_page(source, target);
            arena.set_state(one(target), arena.state(source));
            arena.tags.zero_page(source);
        }
        (true, true) => {}
        (true, false) => arena.set_state(one(target), State::Hole),
    }
}

pub fn unmap(worker: &mut Worker) {
    let pages = worker.pick(300);
    worker.log(Op::Unmap, &pages);
    if worker.world.arena.unmap(pages.clone()).is_ok() {
        worker.world.arena.set_state(pages, State::Hole);
    }
}

pub fn map_fixed(worker: &mut Worker) {
    let pages = worker.pick(300);
    worker.log(Op::MapFixed, &pages);
    let arena = &worker.world.arena;
    if arena.map(pages.clone(), libc::MAP_PRIVATE | libc::MAP_FIXED).is_ok() {
        arena.set_state(pages.clone(), State::Writable);
        pages.for_each(|page| arena.tags.zero_page(page));
    }
}

/// Maps what is a hole.
pub fn refill(worker: &mut Worker) {
    let pages = worker.pick_where(700, |state| state == State::Hole);
    worker.log(Op::Refill, &pages);
    let arena = &worker.world.arena;
    if pages.is_empty() {
        return;
    }
    match arena.map(pages.clone(), libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) {
        Ok(()) => {
            arena.set_state(pages.clone(), State::Writable);
            pages.for_each(|page| arena.tags.zero_page(page));
        }
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0).into();
            let there = pages.clone().find(|page| arena.is_mapped(*page));
            worker.world.log.fail_at(worker.index, "a hole is not a hole", number, there);
        }
    }
}

pub fn lock(worker: &mut Worker) {
    let pages = worker.readable(30);
    worker.log(Op::Lock, &pages);
    if !pages.is_empty() {
        worker.world.arena.lock(pages.clone(), true);
        worker.world.arena.lock(pages, worker.rng.once_in(4));
    }
}

pub fn populate(worker: &mut Worker) {
    let pages = worker.writable(100);
    worker.log(Op::Populate, &pages);
    let advice = [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE][worker.rng.below(2)];
    if !pages.is_empty() {
        let _ = worker.world.arena.advise(pages, advice);
    }
}

/// Advice that changes no contents.
pub fn advise(worker: &mut Worker) {
    const MADV_COLLAPSE: i32 = 25;
    let advice = [
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
        MADV_COLLAPSE,
        libc::MADV_COLD,
        libc::MADV_PAGEOUT,
        libc::MADV_MERGEABLE,
        libc::MADV_UNMERGEABLE,
        libc::MADV_RANDOM,
        libc::MADV_NORMAL,
        libc::MADV_WILLNEED,
    ][worker.rng.below(10)];
    let pages = worker.mapped(1100);
    worker.log(Op::Advise, &pages);
    if !pages.is_empty() {
        let _ = worker.world.arena.advise(pages, advice);
    }
}

/// Marks any range, also others' and with odd ends.
pub fn mark(worker: &mut Worker) {
    let all = worker.world.arena.zones.stacks.end;
    let start = worker.rng.below(all);
    let pages = start..(start + worker.rng.length(2000)).min(all);
    worker.log(Op::Mark, &pages);
    let arena = &worker.world.arena;
    let (from, to) = (worker.rng.below(PAGE), worker.rng.below(PAGE));
    arena.mark(arena.address(pages.start) + from, pages.len() * PAGE + to - from.min(PAGE));
}
