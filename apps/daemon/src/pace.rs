//! How many pages move in a turn, and by how many threads, so that it comes to the rate that is set.

use std::time::Duration;

use quartier_act::scheduler::Pace;
use quartier_model::Nanos;

use crate::config::Config;

/// While pages move the program's turn comes this often.
pub const SLICE: Duration = Duration::from_millis(20);
/// Where a turn takes longer, and looks come in between, the next one is of as many pages as the rate allows since, up to
/// those of this time for each thread: for each the kernel has every CPU give up what it holds back, one after the other.
const SLICE_MAX: Duration = Duration::from_millis(125);

/// Turn after turn of a move.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// When the last turn began.
    turn: Option<Nanos>,
    threads: usize,
}

impl Pacer {
    /// Before the first turn.
    pub const fn new() -> Self {
        Self { turn: None, threads: 1 }
    }

    /// The next turn. One that comes too late for the rate gets more threads than the last.
    pub fn next(&mut self, at: Nanos, config: &Config) -> Pace {
        let since = self.turn.map_or(SLICE, |turn| Duration::from_nanos((at - turn).0));
        let threads = if since > SLICE_MAX { self.threads * 2 } else { self.threads / 2 };
        self.threads = threads.clamp(1, config.scheduler.threads_max);
        self.turn = Some(at);
        let longest = SLICE_MAX * u32::try_from(self.threads).unwrap_or(1);
        let pages_max = config.pages_in(since.clamp(SLICE, longest));
        Pace { pages_max, threads_max: self.threads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_threads_as_the_rate_takes_and_pages_as_it_allows() {
        let config = Config::default();
        let mut pacer = Pacer::new();
        let mut at = 0;
        let mut next = |ms: u64| {
            at += ms * 1_000_000;
            let Pace { pages_max, threads_max } = pacer.next(Nanos(at), &config);
            (pages_max, threads_max)
        };
        let pages = |ms| config.pages_in(Duration::from_millis(ms));
        assert_eq!(next(0), (pages(20), 1), "the first turn");
        assert_eq!(next(25), (pages(25), 1));
        assert_eq!(next(1), (pages(20), 1));
        for threads in [2, 4, 4] {
            assert_eq!(next(900), (pages(125 * threads as u64), threads), "late");
        }
        assert_eq!([next(30), next(30), next(30)].map(|(_, threads)| threads), [2, 1, 1]);
    }
}
