//! When to mark again. A program that keeps its threads (a pool) gets its data after its second thread
//! has begun, and who uses what may change later; so what it has is marked again and again, each time
//! after twice as long, and soon again once it has new data.
//!
//! A round is worth its touches only if another thread than the last could touch what is marked: it
//! waits until several threads run. What the helper may use is a share of the time, and to look whether a round is due is
//! part of that: what is not due is looked at ever less often, and at the last only whether there is time left for it.

/// Rounds, with all the touches that they cause and that move nothing, may cost this share of the program's CPU time,
const SHARE_PERCENT: u64 = 5;
/// counted for so many CPUs at most: touches are served one after the other.
const CPUS_MAX: u64 = 16;

/// New data: so many pages more than there have ever been (1 MiB), and a sixteenth of them.
const FRESH_PAGES: u64 = 256;
const FRESH_SHARE: u64 = 16;

/// While data comes, so many looks are taken in the time of the first wait: the sooner it is seen that no more comes, the
/// less is used from afar before the round.
const LOOKS_AT_GROWTH: u64 = 4;

/// What waits for several threads to run, or for the program to have all its data, does not wait
/// longer than this many times as long as it was to wait anyway.
const PATIENCE: u64 = 8;

/// What the helper sees when a round may be due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Monotonic.
    pub now_nanos: u64,
    /// CPU time of all threads of the program so far.
    pub program_cpu_nanos: u64,
    /// CPU time of the helper so far, less what it took to move pages: moves pay for themselves, and are
    /// few (see `history`).
    pub helper_cpu_nanos: u64,
}

/// The account of the rounds of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Until the first round after the program became parallel, or has new data.
    first_nanos: u64,
    /// Between two rounds at most; 0: none.
    longest_nanos: u64,
    wait_nanos: u64,
    waits_since_nanos: u64,
    /// Until the next look.
    ask_nanos: u64,
    /// At the last round.
    last: Seen,
    /// When a round may have been due the last time.
    looked: Seen,
    /// The most pages that there have been, as of the last time that some were new.
    most_pages: u64,
    /// At the last look, and whether there were more than at the one before.
    pages: u64,
    grows: bool,
    /// The program did nothing when a round was due.
    is_idle: bool,
}

impl Rounds {
    pub(super) fn new(first_ms: u32, longest_ms: u32) -> Self {
        let mut rounds = Self {
            first_nanos: u64::from(first_ms.min(longest_ms)) * 1_000_000,
            longest_nanos: u64::from(longest_ms) * 1_000_000,
            wait_nanos: 0,
            waits_since_nanos: 0,
            ask_nanos: 0,
            last: Seen::default(),
            looked: Seen::default(),
            most_pages: 0,
            pages: 0,
            grows: false,
            is_idle: false,
        };
        rounds.begin(Seen::default(), 0);
        rounds
    }

    /// Whether there are rounds at all.
    pub(super) fn are_wanted(&self) -> bool {
        self.longest_nanos > 0
    }

    /// All that the program has was marked just now.
    pub(super) fn begin(&mut self, seen: Seen, resident_pages: u64) {
        (self.last, self.looked) = (seen, seen);
        (self.pages, self.most_pages) = (resident_pages, resident_pages);
        self.wait(seen.now_nanos, self.first_nanos);
    }

    fn wait(&mut self, now_nanos: u64, wait_nanos: u64) {
        (self.waits_since_nanos, self.wait_nanos, self.ask_nanos) =
            (now_nanos, wait_nanos, wait_nanos);
    }

    /// How soon it should be asked again whether a round may be due; `None`: there is no hurry.
    pub(super) fn ask_within_nanos(&self) -> Option<u64> {
        (self.are_wanted() && !self.is_idle).then_some(self.ask_nanos)
    }

