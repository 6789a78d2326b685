//! Moves a process's pages, a bounded number at a time, blocks of 2 MiB. However many they are, it is one call: for each the
//! kernel has every CPU give up what it holds back, and waits for that (`lru_cache_disable`).

use quartier_kernel::{Errno, sys};
use quartier_model::{BLOCK, Bytes, Nanos, NodeOsId, Outcome, Refusal, TaskId};

use super::blocks::{BLOCK_PAGES, Block};
use super::task;

/// Bytes of a base page.
const PAGE: u64 = 4096;
/// What plans call a block is what moves as one.
const _: () = assert!(BLOCK_PAGES * PAGE == BLOCK.0);
/// In a block of which none of so many pages is resident, spread evenly, others are not looked for.
const PROBES: usize = 16;

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
    /// These pages to where each was before, by rising index. Others stay.
    Back(Vec<Block>),
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

/// A page, and the node where it goes.
type Placed = (u64, NodeOsId);
/// A page, the node where it is, and the one where it goes.
type Elsewhere = (u64, NodeOsId, NodeOsId);

impl Move {
    /// Of all resident pages in these ranges.
    #[must_use]
    pub fn new(process: TaskId, goal: Goal, pages: &Pages) -> Self {
        let block = BLOCK.0;
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
                Ok(elsewhere) if elsewhere.is_empty() => {}
                Ok(elsewhere) => {
                    let is_at = |(page, node, _): &Elsewhere| (page / PAGE % BLOCK_PAGES, *node);
                    before(Block::of(start / BLOCK.0, elsewhere.iter().map(is_at)))?;
                    nodes.extend(elsewhere.iter().map(|(_, _, goal)| goal.0 as i32));
                    pages.extend(elsewhere.iter().map(|(page, ..)| *page));
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

    /// The pages of a block, or of the part of it that may be moved, each with where it goes.
    fn goals(&self, start: u64, end: u64) -> Vec<Placed> {
        let index = start / BLOCK.0;
        let all_to =
            |node: NodeOsId| (start..end).step_by(PAGE as usize).map(move |page| (page, node));
        match &self.goal {
            Goal::Node(node) => all_to(*node).collect(),
            Goal::Blocks(blocks) => {
                match blocks.binary_search_by_key(&index, |(index, _)| *index) {
                    Ok(at) => all_to(blocks[at].1).collect(),
                    Err(_) => Vec::new(),
                }
            }
            Goal::Back(blocks) => match blocks.binary_search_by_key(&index, |block| block.index) {
                Ok(at) => {
                    let pages = blocks[at].pages();
                    let pages = pages.map(|(page, node)| (index * BLOCK.0 + page * PAGE, node));
                    pages.filter(|(page, _)| (start..end).contains(page)).collect()
                }
                Err(_) => Vec::new(),
            },
        }
    }

    /// Those of them that are resident elsewhere: with where they are, and where they go.
    fn look_at(
        &self,
        calls: &mut impl PageCalls,
        start: u64,
        end: u64,
        batch: &mut Batch,
    ) -> Result<Vec<Elsewhere>, Errno> {
        let goals = self.goals(start, end);
        if goals.is_empty() {
            return Ok(Vec::new());
        }
        let pages: Vec<u64> = goals.iter().map(|(page, _)| *page).collect();
        let mut status = vec![0; pages.len()];
        let step = pages.len().div_ceil(PROBES);
        let probes: Vec<u64> = pages.iter().copied().step_by(step).collect();
        batch.asked += probes.len() as u64;
        calls.query(&probes, &mut status)?;
        if status[..probes.len()].iter().all(|node| *node < 0) {
            return Ok(Vec::new());
        }
        batch.asked += pages.len() as u64;
        calls.query(&pages, &mut status)?;
        let resident = |((page, goal), node): (Placed, &i32)| {
            let node = NodeOsId(u32::try_from(*node).ok()?);
            (node != goal).then_some((page, node, goal))
        };
        Ok(goals.into_iter().zip(&status).filter_map(resident).collect())
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
        let first = Block::of(1, (0..512).map(|page| (page, NodeOsId(1))));
        assert_eq!((&blocks[0], blocks.len()), (&first, 2));
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
        run(&mut memory, pages, Goal::Back(blocks));
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
        /// Every page that may move does, no other does, and all go back to where they were; no other goes with them.
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
            prop_assert_eq!(blocks.iter().map(|block| block.pages().count() as u64).sum::<u64>(), gone);
            run(&mut memory, pages, Goal::Back(blocks));
            prop_assert_eq!(memory.node_of, before.node_of);
        }
    }
}
