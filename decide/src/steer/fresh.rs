//! Whether U of the decision tree is fresh enough to steer by. Somebody else renews it, as often as he likes, and may end at any
//! time: then it stays as it was, and says nothing of now.

/// What was renewed longer ago is old, in seconds. The tree smooths U over some periods of whoever renews it, so this also says how
/// late the loop may have it: hardly later than what it looks at and smooths by itself.
const AGE_S_MAX: f64 = 0.6;

/// It has to be renewed in time for so long before it is used, in seconds: so one that is renewed too seldom never is.
const IN_TIME_S_MIN: f64 = 2.0;

/// Of one tree.
#[derive(Clone, Debug, Default)]
pub struct Freshness {
    in_time_s: f64,
}

impl Freshness {
    /// Whether U may be used, `seconds` after the last time that this was asked; `age_s`: how long ago it was renewed, `None`:
    /// never.
    #[must_use]
    pub fn look(&mut self, seconds: f64, age_s: Option<f64>) -> bool {
        let is_in_time = age_s.is_some_and(|age_s| age_s <= AGE_S_MAX);
        self.in_time_s = if is_in_time { self.in_time_s + seconds } else { 0.0 };
        self.in_time_s >= IN_TIME_S_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks ten times a second at what is renewed every `period_s`, until `ends_s`; gives when it may be used.
    fn used(period_s: f64, ends_s: f64, looks: u32) -> Vec<bool> {
        let mut freshness = Freshness::default();
        let age_s = |now_s: f64| {
            let renewed_s = (now_s.min(ends_s) / period_s).floor() * period_s;
            now_s - renewed_s
        };
        (1..=looks).map(|look| freshness.look(0.1, Some(age_s(f64::from(look) / 10.0)))).collect()
    }

    #[test]
    fn what_is_renewed_in_time_is_used_until_nobody_renews_it() {
        let used = used(0.25, 10.0, 200);
        assert!(!used[..15].contains(&true), "at first nobody knows how often it is renewed");
        assert!(!used[30..100].contains(&false));
        assert!(!used[110..].contains(&true), "it stays as it was");
    }

    #[test]
    fn what_is_renewed_too_seldom_or_never_is_not_used_even_when_it_is_new() {
        for period_s in [1.0, 2.0, 60.0] {
            assert!(!used(period_s, 1000.0, 1000).contains(&true), "{period_s} s");
        }
        let mut freshness = Freshness::default();
        assert!((0..100).all(|_| !freshness.look(0.1, None)));
    }
}
