//! Who touched which block in which round, so that blocks which threads of several nodes share come to
//! rest (the thesis's FMM case). A block follows its first toucher; once it was moved, it moves again
//! only for a node that touched it first in two rounds, one after the other; then it stays.

use std::ops::Range;

use quartier_kernel::sys::{self, SysResult};

use crate::own;

/// Blocks remembered: the last of each that share an entry. 8 GiB of the default size.
const NR_ENTRIES: usize = 1 << 19;
const BYTES: usize = NR_ENTRIES * size_of::<u32>();

/// A block is moved so often at most.
const MOVES_MAX: u32 = 3;

const MOVES_BITS: u32 = 2;
const STEADY_BITS: u32 = 1;
/// A node's number and one: an empty entry has none.
const NODE_BITS: u32 = 11;
const KNOWN_BITS: u32 = NODE_BITS + STEADY_BITS + MOVES_BITS;

/// What is known of blocks, in a mapping of our own that fills as it is used.
#[derive(Debug)]
pub(super) struct History {
    entries: *mut u32,
    block_bytes: usize,
}

/// What is known of a block: how often it was moved, for which node it was touched last, and whether that
/// was so the time before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    moves: u32,
    is_steady: bool,
    node: Option<u32>,
}

impl History {
    pub(super) fn new(block_bytes: usize) -> SysResult<Self> {
        let entries = own::map(BYTES)? as *mut u32;
        Ok(Self { entries, block_bytes })
    }

    /// Whether the block at `address` may go to `node`.
    pub(super) fn lets_go(&mut self, address: usize, node: u32) -> bool {
        let known = self.known(address / self.block_bytes);
        known.moves == 0 || known.moves < MOVES_MAX && known.node == Some(node)
    }

    /// Whether nobody but threads of `node` is known to touch the block at `address`.
    pub(super) fn is_of(&mut self, address: usize, node: u32) -> bool {
        self.known(address / self.block_bytes).node.is_none_or(|known| known == node)
    }

    /// Whether the parts of two nodes meet in `[start, end)`: blocks that one of them touches round after
    /// round, then such of the other.
    pub(super) fn is_border(&mut self, start: usize, end: usize) -> bool {
        let known = self.blocks(start, end).map(|block| self.known(block));
        nr_changes(known.filter(|known| known.is_steady)) == 1
    }

    /// How often the node changes from one touched block of `[start, end)` to the next.
    pub(super) fn nr_borders(&mut self, start: usize, end: usize) -> usize {
        nr_changes(self.blocks(start, end).map(|block| self.known(block)))
    }

    /// Blocks of `[start, end)` were touched from `node`, and moved there or not.
    pub(super) fn note(&mut self, start: usize, end: usize, node: u32, moved: bool) {
        for block in self.blocks(start, end) {
            let known = self.known(block);
            let moves = (known.moves + u32::from(moved)).min(MOVES_MAX);
            let is_steady = u32::from(known.node == Some(node));
            let about = (node + 1) << STEADY_BITS | is_steady;
            *self.entry(block) = tag(block) | about << MOVES_BITS | moves;
        }
    }

    /// Nothing is known of `[start, end)` any more: the program has new threads, or asks itself.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        let blocks = self.blocks(start, end);
        if blocks.len() >= NR_ENTRIES {
            // SAFETY: our own mapping, which reads as zero afterwards: nothing known.
            let _ = unsafe { sys::madvise(self.entries as usize, BYTES, libc::MADV_DONTNEED) };
            return;
        }
        blocks.for_each(|block| *self.entry(block) = 0);
    }

    /// The numbers of the blocks that overlap `[start, end)`.
    fn blocks(&self, start: usize, end: usize) -> Range<usize> {
        start / self.block_bytes..end.div_ceil(self.block_bytes)
    }

    fn known(&mut self, block: usize) -> Known {
        let entry = *self.entry(block);
        let known = entry & ((1 << KNOWN_BITS) - 1);
        if entry ^ known != tag(block) {
            return Known::default();
        }
        Known {
            moves: known & ((1 << MOVES_BITS) - 1),
            is_steady: known >> MOVES_BITS & 1 != 0,
            node: (known >> (STEADY_BITS + MOVES_BITS)).checked_sub(1),
        }
    }

    fn entry(&mut self, block: usize) -> &mut u32 {
        // SAFETY: below `NR_ENTRIES`, in our own mapping, which `&mut self` is the only way into.
        unsafe { &mut *self.entries.add(block % NR_ENTRIES) }
    }
}

