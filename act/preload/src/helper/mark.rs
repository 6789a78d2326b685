//! Marking: from now on the first thread to touch a block is noticed (thesis 4.4.3).

use quartier_session::{Counter, Reason, Rung};
use syscalls::Errno;

use super::regions::{REGIONS_MAX, Region};
use super::serve::Server;
use crate::maps::{self, PrivateRange};
use crate::pagemap::{Pagemap, Run};
use crate::sys::{self, PAGE};
use crate::threads::Thread;
use crate::{ranges, uffd};

/// Page runs read from the kernel at a time.
const RUNS: usize = 512;

/// What the kernel hands over only for a moment (a page in a per-CPU list, say) is asked for again.
const MOVE_TRIES: usize = 8;

impl Server {
    /// Marks what is resident and private in `[start, end)`.
    pub(super) fn mark(&mut self, start: usize, end: usize) {
        let began = sys::now_nanos();
        let Ok(pagemap) = Pagemap::open() else {
            self.orders.slot.note(Reason::MarkFailed);
            return;
        };
        let result = maps::for_each_private(|range| {
            let range = PrivateRange { start: range.start.max(start), end: range.end.min(end) };
            if range.start < range.end {
                self.mark_mapping(&pagemap, range);
            }
            self.regions.has_room(1)
        });
        if result.is_err() {
            self.orders.slot.note(Reason::MarkFailed);
        }
        self.orders.slot.add(Counter::Marks, 1);
        self.orders.slot.add(Counter::MarkNanos, sys::now_nanos() - began);
    }

    /// Marks a mapping but for the ranges in it that are ours, a stack, or marked already.
    fn mark_mapping(&mut self, pagemap: &Pagemap, range: PrivateRange) {
        if range.end - range.start < self.orders.block_bytes {
            return;
        }
        let mut start = range.start;
        while start < range.end {
            let keep_out = self.next_keep_out(start, range.end);
            let end = keep_out.map_or(range.end, |(first, _)| first.max(start));
            if start < end {
                self.mark_free_range(pagemap, start, end);
            }
            start = keep_out.map_or(range.end, |(_, last)| last.max(start + PAGE));
        }
    }

    fn next_keep_out(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let own = ranges::overlapping(start, end);
        let overlaps = |&(first, last): &(usize, usize)| first < end && start < last;
        let stack = Thread::all().map(Thread::stack).filter(overlaps).min();
        let at = self.regions.first_after(start);
        let marked = self.regions.all().get(at).map(|region| (region.start, region.end));
        [own, stack, marked.filter(overlaps)].into_iter().flatten().min()
    }

    /// Finds the resident stretches, closing gaps of up to a block, and marks each.
    fn mark_free_range(&mut self, pagemap: &Pagemap, start: usize, end: usize) {
        if !sys::range_policy_is_default(start) {
            self.orders.slot.note(Reason::PolicySet);
            return;
        }
        let gap = self.orders.block_bytes;
        let mut runs = [Run::default(); RUNS];
        let mut stretch: Option<(usize, usize)> = None;
        let mut from = start;
        while from < end {
            let Ok((count, walked)) = pagemap.scan(from, end, &mut runs) else {
                self.orders.slot.note(Reason::MarkFailed);
                break;
            };
            for run in &runs[..count] {
                stretch = match stretch {
                    Some((first, last)) if run.start() - last <= gap => Some((first, run.end())),
                    Some((first, last)) => {
                        self.mark_stretch(first, last);
                        Some((run.start(), run.end()))
                    }
                    None => Some((run.start(), run.end())),
                };
            }
            if walked <= from {
                break;
            }
            from = walked;
        }
        if let Some((first, last)) = stretch {
            self.mark_stretch(first, last);
        }
    }

