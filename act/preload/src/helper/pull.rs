//! Pulling: a block goes to the node of the thread that touches it first.

use quartier_session::{Counter, Rung};
use syscalls::Errno;

use super::areas;
use super::homes::{Homes, PAGES, pages};
use super::regions::Region;
use super::serve::Server;
use crate::pagemap::Run;
use crate::sys::{self, HUGE, PAGE};
use crate::threads::Thread;

/// Pages from one of a sample to the next.
const SAMPLE_STRIDE: usize = 16;

/// How often a page of the shadow that the kernel holds for a moment is asked for before it is copied.
const BUSY_TRIES: usize = 16;

/// What came of serving a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The thread goes on.
    Done,
    /// The program is changing its mappings: first its events, then this touch again.
    AfterEvents,
}

/// What one pull did, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulled {
    pub moved: usize,
    kept: usize,
}

impl Server {
    /// Serves a touch: pulls the block there, and as much after it as the thread's sweep deserves.
    pub(super) fn serve_touch(&mut self, address: usize, tid: i32) -> Served {
        if !self.settle() {
            return Served::AfterEvents;
        }
        let Some(at) = self.regions.find(address) else {
            return self.serve_stray(address);
        };
        let began = sys::now_nanos();
        let thread = Thread::find(tid);
        let region = self.regions.all()[at];
        let block = self.orders.block_bytes;
        // Several threads touched it, and we have served another: it is there, this one only goes on.
        let is_late = !region.pending(address, block);
        // Who comes late has no say.
        let node = if is_late { None } else { self.node_of(thread, tid) };
        let window = match is_late {
            true => block_of(address, block, &region),
            false => self.window(&region, address, thread, node),
        };
        let was_known = self.history.areas.at(address).is_known();
        if let Some(node) = node {
            self.history.compare(address, window, node);
        }
        // Where this round has nothing more to tell or to move, the rest is left alone at once.
        let is_done = !is_late && self.history.areas.at(address).is_done();
        let (start, end) = if is_done { within(areas::area_of(address), &region) } else { window };
        let always = self.orders.always_copy;
        let to = node.filter(|node| !is_done && (always || self.history.lets_go(address, *node)));
        let served = match self.rung {
            Rung::Move => self.pull_by_move(&region, address, (start, end), to),
            _ => self.pull_by_protection(&region, address, (start, end), to),
        };
        let slot = self.orders.slot;
        slot.add(Counter::Faults, 1);
        let took_nanos = sys::now_nanos() - began;
        slot.add(Counter::ServeNanos, took_nanos);
        let Ok(pulled) = served else { return Served::AfterEvents };
        slot.add(Counter::PagesMoved, pulled.moved as u64);
        let has_moved = pulled.moved > 0;
        if has_moved {
            self.moving_nanos += took_nanos;
        }
        if is_late {
            return Served::Done;
        }
        if let Some(node) = node {
            self.note_touch(&region, address, (start, end), node, has_moved);
        }
        let settled = self.regions.all()[at].settle(start, end, block) as u64;
        let outcome = if has_moved { Counter::BlocksMoved } else { Counter::BlocksKept };
        slot.add(outcome, settled);
        if let Some(thread) = thread.filter(|_| !is_done) {
            thread.set_sweep(end, end - start);
        }
        let region = self.regions.all()[at];
        if !was_known && self.history.areas.at(address).follows() {
            let (start, end) = areas::area_of(address);
            self.catch_up(start, end);
        }
        self.catch_up_where_all_is_told(&region, start, end);
        if region.nr_pending == 0 {
            self.catch_up(region.start, region.end);
            self.finish(at);
        }
        Served::Done
    }

