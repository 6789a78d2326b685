//! Moves a process's pages, a bounded number at a time, blocks of 2 MiB. However many they are, it is one call: for each the
//! kernel has every CPU give up what it holds back, and waits for that (`lru_cache_disable`). A huge page moves by its first
//! base page alone: each other one that is named costs a walk of the page table, and has the kernel end its own batch.

use std::io;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

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
/// The status of a page of which the kernel said nothing: a call may end before it, also one that does not fail (Linux 4.17).
const UNWRITTEN: i32 = -1;

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

/// Those of a process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessPages {
    /// Its id.
    pub pid: u32,
    /// So many threads move them at most.
    pub threads: usize,
}

impl ProcessPages {
    /// A thread is not started for fewer.
    const PER_THREAD_MIN: usize = 8;
}

impl PageCalls for ProcessPages {
    fn query(&mut self, pages: &[u64], status: &mut [i32]) -> Result<(), Errno> {
        sys::query_nodes_of(self.pid as i32, pages, status).map(|_| ())
    }

    fn move_to(&mut self, pages: &[u64], nodes: &[i32], status: &mut [i32]) -> Result<(), Errno> {
        let pid = self.pid as i32;
        let whole = |pages: &[u64], nodes: &[i32], status: &mut [i32]| {
            sys::move_pages_of(pid, pages, nodes, status).map(|_| ())
        };
        let threads = self.threads.min(pages.len() / Self::PER_THREAD_MIN);
        if threads < 2 {
            return whole(pages, nodes, status);
        }
        let each = pages.len().div_ceil(threads);
        let parts = pages.chunks(each).zip(nodes.chunks(each)).zip(status.chunks_mut(each));
        let moved = thread::scope(|scope| {
            let spawn = |((pages, nodes), status)| {
                thread::Builder::new().spawn_scoped(scope, move || whole(pages, nodes, status))
            };
            let movers: Vec<_> = parts.map(spawn).collect();
            let result = |mover: io::Result<ScopedJoinHandle<'_, _>>| {
                Some(mover.ok()?.join().unwrap_or_else(|panic| resume_unwind(panic)))
            };
            let results: Vec<Option<Result<(), Errno>>> = movers.into_iter().map(result).collect();
            results.into_iter().collect::<Option<Result<(), Errno>>>()
        });
        // Where no more threads may be started this one does all of it; what has moved already costs it little.
        moved.unwrap_or_else(|| whole(pages, nodes, status))
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
    /// Batches in a row in which no block was a huge page.
    without_huge: u32,
}

/// What a batch did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Pages that were asked about, which takes time too.
    pub asked: u64,
    /// Pages that are where they should be now, and were not before.
    pub moved: u64,
}

/// A block that seems to be a huge page: all that was asked for is on one node, and goes to one other.
#[derive(Clone, Copy, Debug)]
struct Whole {
    start: u64,
    from: NodeOsId,
    to: NodeOsId,
}

impl Whole {
    /// Its first pages.
    fn first(self, nr: u64) -> Block {
        Block::of(self.start / BLOCK.0, (0..nr).map(|page| (page, self.from)))
    }
}

/// What there is to move of a block.
#[derive(Debug)]
enum Found {
    Whole(Whole),
    Pages(Vec<Elsewhere>),
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
        Self { process, goal, left, moved: 0, stayed: 0, refusal: None, without_huge: 0 }
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

