//! Which lines of the kernel CPUs take from each other: one writes what another uses. A sample must not
//! miss them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Entries; a power of two. A line has one, which others may want as well.
const NR_ENTRIES: usize = 1 << 16;

/// The line's number in an entry, above its last writer (or [`MANY`]) and how often others may want the
/// entry before they get it.
const LINE_SHIFT: u32 = 20;
const WRITER: u64 = 0xffff;
const MANY: u64 = 0xffff;
const PATIENCE: u64 = 0xf << 16;
const PATIENCE_ONE: u64 = 1 << 16;

/// Lines by virtual address: the kernel's are the same for all CPUs.
#[derive(Debug)]
pub(crate) struct Contended(Box<[AtomicU64]>);

impl Contended {
    pub(crate) fn new() -> Self {
        Self((0..NR_ENTRIES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether CPUs take the line from each other that a CPU uses now. Entries are read and written
    /// without order: a CPU whose note is lost makes another.
    #[inline]
    pub(crate) fn note(&self, vline: u64, cpu: u16, is_written: bool) -> bool {
        let entry = &self.0[(vline ^ vline >> 16) as usize % NR_ENTRIES];
        let known = entry.load(Ordering::Relaxed);
        let is_same = (known ^ vline << LINE_SHIFT) >> LINE_SHIFT == 0;
        let writer = known & WRITER;
        if is_same && writer == u64::from(cpu) {
            return false;
        }
        if is_same {
            let many = vline << LINE_SHIFT | PATIENCE | MANY;
            if known != many {
                entry.store(many, Ordering::Relaxed);
            }
            return true;
        }
        if is_written {
            let next = if writer == MANY && known & PATIENCE != 0 {
                known - PATIENCE_ONE
            } else {
                vline << LINE_SHIFT | u64::from(cpu)
            };
            entry.store(next, Ordering::Relaxed);
        }
        false
    }

    pub(crate) fn nr_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 0xffff_8880_0000_1240 >> 6;

    #[test]
    fn a_line_is_contended_once_a_cpu_uses_what_another_wrote() {
        let lines = Contended::new();
        assert!(!lines.note(LINE, 0, false) && !lines.note(LINE, 1, false), "read by both");
        assert!(!lines.note(LINE, 0, true) && !lines.note(LINE, 0, false), "one alone");
        assert!(lines.note(LINE, 1, false) && lines.note(LINE, 0, false), "from then on");
        assert!(!lines.note(LINE + 1, 1, true), "the next line is not");
    }

    #[test]
    fn lines_that_are_written_once_do_not_drive_out_a_contended_one_that_is_used() {
        let lines = Contended::new();
        lines.note(LINE, 0, true);
        assert!(lines.note(LINE, 1, true));
        // Of the same entry: what is a multiple of the table's size apart, up to some bits.
        let others = (1..200_000_u64).map(|page| LINE + page * 64 + page);
        for (at, other) in others.enumerate() {
            assert!(!lines.note(other, (at % 8) as u16, true), "each is written once");
            if at % 1000 == 0 {
                assert!(lines.note(LINE, (at % 8) as u16, false));
            }
        }
    }

    #[test]
    fn a_line_that_is_no_longer_used_makes_room() {
        let lines = Contended::new();
        let same_entry = LINE ^ 1 << 30 ^ 1 << 14;
        lines.note(LINE, 0, true);
        assert!(lines.note(LINE, 1, true));
        let tries = (0..100).take_while(|_| !lines.note(same_entry, 2, true)).count();
        assert!(tries == 100, "it is its writer's alone");
        assert!(lines.note(same_entry, 3, false), "and has the entry");
    }
}
