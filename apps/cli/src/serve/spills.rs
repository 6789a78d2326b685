//! Connections that were given to a copy of another node than the one that received them, by the reason that held when they came.

use std::collections::BTreeMap;

use quartier_decide::steer::{Decision, Verdict, Why};
use serde::{Deserialize, Serialize};

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// The node has no copy.
    NoCopy,
    /// Its copies have ended, or do not listen yet.
    Gone,
    /// They are stopped (SIGSTOP).
    Stopped,
    /// They accept nothing of what waits.
    Stalled,
    /// They come back, and get more by and by.
    ComesBack,
    /// They are more loaded than others.
    Load,
}

impl Because {
    /// In a word, as in the status.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoCopy => "no-copy",
            Self::Gone => "gone",
            Self::Stopped => "stopped",
            Self::Stalled => "stalled",
            Self::ComesBack => "comes-back",
            Self::Load => "load",
        }
    }

    /// Of a domain with these copies.
    fn of(copies: &[Verdict]) -> Self {
        let Some(first) = copies.first() else { return Self::NoCopy };
        if copies.iter().all(|copy| copy.out.is_some()) {
            return match first.out {
                Some(Why::Stopped) => Self::Stopped,
                Some(Why::Stalled) => Self::Stalled,
                Some(Why::Gone) | None => Self::Gone,
            };
        }
        if copies.iter().any(|copy| copy.out.is_none() && copy.ramp < 1.0) {
            return Self::ComesBack;
        }
        // One of several that is out leaves its part to the others of its node first.
        Self::Load
    }
}

/// What was counted so far.
#[derive(Debug, Default)]
pub struct Spills {
    /// Given by then: by domain and copy.
    before: Vec<Vec<u64>>,
    /// By domain.
    counted: Vec<BTreeMap<Because, u64>>,
}

impl Spills {
    /// Counts what was given since the last time, under what was decided then. `homes`: the domain of each copy.
    pub fn count(&mut self, given: &[Vec<u64>], homes: &[usize], decided: Option<&Decision>) {
        self.before.resize(given.len(), Vec::new());
        self.counted.resize(given.len(), BTreeMap::new());
        for (domain, now) in given.iter().enumerate() {
            let before = std::mem::replace(&mut self.before[domain], now.clone());
            let since = |(copy, now): (usize, &u64)| {
                let is_elsewhere = homes.get(copy).is_some_and(|home| *home != domain);
                let before = before.get(copy).copied().unwrap_or_default();
                if is_elsewhere { now.saturating_sub(before) } else { 0 }
            };
            let spilled: u64 = now.iter().enumerate().map(since).sum();
            if spilled > 0 {
                let because = because(domain, homes, decided);
                *self.counted[domain].entry(because).or_default() += spilled;
            }
        }
    }

    /// Of a domain.
    pub fn of(&self, domain: usize) -> BTreeMap<Because, u64> {
        self.counted.get(domain).cloned().unwrap_or_default()
    }
}

fn because(domain: usize, homes: &[usize], decided: Option<&Decision>) -> Because {
    let is_here = |(_, home): &(usize, &usize)| **home == domain;
    let here: Vec<usize> = homes.iter().enumerate().filter(is_here).map(|(copy, _)| copy).collect();
    match decided {
        Some(decided) => {
            let verdicts = here.iter().filter_map(|copy| decided.verdicts.get(*copy));
            Because::of(&verdicts.copied().collect::<Vec<_>>())
        }
        // Nothing has been decided as long as there is one copy alone.
        None if here.is_empty() => Because::NoCopy,
        None => Because::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(out: Option<Why>, ramp: f64) -> Verdict {
        Verdict { load: None, spilled: 0.0, ramp, out }
    }

    #[test]
    fn what_is_given_away_is_counted_under_what_held_when_it_came() {
        let homes = [0, 1];
        let decided = |of_first| {
            let verdicts = vec![of_first, verdict(None, 1.0)];
            Some(Decision { shares: Vec::new(), verdicts })
        };
        let mut spills = Spills::default();
        let mut count = |given: [[u64; 2]; 3], decided: Option<Decision>| {
            let given: Vec<_> = given.iter().map(|row| row.to_vec()).collect();
            spills.count(&given, &homes, decided.as_ref());
        };
        count([[5, 1], [0, 9], [0, 0]], None);
        count([[5, 3], [0, 9], [0, 0]], decided(verdict(Some(Why::Stopped), 0.0)));
        count([[9, 4], [0, 9], [0, 0]], decided(verdict(None, 0.5)));
        count([[9, 4], [0, 9], [2, 5]], decided(verdict(None, 1.0)));
        count([[19, 10], [0, 9], [2, 5]], decided(verdict(None, 1.0)));
        let expected = [
            (Because::Gone, 1),
            (Because::Stopped, 2),
            (Because::ComesBack, 1),
            (Because::Load, 6),
        ];
        assert_eq!(spills.of(0), BTreeMap::from(expected));
        assert!(spills.of(1).is_empty(), "all of it stayed");
        assert_eq!(spills.of(2), BTreeMap::from([(Because::NoCopy, 7)]));
    }

    #[test]
    fn of_several_copies_of_a_node_one_that_serves_is_enough() {
        let gone = verdict(Some(Why::Gone), 0.0);
        assert_eq!(Because::of(&[gone, verdict(Some(Why::Stalled), 0.0)]), Because::Gone);
        assert_eq!(Because::of(&[gone, verdict(None, 1.0)]), Because::Load);
        assert_eq!(Because::of(&[]), Because::NoCopy);
        for because in [Because::NoCopy, Because::ComesBack, Because::Load] {
            let word = serde_json::to_string(&because).unwrap();
            assert_eq!(word, format!("\"{}\"", because.word()));
        }
    }
}
