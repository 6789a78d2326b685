//! Repeated runs: the middle, the least and the greatest, and what may be concluded from two of them.

use serde::{Deserialize, Serialize};

/// A difference below this many percent is none that anybody should act on, however small the spread.
pub const MARGIN_PERCENT: f64 = 3.0;

/// A number over repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The median.
    pub middle: f64,
    /// Of the run that had least.
    pub least: f64,
    /// Of the run that had most.
    pub greatest: f64,
}

/// How a number of one policy lies to that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Every run has less than every run of the other.
    Less,
    /// The runs overlap, or differ by less than [`MARGIN_PERCENT`].
    Same,
    /// Every run has more than every run of the other.
    More,
}

impl Spread {
    /// Of these runs; absent if there are none, or one has no number.
    pub(crate) fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut values = values.into_iter().collect::<Option<Vec<_>>>()?;
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let middle = if values.len() % 2 == 1 {
            values[half]
        } else {
            f64::midpoint(values[half - 1], values[half])
        };
        Some(Self { middle, least, greatest })
    }

    /// With an error of so many percent to both sides.
    #[must_use]
    pub(crate) fn widened(&self, percent: f64) -> Self {
        let part = percent / 100.0;
        let (least, greatest) = (self.least * (1.0 - part), self.greatest * (1.0 + part));
        Self { middle: self.middle, least: least.max(0.0), greatest }
    }

    /// This divided by another: the middles, and the least and greatest that any two runs give. Absent
    /// if the other may be 0.
    #[must_use]
    pub fn ratio(&self, base: &Self) -> Option<Self> {
        (base.least > 0.0).then(|| Self {
            middle: self.middle / base.middle,
            least: self.least / base.greatest,
            greatest: self.greatest / base.least,
        })
    }

    /// How this lies to another.
    #[must_use]
    pub fn relation(&self, base: &Self) -> Relation {
        let margin = MARGIN_PERCENT / 100.0;
        if self.greatest < base.least * (1.0 - margin) {
            Relation::Less
        } else if self.least > base.greatest * (1.0 + margin) {
            Relation::More
        } else {
            Relation::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied().map(Some)).unwrap()
    }

    #[test]
    fn the_middle_is_the_median() {
        let three = spread(&[5.0, 1.0, 2.0]);
        assert_eq!(three, Spread { middle: 2.0, least: 1.0, greatest: 5.0 });
        assert_eq!(spread(&[1.0, 2.0]).middle, 1.5);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([Some(1.0), None]), None);
    }

    #[test]
    fn nothing_is_concluded_from_runs_that_overlap_or_nearly_do() {
        let base = spread(&[100.0, 110.0]);
        assert_eq!(spread(&[50.0, 90.0]).relation(&base), Relation::Less);
        assert_eq!(spread(&[50.0, 98.0]).relation(&base), Relation::Same);
        assert_eq!(spread(&[50.0, 200.0]).relation(&base), Relation::Same);
        assert_eq!(spread(&[112.0, 113.0]).relation(&base), Relation::Same);
        assert_eq!(spread(&[114.0, 120.0]).relation(&base), Relation::More);
        assert_eq!(spread(&[0.0]).relation(&spread(&[0.0])), Relation::Same);
        let sampled = spread(&[90.0]).widened(10.0);
        assert_eq!((sampled.least, sampled.greatest.round()), (81.0, 99.0));
        assert_eq!(sampled.relation(&base), Relation::Same);
    }

    #[test]
    fn a_ratio_spans_what_any_two_runs_give() {
        let ratio = spread(&[10.0, 20.0]).ratio(&spread(&[40.0, 80.0])).unwrap();
        assert_eq!((ratio.least, ratio.middle, ratio.greatest), (0.125, 0.25, 0.5));
        assert_eq!(spread(&[1.0]).ratio(&spread(&[0.0, 1.0])), None);
    }
}