    /// Writes down who touched what.
    fn note_touch(
        &mut self,
        region: &Region,
        address: usize,
        (start, end): (usize, usize),
        node: u32,
        has_moved: bool,
    ) {
        if self.history.areas.at(address).is_mixed() {
            // Whose the next block is is anybody's guess there.
            self.history.note(address, (address, address + 1), node, has_moved);
        } else {
            self.history.note(address, (start, end), node, has_moved);
            self.note_borders(region, (start, end), node);
        }
        let area = self.history.areas.at(address);
        if !area.is_known() {
            area.put_off();
        }
    }

    /// Where a thread runs. Its thread block says so, unless that is marked by now, as it is where a thread
    /// has begun in the middle of a marking: we would wait for ourselves to serve our own touch.
    fn node_of(&mut self, thread: Option<&Thread>, tid: i32) -> Option<u32> {
        let node = thread.and_then(|thread| {
            thread.held_on().or_else(|| {
                let is_readable = self.regions.find(thread.rseq()).is_none();
                is_readable.then(|| thread.node_by_rseq()).flatten()
            })
        });
        node.or_else(|| node_by_proc(tid))
    }

    /// A touch where nothing is marked: given back meanwhile, or memory that `mremap` has added to a
    /// marked mapping, which nobody has written yet.
    fn serve_stray(&mut self, address: usize) -> Served {
        let resolved = match self.rung {
            // SAFETY: all that was taken out belongs to a region; what is missing elsewhere is zero.
            Rung::Move => unsafe { self.uffd.zero(address, PAGE) }.1,
            _ => self.uffd.rwprotect(address, PAGE, false),
        };
        match resolved {
            Ok(_) => {}
            Err(Errno::EAGAIN) => return Served::AfterEvents,
            Err(_) => self.uffd.wake(address, PAGE),
        }
        Served::Done
    }

    /// The range to pull for a touch: a few blocks from there on, or twice the last pull if the thread goes
    /// on where that ended, as read-ahead does, and it is known how the area is used; fewer blocks are made up
    /// for by those before. A single block where two nodes' parts meet. Never a block that somebody has pulled
    /// already, or that a thread of another node touched the last time.
    fn window(
        &mut self,
        region: &Region,
        address: usize,
        thread: Option<&Thread>,
        node: Option<u32>,
    ) -> (usize, usize) {
        if let Some(huge) = self.whole_huge_page(region, address, node) {
            return huge;
        }
        let (block, pull) = (self.orders.block_bytes, self.orders.pull_bytes());
        let grid = region.block_start(address, block);
        let history = &mut self.history;
        let is_known = history.areas.at(address).is_known();
        if history.areas.at(address).is_mixed()
            || history.is_border(grid.saturating_sub(pull), grid.saturating_add(block + pull))
        {
            return block_of(address, block, region);
        }
        let mut may_take = |address| {
            region.pending(address, block) && node.is_none_or(|node| history.is_of(address, node))
        };
        let (mut start, mut end) = (grid, grid.saturating_add(block));
        let sweep = thread.and_then(|thread| thread.sweep(start.max(region.start))).unwrap_or(0);
        let longest = match is_known {
            true => (2 * sweep).min(self.orders.block_bytes_max).max(pull),
            false => pull,
        };
        while end < grid.saturating_add(longest).min(region.end) && may_take(end) {
            end += block;
        }
        while end - start < pull && start > region.start && may_take(start - block) {
            start -= block;
        }
        let end = end.min(region.end);
        (start.max(region.start), self.before_huge_page(region, grid.saturating_add(pull), end))
    }

    /// A huge page is pulled whole by a thread that is on its node already, or that touches it first
    /// at its start, as a sweep does. Touched first inside, it lies across two threads' parts: it is
    /// split, and the rest waits for the other.
    fn whole_huge_page(
        &mut self,
        region: &Region,
        address: usize,
        node: Option<u32>,
    ) -> Option<(usize, usize)> {
        let first = address & !(HUGE - 1);
        let inside = first >= region.start && first + HUGE <= region.end;
        if !inside
            || self.orders.split_huge
            || self.huge_run(region, address, address + PAGE).is_none()
        {
            return None;
        }
        let at_start = address - first < self.orders.pull_bytes();
        let touched = region.shadow_of(address);
        let area = self.history.areas.at(address);
        let stays = area.is_known() && !area.follows();
        if stays || at_start || Homes::ask(touched, touched + PAGE, PAGE).first() == node {
            return Some((first, first + HUGE));
        }
        if self.rung == Rung::Rwp {
            // Migration moves a huge page whole; advice on a part of it makes the kernel split it.
            // SAFETY: "cold" changes no contents.
            let _ = unsafe { sys::madvise(address & !(PAGE - 1), PAGE, libc::MADV_COLD) };
        }
        None
    }