    /// Marks one resident stretch as a region. Stretches below a block are left where they are.
    fn mark_stretch(&mut self, start: usize, end: usize) {
        if end - start < self.orders.block_bytes {
            return;
        }
        if !self.regions.has_room(REGIONS_MAX / 8) {
            self.orders.slot.note(Reason::MarkFailed);
            return;
        }
        let marked = match self.rung {
            Rung::Move => self.mark_by_move(start, end),
            Rung::Rwp => self.mark_by_protection(start, end),
            Rung::None => return,
        };
        match marked {
            Ok(pages) => self.orders.slot.add(Counter::PagesMarked, pages as u64),
            Err(Errno::ENOMEM) => self.orders.slot.note(Reason::NoRoom),
            // Another userfaultfd (the program's own) has the range.
            Err(Errno::EBUSY) => self.orders.slot.note(Reason::UsesUserfaultfd),
            Err(_) => self.orders.slot.note(Reason::MarkFailed),
        }
    }

    fn mark_by_protection(&mut self, start: usize, end: usize) -> Result<usize, Errno> {
        let region = Region::new(start, end, self.orders.block_bytes)?;
        let protected = self
            .uffd
            .register(start, end - start, uffd::MODE_RWP)
            .and_then(|_| self.uffd.rwprotect(start, end - start, true));
        if let Err(error) = protected {
            // SAFETY: on this rung no data is ever taken out of the range.
            let _ = unsafe { self.uffd.unregister(start, end - start) };
            region.free();
            return Err(error);
        }
        self.enter(region);
        Ok((end - start) / PAGE)
    }

    fn mark_by_move(&mut self, start: usize, end: usize) -> Result<usize, Errno> {
        let len = end - start;
        let mut region = Region::new(start, end, self.orders.block_bytes)?;
        if let Err(error) = region.reserve_shadow() {
            region.free();
            return Err(error);
        }
        let shadow = region.shadow_of(start);
        // The range first: from here on a touch of a page that is on its way waits for us.
        let registered = self
            .uffd
            .register(start, len, uffd::MODE_MISSING)
            .and_then(|_| self.uffd.register(shadow, len, uffd::MODE_MISSING));
        if let Err(error) = registered {
            // SAFETY: nothing was taken out of the range yet.
            let _ = unsafe { self.uffd.unregister(start, len) };
            region.free();
            return Err(error);
        }
        self.enter(region);
        let taken = self.take_out(start, end);
        // SAFETY: the shadow is ours; nobody waits there. It stays as it is, unregistered, so that
        // emptying it later raises no event.
        let _ = unsafe { self.uffd.unregister(shadow, len) };
        if taken == 0 {
            let at = self.regions.find(start);
            at.into_iter().for_each(|at| self.finish(at));
        }
        Ok(taken / PAGE)
    }

    /// Moves every page that the kernel hands over into the shadow; gives the bytes taken.
    fn take_out(&mut self, start: usize, end: usize) -> usize {
        let (mut at, mut taken, mut tries) = (start, 0, 0);
        while at < end {
            // Looked up each time: the program may change its mappings meanwhile.
            let Some(region) = self.regions.find(at).map(|index| self.regions.all()[index]) else {
                at += PAGE;
                continue;
            };
            let len = end.min(region.end) - at;
            // SAFETY: the shadow keeps what the program has here until it is pulled.
            let (done, result) = unsafe { self.uffd.move_pages(region.shadow_of(at), at, len) };
            at += done;
            taken += done;
            tries = if done > 0 { 0 } else { tries + 1 };
            match result {
                Ok(_) => {}
                Err(Errno::EAGAIN) if tries < MOVE_TRIES * 8 => self.read_messages(),
                Err(Errno::EBUSY) if tries < MOVE_TRIES => {}
                Err(_) => {
                    // Pinned, locked, shared with a child, or already gone: it stays where it is.
                    self.orders.slot.add(Counter::PagesBusy, 1);
                    self.orders.slot.note(Reason::PagesBusy);
                    at += PAGE;
                    tries = 0;
                }
            }
        }
        taken
    }

    fn enter(&mut self, region: Region) {
        self.orders.slot.add(Counter::BlocksMarked, region.nr_pending as u64);
        self.regions.insert(region);
    }
}
