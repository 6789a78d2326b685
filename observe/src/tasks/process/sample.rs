//! Where a process's pages lie, as it was asked last.

use quartier_model::{Nanos, PerNode};

use super::super::LOOK_AROUND;
use super::super::pages::Mappings;

/// Where its pages lie.
#[derive(Debug, Default)]
pub struct Sample {
    pub mappings: Option<Mappings>,
    pub mapped: Nanos,
    pub taken: Option<Nanos>,
    pub found: Option<PerNode>,
    /// How often in a row it was found as before.
    pub alike: u32,
}

impl Sample {
    /// When it is asked next where they lie: where nothing changes, more and more seldom.
    pub fn next(&self) -> Nanos {
        const ALIKE_MAX: u32 = 2;
        let wait = Nanos(LOOK_AROUND.0 << self.alike.min(ALIKE_MAX));
        self.taken.map_or(Nanos(0), |taken| taken + wait)
    }

    pub fn put(&mut self, found: PerNode) {
        let is_alike = self.found.as_ref().is_some_and(|before| are_alike(before, &found));
        self.alike = if is_alike { self.alike + 1 } else { 0 };
        self.found = Some(found);
    }
}

/// Whether each node has as much of one as of the other, as far as some dozens of pages tell.
fn are_alike(one: &PerNode, other: &PerNode) -> bool {
    let (all, of_all) = (one.values().sum::<u64>().max(1), other.values().sum::<u64>().max(1));
    let has = |pages: &PerNode, node| pages.get(node).copied().unwrap_or(0);
    let differs = |node| (has(one, node) * of_all).abs_diff(has(other, node) * all);
    one.keys().chain(other.keys()).all(|node| 8 * differs(node) <= all * of_all)
}

#[cfg(test)]
mod tests {
    use quartier_model::NodeId;

    use super::*;

    #[test]
    fn pages_that_stay_where_they_are_are_asked_for_more_seldom() {
        const SECOND: u64 = 1_000_000_000;
        let pages = |of: [u64; 2]| PerNode::from([(NodeId(0), of[0]), (NodeId(1), of[1])]);
        let mut sample = Sample::default();
        assert_eq!(sample.next(), Nanos(0), "a new process is asked at once");
        sample.taken = Some(Nanos(SECOND));
        let mut wait = |found: PerNode| {
            sample.put(found);
            (sample.next() - Nanos(SECOND)).0 / SECOND
        };
        let same = [pages([100, 28]), pages([92, 36]), PerNode::from([(NodeId(0), 31)])];
        assert_eq!(same.map(&mut wait), [1, 2, 1], "31 of 31 are not 92 of 128");
        assert_eq!([pages([40, 0]), pages([40, 1]), pages([40, 2])].map(&mut wait), [2, 4, 4]);
        assert_eq!(wait(pages([30, 10])), 1);
        // Nothing was found, as often as before.
        assert_eq!([PerNode::new(), PerNode::new()].map(&mut wait), [1, 2]);
    }
}
