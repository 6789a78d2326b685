//! Marking: from now on the first thread to touch a block is noticed (thesis 4.4.3).

use quartier_session::{Counter, Reason, Rung};
use syscalls::Errno;

use super::areas::Round;
use super::moves::CHANGE_TRIES;
use super::regions::Region;
use super::serve::Server;
use crate::maps::{self, Range};
use crate::sys::{self, HUGE, PAGE};
use crate::threads;
use crate::{ranges, uffd};

/// How often the mappings are read anew because the program changed them meanwhile.
const PASSES_MAX: usize = 16;

/// What the kernel hands over only for a moment (a page in a per-CPU list, say) is asked for again.
const MOVE_TRIES: usize = 8;

impl Server {
    /// Marks what is resident and private in `[start, end)`.
    pub(super) fn mark(&mut self, start: usize, end: usize) {
        let began = sys::now_nanos();
        self.catch_up(start, end);
        self.history.begin(Round {
            now_ms: (began / 1_000_000) as u32,
            first_ms: self.orders.remark_ms_first,
            longest_ms: self.orders.remark_ms_max,
            nr_nodes: self.orders.nr_nodes,
        });
        self.station.leave();
        self.lift_stale_fences();
        threads::forget_dead(self.program_pid);
        self.room = self.room_allowed();
        for _ in 0..PASSES_MAX {
            self.read_messages();
            if !self.settle_by_reading() {
                break;
            }
            self.mark_settled(start, end);
            // Nothing is entered while what has moved is not in its place.
            if !self.settle_by_reading() {
                break;
            }
            let events = self.nr_events;
            let result = maps::for_each_private(|range| {
                let range =
                    Range { start: range.start.max(start), end: range.end.min(end), ..range };
                if range.start < range.end {
                    self.mark_mapping(range);
                }
                // What was read of the mappings is out of date once the program changes them.
                self.nr_events == events
            });
            if result.is_err() {
                self.orders.slot.note(Reason::MarkFailed);
            }
            if self.nr_events == events {
                break;
            }
        }
        self.orders.slot.add(Counter::Marks, 1);
        self.orders.slot.add(Counter::MarkNanos, sys::now_nanos() - began);
    }

    /// Marks again what was pulled of regions that are not yet through.
    fn mark_settled(&mut self, start: usize, end: usize) {
        let block_bytes = self.orders.block_bytes;
        let mut from = start;
        loop {
            let at = self.regions.first_after(from);
            let Some(region) = self.regions.all().get(at).copied() else { return };
            from = from.max(region.start);
            if from >= end {
                return;
            }
            let stretch = match self.rung {
                Rung::Move => region.next_settled(from, block_bytes),
                // On this rung nobody tells us what the program unmaps: the kernel is asked for all of it.
                _ => Some((from, region.end)),
            };
            let Some((first, last)) = stretch else {
                from = region.end;
                continue;
            };
            let (first, last) = (first.max(from), last.min(end));
            // A thread may have its stack there by now: the kernel's last write there cannot wait.
            let stack = threads::first_stack(first, last);
            let resting = self.history.areas.first_resting(first, last);
            let (last, after) = match [stack, resting].into_iter().flatten().min() {
                Some((start, end)) => (start.max(first), end),
                None => (last, last),
            };
            from = after.max(last);
            if first < last {
                self.mark_stretch_again(at, first, last);
            }
        }
    }

    fn mark_stretch_again(&mut self, at: usize, start: usize, end: usize) {
        let block_bytes = self.orders.block_bytes;
        self.history.areas.mark(start, end);
        let mut blocks = 0;
        let mut from = start;
        while let Some((first, last)) = self.next_wanted(from, end) {
            blocks += self.regions.all()[at].unsettle(first, last, block_bytes);
            from = last;
        }
        let region = self.regions.all()[at];
        let bytes = (blocks * block_bytes).min(end - start);
        let marked = match self.rung {
            Rung::Move => self.move_into_shadow(region, (start, end), true),
            Rung::Rwp => self.protect(start, end).map(|()| Some(bytes)),
            Rung::None => return,
        };
        match marked {
            Ok(bytes) => {
                self.orders.slot.add(Counter::BlocksMarked, blocks as u64);
                self.orders.slot.add(Counter::PagesMarked, (bytes.unwrap_or(0) / PAGE) as u64);
            }
            // Some of it was unmapped, and may be mapped anew: whatever is there now is looked at afresh.
            Err(Errno::ENOENT) if self.rung == Rung::Rwp => self.finish(at),
            Err(_) => self.orders.slot.note(Reason::MarkFailed),
        }
    }

