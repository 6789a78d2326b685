//! What was looked at in vain is not looked at all the time.

use quartier_model::Nanos;
use serde::{Deserialize, Serialize};

/// How long it is left after the first time, and at most.
const FIRST: Nanos = Nanos(1_000_000_000);
const MOST: Nanos = Nanos(30_000_000_000);

/// When to look again at what nothing could be done about before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calm {
    until: Nanos,
    /// It lasts twice as long each time.
    lasts: Nanos,
}

impl Calm {
    /// Whether it is too early.
    pub fn holds(self, at: Nanos) -> bool {
        at < self.until
    }

    /// It was looked at, with something to do or in vain. What has been calm for long begins anew.
    pub fn looked(&mut self, at: Nanos, is_vain: bool) {
        let is_long_ago = at >= self.until + MOST + MOST;
        self.lasts = match (is_vain, self.lasts) {
            (false, _) => Nanos(0),
            (true, lasts) if lasts == Nanos(0) || is_long_ago => FIRST,
            (true, lasts) => (lasts + lasts).min(MOST),
        };
        self.until = at + self.lasts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_longer_each_time_and_ends() {
        let seconds = |seconds: u64| Nanos(seconds * 1_000_000_000);
        let mut calm = Calm::default();
        assert!(!calm.holds(seconds(0)));
        let mut at = seconds(5);
        for lasts in [1, 2, 4, 8, 16, 30, 30] {
            calm.looked(at, true);
            assert!(calm.holds(at) && !calm.holds(at + seconds(lasts)), "{lasts}");
            assert!(calm.holds(at + seconds(lasts - 1)), "{lasts}");
            at = at + seconds(lasts);
        }
        at = at + seconds(60);
        calm.looked(at, true);
        assert!(!calm.holds(at + seconds(1)), "it was calm for a minute");
        calm.looked(at, true);
        calm.looked(at, false);
        assert!(!calm.holds(at), "something was done");
    }
}
