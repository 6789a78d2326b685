//! Whether a copy may get connections at all: one that is stopped, stalled or gone gets none, and one
//! that comes back gets few at first.

use super::{CopySeen, State};

/// So long connections may wait while the copy accepts none, in seconds.
const STALLED_S: f64 = 1.0;

/// A copy that stalled is tried again after this time, and after twice as long each time, in seconds.
const TRIED_S_MIN: f64 = 1.0;
const TRIED_S_MAX: f64 = 32.0;

/// What a copy on trial gets.
const TRIAL: f64 = 1.0 / 64.0;

/// What a copy that is back begins with, and how long it takes to get all, in seconds.
const RAMP_MIN: f64 = 1.0 / 16.0;
const RAMP_S: f64 = 2.0;

/// Why a copy gets no connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has ended, or does not listen yet.
    Gone,
    /// Its processes are stopped.
    Stopped,
    /// It does not accept what waits.
    Stalled,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Gets this part of what it would get.
    Serves(f64),
    /// Stalled, and out for so many seconds more.
    Waits(f64),
    /// Stalled, and gets a few.
    Trial,
    /// Ended or stopped.
    Out(Why),
}

/// One copy's.
#[derive(Clone, Debug)]
pub struct Health {
    phase: Phase,
    /// For how long nothing was accepted of what waits.
    stuck_s: f64,
    waiting: u32,
    next_trial_s: f64,
}

impl Health {
    pub fn new() -> Self {
        let phase = Phase::Serves(1.0);
        Self { phase, stuck_s: 0.0, waiting: 0, next_trial_s: TRIED_S_MIN }
    }

    /// Takes in what was seen.
    pub fn look(&mut self, seconds: f64, seen: &CopySeen) {
        let accepted = self.accepted(seen);
        self.stuck_s = if accepted == Some(false) { self.stuck_s + seconds } else { 0.0 };
        self.waiting = seen.waiting.unwrap_or(0);
        let is_stuck = self.stuck_s >= STALLED_S;
        self.phase = match (seen.state, self.phase) {
            (State::Gone, _) => Phase::Out(Why::Gone),
            (State::Stopped, _) => Phase::Out(Why::Stopped),
            (State::Listens, Phase::Out(_)) => Phase::Serves(RAMP_MIN),
            (State::Listens, Phase::Serves(_) | Phase::Trial) if is_stuck => self.stall(),
            (State::Listens, Phase::Serves(ramp)) => {
                if ramp >= 1.0 {
                    self.next_trial_s = TRIED_S_MIN;
                }
                Phase::Serves((ramp + seconds / RAMP_S).min(1.0))
            }
            (State::Listens, Phase::Waits(left_s)) if left_s > seconds => {
                Phase::Waits(left_s - seconds)
            }
            (State::Listens, Phase::Waits(_)) => Phase::Trial,
            (State::Listens, Phase::Trial) => {
                let has_served = accepted == Some(true);
                if has_served { Phase::Serves(RAMP_MIN) } else { Phase::Trial }
            }
        };
    }

    fn stall(&mut self) -> Phase {
        self.stuck_s = 0.0;
        let wait_s = self.next_trial_s;
        self.next_trial_s = (2.0 * wait_s).min(TRIED_S_MAX);
        Phase::Waits(wait_s)
    }

    /// Whether it accepted something; `None`: there was nothing to accept.
    fn accepted(&self, seen: &CopySeen) -> Option<bool> {
        let waiting = seen.waiting?;
        let before = i64::from(self.waiting);
        if i64::from(waiting) < before {
            return Some(true);
        }
        let arrived = seen.arrived.map(|arrived| arrived as i64);
        let taken = arrived.map(|arrived| before + arrived - i64::from(waiting));
        if waiting == 0 {
            return taken.filter(|taken| *taken > 0).map(|_| true);
        }
        // A queue that is full keeps its length while arrivals are counted and turned away: who accepts
        // has worked, too.
        let has_worked = seen.worked_s.is_none_or(|worked| worked > 0.0);
        Some(has_worked && taken.is_none_or(|taken| taken > 0))
    }

    /// Whether it gets any.
    pub fn serves(&self) -> bool {
        matches!(self.phase, Phase::Serves(_) | Phase::Trial)
    }

    /// The part that it gets of what it would.
    pub fn ramp(&self) -> f64 {
        match self.phase {
            Phase::Serves(ramp) => ramp,
            Phase::Trial => TRIAL,
            Phase::Waits(_) | Phase::Out(_) => 0.0,
        }
    }

    pub fn why_out(&self) -> Option<Why> {
        match self.phase {
            Phase::Out(why) => Some(why),
            Phase::Waits(_) => Some(Why::Stalled),
            Phase::Serves(_) | Phase::Trial => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: State, waiting: u32, arrived: Option<u64>, worked_s: f64) -> CopySeen {
        CopySeen {
            state,
            waiting: Some(waiting),
            open: None,
            arrived,
            worked_s: Some(worked_s),
            busy: None,
            usage: None,
            others: None,
        }
    }

    fn after(health: &mut Health, looks: usize, seen: &CopySeen) -> f64 {
        (0..looks).for_each(|_| health.look(0.1, seen));
        health.ramp()
    }

    #[test]
    fn a_stopped_copy_is_out_at_once_and_back_by_and_by() {
        let mut health = Health::new();
        let (stopped, back) =
            (seen(State::Stopped, 3, None, 0.0), seen(State::Listens, 0, None, 0.1));
        assert_eq!(after(&mut health, 1, &stopped), 0.0);
        assert_eq!(health.why_out(), Some(Why::Stopped));
        let few = after(&mut health, 1, &back);
        assert!(few > 0.0 && few < 0.1);
        assert_eq!(after(&mut health, 20, &back), 1.0);
    }

    #[test]
    fn a_stalled_copy_is_tried_again_ever_later_until_it_accepts() {
        let mut health = Health::new();
        let stuck = seen(State::Listens, 5, Some(0), 0.0);
        assert_eq!(after(&mut health, 9, &stuck), 1.0);
        assert_eq!(after(&mut health, 2, &stuck), 0.0);
        assert_eq!(health.why_out(), Some(Why::Stalled));
        // What waited has been moved; it is given a few after a second, which wait too.
        assert_eq!(after(&mut health, 11, &seen(State::Listens, 0, Some(0), 0.0)), TRIAL);
        assert_eq!(after(&mut health, 12, &seen(State::Listens, 1, Some(0), 0.0)), 0.0);
        assert_eq!(after(&mut health, 11, &seen(State::Listens, 0, Some(0), 0.0)), 0.0);
        assert_eq!(after(&mut health, 11, &seen(State::Listens, 0, Some(0), 0.0)), TRIAL);
        assert!(after(&mut health, 1, &seen(State::Listens, 0, Some(2), 0.1)) > TRIAL);
        assert_eq!(after(&mut health, 20, &seen(State::Listens, 0, Some(2), 0.1)), 1.0);
    }

    #[test]
    fn a_busy_copy_with_a_long_queue_is_not_stalled() {
        let mut health = Health::new();
        assert_eq!(after(&mut health, 100, &seen(State::Listens, 50, Some(7), 0.1)), 1.0);
        // Nor where nobody counts arrivals.
        assert_eq!(after(&mut health, 100, &seen(State::Listens, 50, None, 0.1)), 1.0);
        // One that is full and stands still is, whatever is turned away.
        assert_eq!(after(&mut health, 12, &seen(State::Listens, 50, Some(7), 0.0)), 0.0);
    }
}
