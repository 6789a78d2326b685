//! Who touched which block in which round, so that blocks which threads of several nodes share come to
//! rest (the thesis's FMM case). A block follows its first toucher; once it was moved, it moves again
//! only for a node that touched it first in two rounds, one after the other; then it stays.
//!
//! Data that every thread reads where it happens to need it would move once for nothing: see `areas`.

use std::ops::Range;

use quartier_kernel::sys::SysResult;

use super::areas::{Areas, Round, area_of};
use super::evidence::By;
use super::slots::Slots;

/// Blocks remembered: the last of each that share an entry. 8 GiB of the default size.
const NR_ENTRIES: usize = 1 << 19;

/// What is so many blocks away is next to a touch.
const REACH: usize = 4;

/// A block is moved so often at most.
const MOVES_MAX: u32 = 3;

const MOVES_BITS: u32 = 2;
const STEADY_BITS: u32 = 1;
/// A node's number and one: an empty entry has none.
const NODE_BITS: u32 = 11;
/// Rounds are told from those just before.
const ROUND_BITS: u32 = 2;
const MET_BITS: u32 = 1;
const KNOWN_BITS: u32 = MET_BITS + ROUND_BITS + NODE_BITS + STEADY_BITS + MOVES_BITS;

/// What is known of blocks.
#[derive(Debug)]
pub(super) struct History {
    entries: Slots<u32, NR_ENTRIES>,
    block_bytes: usize,
    pub(super) areas: Areas,
    round: u32,
}

/// What is known of a block: how often it was moved, for which node it was touched last and in which round, and
/// whether it was for the same node the time before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    moves: u32,
    is_steady: bool,
    node: Option<u32>,
    round: u32,
    /// It was touched itself, and not only pulled with one that was.
    is_met: bool,
}

impl Known {
    /// Whether it may move to a node that touches it, by whether that is the one that touched it the time before.
    fn may_move(&self, is_the_same: bool) -> bool {
        self.moves == 0 || self.moves < MOVES_MAX && is_the_same
    }
}

impl History {
    pub(super) fn new(block_bytes: usize) -> SysResult<Self> {
        let areas = Areas::new()?;
        // SAFETY: numbers.
        let entries = unsafe { Slots::new() }?;
        Ok(Self { entries, block_bytes, areas, round: 0 })
    }

    /// A round of marking begins.
    pub(super) fn begin(&mut self, round: Round) {
        self.areas.begin(round);
        self.round = (self.round + 1) % (1 << ROUND_BITS);
    }

    /// Whether the block at `address` may go to `node`.
    pub(super) fn lets_go(&mut self, address: usize, node: u32) -> bool {
        let known = self.known(address / self.block_bytes);
        self.areas.at(address).follows() && known.may_move(known.node == Some(node))
    }

    /// The next blocks of `[start, end)` that threads of one node touched in this round and that may go there, with
    /// that node.
    pub(super) fn first_to_catch_up(
        &mut self,
        start: usize,
        end: usize,
    ) -> Option<(usize, usize, u32)> {
        if start >= end {
            return None;
        }
        let (now, block_bytes, mut blocks) =
            (self.round, self.block_bytes, self.blocks(start, end));
        let mut toucher = |block| {
            let known = self.known(block);
            known.node.filter(|_| known.round == now && known.may_move(known.is_steady))
        };
        let (first, node) = blocks.find_map(|block| Some((block, toucher(block)?)))?;
        let last = blocks.find(|block| toucher(*block) != Some(node)).unwrap_or(blocks.end);
        Some(((first * block_bytes).max(start), (last * block_bytes).min(end), node))
    }

    /// The blocks of `[start, end)` have moved, some time after they were touched.
    pub(super) fn note_moved(&mut self, start: usize, end: usize) {
        self.areas.at(start).note_moved();
        for block in self.blocks(start, end) {
            // The lowest bits count the moves.
            if self.known(block).moves < MOVES_MAX {
                *self.entry(block) += 1;
            }
        }
    }

