//! Keeping step with a program that changes its mappings while parts of them are marked.

use quartier_kernel::sys;
use quartier_kernel::uffd;
use quartier_session::Rung;
use syscalls::Errno;

use super::serve::Server;
use crate::maps;

/// Ranges whose data the program has just dropped. The kernel tells us *before* it drops the pages,
/// so for a moment they are still there: taken out then, they would come back later as they were.
#[derive(Debug, Default)]
pub(super) struct Removed {
    ranges: [(usize, usize, u64); REMOVED_MAX],
    next: usize,
}

/// How often a range is tried again while the program is changing its mappings.
pub(super) const CHANGE_TRIES: usize = 10_000;

/// How often a registration is ended anew because the program changed its mappings meanwhile. After
/// that it stays: touches there are slow, but right.
const UNREGISTER_TRIES: usize = 16;

/// Removals remembered. More at one time than a program has threads that drop data cannot be.
const REMOVED_MAX: usize = 32;

/// How long a removal is remembered: far longer than the kernel takes for it.
const REMOVAL_NANOS: u64 = 1_000_000_000;

impl Removed {
    fn note(&mut self, start: usize, end: usize) {
        self.ranges[self.next] = (start, end, sys::now_nanos());
        self.next = (self.next + 1) % REMOVED_MAX;
    }

    /// The lowest remembered range that overlaps `[start, end)`.
    pub(super) fn overlapping(
        &self,
        start: usize,
        end: usize,
        taking_since: Option<u64>,
    ) -> Option<(usize, usize)> {
        let now = sys::now_nanos();
        let fresh = |at: u64| {
            now.saturating_sub(at) < REMOVAL_NANOS || taking_since.is_some_and(|since| at >= since)
        };
        self.ranges
            .iter()
            .filter(|(first, last, at)| *first < end && start < *last && fresh(*at))
            .map(|(first, last, _)| (*first, *last))
            .min()
    }
}

impl Server {
    /// Ends a region: whatever is left of it goes back to its place.
    pub(super) fn finish(&mut self, at: usize) {
        let start = self.regions.all()[at].start;
        if self.rung == Rung::Move && !self.empty_shadow(start) {
            return;
        }
        let Some(at) = self.regions.find(start) else { return };
        let region = self.regions.remove(at);
        self.unregister(region.start, region.end);
        region.free(self.uffd);
    }

    /// Ends the registration of a range whose data is back, but for what lies in a region: the program
    /// may have moved another marked range there. If it is about to, which we learn only when we read
    /// it, the registration is put back at once: nobody may touch the new place before we have read.
    pub(super) fn unregister(&mut self, start: usize, end: usize) {
        for _ in 0..UNREGISTER_TRIES {
            self.read_changes();
            self.for_each_gap(start, end, Self::unregister_gap);
            if self.rung != Rung::Move || !self.uffd.mappings_changing() {
                return;
            }
            self.for_each_gap(start, end, Self::register_gap);
        }
    }

    /// Reads what the program changes, until it has gone on.
    fn read_changes(&mut self) {
        for _ in 0..CHANGE_TRIES {
            if self.rung != Rung::Move || !self.uffd.mappings_changing() {
                return;
            }
            self.read_messages();
            sys::sleep_micros(20);
        }
    }

    /// The parts of a range where no region lies.
    fn for_each_gap(
        &mut self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(&Self, usize, usize),
    ) {
        let mut from = start;
        while from < end {
            let at = self.regions.first_after(from);
            let region = self.regions.all().get(at).map(|region| (region.start, region.end));
            let (next, after) =
                region.map_or((end, end), |(first, last)| (first.clamp(from, end), last));
            if from < next {
                visit(self, from, next);
            }
            from = after.max(next);
        }
    }

    fn register_gap(&self, start: usize, end: usize) {
        let _ = maps::for_each(|mapping| {
            let (first, last) = (mapping.start.max(start), mapping.end.min(end));
            if first < last && mapping.private_data {
                let _ = self.uffd.register(first, last - first, uffd::MODE_MISSING);
            }
            mapping.start < end
        });
    }

    /// Mapping by mapping where the program has put something else into the range meanwhile.
    fn unregister_gap(&self, start: usize, end: usize) {
        // SAFETY: no region lies here, so nothing that was taken out belongs here.
        if unsafe { self.uffd.unregister(start, end - start) }.is_ok() {
            return;
        }
        let _ = maps::for_each(|mapping| {
            let (first, last) = (mapping.start.max(start), mapping.end.min(end));
            if first < last {
                // SAFETY: as above.
                let _ = unsafe { self.uffd.unregister(first, last - first) };
            }
            mapping.start < end
        });
    }

    /// Moves back what is left in a region's shadow. `false` when the region is gone.
    fn empty_shadow(&mut self, start: usize) -> bool {
        loop {
            let Some(at) = self.regions.find(start) else { return false };
            let region = self.regions.all()[at];
            let (first, last) = (region.shadow_of(region.start), region.shadow_of(region.end));
            let mut changed = false;
            for run in self.pagemap.runs(first, last).map_while(Result::ok) {
                if self.move_back(&region, run.start(), run.end()) == Err(Errno::EAGAIN) {
                    self.read_messages();
                    changed = true;
                    break;
                }
                // What could not go back has no place left in the program.
                self.drop_shadow(run.start(), run.end() - run.start());
            }
            if !changed {
                return true;
            }
        }
    }

    /// The program drops data (`MADV_DONTNEED`, `MADV_FREE`): from now on it reads as zero.
    pub(super) fn forget_data(&mut self, start: usize, end: usize) {
        if self.rung != Rung::Move {
            return;
        }
        self.removed.note(start, end);
        let mut at = self.regions.first_after(start);
        while let Some(region) = self.regions.all().get(at).copied() {
            if region.start >= end {
                break;
            }
            let (first, last) = (start.max(region.start), end.min(region.end));
            self.drop_shadow(region.shadow_of(first), last - first);
            at += 1;
        }
    }

    /// The program unmapped a range.
    pub(super) fn forget_range(&mut self, start: usize, end: usize) {
        self.forget_data(start, end);
        self.regions.cut(start);
        self.regions.cut(end);
        loop {
            let at = self.regions.first_after(start);
            match self.regions.all().get(at) {
                Some(region) if region.start >= start && region.end <= end => {
                    self.regions.remove(at).free(self.uffd);
                }
                _ => return,
            }
        }
    }
}
