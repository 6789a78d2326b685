//! Which lines of the kernel several CPUs use that one of them writes: a sample must not miss them.

use std::sync::atomic::{AtomicU16, Ordering};

/// Entries; a power of two. Lines that share one look contended if two CPUs write them: they are
/// modelled without need.
const NR_ENTRIES: usize = 1 << 16;

/// What an entry is besides the CPU that alone has written.
const NOBODY: u16 = u16::MAX;
const CONTENDED: u16 = u16::MAX - 1;

/// Lines by virtual address: the kernel's are the same for all CPUs.
#[derive(Debug)]
pub(crate) struct Contended(Box<[AtomicU16]>);

impl Contended {
    pub(crate) fn new() -> Self {
        Self((0..NR_ENTRIES).map(|_| AtomicU16::new(NOBODY)).collect())
    }

    /// Whether a line that a CPU uses now was written by one and used by another, ever.
    #[inline]
    pub(crate) fn note(&self, vline: u64, cpu: u16, is_written: bool) -> bool {
        let entry = &self.0[(vline ^ vline >> 16) as usize % NR_ENTRIES];
        let known = entry.load(Ordering::Relaxed);
        if known == CONTENDED {
            return true;
        }
        if known != NOBODY && known != cpu {
            entry.store(CONTENDED, Ordering::Relaxed);
            return true;
        }
        if is_written && known == NOBODY {
            // Another CPU may do the same: who is lost finds out the next time.
            entry.store(cpu, Ordering::Relaxed);
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

    #[test]
    fn a_line_is_contended_once_a_cpu_uses_what_another_wrote() {
        let lines = Contended::new();
        assert!(!lines.note(7, 0, false) && !lines.note(7, 1, false), "read by both");
        assert!(!lines.note(7, 0, true) && !lines.note(7, 0, false), "one alone");
        assert!(lines.note(7, 1, false) && lines.note(7, 0, false), "from then on");
        assert!(!lines.note(8, 1, true), "the next line is not");
    }
}
