//! Moves a process's pages, a bounded number at a time, blocks of 2 MiB. However many they are, it is one call: for each the
//! kernel has every CPU give up what it holds back, and waits for that (`lru_cache_disable`).

use quartier_kernel::{Errno, sys};
use quartier_model::{BLOCK, Bytes, Nanos, NodeOsId, Outcome, Refusal, TaskId};

use super::blocks::{BLOCK_PAGES, Block, majority};
use super::task;

/// Bytes of a base page.
const PAGE: u64 = 4096;
/// What plans call a block is what moves as one.
const _: () = assert!(BLOCK_PAGES * PAGE == BLOCK.0);
/// In a block of which none of so many pages is resident, spread evenly, others are not looked for.
const PROBES: u64 = 16;

/// The two calls on another process's pages.
pub trait PageCalls {
    /// The node of each page, or a negative errno.
    ///
    /// # Errors
    /// Those of move_pages(2) as a whole.
    fn query(&mut self, pages: &[u64], status: &mut [i32]) -> Result<(), Errno>;

    /// Moves pages to nodes; then the same.
    ///
    /// # Errors
    /// Those of move_pages(2) as a whole.
    fn move_to(&mut self, pages: &[u64], nodes: &[i32], status: &mut [i32]) -> Result<(), Errno>;
}

/// Those of a process by its id.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPages(pub u32);

impl PageCalls for ProcessPages {
    fn query(&mut self, pages: &[u64], status: &mut [i32]) -> Result<(), Errno> {
        sys::query_nodes_of(self.0 as i32, pages, status).map(|_| ())
    }

    fn move_to(&mut self, pages: &[u64], nodes: &[i32], status: &mut [i32]) -> Result<(), Errno> {
        sys::move_pages_of(self.0 as i32, pages, nodes, status).map(|_| ())
    }
}

/// Where pages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// All of them to one node.
    Node(NodeOsId),
    /// Each block to a node of its own: its index, and the node. Others stay.
    Blocks(Vec<(u64, NodeOsId)>),
    /// The same, being where they were before.
    Back(Vec<(u64, NodeOsId)>),
}

/// Ranges of addresses whose pages may be moved, in rising order.
pub type Pages = Vec<(u64, u64)>;

/// A move that goes on, batch after batch.
#[derive(Debug)]
pub struct Move {
    process: TaskId,
    goal: Goal,
    /// Blocks that are still to do, the next one last, each with the part of it that may be moved.
    left: Vec<(u64, u64)>,
    moved: u64,
    stayed: u64,
    refusal: Option<Refusal>,
}

/// What a batch did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Pages that were asked about, which takes time too.
    pub asked: u64,
    /// Pages that are where they should be now, and were not before.
    pub moved: u64,
}

/// Pages of a block that are elsewhere.
#[derive(Debug)]
struct Elsewhere {
    goal: NodeOsId,
    block: Block,
    pages: Vec<u64>,
}

impl Move {
    /// Of all resident pages in these ranges.
    #[must_use]
    pub fn new(process: TaskId, goal: Goal, pages: &Pages) -> Self {
        let block = BLOCK_PAGES * PAGE;
        let mut left: Vec<(u64, u64)> = Vec::new();
        for (start, end) in pages {
            let mut at = *start;
            while at < *end {
                let next = (at / block + 1).saturating_mul(block).min(*end);
                left.push((at, next));
                at = next;
            }
        }
        left.reverse();
        Self { process, goal, left, moved: 0, stayed: 0, refusal: None }
    }

    /// Whose pages.
    #[must_use]
    pub fn process(&self) -> TaskId {
        self.process
    }

