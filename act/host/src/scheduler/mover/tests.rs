//! Moves in a memory that behaves as the kernel's does.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::scheduler::blocks::{self, Blocks};
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
    /// The same of moving alone.
    fails_to_move: Option<Errno>,
    calls: usize,
    /// Pages that were named to be moved.
    named: usize,
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

    fn move_to(&mut self, pages: &[u64], nodes: &[i32], status: &mut [i32]) -> Result<(), Errno> {
        self.named += pages.len();
        self.fails_to_move.map_or(Ok(()), Err)?;
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
    let mut blocks = Blocks::new();
    while !it.is_done() {
        let note = |block| {
            blocks::note(&mut blocks, block);
            Ok::<(), ()>(())
        };
        let batch = it.go_on(memory, 100, note).unwrap();
        assert!(batch.moved <= 100 + BLOCK_PAGES, "a batch is bounded");
    }
    (it.outcome(Nanos(0), &nothing_done(own(), Nanos(0))), blocks.into_values().collect())
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
    let on = |node| memory.node_of.iter().filter(move |(_, on)| **on == node).map(|(at, _)| *at);
    assert!(on(2).eq(BLOCK_PAGES..2 * BLOCK_PAGES));
    assert!(on(1).eq(3 * BLOCK_PAGES..3 * BLOCK_PAGES + 256));
    assert_eq!((outcome.moved.0 / PAGE, outcome.stayed), (BLOCK_PAGES + 256, Bytes(0)));
    run(&mut memory, pages, Goal::Back(blocks));
    assert_eq!(memory.node_of, before.node_of);
}

#[test]
fn of_a_huge_page_the_first_one_is_named_and_it_goes_back_by_it() {
    let mut memory = Memory::default();
    memory.node_of.extend((0..8 * BLOCK_PAGES).map(|page| (page, 0)));
    memory.huge.extend([0, 1, 2, 5].map(|block| block * BLOCK_PAGES));
    let before = memory.clone();
    let pages = vec![range(0, 8 * BLOCK_PAGES)];
    let (outcome, blocks) = run(&mut memory, pages.clone(), Goal::Node(NodeOsId(1)));
    assert_eq!(outcome.moved.0 / PAGE, 8 * BLOCK_PAGES);
    assert!(memory.node_of.values().all(|node| *node == 1));
    // Of those that are none, the first is tried, and all others come then.
    assert!(memory.named <= 4 + 4 * BLOCK_PAGES as usize, "{}", memory.named);
    assert!(blocks.iter().all(|block| block.pages().count() as u64 == BLOCK_PAGES));
    run(&mut memory, pages.clone(), Goal::Back(blocks.clone()));
    assert_eq!(memory.node_of, before.node_of);
    // Killed when it had said no more than that.
    let mut memory = Memory { node_of: BTreeMap::new(), ..before.clone() };
    memory.node_of.extend((0..BLOCK_PAGES).map(|page| (page, 1)));
    let first = Block::of(0, [(0, NodeOsId(0))]);
    run(&mut memory, pages, Goal::Back(vec![first]));
    assert!(memory.node_of.values().all(|node| *node == 0));
}

#[test]
fn a_huge_page_that_cannot_be_moved_stays_and_is_counted() {
    let mut memory = Memory::default();
    memory.node_of.extend((0..BLOCK_PAGES).map(|page| (page, 0)));
    memory.huge.insert(0);
    memory.locked.insert(0);
    let (outcome, _) = run(&mut memory, vec![range(0, 512)], Goal::Node(NodeOsId(1)));
    assert_eq!((outcome.moved, outcome.stayed.0 / PAGE), (Bytes(0), BLOCK_PAGES));
}

#[test]
fn a_huge_page_that_may_not_be_moved_is_not_taken_to_have_moved() {
    let fails_to_move = Some(Errno::EPERM);
    let mut memory = Memory { fails_to_move, ..Memory::default() };
    memory.node_of.extend((0..BLOCK_PAGES).map(|page| (page, 1)));
    memory.huge.insert(0);
    // The number of the first node is what nobody has written yet, too.
    let (outcome, _) = run(&mut memory, vec![range(0, 512)], Goal::Node(NodeOsId(0)));
    assert_eq!((outcome.moved, outcome.refusal), (Bytes(0), Some(Refusal::NotPermitted)));
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
