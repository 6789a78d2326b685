//! The model's translations, compared with the emulator's own.

use std::sync::atomic::{AtomicU64, Ordering};

use quartier_count::Translations;

/// Of a CPU's accesses, one in so many is compared.
const ACCESSES_PER_CHECK: u32 = 8;

/// The half of all addresses that programs have.
const PROGRAMS_END: u64 = 1 << 47;

/// What was found, by all CPUs.
#[derive(Debug, Default)]
pub struct Found {
    compared: AtomicU64,
    different: AtomicU64,
}

impl Found {
    /// A translation was compared.
    pub fn note(&self, is_different: bool) {
        self.compared.fetch_add(1, Ordering::Relaxed);
        self.different.fetch_add(u64::from(is_different), Ordering::Relaxed);
    }

    /// All of it.
    pub fn translations(&self) -> Translations {
        let [compared, different] =
            [&self.compared, &self.different].map(|nr| nr.load(Ordering::Relaxed));
        Translations { compared, different }
    }
}

/// Which of a CPU's accesses are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns(u32);

impl Turns {
    /// Whether an access is one of them.
    pub fn is_next(&mut self, vaddr: u64) -> bool {
        self.0 = (self.0 + 1) % ACCESSES_PER_CHECK;
        self.0 == 0 && vaddr < PROGRAMS_END
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_access_of_a_program_in_eight_is_compared() {
        let mut turns = Turns::default();
        assert_eq!((0..80).filter(|at| turns.is_next(*at)).count(), 10);
        assert_eq!((0..80).filter(|at| turns.is_next(PROGRAMS_END + at)).count(), 0);
    }

    #[test]
    fn what_is_different_is_counted() {
        let found = Found::default();
        [true, false, false].into_iter().for_each(|is_different| found.note(is_different));
        assert_eq!(found.translations(), Translations { compared: 3, different: 1 });
    }
}