    /// Ends a window where the next huge page starts, so that it is met at its start.
    fn before_huge_page(&mut self, region: &Region, from: usize, end: usize) -> usize {
        if self.orders.split_huge || from >= end {
            return end;
        }
        self.huge_run(region, from, end).map_or(end, |start| start.max(from))
    }

    /// Where the first huge page in `[from, to)` begins.
    fn huge_run(&mut self, region: &Region, from: usize, to: usize) -> Option<usize> {
        let mut runs = self.pagemap.runs(region.shadow_of(from), region.shadow_of(to));
        let huge = runs.find_map(|run| run.ok().filter(Run::huge))?;
        Some(huge.start().wrapping_sub(region.shadow_delta))
    }

    /// The `move` rung: pages on the right node are moved back as they are, others are copied there.
    fn pull_by_move(
        &mut self,
        region: &Region,
        address: usize,
        (start, end): (usize, usize),
        node: Option<u32>,
    ) -> Result<Pulled, Errno> {
        let mut pulled = Pulled::default();
        let mut found = false;
        let touched = region.shadow_of(address);
        for run in self.pagemap.runs(region.shadow_of(start), region.shadow_of(end)) {
            let run = run?;
            found |= run.start() <= touched && touched < run.end();
            self.bring_back(region, &run, node, &mut pulled)?;
        }
        if !found {
            // Never written, or dropped by the program: zero. If it is there after all (a page that
            // could not be taken out), the kernel says so and nothing changes.
            // SAFETY: the shadow has no page for it, so to the program it reads as zero.
            let (_, result) = unsafe { self.uffd.zero(address, PAGE) };
            match result {
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                Err(_) => self.uffd.wake(address, PAGE),
                Ok(_) => {}
            }
        }
        Ok(pulled)
    }