    /// Moves about so many pages and asks about not many more. `note` hears of pages before they are moved, and may end it
    /// all; of a huge page it hears of the first page then, which takes all of it back too, and of all when it has moved.
    ///
    /// # Errors
    /// That of `note`.
    pub fn go_on<E>(
        &mut self,
        calls: &mut impl PageCalls,
        pages_max: u64,
        mut note: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<Batch, E> {
        let mut batch = Batch::default();
        let (mut pages, mut wholes) = (Vec::new(), Vec::new());
        // Where there are none, it is tried ever more seldom.
        let may_be_huge = self.without_huge == 0 || self.without_huge.is_power_of_two();
        // Asking about a page costs a twentieth of moving it.
        while (pages.len() + wholes.len() * BLOCK_PAGES as usize) as u64 + batch.asked / 20
            < pages_max
        {
            let Some((start, end)) = self.left.pop() else { break };
            match self.look_at(calls, (start, end), may_be_huge, &mut batch) {
                Ok(Found::Whole(whole)) => wholes.push(whole),
                Ok(Found::Pages(elsewhere)) => pages.extend(noted(elsewhere, &mut note)?),
                Err(errno) => self.give_up(errno),
            }
        }
        let nr_wholes = wholes.len();
        let small = self.move_huge(calls, wholes, &mut batch, &mut note)?;
        let has_huge = small.len() < nr_wholes;
        self.without_huge = if has_huge { 0 } else { self.without_huge + 1 };
        for Whole { start, .. } in small {
            match Self::ask_all(calls, self.goals(start, start + BLOCK.0), &mut batch) {
                Ok(elsewhere) => pages.extend(noted(elsewhere, &mut note)?),
                Err(errno) => self.give_up(errno),
            }
        }
        self.move_pages(calls, &pages, &mut batch);
        self.moved += batch.moved;
        Ok(batch)
    }

    /// Moves blocks by their first pages. Those whose last ones have not come along are no huge pages.
    fn move_huge<E>(
        &mut self,
        calls: &mut impl PageCalls,
        wholes: Vec<Whole>,
        batch: &mut Batch,
        note: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<Vec<Whole>, E> {
        if wholes.is_empty() {
            return Ok(wholes);
        }
        wholes.iter().try_for_each(|whole| note(whole.first(1)))?;
        let first: Vec<u64> = wholes.iter().map(|whole| whole.start).collect();
        let last: Vec<u64> = first.iter().map(|start| start + BLOCK.0 - PAGE).collect();
        let nodes: Vec<i32> = wholes.iter().map(|whole| whole.to.0 as i32).collect();
        let (mut status, mut followed) =
            (vec![UNWRITTEN; first.len()], vec![UNWRITTEN; first.len()]);
        let called = calls.move_to(&first, &nodes, &mut status);
        // Of a call that fails in part of it, or leaves some out, the status does not say all.
        let asked = calls.query(&first, &mut status);
        let asked = asked.and_then(|()| calls.query(&last, &mut followed));
        batch.asked += 2 * last.len() as u64;
        let mut small = Vec::new();
        for (at, whole) in wholes.into_iter().enumerate() {
            let moved = match (status[at] == nodes[at], followed[at] == nodes[at]) {
                (true, true) => BLOCK_PAGES,
                (has_moved, _) => u64::from(has_moved),
            };
            batch.moved += moved;
            if moved == BLOCK_PAGES {
                note(whole.first(BLOCK_PAGES))?;
            } else {
                small.push(whole);
            }
        }
        if let Err(errno) = called.and(asked) {
            self.give_up(errno);
            return Ok(Vec::new());
        }
        Ok(small)
    }

    /// Moves pages one by one.
    fn move_pages(
        &mut self,
        calls: &mut impl PageCalls,
        elsewhere: &[Elsewhere],
        batch: &mut Batch,
    ) {
        if elsewhere.is_empty() {
            return;
        }
        let pages: Vec<u64> = elsewhere.iter().map(|(page, ..)| *page).collect();
        let nodes: Vec<i32> = elsewhere.iter().map(|(.., goal)| goal.0 as i32).collect();
        let (moved, called) = Self::move_all(calls, &pages, &nodes, batch);
        batch.moved += moved;
        match called {
            Ok(()) => self.stayed += pages.len() as u64 - moved,
            Err(errno) => self.give_up(errno),
        }
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

    /// What there is to move of a block, or of the part of it that may be moved.
    fn look_at(
        &self,
        calls: &mut impl PageCalls,
        (start, end): (u64, u64),
        may_be_huge: bool,
        batch: &mut Batch,
    ) -> Result<Found, Errno> {
        let goals = self.goals(start, end);
        let Some((_, to)) = goals.first().copied() else { return Ok(Found::Pages(Vec::new())) };
        let step = goals.len().div_ceil(PROBES);
        let probes: Vec<u64> = goals.iter().map(|(page, _)| *page).step_by(step).collect();
        let mut probed = vec![0; probes.len()];
        batch.asked += probes.len() as u64;
        calls.query(&probes, &mut probed)?;
        if probed.iter().all(|node| *node < 0) {
            return Ok(Found::Pages(Vec::new()));
        }
        let is_one = goals.len() as u64 == BLOCK_PAGES
            && goals.iter().all(|(_, goal)| *goal == to)
            && probed.iter().all(|node| *node == probed[0]);
        if let Ok(from) = u32::try_from(probed[0])
            && may_be_huge
            && is_one
            && NodeOsId(from) != to
        {
            return Ok(Found::Whole(Whole { start, from: NodeOsId(from), to }));
        }
        Self::ask_all(calls, goals, batch).map(Found::Pages)
    }

    /// Those that are resident elsewhere: with where they are, and where they go.
    fn ask_all(
        calls: &mut impl PageCalls,
        goals: Vec<Placed>,
        batch: &mut Batch,
    ) -> Result<Vec<Elsewhere>, Errno> {
        let pages: Vec<u64> = goals.iter().map(|(page, _)| *page).collect();
        let mut status = vec![0; pages.len()];
        batch.asked += pages.len() as u64;
        calls.query(&pages, &mut status)?;
        let resident = |((page, goal), node): (Placed, &i32)| {
            let node = NodeOsId(u32::try_from(*node).ok()?);
            (node != goal).then_some((page, node, goal))
        };
        Ok(goals.into_iter().zip(&status).filter_map(resident).collect())
    }

    /// Moves pages to nodes; says how many are where they should be then, also if it fails for others.
    fn move_all(
        calls: &mut impl PageCalls,
        pages: &[u64],
        nodes: &[i32],
        batch: &mut Batch,
    ) -> (u64, Result<(), Errno>) {
        let mut status = vec![UNWRITTEN; pages.len()];
        let called = calls.move_to(pages, nodes, &mut status);
        // One page of a huge one takes all of it along: that the others could not be moved beside it says nothing.
        let is_open = |(at, status): (usize, &i32)| (*status < 0).then_some(at);
        let open: Vec<usize> = status.iter().enumerate().filter_map(is_open).collect();
        let mut moved = status.iter().zip(nodes).filter(|(status, node)| status == node).count();
        if open.is_empty() {
            return (moved as u64, called);
        }
        batch.asked += open.len() as u64;
        let asked: Vec<u64> = open.iter().map(|at| pages[*at]).collect();
        let queried = calls.query(&asked, &mut status);
        if queried.is_ok() {
            let is_there = |(at, status): &(&usize, &i32)| nodes[**at] == **status;
            moved += open.iter().zip(&status).filter(is_there).count();
        }
        (moved as u64, called.and(queried))
    }
}

/// Says of pages of one block that they are about to be moved.
fn noted<E>(
    elsewhere: Vec<Elsewhere>,
    note: &mut impl FnMut(Block) -> Result<(), E>,
) -> Result<Vec<Elsewhere>, E> {
    if let Some((first, ..)) = elsewhere.first() {
        let is_at = |(page, node, _): &Elsewhere| (page / PAGE % BLOCK_PAGES, *node);
        note(Block::of(first / BLOCK.0, elsewhere.iter().map(is_at)))?;
    }
    Ok(elsewhere)
}

#[cfg(test)]
mod tests;