    /// Marks a mapping but for the ranges in it that are ours, a stack, or marked already.
    fn mark_mapping(&mut self, range: Range) {
        if range.end - range.start < self.orders.pull_bytes() {
            return;
        }
        let mut start = range.start;
        let events = self.nr_events;
        while start < range.end && self.nr_events == events {
            let keep_out = self.next_keep_out(start, range.end);
            let end = keep_out.map_or(range.end, |(first, _)| first.max(start));
            if start < end {
                self.mark_free_range(start, end);
            }
            start = keep_out.map_or(range.end, |(_, last)| last.max(start + PAGE));
        }
    }

    fn next_keep_out(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let own = ranges::overlapping(start, end);
        let stack = threads::first_stack(start, end);
        let marked = self.regions.first_in(start, end).map(|at| self.regions.all()[at]);
        let marked = marked.map(|region| (region.start, region.end));
        let fence = self.fences.first_up(start, end);
        let resting = self.history.areas.first_resting(start, end);
        [own, stack, fence, marked, resting].into_iter().flatten().min()
    }

    /// Finds the resident stretches, closing gaps of up to what a touch pulls, and marks each.
    fn mark_free_range(&mut self, start: usize, end: usize) {
        if !sys::range_policy_is_default(start) {
            self.orders.slot.note(Reason::RangePolicySet);
            return;
        }
        let gap = self.orders.pull_bytes();
        let mut stretch: Option<(usize, usize)> = None;
        let events = self.nr_events;
        for run in self.pagemap.runs(start, end) {
            if self.nr_events != events {
                return;
            }
            let Ok(run) = run else {
                self.orders.slot.note(Reason::MarkFailed);
                break;
            };
            stretch = match stretch {
                Some((first, last)) if run.start() - last <= gap => Some((first, run.end())),
                Some((first, last)) => {
                    self.mark_stretch(first, last);
                    Some((run.start(), run.end()))
                }
                None => Some((run.start(), run.end())),
            };
        }
        if let (Some((first, last)), true) = (stretch, self.nr_events == events) {
            self.mark_stretch(first, last);
        }
    }

