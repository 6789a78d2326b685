//! Which lines go from CPU to CPU, and who takes them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A line that was not taken for so long, modelled cycles as a power of two, up to twice that, is nobody's to wait for: turns are no longer.
/// In time, most of a program's lines have gone to another CPU once: with a process, or as memory that is used again.
const SHARED_SHIFT: u32 = 17;

/// Lines are told apart by so many bits of a hash; two that are not are both waited for.
const LINE_BITS: u32 = 16;

/// Bytes of a line, as a power of two: no machine that is modelled has longer ones.
const LINE_SHIFT: u32 = 6;

/// Of each line a [`Sharing`]; 0: nobody took it yet.
#[derive(Debug)]
pub struct Lines(Box<[AtomicU64]>);

/// Who took a line from others of late, and when that was last, in periods of that length.
#[derive(Clone, Copy, Debug)]
struct Sharing {
    period: u32,
    cpus: Mask,
}

impl Sharing {
    #[inline]
    fn of(word: u64) -> Self {
        Self { period: (word >> 32) as u32, cpus: Mask(word as u32) }
    }

    fn word(self) -> u64 {
        u64::from(self.period) << 32 | u64::from(self.cpus.0)
    }
}

/// Some CPUs; of more than it has bits for, several that are taken for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask(u32);

impl Mask {
    pub const ALL: Self = Self(u32::MAX);

    pub fn with(self, cpu: usize) -> Self {
        Self(self.0 | 1 << (cpu % 32))
    }

    #[inline]
    pub fn has(self, cpu: usize) -> bool {
        self.0 >> (cpu % 32) & 1 != 0
    }
}

impl Lines {
    /// Nobody took any.
    pub fn new() -> Self {
        Self((0..1 << LINE_BITS).map(|_| AtomicU64::new(0)).collect())
    }

    /// A CPU whose clock is there has taken this line from another.
    pub fn share(&self, address: u64, cpu: usize, at: u64) {
        let line = &self.0[place_of(address)];
        let now = period(at);
        let Sharing { period, cpus } = Sharing::of(line.load(Ordering::Relaxed));
        let so_far = if period.saturating_add(1) >= now { cpus } else { Mask::default() };
        let sharing = Sharing { period: now.max(period), cpus: so_far.with(cpu) };
        line.store(sharing.word(), Ordering::Relaxed);
    }

    /// Who takes it from each other, by a clock that is there.
    #[inline]
    pub fn sharing(&self, address: u64, at: u64) -> Option<Mask> {
        let word = self.0[place_of(address)].load(Ordering::Relaxed);
        let Sharing { period: last, cpus } = Sharing::of(word);
        (word != 0 && last.saturating_add(1) >= period(at)).then_some(cpus)
    }
}

/// Which one a clock is in, from one on.
#[inline]
fn period(at: u64) -> u32 {
    (at >> SHARED_SHIFT).saturating_add(1).try_into().unwrap_or(u32::MAX)
}

fn place_of(address: u64) -> usize {
    let line = address >> LINE_SHIFT;
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LINE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_as_a_whole_by_those_who_took_it() {
        let lines = Lines::new();
        assert_eq!(lines.sharing(0x1000, 0), None);
        lines.share(0x1008, 3, 0);
        assert_eq!((lines.sharing(0x1000, 0), lines.sharing(0x1040, 0)), (Some(Mask(8)), None));
        lines.share(0x103f, 33, 0);
        assert_eq!(lines.sharing(0x1000, 0), Some(Mask(8 | 2)));
    }

    #[test]
    fn a_line_that_nobody_takes_any_more_is_not_shared() {
        const PERIOD: u64 = 1 << SHARED_SHIFT;
        let lines = Lines::new();
        let at = |period: u64| period * PERIOD + 5;
        let sharing = || [7, 8, 9].map(|period| Some(lines.sharing(0x1000, at(period))?.0));
        lines.share(0x1000, 0, at(7));
        assert_eq!(sharing(), [Some(1), Some(1), None]);
        // Whoever took it just before is not forgotten, and time goes on for all.
        lines.share(0x1000, 1, at(8));
        lines.share(0x1000, 0, at(7));
        assert_eq!(sharing(), [Some(3); 3]);
        lines.share(0x1000, 2, at(11));
        assert_eq!(sharing(), [Some(4); 3]);
    }
}
