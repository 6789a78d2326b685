//! How time passes in a guest.

/// Who has work tells of it more often than this: CPUs take turns on those of this machine.
const SILENT_NS: u64 = 1_000_000_000;

/// While what is counted runs, time is what that would take on the machine that is modelled; else it is this machine's, some times slower.
#[derive(Debug)]
pub struct Passing {
    /// When it was last looked at, by this machine's clock.
    seen_ns: u64,
    /// Until then there is work,
    works_until_ns: u64,
    /// of so much modelled time so far.
    worked_ns: u64,
    /// This machine's time without.
    waited_ns: u64,
}

impl Passing {
    pub const fn new() -> Self {
        Self { seen_ns: 0, works_until_ns: 0, worked_ns: 0, waited_ns: 0 }
    }

    /// It is `now_ns` by this machine's clock.
    pub fn look(&mut self, now_ns: u64) {
        let waits_from_ns = self.seen_ns.max(self.works_until_ns);
        self.waited_ns += now_ns.saturating_sub(waits_from_ns);
        self.seen_ns = self.seen_ns.max(now_ns);
    }

    /// So much modelled time of work has passed in all, at `now_ns`, and whether there is more. What comes late from one CPU another has
    /// told already.
    pub fn works(&mut self, now_ns: u64, worked_ns: u64, is_working: bool) {
        self.look(now_ns);
        self.worked_ns = self.worked_ns.max(worked_ns);
        self.works_until_ns = if is_working { now_ns + SILENT_NS } else { now_ns };
    }

    /// Whether work goes on, as of the last look.
    pub fn is_working(&self) -> bool {
        self.seen_ns < self.works_until_ns
    }

    /// What time it is in the guest, where it is `times` slower without work.
    pub fn guest_ns(&self, times: u64) -> u64 {
        self.waited_ns / times + self.worked_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_work_time_passes_so_many_times_slower() {
        let mut passing = Passing::new();
        passing.look(40_000_500);
        assert_eq!((passing.guest_ns(20), passing.guest_ns(1)), (2_000_025, 40_000_500));
        assert!(!passing.is_working());
        // Looks of two threads cross.
        passing.look(40_000_400);
        assert_eq!(passing.guest_ns(1), 40_000_500);
    }

    #[test]
    fn with_work_it_passes_as_that_does() {
        let mut passing = Passing::new();
        passing.works(1_000_000_000, 3, true);
        assert_eq!(passing.guest_ns(50), 20_000_003);
        for step in 1..=1_000 {
            passing.works(1_000_000_000 + step * 1_000_000, 3 + step, true);
            assert!(passing.is_working());
        }
        // A second has passed here, and a microsecond there.
        assert_eq!(passing.guest_ns(50), 20_001_003);
        passing.works(2_000_000_000, 700, true);
        assert_eq!(passing.guest_ns(50), 20_001_003, "what was told before");
        passing.look(4_000_000_000);
        assert!(!passing.is_working());
        assert_eq!(passing.guest_ns(50), 40_001_003, "it was told of work for a second more");
        // However seldom somebody looks, what was waited is waited.
        passing.works(5_000_000_000, 2_000, true);
        assert_eq!(passing.guest_ns(50), 60_002_000);
        passing.works(5_500_000_000, 2_000, false);
        assert!(!passing.is_working());
        passing.look(6_500_000_000);
        assert_eq!(passing.guest_ns(50), 80_002_000, "nobody has work");
    }

    #[test]
    fn time_never_goes_back() {
        let (mut passing, mut last) = (Passing::new(), 0);
        for step in 0..10_000_u64 {
            let now_ns = step * 977_000 % 1_300_000 + step * 600_000;
            if step % 3 == 0 {
                passing.works(now_ns, step * 40, step % 2 == 0)
            } else {
                passing.look(now_ns)
            }
            assert!(passing.guest_ns(50) >= last);
            last = passing.guest_ns(50);
        }
    }
}