    /// The first part of `[start, end)` that is marked in this round: of an area on trial only what was touched itself.
    pub(super) fn first_wanted(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let mut from = None;
        let mut at = start;
        while at < end {
            let (is_wanted, next) = match self.areas.at(at).is_on_trial() {
                true => {
                    let block = at / self.block_bytes;
                    (self.known(block).is_met, (block + 1) * self.block_bytes)
                }
                false => (true, area_of(at).1),
            };
            match (from, is_wanted) {
                (Some(from), false) => return Some((from, at)),
                (None, true) => from = Some(at),
                _ => {}
            }
            at = next;
        }
        from.map(|from| (from, end))
    }

    /// A thread of `node` touches `address`, and gets `[start, end)`: is that next to what its own node touched, and did
    /// that touch it before?
    pub(super) fn compare(&mut self, address: usize, (start, end): (usize, usize), node: u32) {
        let now = self.round;
        let known = self.known(address / self.block_bytes);
        if let Some(before) = known.node.filter(|_| known.is_met && known.round != now) {
            self.areas.compare_before(address, by(before, node));
        }
        let blocks = self.blocks(start, end);
        // Whoever touched there in an earlier round may have filled it all.
        let mut touched = |block| {
            let known = self.known(block);
            known.node.filter(|_| known.round == now)
        };
        let mut before = (blocks.start.saturating_sub(REACH)..blocks.start).rev();
        let before = before.find_map(&mut touched);
        let after = (blocks.end..blocks.end.saturating_add(REACH)).find_map(&mut touched);
        for other in [before, after].into_iter().flatten() {
            if self.areas.compare_beside(address, by(other, node)) {
                self.forget_what_was_before(area_of(address));
            }
        }
    }

