//! Keeping step with a program that changes its mappings while parts of them are marked.

use quartier_kernel::sys;
use quartier_kernel::uffd;
use quartier_session::Rung;
use syscalls::Errno;

use super::regions::Region;
use super::serve::Server;
use crate::maps;

/// Ranges whose data the program has just dropped. The kernel tells us *before* it drops the pages,
/// so for a moment they are still there: taken out then, they would come back later as they were.
#[derive(Debug)]
pub(super) struct Removed {
    notes: [Note; REMOVED_MAX],
    next: usize,
    /// All that was noted lately and had to make room: as many threads as a machine has CPUs may drop
    /// data at one time.
    squeezed_out: Note,
}

/// A range, and when the program dropped it.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    start: usize,
    end: usize,
    at_nanos: u64,
}

/// How often a registration is ended anew because the program changed its mappings meanwhile. After
/// that it stays: touches there are slow, but right.
const UNREGISTER_TRIES: usize = 16;

/// Removals remembered one by one.
const REMOVED_MAX: usize = 256;

/// How long a removal is remembered: far longer than the kernel takes for it.
const REMOVAL_NANOS: u64 = 1_000_000_000;

impl Default for Removed {
    fn default() -> Self {
        Self { notes: [Note::default(); REMOVED_MAX], next: 0, squeezed_out: Note::default() }
    }
}

impl Note {
    fn is_fresh(&self, now_nanos: u64) -> bool {
        now_nanos.saturating_sub(self.at_nanos) < REMOVAL_NANOS
    }

    /// This one too, if it still matters.
    fn with(self, other: Self) -> Self {
        if !self.is_fresh(other.at_nanos) {
            return other;
        }
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            at_nanos: self.at_nanos.max(other.at_nanos),
        }
    }
}

impl Removed {
    fn note(&mut self, start: usize, end: usize, now_nanos: u64) {
        let note = Note { start, end, at_nanos: now_nanos };
        if let Some(known) =
            self.notes.iter_mut().find(|known| (known.start, known.end) == (start, end))
        {
            *known = note;
            return;
        }
        let oldest = std::mem::replace(&mut self.notes[self.next], note);
        if oldest.is_fresh(now_nanos) {
            self.squeezed_out = self.squeezed_out.with(oldest);
        }
        self.next = (self.next + 1) % REMOVED_MAX;
    }

    /// The lowest remembered range that overlaps `[start, end)`.
    pub(super) fn overlapping(
        &self,
        start: usize,
        end: usize,
        taking_since: Option<u64>,
        now_nanos: u64,
    ) -> Option<(usize, usize)> {
        let matters = |note: &Note| {
            note.is_fresh(now_nanos) || taking_since.is_some_and(|since| note.at_nanos >= since)
        };
        self.notes
            .iter()
            .chain([&self.squeezed_out])
            .filter(|note| note.start < end && start < note.end && matters(note))
            .map(|note| (note.start, note.end))
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
            if !self.read_changes() {
                continue;
            }
            self.for_each_gap(start, end, Self::unregister_gap);
            if self.rung != Rung::Move || !self.uffd.mappings_changing() {
                return;
            }
            self.for_each_gap(start, end, Self::register_gap);
        }
    }

    /// Ends all registrations. There is no region, and nothing will be marked.
    pub(super) fn end_registrations(&mut self) {
        for _ in 0..UNREGISTER_TRIES {
            self.read_changes();
            self.unregister_gap(0, usize::MAX);
            if !self.uffd.mappings_changing() {
                return;
            }
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
        self.removed.note(start, end, sys::now_nanos());
        if self.forget_arrived(start, end) {
            return;
        }
        let mut from = start;
        while let Some(at) = self.regions.first_in(from, end) {
            let region = self.regions.all()[at];
            self.drop_part(&region, start, end);
            from = region.end;
        }
    }

    /// What lies in `[start, end)` of a region reads as zero.
    pub(super) fn drop_part(&mut self, region: &Region, start: usize, end: usize) {
        let (first, last) = (start.max(region.start), end.min(region.end));
        self.drop_shadow(region.shadow_of(first), last - first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 5 * REMOVAL_NANOS;

    #[test]
    fn what_is_dropped_is_remembered_for_a_while() {
        let mut removed = Removed::default();
        removed.note(0x2000, 0x4000, NOW);
        let overlapping = |start, end, since, now| removed.overlapping(start, end, since, now);
        assert_eq!(overlapping(0x3000, 0x9000, None, NOW + 1), Some((0x2000, 0x4000)));
        assert_eq!(overlapping(0x4000, 0x9000, None, NOW + 1), None, "beside it");
        let later = NOW + REMOVAL_NANOS;
        assert_eq!(overlapping(0x3000, 0x9000, None, later), None, "the kernel is through");
        assert_eq!(overlapping(0x3000, 0x9000, Some(NOW), later), Some((0x2000, 0x4000)));
        assert_eq!(overlapping(0x3000, 0x9000, Some(NOW + 1), later), None, "taken out afterwards");
    }

    #[test]
    fn however_many_are_dropped_at_once_none_is_forgotten() {
        let mut removed = Removed::default();
        let range = |i: usize| (i * 0x10_000, i * 0x10_000 + 0x1000);
        for i in 0..4 * REMOVED_MAX {
            let (start, end) = range(i);
            removed.note(start, end, NOW + i as u64);
        }
        let later = NOW + 4 * REMOVED_MAX as u64;
        for i in 0..4 * REMOVED_MAX {
            let (start, end) = range(i);
            assert!(removed.overlapping(start, end, None, later).is_some(), "{i} was forgotten");
        }
        let (start, end) = range(0);
        removed.note(start, end, NOW + 2 * REMOVAL_NANOS);
        assert_eq!(
            removed.overlapping(range(9).0, range(9).1, None, NOW + 2 * REMOVAL_NANOS),
            None
        );
    }

    #[test]
    fn one_range_dropped_over_and_over_takes_one_place() {
        let mut removed = Removed::default();
        removed.note(0x1000, 0x2000, NOW);
        for i in 0..2 * REMOVED_MAX as u64 {
            removed.note(0x8000, 0x9000, NOW + i);
        }
        assert_eq!(removed.squeezed_out.end, 0);
        assert!(removed.overlapping(0x1000, 0x2000, None, NOW + 1).is_some());
    }
}