/// Which of the blocks that share an entry it is about, in the bits above what is known. Those that it
/// cannot tell apart are petabytes away from each other.
fn tag(block: usize) -> u32 {
    ((block / NR_ENTRIES) as u32) << KNOWN_BITS
}

/// How often the node changes from one block that is known to the next.
fn nr_changes(known: impl Iterator<Item = Known>) -> usize {
    let mut nodes = known.filter_map(|known| known.node);
    let Some(mut last) = nodes.next() else { return 0 };
    nodes.filter(|node| std::mem::replace(&mut last, *node) != *node).count()
}

impl Drop for History {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody uses it any more.
        unsafe { own::unmap(self.entries as usize, BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;
    const AT: usize = 0x7f12_3456_0000;

    #[test]
    fn a_block_follows_its_first_toucher_and_then_only_a_steady_one() {
        let mut history = History::new(BLOCK).unwrap();
        let touch = |history: &mut History, node| {
            let moved = history.lets_go(AT, node);
            history.note(AT, AT + BLOCK, node, moved);
            moved
        };
        let moved: Vec<_> =
            [1, 2, 2, 3, 1, 1, 2, 2, 2].map(|node| touch(&mut history, node)).into();
        assert_eq!(moved, [true, false, true, false, false, true, false, false, false]);
    }

    #[test]
    fn a_block_is_of_whom_touched_it_last() {
        let mut history = History::new(BLOCK).unwrap();
        assert!(history.is_of(AT, 1) && history.is_of(AT, 2));
        history.note(AT, AT + BLOCK, 1, false);
        assert!(history.is_of(AT + BLOCK - 1, 1) && !history.is_of(AT, 2));
        assert!(history.is_of(AT + BLOCK, 2));
    }

    #[test]
    fn a_border_is_where_two_nodes_stay() {
        let mut history = History::new(BLOCK).unwrap();
        let all = (AT, AT + 8 * BLOCK);
        let mut round = |parts: &[(usize, usize, u32)]| {
            for (first, end, node) in parts {
                history.note(AT + first * BLOCK, AT + end * BLOCK, *node, true);
            }
            history.is_border(all.0, all.1)
        };
        assert!(!round(&[(0, 4, 1), (4, 8, 2)]), "seen once");
        assert!(round(&[(0, 3, 1), (4, 8, 2)]), "the fourth block may be anybody's");
        assert!(!round(&[(0, 8, 1)]), "one goes through all");
        assert!(!round(&[(0, 8, 2)]), "another does");
        assert!(!round(&[(0, 8, 2)]), "and stays");
        assert!(!round(&[(0, 2, 1), (2, 4, 2), (4, 6, 1), (6, 8, 2)]));
        assert!(!round(&[(0, 2, 1), (2, 4, 2), (4, 6, 1), (6, 8, 2)]), "shared in small parts");
    }

    #[test]
    fn touches_at_home_are_no_moves() {
        let mut history = History::new(BLOCK).unwrap();
        history.note(AT, AT + 4 * BLOCK, 0, false);
        assert!(history.lets_go(AT + 3 * BLOCK, 7));
    }

    #[test]
    fn what_is_forgotten_moves_as_if_new() {
        let mut history = History::new(BLOCK).unwrap();
        for (start, end) in [(AT, AT + BLOCK), (0, usize::MAX)] {
            history.note(AT, AT + 2 * BLOCK, 1, true);
            history.forget(start, end);
            assert!(history.lets_go(AT, 2));
            assert_eq!(history.lets_go(AT + BLOCK, 2), end == usize::MAX);
        }
    }

    #[test]
    fn a_block_whose_entry_another_took_is_as_new() {
        let mut history = History::new(BLOCK).unwrap();
        history.note(AT, AT + BLOCK, 1, true);
        assert!(!history.lets_go(AT, 2));
        let other = AT + NR_ENTRIES * BLOCK;
        assert!(history.lets_go(other, 2));
        history.note(other, other + BLOCK, 2, true);
        assert!(history.lets_go(AT, 2) && !history.lets_go(other, 1));
    }

    #[test]
    fn addresses_at_either_end_have_entries() {
        let mut history = History::new(4096).unwrap();
        for address in [0, (1 << 47) - 4096] {
            history.note(address, address + 1, 3, true);
            assert!(!history.lets_go(address, 2));
        }
    }
}
