//! Where pages were before they were moved, in a bounded amount of memory: one node for each block of
//! 2 MiB, the one that most of its moved pages came from.

use quartier_model::NodeOsId;
use serde::{Deserialize, Serialize};

/// Base pages of a block, which is aligned.
pub const BLOCK_PAGES: u64 = 512;

/// A block of which pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its address divided by 2 MiB.
    pub index: u64,
    /// Where most of its pages are that are about to be moved.
    pub from: NodeOsId,
    /// So many are, from anywhere.
    pub pages: u32,
}

/// The node that most of these came from; of equal ones the first.
pub fn majority(from: &[NodeOsId]) -> Option<NodeOsId> {
    let count = |node: &NodeOsId| from.iter().filter(|other| *other == node).count();
    let more =
        |best: NodeOsId, next: &NodeOsId| if count(next) > count(&best) { *next } else { best };
    let (first, rest) = from.split_first()?;
    // A block's pages come from a few nodes at most, mostly from one.
    if rest.iter().all(|node| node == first) {
        return Some(*first);
    }
    Some(rest.iter().fold(*first, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_came_from_where_most_of_its_pages_were() {
        let nodes = |ids: &[u32]| ids.iter().map(|id| NodeOsId(*id)).collect::<Vec<_>>();
        assert_eq!(majority(&nodes(&[])), None);
        assert_eq!(majority(&nodes(&[2, 2, 2])), Some(NodeOsId(2)));
        assert_eq!(majority(&nodes(&[1, 2, 2, 3])), Some(NodeOsId(2)));
        assert_eq!(majority(&nodes(&[3, 1, 1, 3])), Some(NodeOsId(3)));
    }
}