    /// Brings one run of the shadow back, splitting it where its pages' nodes differ.
    fn bring_back(
        &mut self,
        region: &Region,
        run: &Run,
        node: Option<u32>,
        pulled: &mut Pulled,
    ) -> Result<(), Errno> {
        let (first, last) = (run.start(), run.end());
        let (Some(node), true) = (node, run.present()) else {
            pulled.kept += (last - first) / PAGE;
            return self.move_back(region, first, last);
        };
        if self.all_elsewhere(first, last, node) {
            pulled.moved += (last - first) / PAGE;
            return self.copy_back(region, first, last, node);
        }
        let always_copy = self.orders.always_copy;
        let here = |home| home == node as i32 && !always_copy;
        for from in (first..last).step_by(HUGE) {
            for (start, end, local) in Homes::ask(from, last, PAGE).groups(here) {
                if local {
                    pulled.kept += (end - start) / PAGE;
                    self.move_back(region, start, end)?;
                } else {
                    pulled.moved += (end - start) / PAGE;
                    self.copy_back(region, start, end, node)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a long run has no page here, as far as a sample of every sixteenth shows. Then copying
    /// is right for every page; to ask for each takes a fifth of the time of copying it.
    fn all_elsewhere(&self, first: usize, last: usize, node: u32) -> bool {
        if last - first < 4 * SAMPLE_STRIDE * PAGE {
            return false;
        }
        let elsewhere = |home: &i32| *home >= 0 && *home != node as i32;
        let homes = Homes::ask(first, last, SAMPLE_STRIDE * PAGE);
        self.orders.always_copy || homes.all().iter().all(elsewhere)
    }

    /// Moves `[first, last)` of the shadow back without a copy; page by page where the kernel does
    /// not take it whole, and by copy where it does not move it at all.
    pub(super) fn move_back(
        &mut self,
        region: &Region,
        first: usize,
        last: usize,
    ) -> Result<(), Errno> {
        let mut at = first;
        let mut whole = true;
        let mut tries = 0;
        while at < last {
            let len = if whole { last - at } else { PAGE };
            let dst = at.wrapping_sub(region.shadow_delta);
            // SAFETY: the page goes back where the program has it.
            let (done, result) = unsafe { self.uffd.move_pages(dst, at, len) };
            at += done;
            match result {
                Ok(_) => {}
                Err(Errno::EAGAIN) if done > 0 => {}
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                Err(Errno::EBUSY) if tries < BUSY_TRIES => tries += 1,
                Err(_) if whole && len > PAGE => whole = false,
                Err(_) => {
                    self.copy_or_leave(region, at)?;
                    at += PAGE;
                }
            }
        }
        Ok(())
    }

    /// The `rwp` rung: pages are migrated where they are, then made accessible.
    fn pull_by_protection(
        &mut self,
        region: &Region,
        address: usize,
        (start, end): (usize, usize),
        node: Option<u32>,
    ) -> Result<Pulled, Errno> {
        let mut pulled = Pulled::default();
        if let Some(node) = node {
            self.migrate_present(start, end, node, &mut pulled);
        }
        let ranges =
            [(start, end), block_of(address, self.orders.block_bytes, region), page_of(address)];
        for (first, last) in ranges {
            match self.uffd.rwprotect(first, last - first, false) {
                Ok(_) => return Ok(pulled),
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                // Part of it was unmapped: try less.
                Err(_) => {}
            }
        }
        self.uffd.wake(address, PAGE);
        Ok(pulled)
    }

    pub(super) fn migrate_present(
        &mut self,
        start: usize,
        end: usize,
        node: u32,
        pulled: &mut Pulled,
    ) {
        let runs = self.pagemap.runs(start, end).map_while(Result::ok);
        for run in runs.filter(Run::present) {
            for from in (run.start()..run.end()).step_by(HUGE) {
                let away = |home| home >= 0 && home != node as i32;
                for (start, end, away) in Homes::ask(from, run.end(), PAGE).groups(away) {
                    let arrived = if away { self.migrate(start, end, node) } else { 0 };
                    pulled.moved += arrived;
                    pulled.kept += (end - start) / PAGE - arrived;
                }
            }
        }
    }

    /// Migrates up to [`PAGES`] pages; gives how many arrived.
    fn migrate(&mut self, first: usize, last: usize, node: u32) -> usize {
        self.station.go_to(node);
        let (pages, count) = pages(first, last, PAGE);
        let mut status = [-1i32; PAGES];
        let _ = sys::move_pages(&pages[..count], &[node as i32; PAGES], &mut status);
        let arrived = status[..count].iter().filter(|at| **at == node as i32).count();
        self.orders.slot.add(Counter::PagesBusy, (count - arrived) as u64);
        arrived
    }
}

fn page_of(address: usize) -> (usize, usize) {
    (address, address + PAGE)
}

fn block_of(address: usize, block: usize, region: &Region) -> (usize, usize) {
    let start = region.block_start(address, block);
    within((start, start + block), region)
}

pub(super) fn within((start, end): (usize, usize), region: &Region) -> (usize, usize) {
    (start.max(region.start), end.min(region.end))
}

/// The node of a thread that is not in the table (made by a raw `clone`): the CPU it last ran on, by
/// `/proc/self/task/TID/stat`. A thread of another process that looks into this one has no say.
fn node_by_proc(tid: i32) -> Option<u32> {
    super::look::last_cpu_of(tid).and_then(crate::threads::node_of_cpu)
}
