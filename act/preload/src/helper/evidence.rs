//! Evidence from touches that come one after the other, as Wald's sequential test (1945) weighs it: each adds the
//! logarithm of how much likelier it is under one explanation than under the other, and what reaches a bound is
//! decided with the fewest touches that there can be. It is held within the bounds, so that a change is seen soon.

/// A tenth of a unit each (e to its power is how much likelier). One in 55 is decided wrongly.
const BOUND: i8 = 40;

/// By what node something was touched, as seen from another touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Same,
    Other,
}

/// What has been seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence(i8);

/// What a touch by the same node and one by another weigh.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weights {
    same: i8,
    other: i8,
}

impl Weights {
    /// Of chance, where each node is as likely as any, against so small a share of others.
    pub(super) fn new(nr_nodes: u32, others_share: f32) -> Self {
        let by_chance = 1.0 - 1.0 / nr_nodes.max(2) as f32;
        let weight = |chance: f32, own: f32| (10.0 * (chance / own).ln()).round() as i8;
        Self {
            same: weight(1.0 - by_chance, 1.0 - others_share),
            other: weight(by_chance, others_share),
        }
    }
}

impl Evidence {
    pub(super) fn add(&mut self, by: By, weights: Weights) {
        let weight = match by {
            By::Same => weights.same,
            By::Other => weights.other,
        };
        self.0 = self.0.saturating_add(weight).clamp(-BOUND, BOUND);
    }

    /// Whether there is more for others than against.
    pub(super) fn leans_to_other(self) -> bool {
        self.0 > 0
    }

    /// Whose touches they are, once that is decided.
    pub(super) fn says(self) -> Option<By> {
        match self.0 {
            BOUND => Some(By::Other),
            value if value == -BOUND => Some(By::Same),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many touches it is decided, if others' come as in `others`, again and again.
    fn decided(nr_nodes: u32, share: f32, others: &[bool]) -> (usize, Option<By>) {
        let mut evidence = Evidence::default();
        let touches = others.iter().cycle().take(1000);
        let by = |other| if other { By::Other } else { By::Same };
        let nr_touches = touches
            .take_while(|other| {
                evidence.add(by(**other), Weights::new(nr_nodes, share));
                evidence.says().is_none()
            })
            .count();
        (nr_touches + 1, evidence.says())
    }

    #[test]
    fn chance_and_order_are_told_apart_after_a_few_touches() {
        assert_eq!(decided(4, 0.25, &[true]), (4, Some(By::Other)));
        assert_eq!(decided(4, 0.25, &[false]), (4, Some(By::Same)));
        assert_eq!(decided(4, 0.25, &[true, true, false, true]), (6, Some(By::Other)));
        assert_eq!(decided(2, 0.25, &[true, true, true, false]), (9, Some(By::Other)));
        assert_eq!(decided(2, 0.25, &[true, false, false, false]).1, Some(By::Same));
        assert_eq!(decided(1024, 0.125, &[false]).0, 1);
    }

    #[test]
    fn what_has_changed_is_seen_soon_however_long_it_was_otherwise() {
        let (mut evidence, weights) = (Evidence::default(), Weights::new(4, 0.25));
        (0..1000).for_each(|_| evidence.add(By::Same, weights));
        (0..8).for_each(|_| evidence.add(By::Other, weights));
        assert_eq!(evidence.says(), Some(By::Other));
    }
}