    /// Whether a round may be due, as far as the time and the program's resident pages tell: to be
    /// asked now and then.
    pub(super) fn may_be_due(&mut self, now_nanos: u64, resident_pages: u64) -> bool {
        if !self.are_wanted() {
            return false;
        }
        self.grows = resident_pages.saturating_sub(self.pages) >= FRESH_PAGES;
        self.pages = resident_pages;
        self.note_new_data(now_nanos);
        now_nanos.saturating_sub(self.waits_since_nanos) >= self.wait_nanos
    }

    /// Whether there is time for it, where it may be due. The next look comes later than this one did, but while data
    /// keeps coming: it is soon to be used by several then.
    pub(super) fn is_affordable(&mut self, seen: Seen) -> bool {
        self.ask_nanos = match self.grows {
            true => self.first_nanos / LOOKS_AT_GROWTH,
            false => (2 * self.ask_nanos).min(self.longest_nanos),
        };
        self.may_work(seen)
    }

    /// Whether to mark now, where it may be due and is affordable.
    pub(super) fn is_due(&mut self, seen: Seen) -> bool {
        let before = std::mem::replace(&mut self.looked, seen);
        let waited = seen.now_nanos.saturating_sub(self.waits_since_nanos);
        let elapsed = seen.now_nanos.saturating_sub(before.now_nanos);
        let ran = seen.program_cpu_nanos.saturating_sub(before.program_cpu_nanos);
        let several_run = ran > elapsed + elapsed / 5;
        self.is_idle = ran < elapsed / 20;
        let impatient = waited >= PATIENCE.saturating_mul(self.wait_nanos);
        if self.is_idle || !impatient && (self.grows || !several_run) {
            return false;
        }
        self.last = seen;
        self.wait(seen.now_nanos, (2 * self.wait_nanos).min(self.longest_nanos));
        true
    }

    /// Where the program has more than ever, the next round comes soon.
    fn note_new_data(&mut self, now_nanos: u64) {
        let more = self.pages.saturating_sub(self.most_pages);
        if more < FRESH_PAGES.max(self.most_pages / FRESH_SHARE) {
            return;
        }
        self.most_pages = self.pages;
        // Not again for data that keeps coming.
        if self.wait_nanos > self.first_nanos {
            self.wait(now_nanos, self.first_nanos);
        }
    }