    /// Where its pages go.
    #[cfg(test)]
    pub(super) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Whether it takes pages to where they were.
    #[must_use]
    pub fn is_back(&self) -> bool {
        matches!(self.goal, Goal::Back(_))
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Moves about so many pages and asks about not many more. `before` hears of each block whose pages are about
    /// to be moved, and may end it all.
    ///
    /// # Errors
    /// That of `before`.
    pub fn go_on<E>(
        &mut self,
        calls: &mut impl PageCalls,
        pages_max: u64,
        mut before: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<Batch, E> {
        let mut batch = Batch::default();
        let (mut pages, mut nodes) = (Vec::new(), Vec::new());
        // Asking about a page costs a twentieth of moving it.
        while pages.len() as u64 + batch.asked / 20 < pages_max {
            let Some((start, end)) = self.left.pop() else { break };
            match self.look_at(calls, start, end, &mut batch) {
                Ok(None) => {}
                Ok(Some(there)) => {
                    before(there.block)?;
                    nodes.resize(pages.len() + there.pages.len(), there.goal.0 as i32);
                    pages.extend(there.pages);
                }
                Err(errno) => self.give_up(errno),
            }
        }
        if !pages.is_empty() {
            match Self::move_all(calls, &pages, &nodes, &mut batch) {
                Ok(moved) => {
                    batch.moved = moved;
                    self.moved += moved;
                    self.stayed += pages.len() as u64 - moved;
                }
                Err(errno) => self.give_up(errno),
            }
        }
        Ok(batch)
    }

    /// What came of it, and of what began with it.
    #[must_use]
    pub fn outcome(&self, at: Nanos, begun: &Outcome) -> Outcome {
        Outcome {
            at,
            moved: Bytes(self.moved * PAGE),
            stayed: Bytes(self.stayed * PAGE),
            refusal: begun.refusal.or(self.refusal),
            ..begun.clone()
        }
    }

    /// Stops here.
    pub fn stop(&mut self, refusal: Refusal) {
        self.left.clear();
        self.refusal = Some(refusal);
    }

    fn give_up(&mut self, errno: Errno) {
        let refusal = match errno {
            _ if !task::is_there(self.process) => Refusal::Ended,
            Errno::ESRCH => Refusal::Ended,
            Errno::EPERM => Refusal::NotPermitted,
            Errno::ENOMEM => Refusal::NoRoom,
            // The node is not among those that its cpuset leaves to it.
            Errno::EACCES | Errno::ENODEV => Refusal::Cpuset,
            _ => Refusal::Unsupported,
        };
        self.stop(refusal);
    }

    fn goal_of(&self, start: u64) -> Option<NodeOsId> {
        let index = start / (BLOCK_PAGES * PAGE);
        match &self.goal {
            Goal::Node(node) => Some(*node),
            Goal::Blocks(blocks) | Goal::Back(blocks) => {
                let at = blocks.binary_search_by_key(&index, |(index, _)| *index).ok()?;
                Some(blocks[at].1)
            }
        }
    }

    /// The pages of a block, or of the part of it that may be moved, that are elsewhere.
    fn look_at(
        &self,
        calls: &mut impl PageCalls,
        start: u64,
        end: u64,
        batch: &mut Batch,
    ) -> Result<Option<Elsewhere>, Errno> {
        let Some(goal) = self.goal_of(start) else { return Ok(None) };
        let pages: Vec<u64> = (start..end).step_by(PAGE as usize).collect();
        let mut status = vec![0; pages.len()];
        let step = (pages.len() as u64).div_ceil(PROBES) as usize;
        let probes: Vec<u64> = pages.iter().copied().step_by(step).collect();
        batch.asked += probes.len() as u64;
        calls.query(&probes, &mut status)?;
        if status[..probes.len()].iter().all(|node| *node < 0) {
            return Ok(None);
        }
        let elsewhere = Self::elsewhere(calls, &pages, goal, &mut status, batch)?;
        let from: Vec<NodeOsId> = elsewhere.iter().map(|(_, node)| *node).collect();
        let index = start / (BLOCK_PAGES * PAGE);
        Ok(majority(&from).map(|from| Elsewhere {
            goal,
            block: Block { index, from, pages: elsewhere.len() as u32 },
            pages: elsewhere.into_iter().map(|(page, _)| page).collect(),
        }))
    }

    /// Moves pages to nodes; says how many are where they should be then.
    fn move_all(
        calls: &mut impl PageCalls,
        pages: &[u64],
        nodes: &[i32],
        batch: &mut Batch,
    ) -> Result<u64, Errno> {
        let mut status = vec![0; pages.len()];
        calls.move_to(pages, nodes, &mut status)?;
        // One page of a huge one takes all of it along: that the others could not be moved beside it says nothing.
        let is_open = |(at, status): (usize, &i32)| (*status < 0).then_some(at);
        let open: Vec<usize> = status.iter().enumerate().filter_map(is_open).collect();
        let mut moved = status.iter().zip(nodes).filter(|(status, node)| status == node).count();
        if !open.is_empty() {
            batch.asked += open.len() as u64;
            let asked: Vec<u64> = open.iter().map(|at| pages[*at]).collect();
            calls.query(&asked, &mut status)?;
            moved +=
                open.iter().zip(&status).filter(|(at, status)| nodes[**at] == **status).count();
        }
        Ok(moved as u64)
    }

    /// Those that are resident on another node, with it.
    fn elsewhere(
        calls: &mut impl PageCalls,
        pages: &[u64],
        goal: NodeOsId,
        status: &mut [i32],
        batch: &mut Batch,
    ) -> Result<Vec<(u64, NodeOsId)>, Errno> {
        batch.asked += pages.len() as u64;
        calls.query(pages, status)?;
        let resident = |(page, node): (&u64, &i32)| {
            let node = NodeOsId(u32::try_from(*node).ok()?);
            (node != goal).then_some((*page, node))
        };
        Ok(pages.iter().zip(&*status).filter_map(resident).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::scheduler::nothing_done;
    use proptest::prelude::*;

    const EBUSY: i32 = 16;
    const ENOENT: i32 = 2;

    /// Pages by their number, as the kernel moves them.
    #[derive(Clone, Default)]
    struct Memory {
        node_of: BTreeMap<u64, u32>,
        /// First pages of huge ones.
        huge: BTreeSet<u64>,
        locked: BTreeSet<u64>,
        fails: Option<Errno>,
        calls: usize,
    }

    impl Memory {
        fn head(&self, page: u64) -> u64 {
            let block = page / BLOCK_PAGES * BLOCK_PAGES;
            if self.huge.contains(&block) { block } else { page }
        }
    }

    impl PageCalls for Memory {
        fn query(&mut self, pages: &[u64], status: &mut [i32]) -> Result<(), Errno> {
            self.calls += 1;
            for (page, status) in pages.iter().zip(status) {
                *status = self.node_of.get(&(page / PAGE)).map_or(-ENOENT, |node| *node as i32);
            }
            self.fails.map_or(Ok(()), Err)
        }

        fn move_to(
            &mut self,
            pages: &[u64],
            nodes: &[i32],
            status: &mut [i32],
        ) -> Result<(), Errno> {
            let mut taken = BTreeSet::new();
            for ((page, node), status) in pages.iter().zip(nodes).zip(status) {
                let page = page / PAGE;
                let head = self.head(page);
                *status = match self.node_of.contains_key(&page) {
                    false => -ENOENT,
                    true if self.locked.contains(&head) || !taken.insert(head) => -EBUSY,
                    true => *node,
                };
                if *status >= 0 {
                    let whole = if self.huge.contains(&head) { BLOCK_PAGES } else { 1 };
                    (head..head + whole).for_each(|page| {
                        self.node_of.insert(page, *node as u32);
                    });
                }
            }
            Ok(())
        }
    }

    fn own() -> TaskId {
        let id = std::process::id();
        TaskId { id, start_ticks: task::start_ticks(id).unwrap() }
    }

    fn run(memory: &mut Memory, pages: Pages, goal: Goal) -> (Outcome, Vec<Block>) {
        let mut it = Move::new(own(), goal, &pages);
        let mut blocks = Vec::new();
        while !it.is_done() {
            let note = |block| {
                blocks.push(block);
                Ok::<(), ()>(())
            };
            let batch = it.go_on(memory, 100, note).unwrap();
            assert!(batch.moved <= 100 + BLOCK_PAGES, "a batch is bounded");
        }
        (it.outcome(Nanos(0), &nothing_done(own(), Nanos(0))), blocks)
    }

    fn range(first: u64, end: u64) -> (u64, u64) {
        (first * PAGE, end * PAGE)
    }

    #[test]
    fn huge_pages_move_whole_and_small_ones_beside_them() {
        let mut memory = Memory::default();
        memory.huge.insert(512);
        memory.node_of.extend((512..1024).map(|page| (page, 1)));
        memory.node_of.extend((1100..1200).map(|page| (page, page as u32 % 3)));
        let (outcome, blocks) = run(&mut memory, vec![range(512, 1500)], Goal::Node(NodeOsId(2)));
        assert!(memory.node_of.values().all(|node| *node == 2));
        // A third was there already.
        assert_eq!((outcome.moved.0 / PAGE, outcome.stayed), (512 + 66, Bytes(0)));
        let first = Block { index: 1, from: NodeOsId(1), pages: 512 };
        assert_eq!((blocks[0], blocks.len()), (first, 2));
    }

    #[test]
    fn blocks_go_to_their_users_and_all_others_stay() {
        let mut memory = Memory::default();
        memory.node_of.extend((0..4 * BLOCK_PAGES).map(|page| (page, 0)));
        let before = memory.clone();
        let users = vec![(1, NodeOsId(2)), (3, NodeOsId(1)), (77, NodeOsId(3))];
        // Of block 3 only a half may be moved.
        let pages = vec![range(0, 3 * BLOCK_PAGES + 256)];
        let (outcome, blocks) = run(&mut memory, pages.clone(), Goal::Blocks(users));
        let on =
            |node| memory.node_of.iter().filter(move |(_, on)| **on == node).map(|(at, _)| *at);
        assert!(on(2).eq(BLOCK_PAGES..2 * BLOCK_PAGES));
        assert!(on(1).eq(3 * BLOCK_PAGES..3 * BLOCK_PAGES + 256));
        assert_eq!((outcome.moved.0 / PAGE, outcome.stayed), (BLOCK_PAGES + 256, Bytes(0)));
        let back = blocks.iter().map(|block| (block.index, block.from)).collect();
        run(&mut memory, pages, Goal::Back(back));
        assert_eq!(memory.node_of, before.node_of);
    }

    #[test]
    fn what_cannot_be_moved_is_counted_and_stays() {
        let mut memory = Memory::default();
        memory.node_of.extend((0..512).map(|page| (page, 0)));
        memory.locked = (0..10).collect();
        let (outcome, _) = run(&mut memory, vec![range(0, 512)], Goal::Node(NodeOsId(1)));
        assert_eq!((outcome.moved.0 / PAGE, outcome.stayed.0 / PAGE), (502, 10));
        assert_eq!(outcome.refusal, None);
    }

    #[test]
    fn a_mapping_of_which_little_is_resident_costs_little() {
        let mut memory = Memory::default();
        let (outcome, _) = run(&mut memory, vec![range(0, 1 << 20)], Goal::Node(NodeOsId(1)));
        assert_eq!((outcome.moved, memory.calls), (Bytes(0), 2048));
    }

    #[test]
    fn why_nothing_more_is_moved_is_said() {
        for (errno, refusal) in [
            (Errno::EPERM, Refusal::NotPermitted),
            (Errno::ENOMEM, Refusal::NoRoom),
            (Errno::ESRCH, Refusal::Ended),
            (Errno::EACCES, Refusal::Cpuset),
            (Errno::ENOSYS, Refusal::Unsupported),
        ] {
            let mut memory = Memory { fails: Some(errno), ..Memory::default() };
            let (outcome, _) = run(&mut memory, vec![range(0, 9999)], Goal::Node(NodeOsId(1)));
            assert_eq!((outcome.refusal, memory.calls), (Some(refusal), 1));
        }
    }

    proptest! {
        /// Every page that may move does, no other does, and going back brings blocks to where most of their pages
        /// were.
        #[test]
        fn pages_go_where_they_should_and_back(
            resident in proptest::collection::btree_map(0..3000u64, 0..4u32, 0..600),
            start in 0..2000u64,
            len in 0..2000u64,
        ) {
            let before = Memory { node_of: resident, ..Memory::default() };
            let mut memory = before.clone();
            let pages = vec![range(start, start + len)];
            let (outcome, blocks) = run(&mut memory, pages.clone(), Goal::Node(NodeOsId(3)));
            let inside = start..start + len;
            let mut gone = 0;
            for (page, node) in &memory.node_of {
                // Where no probe hits, nobody looks on.
                let was = before.node_of[page];
                prop_assert!(*node == was || inside.contains(page) && *node == 3);
                gone += u64::from(*node != was);
            }
            prop_assert_eq!(outcome.moved.0 / PAGE, gone);
            prop_assert_eq!(blocks.iter().map(|block| u64::from(block.pages)).sum::<u64>(), gone);
            let goal = blocks.iter().map(|block| (block.index, block.from)).collect();
            run(&mut memory, pages, Goal::Back(goal));
            for block in blocks {
                let of_block = memory.node_of.range(block.index * BLOCK_PAGES..(block.index + 1) * BLOCK_PAGES);
                let mut of_block = of_block.filter(|(page, _)| inside.contains(page));
                prop_assert!(of_block.all(|(_, node)| *node == block.from.0));
            }
        }
    }
}
