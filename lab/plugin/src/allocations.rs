//! Who asked for the memory that programs have, as a library in them tells it (`act/sites/`), from before counting begins on.
//!
//! Who frees is not told: a block is there until a later one overlaps it, or its process ends or becomes another program. What a
//! process had from its parent is not known of it.

use std::collections::{BTreeMap, HashMap};

use quartier_count::Allocation;

/// Blocks that are known at once; of more the latest are not.
const BLOCKS_MAX: usize = 1 << 19;
/// Calls that are told of at most.
const SITES_MAX: usize = 1 << 16;
/// What is kept of the stack of whoever called: enough to find who called a function that allocates for others.
const STACK_WORDS: usize = 9;
const PAGE_BYTES: u64 = 4096;
/// Of where page tables are: the kernel may have its own on the next page, and processors keep other things in the lowest bits.
const ROOT: u64 = !0x1fff;

/// A call that gave memory; 0: none that is known.
pub type Site = u32;

/// All blocks.
#[derive(Debug, Default)]
pub struct Allocations {
    processes: HashMap<u32, Space>,
    nr_blocks: usize,
    /// Those that somebody asked for.
    sites: Vec<Allocation>,
    numbers: HashMap<Allocation, Site>,
    /// Blocks that were told of.
    pub nr_told: u64,
}

/// Those of a process.
#[derive(Debug, Default)]
struct Space {
    /// Where its page tables are: the program that it becomes has others.
    root: u64,
    /// By their first byte; no two overlap.
    blocks: BTreeMap<u64, Block>,
}

#[derive(Debug)]
struct Block {
    end: u64,
    by: Allocation,
}

/// How many words of a stack are read: behind the page of the return address there may be nothing.
pub fn words_of_stack(stack: u64) -> usize {
    let returned_from = stack.wrapping_sub(8);
    let on_page = (PAGE_BYTES - returned_from % PAGE_BYTES) / 8;
    (on_page.saturating_sub(1) as usize).min(STACK_WORDS)
}

impl Allocations {
    /// A process, whose page tables are there, was given so many bytes at an address.
    pub fn note(
        &mut self,
        (process, root): (u32, u64),
        (start, bytes): (u64, u64),
        by: Allocation,
    ) {
        let Some(end) = start.checked_add(bytes).filter(|end| *end > start) else { return };
        self.nr_told += 1;
        let space = self.processes.entry(process).or_default();
        if space.root != root & ROOT {
            self.nr_blocks -= space.blocks.len();
            *space = Space { root: root & ROOT, blocks: BTreeMap::new() };
        }
        // What it overlaps was freed.
        while let Some((at, old)) = space.blocks.range(..end).next_back()
            && old.end > start
        {
            let at = *at;
            space.blocks.remove(&at);
            self.nr_blocks -= 1;
        }
        if self.nr_blocks < BLOCKS_MAX {
            space.blocks.insert(start, Block { end, by });
            self.nr_blocks += 1;
        }
    }

    /// A process is no more.
    pub fn ended(&mut self, process: u32) {
        let space = self.processes.remove(&process);
        self.nr_blocks -= space.map_or(0, |space| space.blocks.len());
    }

    /// Which call gave the memory at an address.
    pub fn find(&mut self, (process, root): (u32, u64), address: u64) -> Site {
        let space = self.processes.get(&process).filter(|space| space.root == root & ROOT);
        let block = space.and_then(|space| space.blocks.range(..=address).next_back());
        let Some((_, block)) = block.filter(|(_, block)| address < block.end) else { return 0 };
        if let Some(known) = self.numbers.get(&block.by) {
            return *known;
        }
        if self.sites.len() == SITES_MAX {
            return 0;
        }
        self.sites.push(block.by.clone());
        let site = self.sites.len() as Site;
        self.numbers.insert(block.by.clone(), site);
        site
    }

    /// A call.
    pub fn site(&self, site: Site) -> Option<&Allocation> {
        self.sites.get((site as usize).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (u32, u64) = (7, 0x10_2000);

    fn by(returns_to: u64) -> Allocation {
        Allocation { returns_to, stack: vec![1, 2] }
    }

    /// Where the call that gave it returns to.
    fn at(allocations: &mut Allocations, process: (u32, u64), address: u64) -> Option<u64> {
        let site = allocations.find(process, address);
        allocations.site(site).map(|site| site.returns_to)
    }

    #[test]
    fn an_address_is_of_the_latest_block_that_it_lies_in() {
        let mut all = Allocations::default();
        for (start, bytes, call) in [(0x1000, 64, 1), (0x1040, 64, 2), (0x1080, 64, 3)] {
            all.note(ONE, (start, bytes), by(call));
        }
        assert_eq!(
            [0xfff, 0x1000, 0x103f].map(|of| at(&mut all, ONE, of)),
            [None, Some(1), Some(1)]
        );
        all.note(ONE, (0x1030, 0x20), by(4));
        let found = [0x1000, 0x1030, 0x104f, 0x1050, 0x1080].map(|of| at(&mut all, ONE, of));
        assert_eq!(found, [None, Some(4), Some(4), None, Some(3)]);
        assert_eq!((all.nr_told, all.nr_blocks), (4, 2));
        // The same call is the same one.
        all.note(ONE, (0x9000, 1), by(4));
        assert_eq!(all.find(ONE, 0x9000), all.find(ONE, 0x1030));
    }

    #[test]
    fn blocks_are_one_programs_in_one_process() {
        let mut all = Allocations::default();
        all.note(ONE, (0x1000, 64), by(1));
        assert_eq!(at(&mut all, (8, ONE.1), 0x1000), None, "another process");
        assert_eq!(at(&mut all, (7, 0x40_2000), 0x1000), None, "another program in it");
        // The kernel's own tables, and what a processor keeps in the lowest bits.
        assert_eq!(at(&mut all, (7, 0x10_3005), 0x1000), Some(1));
        all.note((7, 0x40_2000), (0x2000, 64), by(2));
        assert_eq!(at(&mut all, ONE, 0x1000), None, "it has become another program");
        assert_eq!(all.nr_blocks, 1);
        all.ended(7);
        all.ended(9);
        assert_eq!((at(&mut all, (7, 0x40_2000), 0x2000), all.nr_blocks), (None, 0));
    }

    #[test]
    fn what_is_no_block_is_left_out() {
        let mut all = Allocations::default();
        for (start, bytes) in [(0x1000, 0), (u64::MAX, 2), (u64::MAX - 7, 8)] {
            all.note(ONE, (start, bytes), by(1));
        }
        assert_eq!((all.nr_told, all.nr_blocks), (0, 0));
        assert_eq!((all.find(ONE, 0x1000), all.site(0).is_none()), (0, true));
    }

    #[test]
    fn of_a_stack_what_is_on_the_page_of_the_return_address_is_read() {
        let of = |stack: u64| words_of_stack(stack);
        assert_eq!([0x1008, 0x1010, 0x1fb8, 0x1ff0, 0x1ff8, 0x2000].map(of), [9, 9, 9, 2, 1, 0]);
    }
}