    fn may_work(&self, seen: Seen) -> bool {
        let elapsed = seen.now_nanos.saturating_sub(self.last.now_nanos);
        let worked = seen.helper_cpu_nanos.saturating_sub(self.last.helper_cpu_nanos);
        let ran = seen.program_cpu_nanos.saturating_sub(self.last.program_cpu_nanos);
        let counted = ran.min(elapsed.saturating_mul(CPUS_MAX));
        worked.saturating_mul(100) <= counted.saturating_mul(SHARE_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A program as it is over time, looked at every 10 ms.
    struct Program {
        rounds: Rounds,
        seen: Seen,
        pages: u64,
    }

    impl Program {
        fn new(longest_ms: u32) -> Self {
            let mut rounds = Rounds::new(100, longest_ms);
            let seen = Seen { now_nanos: 5 * MS, ..Seen::default() };
            rounds.begin(seen, 1000);
            Self { rounds, seen, pages: 1000 }
        }

        /// Runs `threads` threads for some time; gives when rounds came, in ms of that time.
        fn run(&mut self, threads: f64, ms: u64, pages_per_look: u64) -> Vec<u64> {
            let mut due = Vec::new();
            for at in (10..=ms).step_by(10) {
                self.seen.now_nanos += 10 * MS;
                self.seen.program_cpu_nanos += (10.0 * threads) as u64 * MS;
                self.pages += pages_per_look;
                if self.rounds.may_be_due(self.seen.now_nanos, self.pages)
                    && self.rounds.is_affordable(self.seen)
                    && self.rounds.is_due(self.seen)
                {
                    due.push(at);
                }
            }
            due
        }
    }

    #[test]
    fn each_wait_is_twice_the_last_up_to_the_longest() {
        let mut program = Program::new(500);
        assert_eq!(program.run(4.0, 2500, 0), [100, 300, 700, 1200, 1700, 2200]);
        assert_eq!(Program::new(0).run(4.0, 5000, 0), []);
        assert_eq!(Program::new(40).run(4.0, 100, 0), [40, 80]);
    }

    #[test]
    fn nothing_is_marked_for_one_thread_or_none_until_others_run() {
        let mut program = Program::new(60_000);
        assert_eq!(program.run(1.0, 700, 0), []);
        assert_eq!(program.run(3.0, 200, 0), [10]);
        let mut idle = Program::new(60_000);
        assert_eq!(idle.run(0.0, 10_000, 0), []);
        // Threads that share one CPU look like one: they are not left out for ever.
        assert_eq!(Program::new(60_000).run(1.0, 1000, 0), [800]);
    }

    #[test]
    fn nobody_asks_often_for_the_sake_of_a_program_that_does_nothing() {
        let mut program = Program::new(60_000);
        assert_eq!(program.rounds.ask_within_nanos(), Some(100 * MS));
        program.run(0.0, 200, 0);
        assert_eq!(program.rounds.ask_within_nanos(), None);
        program.run(4.0, 200, 0);
        assert_eq!(program.rounds.ask_within_nanos(), Some(200 * MS));
        assert_eq!(Program::new(0).rounds.ask_within_nanos(), None);
    }

    #[test]
    fn what_is_not_due_is_looked_at_ever_less_often() {
        let mut program = Program::new(60_000);
        let asks = [100, 110, 120].map(|ms| {
            // One thread alone: nothing is due.
            program.run(1.0, if ms == 100 { 100 } else { 10 }, 0);
            program.rounds.ask_within_nanos().unwrap() / MS
        });
        assert_eq!(asks, [200, 400, 800]);
        assert_eq!(program.run(4.0, 10, 0), [10]);
        assert_eq!(program.rounds.ask_within_nanos(), Some(200 * MS));
    }

    #[test]
    fn while_data_comes_it_is_looked_at_often() {
        let mut program = Program::new(60_000);
        program.run(1.0, 300, 0);
        assert!(program.rounds.ask_within_nanos() > Some(1000 * MS));
        // One thread fills it.
        program.run(1.0, 10, 500);
        assert_eq!(program.rounds.ask_within_nanos(), Some(25 * MS));
        program.run(1.0, 10, 0);
        assert_eq!(program.rounds.ask_within_nanos(), Some(50 * MS));
    }

    #[test]
    fn new_data_is_marked_once_there_is_no_more_of_it() {
        let mut program = Program::new(60_000);
        assert_eq!(program.run(4.0, 6000, 0), [100, 300, 700, 1500, 3100]);
        assert_eq!(program.run(4.0, 300, 500), []);
        assert_eq!(program.run(4.0, 350, 0), [10, 210], "{:?}", program.rounds);
        // One that never ends is not waited for.
        assert!(!program.run(4.0, 2000, 5000).is_empty());
    }

    #[test]
    fn data_that_comes_and_goes_is_new_once() {
        let mut program = Program::new(60_000);
        program.run(4.0, 10_000, 0);
        for _ in 0..20 {
            program.pages += 50_000;
            program.run(4.0, 50, 0);
            program.pages -= 50_000;
            program.run(4.0, 50, 0);
        }
        // 2 s later: no more than the waits that began with the first of it.
        assert!(program.rounds.wait_nanos > 1000 * MS, "{:?}", program.rounds);
    }

    #[test]
    fn a_helper_with_much_to_do_marks_less() {
        let mut program = Program::new(200);
        let mut due = Vec::new();
        for at in 1..2000 {
            // Every round costs 100 ms of the helper's time: 5 % of 250 ms on eight CPUs.
            let round = !program.run(8.0, 10, 0).is_empty();
            program.seen.helper_cpu_nanos += if round { 100 * MS } else { 0 };
            due.extend(round.then_some(at));
        }
        let waits: Vec<_> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits.iter().all(|looks| *looks == 25), "{waits:?}");
        assert!(waits.len() > 70, "{waits:?}");
    }
}
