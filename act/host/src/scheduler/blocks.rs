//! Where pages were before they were moved, in a bounded amount of memory: for each block of 2 MiB and each node that
//! pages of it came from, which those are. That is 72 bytes for a block that comes from one node.

use std::collections::BTreeMap;

use quartier_model::{CpuList, CpuListError, NodeOsId};
use serde::{Deserialize, Serialize};

/// Base pages of a block, which is aligned.
pub const BLOCK_PAGES: u64 = 512;

/// A block of which pages are moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its address divided by 2 MiB.
    pub index: u64,
    /// Which of its pages came from where, by rising node; no page twice.
    pub from: Vec<(NodeOsId, PageSet)>,
}

impl Block {
    /// One with pages by their number within it, each with the node where it is.
    pub fn of(index: u64, pages: impl IntoIterator<Item = (u64, NodeOsId)>) -> Self {
        let mut block = Self { index, from: Vec::new() };
        pages.into_iter().for_each(|(page, node)| block.set_of(node).insert(page));
        block
    }

    /// Adds those pages of the same block, moved later, that are not in it: where a page was first is where it goes back.
    pub fn add(&mut self, later: &Self) {
        let known = self.from.iter().fold(PageSet::default(), |all, (_, set)| all.with(*set));
        for (node, set) in &later.from {
            let new = set.without(known);
            if new != PageSet::default() {
                let there = self.set_of(*node);
                *there = there.with(new);
            }
        }
    }

    /// All pages by their number, each with its node; those of the node that most came from last: should they have become
    /// one huge page since, that is where it ends.
    pub fn pages(&self) -> impl Iterator<Item = (u64, NodeOsId)> {
        let mut from = self.from.clone();
        from.sort_by_key(|(_, set)| set.len());
        from.into_iter().flat_map(|(node, set)| set.iter().map(move |page| (page, node)))
    }

    fn set_of(&mut self, node: NodeOsId) -> &mut PageSet {
        let at = match self.from.binary_search_by_key(&node, |(node, _)| *node) {
            Ok(at) => at,
            Err(at) => {
                self.from.insert(at, (node, PageSet::default()));
                at
            }
        };
        &mut self.from[at].1
    }
}

/// Those of a process by their index.
pub type Blocks = BTreeMap<u64, Block>;

/// Adds what is about to be moved.
pub fn note(blocks: &mut Blocks, moved: Block) {
    use std::collections::btree_map::Entry;
    match blocks.entry(moved.index) {
        Entry::Occupied(mut there) => there.get_mut().add(&moved),
        Entry::Vacant(free) => {
            free.insert(moved);
        }
    }
}

/// Some of the pages of a block; written as a list like `0-3,17`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PageSet([u64; BLOCK_PAGES as usize / 64]);

impl PageSet {
    fn insert(&mut self, page: u64) {
        self.0[(page / 64) as usize] |= 1 << (page % 64);
    }

    fn contains(self, page: u64) -> bool {
        self.0[(page / 64) as usize] >> (page % 64) & 1 != 0
    }

    fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn iter(self) -> impl Iterator<Item = u64> {
        (0..BLOCK_PAGES).filter(move |page| self.contains(*page))
    }

    fn with(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
        self
    }

    fn without(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }
}

impl From<PageSet> for String {
    fn from(set: PageSet) -> Self {
        set.iter().map(|page| page as u32).collect::<CpuList>().to_string()
    }
}

impl TryFrom<String> for PageSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let pages: CpuList = text.parse().map_err(|error: CpuListError| error.to_string())?;
        let mut set = Self::default();
        for page in pages.iter().map(u64::from) {
            if page >= BLOCK_PAGES {
                return Err(format!("a block has no page {page}"));
            }
            set.insert(page);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(pages: impl IntoIterator<Item = (u64, u32)>) -> Block {
        Block::of(7, pages.into_iter().map(|(page, node)| (page, NodeOsId(node))))
    }

    #[test]
    fn it_is_written_as_lists_of_pages() {
        let block = block((0..512).map(|page| (page, if page % 300 == 17 { 1 } else { 0 })));
        let text = serde_json::to_string(&block).unwrap();
        assert_eq!(text, r#"{"index":7,"from":[[0,"0-16,18-316,318-511"],[1,"17,317"]]}"#);
        assert_eq!(serde_json::from_str::<Block>(&text).unwrap(), block);
        let beyond = serde_json::from_str::<Block>(&text.replace("511", "512")).unwrap_err();
        assert!(beyond.to_string().contains("a block has no page 512"), "{beyond}");
    }

    #[test]
    fn most_pages_go_back_last() {
        let nodes: Vec<_> =
            block([(1, 0), (2, 0), (3, 2)]).pages().map(|(_, node)| node.0).collect();
        assert_eq!(nodes, [2, 0, 0]);
    }

    proptest! {
        /// As a map would do it, which is told of each page once.
        #[test]
        fn a_page_goes_back_to_where_it_was_first(
            steps in proptest::collection::vec(proptest::collection::btree_map(0..BLOCK_PAGES, 0..4u32, 0..200), 1..4),
        ) {
            let mut expected = BTreeMap::new();
            let mut blocks = steps.iter().map(|step| block(step.iter().map(|(page, node)| (*page, *node))));
            let mut whole = blocks.next().unwrap();
            blocks.for_each(|later| whole.add(&later));
            for (page, node) in steps.into_iter().flatten() {
                expected.entry(page).or_insert(NodeOsId(node));
            }
            prop_assert_eq!(whole.pages().collect::<BTreeMap<_, _>>(), expected.clone());
            prop_assert_eq!(whole.pages().count(), expected.len());
        }
    }
}
