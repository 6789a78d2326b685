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
/// Nor of more than seem to move in this time: meanwhile nobody looks at tasks, and nothing is answered.
const TURN_MAX: Duration = Duration::from_secs(4);

/// Turn after turn of a move.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// When the last turn began.
    turn: Option<Nanos>,
    /// Of how many pages it was, and how long it took.
    last: Option<(u64, Nanos)>,
    threads: usize,
}

impl Pacer {
    /// Before the first turn.
    pub const fn new() -> Self {
        Self { turn: None, last: None, threads: 1 }
    }

    /// The next turn. One that comes too late for the rate gets more threads than the last.
    pub fn next(&mut self, at: Nanos, config: &Config) -> Pace {
        let since = self.turn.map_or(SLICE, |turn| Duration::from_nanos((at - turn).0));
        let threads = if since > SLICE_MAX { self.threads * 2 } else { self.threads / 2 };
        self.threads = threads.clamp(1, config.scheduler.threads_max);
        self.turn = Some(at);
        let longest = SLICE_MAX * u32::try_from(self.threads).unwrap_or(1);
        let possible = self.last.map_or(u64::MAX, |(pages, took)| {
            let pages = u128::from(pages) * TURN_MAX.as_nanos() / u128::from(took.0.max(1));
            u64::try_from(pages).unwrap_or(u64::MAX)
        });
        let pages_max = config.pages_in(since.clamp(SLICE, longest)).min(possible.max(1));
        self.last = Some((pages_max, Nanos(0)));
        Pace { pages_max, threads_max: self.threads }
    }

    /// The turn is over.
    pub fn ended(&mut self, at: Nanos) {
        if let (Some((_, took)), Some(turn)) = (&mut self.last, self.turn) {
            *took = at - turn;
        }
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

    #[test]
    fn no_turn_is_of_more_pages_than_seem_to_move_while_the_machine_can_do_without_the_daemon() {
        let config = Config::default();
        let mut pacer = Pacer::new();
        let first = pacer.next(Nanos(0), &config).pages_max;
        pacer.ended(Nanos(8_000_000_000));
        assert_eq!(pacer.next(Nanos(8_000_000_000), &config).pages_max, first / 2);
        pacer.ended(Nanos(8_000_000_001));
        let quick = pacer.next(Nanos(9_000_000_000), &config);
        assert_eq!(quick.pages_max, config.pages_in(SLICE_MAX * 4));
    }
}