    /// Who touched what before it is known that an area is mixed may have filled it all; and what moved for it was not
    /// asked about block by block.
    fn forget_what_was_before(&mut self, (start, end): (usize, usize)) {
        for block in self.blocks(start, end) {
            let is_of_this_round = self.known(block).round == self.round;
            let entry = self.entry(block);
            *entry = if is_of_this_round { *entry & !((1 << MOVES_BITS) - 1) } else { 0 };
        }
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

    /// `address` was touched from `node`, and the blocks of `[start, end)` were pulled with it, and moved there or not.
    pub(super) fn note(
        &mut self,
        address: usize,
        (start, end): (usize, usize),
        node: u32,
        moved: bool,
    ) {
        self.areas.at(address).note(moved);
        for block in self.blocks(start, end) {
            let known = self.known(block);
            let moves = (known.moves + u32::from(moved)).min(MOVES_MAX);
            let is_met = u32::from(block == address / self.block_bytes);
            let is_steady = u32::from(known.node == Some(node));
            let when = is_met << ROUND_BITS | self.round;
            let about = (when << NODE_BITS | (node + 1)) << STEADY_BITS | is_steady;
            *self.entry(block) = tag(block) | about << MOVES_BITS | moves;
        }
    }

    /// Nothing is known of `[start, end)` any more: the program has new threads, or asks itself.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        let blocks = self.blocks(start, end);
        self.areas.forget(start, end);
        if blocks.len() >= NR_ENTRIES {
            self.entries.clear();
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
        let about = known >> (STEADY_BITS + MOVES_BITS);
        Known {
            moves: known & ((1 << MOVES_BITS) - 1),
            is_steady: known >> MOVES_BITS & 1 != 0,
            node: (about & ((1 << NODE_BITS) - 1)).checked_sub(1),
            round: about >> NODE_BITS & ((1 << ROUND_BITS) - 1),
            is_met: about >> (NODE_BITS + ROUND_BITS) != 0,
        }
    }

    fn entry(&mut self, block: usize) -> &mut u32 {
        self.entries.at(block)
    }
}

/// Which of the blocks that share an entry it is about, in the bits above what is known. Those that it
/// cannot tell apart are 128 TiB away from each other, or more.
fn tag(block: usize) -> u32 {
    ((block / NR_ENTRIES) as u32) << KNOWN_BITS
}

fn by(one: u32, other: u32) -> By {
    if one == other { By::Same } else { By::Other }
}

/// How often the node changes from one block that is known to the next.
fn nr_changes(known: impl Iterator<Item = Known>) -> usize {
    let mut nodes = known.filter_map(|known| known.node);
    let Some(mut last) = nodes.next() else { return 0 };
    nodes.filter(|node| std::mem::replace(&mut last, *node) != *node).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;
    const AT: usize = 0x7f12_3456_0000;

    /// Where each touch moves at once.
    fn known_as_plain() -> History {
        let mut history = History::new(BLOCK).unwrap();
        history.areas.take_for_plain(AT, AT + 64 * BLOCK);
        history
    }

    #[test]
    fn a_block_follows_its_first_toucher_and_then_only_a_steady_one() {
        let mut history = known_as_plain();
        let touch = |history: &mut History, node| {
            let moved = history.lets_go(AT, node);
            history.note(AT, (AT, AT + BLOCK), node, moved);
            moved
        };
        let moved: Vec<_> =
            [1, 2, 2, 3, 1, 1, 2, 2, 2].map(|node| touch(&mut history, node)).into();
        assert_eq!(moved, [true, false, true, false, false, true, false, false, false]);
    }

    /// An area of blocks of 16 KiB, marked and touched as the server does it.
    struct Play {
        history: History,
        random: u64,
        now_ms: u32,
        homes: Vec<u32>,
    }

    const SMALL: usize = 16 << 10;
    const AREA_AT: usize = 0x7f12_3400_0000;
    const NR_BLOCKS: usize = 512;

    impl Play {
        fn new(seed: u64) -> Self {
            let history = History::new(SMALL).unwrap();
            Self { history, random: seed, now_ms: 0, homes: vec![0; NR_BLOCKS] }
        }

        fn random(&mut self, end: usize) -> usize {
            self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (self.random >> 33) as usize % end
        }

        /// A round, if it is marked: all blocks are used in some order, each by a thread of the node that is given; gives
        /// how many were touched, and how many went to another node.
        fn round(
            &mut self,
            nr_nodes: u32,
            node: impl Fn(&mut Self, usize) -> u32,
        ) -> (usize, usize) {
            self.now_ms = (2 * self.now_ms).max(25);
            let round = Round { now_ms: self.now_ms, first_ms: 25, longest_ms: 60_000, nr_nodes };
            self.history.begin(round);
            let end = AREA_AT + NR_BLOCKS * SMALL;
            if self.history.areas.first_resting(AREA_AT, end).is_some() {
                return (0, 0);
            }
            self.history.areas.mark(AREA_AT, end);
            let is_marked = |block| {
                let at = AREA_AT + block * SMALL;
                self.history.first_wanted(at, at + SMALL).is_some()
            };
            let mut pending: Vec<bool> = (0..NR_BLOCKS).map(is_marked).collect();
            let mut order: Vec<_> = (0..NR_BLOCKS).collect();
            (1..NR_BLOCKS).for_each(|at| order.swap(at, self.random(at + 1)));
            let (mut touches, mut moves) = (0, 0);
            for block in order {
                let node = node(self, block);
                if std::mem::replace(&mut pending[block], false) {
                    touches += 1;
                    moves += self.touch(&mut pending, block, node);
                }
            }
            (touches, moves + self.catch_up())
        }

        fn go(&mut self, blocks: Range<usize>, node: u32) -> usize {
            let homes = self.homes[blocks].iter_mut();
            homes.map(|home| std::mem::replace(home, node)).filter(|home| *home != node).count()
        }

        fn catch_up(&mut self) -> usize {
            let (mut from, end) = (AREA_AT, AREA_AT + NR_BLOCKS * SMALL);
            let mut moves = 0;
            while self.history.areas.at(AREA_AT).may_catch_up()
                && let Some((first, last, node)) = self.history.first_to_catch_up(from, end)
            {
                moves += self.go((first - AREA_AT) / SMALL..(last - AREA_AT) / SMALL, node);
                self.history.note_moved(first, last);
                from = last;
            }
            moves
        }

        fn touch(&mut self, pending: &mut [bool], block: usize, node: u32) -> usize {
            let address = AREA_AT + block * SMALL;
            let is_mixed = self.history.areas.at(address).is_mixed();
            let last = if is_mixed { block + 1 } else { block.next_multiple_of(4).max(block + 1) };
            let window = (address, AREA_AT + last * SMALL);
            let was_known = self.history.areas.at(address).is_known();
            self.history.compare(address, window, node);
            if self.history.areas.at(address).is_done() {
                pending.fill(false);
                self.history.note(address, (address, address + 1), node, false);
                return 0;
            }
            let follows = self.history.lets_go(address, node);
            let moves = if follows { self.go(block..last, node) } else { 0 };
            let is_mixed = self.history.areas.at(address).is_mixed();
            let noted = if is_mixed { (address, address + 1) } else { window };
            self.history.note(address, noted, node, moves > 0);
            pending[block..last].fill(false);
            match (was_known, self.history.areas.at(address).is_known()) {
                (false, true) => moves + self.catch_up(),
                (_, true) => moves,
                (_, false) => {
                    self.history.areas.at(address).put_off();
                    moves
                }
            }
        }
    }

    #[test]
    fn what_all_threads_read_costs_few_touches_and_stays() {
        for nr_nodes in [2, 4, 8] {
            let mut all_moves = 0;
            for seed in 0..40 {
                let mut play = Play::new(seed);
                let rounds = [(); 12].map(|()| {
                    play.round(nr_nodes, |play, _| play.random(nr_nodes as usize) as u32)
                });
                let touches: usize = rounds.iter().map(|(touches, _)| touches).sum();
                let moves: usize = rounds.iter().map(|(_, moves)| moves).sum();
                // Every round over all blocks would be 6,144.
                let few = touches <= NR_BLOCKS * 3 / 4 && moves <= NR_BLOCKS / 4;
                assert!(few, "{nr_nodes} nodes, seed {seed}: {touches}, {moves}: {rounds:?}");
                all_moves += moves;
            }
            println!("{nr_nodes} nodes: {all_moves} of {} blocks move", 40 * NR_BLOCKS);
            // Only where it is taken for parts at first, by chance.
            assert!(all_moves <= 40 * NR_BLOCKS / 50, "{nr_nodes} nodes: {all_moves}");
        }
    }

    #[test]
    fn small_parts_that_alternate_follow_after_a_trial() {
        for (nr_nodes, seed) in
            [2, 4, 8].into_iter().flat_map(|nr| (0..20).map(move |seed| (nr, seed)))
        {
            let mut play = Play::new(seed);
            let node = |block: usize| (block / 2) as u32 % nr_nodes;
            let rounds = [(); 12].map(|()| play.round(nr_nodes, |_, block| node(block)));
            let right = (0..NR_BLOCKS).filter(|block| play.homes[*block] == node(*block)).count();
            assert_eq!(right, NR_BLOCKS, "{nr_nodes} nodes, seed {seed}: {rounds:?}");
        }
    }

    #[test]
    fn parts_follow_their_threads_soon_whoever_filled_them() {
        let mut history = History::new(BLOCK).unwrap();
        history.begin(Round::default());
        let start = |at: usize| AT + at * BLOCK;
        (0..64).for_each(|at| {
            history.compare(start(at), (start(at), start(at + 1)), 0);
            history.note(start(at), (start(at), start(at + 1)), 0, false);
        });
        history.begin(Round::default());
        // Eight threads go through their parts at the same pace.
        for at in (0..8).flat_map(|step| (0..8).map(move |thread| thread * 8 + step)) {
            let node = at as u32 / 16;
            history.compare(start(at), (start(at), start(at + 1)), node);
            history.note(start(at), (start(at), start(at + 1)), node, node != 0);
        }
        assert!(history.areas.at(AT).follows());
    }

    #[test]
    fn what_was_put_off_is_what_this_round_touched_and_has_not_moved() {
        let mut history = History::new(BLOCK).unwrap();
        let start = |at: usize| AT + at * BLOCK;
        let touch = |history: &mut History, blocks: Range<usize>, node, moved| {
            history.note(
                start(blocks.start),
                (start(blocks.start), start(blocks.end)),
                node,
                moved,
            );
        };
        touch(&mut history, 12..14, 1, false);
        history.begin(Round::default());
        touch(&mut history, 0..2, 1, false);
        touch(&mut history, 2..4, 2, false);
        touch(&mut history, 4..5, 2, true);
        touch(&mut history, 6..8, 2, false);
        let mut put_off = || {
            let mut from = start(0) + 4096;
            let mut all = Vec::new();
            while let Some((first, last, node)) = history.first_to_catch_up(from, start(7) + 4096) {
                assert!(last > from, "the last block is within the range in part");
                all.push((first - AT, last - AT, node));
                history.note_moved(first, last);
                from = last;
            }
            all
        };
        let expected =
            [(4096, 2 * BLOCK, 1), (2 * BLOCK, 4 * BLOCK, 2), (6 * BLOCK, 7 * BLOCK + 4096, 2)];
        assert_eq!(put_off(), expected);
        assert_eq!(put_off(), [], "once");
    }

    #[test]
    fn a_block_is_of_whom_touched_it_last() {
        let mut history = History::new(BLOCK).unwrap();
        assert!(history.is_of(AT, 1) && history.is_of(AT, 2));
        history.note(AT, (AT, AT + BLOCK), 1, false);
        assert!(history.is_of(AT + BLOCK - 1, 1) && !history.is_of(AT, 2));
        assert!(history.is_of(AT + BLOCK, 2));
    }

    #[test]
    fn a_border_is_where_two_nodes_stay() {
        let mut history = History::new(BLOCK).unwrap();
        let all = (AT, AT + 8 * BLOCK);
        let mut round = |parts: &[(usize, usize, u32)]| {
            for (first, end, node) in parts {
                history.note(
                    AT + first * BLOCK,
                    (AT + first * BLOCK, AT + end * BLOCK),
                    *node,
                    true,
                );
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
        let mut history = known_as_plain();
        history.note(AT, (AT, AT + 4 * BLOCK), 0, false);
        assert!(history.lets_go(AT + 3 * BLOCK, 7));
    }

    #[test]
    fn what_is_forgotten_moves_as_if_new() {
        let mut history = History::new(BLOCK).unwrap();
        for (start, end) in [(AT, AT + BLOCK), (0, usize::MAX)] {
            history.note(AT, (AT, AT + 2 * BLOCK), 1, true);
            history.forget(start, end);
            history.areas.take_for_plain(AT, AT + 2 * BLOCK);
            assert!(history.lets_go(AT, 2));
            assert_eq!(history.lets_go(AT + BLOCK, 2), end == usize::MAX);
        }
    }

    #[test]
    fn a_block_whose_entry_another_took_is_as_new() {
        let mut history = History::new(BLOCK).unwrap();
        let lets_go = |history: &mut History, at, node| {
            history.areas.take_for_plain(at, at + BLOCK);
            history.lets_go(at, node)
        };
        history.note(AT, (AT, AT + BLOCK), 1, true);
        assert!(!lets_go(&mut history, AT, 2));
        let other = AT + NR_ENTRIES * BLOCK;
        assert!(lets_go(&mut history, other, 2));
        history.note(other, (other, other + BLOCK), 2, true);
        assert!(lets_go(&mut history, AT, 2) && !lets_go(&mut history, other, 1));
    }

    #[test]
    fn addresses_at_either_end_have_entries() {
        let mut history = History::new(4096).unwrap();
        for address in [0, (1 << 47) - 4096] {
            history.areas.take_for_plain(address, address + 1);
            history.note(address, (address, address + 1), 3, true);
            assert!(!history.lets_go(address, 2));
        }
    }
}