    /// Marks one resident stretch as a region. Stretches shorter than what a touch pulls are left where they are.
    fn mark_stretch(&mut self, start: usize, end: usize) {
        if end - start < self.orders.pull_bytes() {
            return;
        }
        if self.regions.len() >= self.room.regions {
            self.orders.slot.note(Reason::TooManyMappings);
            return;
        }
        self.history.areas.mark(start, end);
        if self.history.first_wanted(start, end).is_none() {
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
        let region = self.pending_where_wanted(Region::new(start, end, self.orders.block_bytes)?);
        let protected = self
            .regions
            .make_room(1)
            .and_then(|()| self.uffd.register(start, end - start, uffd::MODE_RWP))
            .and_then(|_| self.protect(start, end));
        if let Err(error) = protected {
            self.unregister(start, end);
            region.free(self.uffd);
            return Err(error);
        }
        self.enter(region);
        Ok((end - start) / PAGE)
    }

    /// The next part of `[start, end)` that this round marks; no huge page in part.
    fn next_wanted(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (first, last) = self.history.first_wanted(start, end)?;
        let (huge_first, huge_last) = (first & !(HUGE - 1), last.next_multiple_of(HUGE));
        let first = if self.is_huge(first) { huge_first.max(start) } else { first };
        let last = if self.is_huge(last - 1) { huge_last.min(end) } else { last };
        Some((first, last))
    }

    fn is_huge(&mut self, address: usize) -> bool {
        let page = address & !(PAGE - 1);
        let run = self.pagemap.runs(page, page + PAGE).next();
        run.is_some_and(|run| run.is_ok_and(|run| run.huge()))
    }

    /// A new region of which only that is pending which this round marks.
    fn pending_where_wanted(&mut self, mut region: Region) -> Region {
        let mut from = region.start;
        while from < region.end {
            let wanted = self.next_wanted(from, region.end);
            let (first, last) = wanted.unwrap_or((region.end, region.end));
            if from < first {
                region.settle(from, first, self.orders.block_bytes);
            }
            from = last;
        }
        region
    }

    /// Protects what this round marks of a registered range.
    fn protect(&mut self, start: usize, end: usize) -> Result<(), Errno> {
        let mut from = start;
        while let Some((first, last)) = self.next_wanted(from, end) {
            self.uffd.rwprotect(first, last - first, true)?;
            from = last;
        }
        Ok(())
    }

    fn mark_by_move(&mut self, start: usize, end: usize) -> Result<usize, Errno> {
        let len = end - start;
        let side_bytes = Region::side_bytes_of(start, end, self.orders.block_bytes);
        let left = self.room.side_bytes.checked_sub(side_bytes).ok_or(Errno::ENOMEM)?;
        let region = Region::with_shadow(start, end, self.orders.block_bytes)?;
        let region = self.pending_where_wanted(region);
        self.room.side_bytes = left;
        // The range first: from here on a touch of a page that is on its way waits for us.
        let registered = self.uffd.register(start, len, uffd::MODE_MISSING);
        let taken = registered.and_then(|_| match self.lies_in_one_mapping(start, end) {
            true => self.move_into_shadow(region, (start, end), false),
            false => Ok(None),
        });
        if !matches!(taken, Ok(Some(_))) {
            self.unregister(start, end);
            region.free(self.uffd);
        }
        Ok(taken?.unwrap_or(0) / PAGE)
    }

    /// Whether a range that we have registered is all in one mapping. If not, the program changed it meanwhile:
    /// where it had nothing then, it may have something by now that is not registered, and nobody would tell
    /// us what becomes of that. One mapping is registered as a whole or not at all.
    fn lies_in_one_mapping(&self, start: usize, end: usize) -> bool {
        self.mapping_after(start).is_some_and(|(first, last)| first <= start && last >= end)
    }

    /// The mapping that holds an address, or the next one.
    pub(super) fn mapping_after(&self, address: usize) -> Option<(usize, usize)> {
        match self.mappings.at_or_after(address) {
            Ok(mapping) => Some(mapping),
            Err(Errno::ENOTTY) => {
                let mut found = None;
                let _ = maps::for_each(|mapping| {
                    let is_before = mapping.end <= address;
                    if !is_before {
                        found = Some((mapping.start, mapping.end));
                    }
                    is_before
                });
                found
            }
            Err(_) => None,
        }
    }

    /// Moves `[start, end)` of a region, whose range is registered, into its shadow; gives the bytes
    /// as [`Self::take_out`] does.
    fn move_into_shadow(
        &mut self,
        region: Region,
        (start, end): (usize, usize),
        is_entered: bool,
    ) -> Result<Option<usize>, Errno> {
        let (shadow, len) = (region.shadow_of(start), end - start);
        self.uffd.register(shadow, len, uffd::MODE_MISSING)?;
        self.taking_since = Some(sys::now_nanos());
        let taken = self.take_out(region, (start, end), is_entered);
        // SAFETY: the shadow is ours; nobody waits there. Unregistered, it raises no events.
        let _ = unsafe { self.uffd.unregister(shadow, len) };
        self.taking_since = None;
        Ok(taken)
    }

    /// Moves every page of `[start, end)` that the kernel hands over into the shadow; gives the bytes
    /// taken, or `None`
    /// when nothing was of a region not entered yet: because the kernel hands over none, there is no room in the table, or the
    /// program has changed its mappings since they were read.
    ///
    /// The kernel refuses (`EAGAIN`) while a change has not been read from it. So at the first move
    /// that succeeds without such a change having been read, the mappings are as they were read, and
    /// the region may be entered; from then on changes find it in the table.
    ///
    /// What the program mapped into the range after it was registered is not registered, and nobody tells
    /// us of that: taken out, it would read as zero. So the kernel is asked each time for the mapping at hand,
    /// by a call that fails where something is; whatever becomes of a registered one afterwards is such a change.
    fn take_out(
        &mut self,
        region: Region,
        (start, end): (usize, usize),
        is_entered: bool,
    ) -> Option<usize> {
        let (mut at, mut taken, mut tries, mut longest) = (start, 0, 0, end - start);
        let mut entered = is_entered;
        let mut wanted_end = at;
        while at < end {
            if at >= wanted_end {
                let Some(wanted) = self.next_wanted(at, end) else { break };
                (at, wanted_end) = wanted;
            }
            if !entered && self.regions.make_room(1).is_err() {
                return None;
            }
            let current = if entered {
                self.regions.find(at).map(|index| self.regions.all()[index])
            } else {
                Some(region)
            };
            let Some(current) = current else {
                at += PAGE;
                continue;
            };
            let mut to = wanted_end.min(current.end);
            let dropped = self.removed.overlapping(at, to, self.taking_since, sys::now_nanos());
            if let Some((first, last)) = dropped {
                if first <= at {
                    at = last;
                    continue;
                }
                to = first;
            }
            let Some(there) = self.first_there(at, to) else {
                at = to;
                continue;
            };
            at = there;
            let len = (to - at).min(longest);
            // SAFETY: something is there, so nothing is made zero.
            let (done, result) = match unsafe { self.uffd.zero(at, PAGE) }.1 {
                // SAFETY: the shadow keeps what the program has here until it is pulled.
                Ok(_) | Err(Errno::EEXIST) => unsafe {
                    self.uffd.move_pages(current.shadow_of(at), at, len)
                },
                Err(error) => (0, Err(error)),
            };
            if done > 0 && !entered {
                self.enter(region);
                entered = true;
            }
            at += done;
            taken += done;
            tries = if done > 0 { 0 } else { tries + 1 };
            match result {
                Ok(_) => {}
                // The kernel looks for changes before it looks for the mapping: one that comes in between is
                // no `EAGAIN`.
                Err(error @ (Errno::EAGAIN | Errno::ENOENT)) if tries < tries_max(error) => {
                    let events = self.nr_events;
                    self.read_messages();
                    if !entered && self.nr_events != events {
                        return None;
                    }
                    // Read already, but the program has not gone on yet.
                    if error == Errno::EAGAIN {
                        sys::sleep_micros(20);
                    }
                }
                Err(Errno::EBUSY) if tries < MOVE_TRIES => {}
                // Several mappings by now: less at a time.
                Err(_) if len > PAGE && done == 0 && longest > PAGE => {
                    longest = (len / 2).next_multiple_of(PAGE).max(PAGE);
                }
                Err(_) => {
                    // Pinned, locked, shared with a child, or already gone: it stays where it is.
                    self.orders.slot.add(Counter::PagesBusy, 1);
                    self.orders.slot.note(Reason::PagesBusy);
                    at += PAGE;
                    (tries, longest) = (0, end - start);
                }
            }
        }
        entered.then_some(taken)
    }

    /// The first page of the program's in `[start, end)`.
    fn first_there(&mut self, start: usize, end: usize) -> Option<usize> {
        let run = self.pagemap.runs(start, end).next()?.ok()?;
        Some(run.start().max(start))
    }

    /// Enters a region; the caller has made room for it.
    fn enter(&mut self, region: Region) {
        if self.regions.insert(region).is_ok() {
            self.orders.slot.add(Counter::BlocksMarked, region.nr_pending as u64);
        }
    }
}

fn tries_max(error: Errno) -> usize {
    if error == Errno::EAGAIN { CHANGE_TRIES } else { MOVE_TRIES }
}
