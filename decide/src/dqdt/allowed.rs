//! Which CPUs a thread may run on: its cpuset and affinity.

use std::ops::Range;

use quartier_model::{CpuId, CpuList, CpuOsId};

use crate::dqdt::tree::{ClusterId, Tree};

/// A set of online CPUs of one tree. Making one allocates; asking it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// One bit per position in the order of the tree, so a cluster is a range of bits.
    words: Box<[u64]>,
    nr_by_cluster: Box<[u32]>,
}

impl Allowed {
    /// Every online CPU.
    #[must_use]
    pub fn all(tree: &Tree) -> Self {
        Self::from_positions(tree, 0..tree.cpus.len())
    }

    /// These CPUs; those that are offline or not of this machine are left out.
    #[must_use]
    pub fn new(tree: &Tree, cpus: impl IntoIterator<Item = CpuId>) -> Self {
        Self::from_positions(tree, cpus.into_iter().filter_map(|cpu| tree.position_of(cpu)))
    }

    /// The same from the kernel's numbers, as `Cpus_allowed_list` or `sched_getaffinity` give
    /// them.
    #[must_use]
    pub fn from_os_ids(tree: &Tree, cpus: &CpuList) -> Self {
        Self::new(tree, cpus.iter().filter_map(|os_id| tree.cpu_by_os_id(CpuOsId(os_id))))
    }

    fn from_positions(tree: &Tree, positions: impl Iterator<Item = usize>) -> Self {
        let mut words = vec![0u64; tree.cpus.len().div_ceil(64)];
        for position in positions {
            words[position / 64] |= 1 << (position % 64);
        }
        let bit = |position: usize| (words[position / 64] >> (position % 64)) as u32 & 1;
        let nr_by_cluster =
            tree.clusters().iter().map(|cluster| cluster.positions().map(bit).sum()).collect();
        Self { words: words.into(), nr_by_cluster }
    }

    /// How many CPUs of a cluster are allowed.
    ///
    /// # Panics
    /// If the id is not of the tree this was made for.
    #[must_use]
    pub fn nr_in(&self, cluster: ClusterId) -> u32 {
        self.nr_by_cluster[cluster.index()]
    }

    /// Whether no CPU is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether a CPU is online and allowed.
    #[must_use]
    pub fn contains(&self, tree: &Tree, cpu: CpuId) -> bool {
        tree.position_of(cpu).is_some_and(|position| self.has(position))
    }

    /// The allowed positions of a range, word by word.
    pub(crate) fn positions_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let words = range.start / 64..range.end.div_ceil(64);
        words.flat_map(move |at| {
            let first = at * 64;
            let mut word = self.words[at] & (u64::MAX << range.start.saturating_sub(first).min(63));
            if range.end < first + 64 {
                word &= (1 << (range.end - first)) - 1;
            }
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.checked_sub(1)?;
                Some(first + bit)
            })
        })
    }

    pub(crate) fn has(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Whether this was made for a tree of the same shape.
    pub(crate) fn fits(&self, tree: &Tree) -> bool {
        self.nr_by_cluster.len() == tree.clusters().len()
            && self.words.len() == tree.cpus.len().div_ceil(64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quartier_model::SyntheticSpec;

    use super::*;

    proptest! {
        #[test]
        fn ranges_give_their_allowed_positions(
            bits in prop::collection::vec(any::<bool>(), 300),
            ends in (0usize..=300, 0usize..=300),
        ) {
            let tree = Tree::build(&SyntheticSpec::uniform(1, 300).machine().unwrap());
            let allowed = Allowed::from_positions(&tree, (0..300).filter(|&at| bits[at]));
            let range = ends.0.min(ends.1)..ends.0.max(ends.1);
            let expected: Vec<_> = range.clone().filter(|&at| allowed.has(at)).collect();
            prop_assert_eq!(allowed.positions_in(range).collect::<Vec<_>>(), expected);
        }
    }
}
