//! Who allocated memory: the table that `libquartier_sites.so` (`act/sites/`) writes in every process of a run.
//!
//! Any of these processes may write anything into it, so what does not fit together counts for nothing. Nor is it complete:
//! a slot has the latest block that came to it, of one address the latest block is kept, and nobody says what is freed. So
//! a block is taken for what lies at an address only from when it was allocated.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use quartier_model::Frame;

use super::space::Place;

/// The library's file.
pub const LIBRARY: &str = "libquartier_sites.so";

const HEAD_BYTES: usize = 4096;
/// For large blocks, and for small ones.
const NR_SLOTS: usize = (1 << 14) + (1 << 17);
const SLOT_BYTES: usize = 128;
/// Start, bytes, process, since when, when, where the call returns to, nine words of stack; then their sum.
const WORDS: usize = 15;
const STACK_AT: usize = 6;
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Of processes whose memory began as a copy of another's.
const GENERATIONS_MAX: usize = 16;

/// The blocks of each process by their addresses; no two of them overlap.
#[derive(Debug, Default)]
pub struct Sites(BTreeMap<u64, BTreeMap<u64, Block>>);

/// A block of memory, and who called for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    bytes: u64,
    /// The same call has given blocks of this address and size since then.
    since_ns: u64,
    /// The last time.
    at_ns: u64,
    /// Where the call returns to.
    pub returns_to: u64,
    /// What was on the stack then.
    pub stack: Vec<u8>,
}

impl Block {
    /// Whether it was there at that moment. `is_alone`: where the call returns to tells the site; else all that is known is
    /// whose the last one was.
    pub fn was_there(&self, at_ns: u64, is_alone: bool) -> bool {
        at_ns >= if is_alone { self.since_ns } else { self.at_ns }
    }
}

impl Sites {
    /// The size of a table that the library writes into.
    pub const TABLE_BYTES: u64 = (HEAD_BYTES + NR_SLOTS * SLOT_BYTES) as u64;
    /// How such a table begins; zeros follow.
    pub const TABLE_HEAD: [u8; 16] = *b"QUARTIER SITES 1";

    /// What is in a table.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(table: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        File::open(table)?.take(Self::TABLE_BYTES).read_to_end(&mut bytes)?;
        Ok(Self::parse(&bytes))
    }

    /// Whether nobody noted anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn parse(bytes: &[u8]) -> Self {
        if !bytes.starts_with(&Self::TABLE_HEAD) {
            return Self::default();
        }
        let slots = bytes.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(SLOT_BYTES);
        let mut found: Vec<_> = slots.filter_map(parse_slot).collect();
        found.sort_by_key(|(process, start, block)| (*process, block.at_ns, *start, block.bytes));
        let mut sites = Self::default();
        for (process, start, block) in found {
            sites.add(process, start, block);
        }
        sites
    }

    /// A block that is later than all before. What it overlaps was freed.
    fn add(&mut self, process: u64, start: u64, block: Block) {
        let blocks = self.0.entry(process).or_default();
        let end = start + block.bytes;
        let overlapped = |(at, old): &(&u64, &Block)| **at + old.bytes > start;
        while let Some((at, _)) = blocks.range(..end).next_back().filter(overlapped) {
            let at = *at;
            blocks.remove(&at);
        }
        blocks.insert(start, block);
    }

    /// The block that an address of a process lies in, and the moment at which it has to have been there: of what a process
    /// got with its memory from another that is when it got it.
    pub(super) fn find(
        &self,
        lives: &Lives,
        process: u32,
        address: u64,
        at_ns: u64,
    ) -> Option<Found<'_>> {
        if at_ns < lives.of(process).since_ns {
            // It was another program then, whose code is no longer known.
            return None;
        }
        let (mut process, mut until_ns) = (process, at_ns);
        for _ in 0..GENERATIONS_MAX {
            let Life { since_ns, parent } = lives.of(process);
            // A parent may have become another program since.
            let from_ns = if since_ns <= until_ns { since_ns } else { 0 };
            let found = self
                .block(process, address)
                .filter(|(_, block)| block.was_there(until_ns, true) && block.at_ns >= from_ns);
            if let Some((start, block)) = found {
                return Some(Found { process, start, block, until_ns });
            }
            (process, until_ns) = (parent?, until_ns.min(since_ns));
        }
        None
    }

    fn block(&self, process: u32, address: u64) -> Option<(u64, &Block)> {
        let (start, block) = self.0.get(&process.into())?.range(..=address).next_back()?;
        (address - start < block.bytes).then_some((*start, block))
    }
}

/// Process, address, block; `None`: the slot is empty, or not whole.
fn parse_slot(slot: &[u8]) -> Option<(u64, u64, Block)> {
    let mut words = [0; WORDS + 1];
    for (word, bytes) in words.iter_mut().zip(slot.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    let [start, bytes, process, since_ns, at_ns, returns_to, ..] = words;
    start.checked_add(bytes)?;
    let is_whole = sum(&words[..WORDS]) == words[WORDS];
    if !is_whole || start == 0 || bytes == 0 || process == 0 || since_ns > at_ns {
        return None;
    }
    let stack = slot.get(STACK_AT * 8..WORDS * 8)?.to_vec();
    Some((process, start, Block { bytes, since_ns, at_ns, returns_to, stack }))
}

/// Of some words of one block and some of another it is wrong.
fn sum(words: &[u64]) -> u64 {
    let factors = std::iter::successors(Some(SCATTER), |last| Some(last.wrapping_mul(SCATTER)));
    let parts = words.iter().zip(factors).map(|(word, factor)| word.wrapping_mul(factor));
    parts.fold(0, u64::wrapping_add)
}

/// A block that was found.
pub(super) struct Found<'a> {
    /// Who allocated it.
    pub process: u32,
    pub start: u64,
    pub block: &'a Block,
    /// It has to have been there then.
    pub until_ns: u64,
}

/// Since when processes have the memory that they have.
#[derive(Debug, Default)]
pub(super) struct Lives(BTreeMap<u32, Life>);

#[derive(Clone, Copy, Debug, Default)]
struct Life {
    since_ns: u64,
    /// It began as a copy of this process's.
    parent: Option<u32>,
}

impl Lives {
    /// A process was made by another.
    pub fn made(&mut self, process: u32, parent: u32, at_ns: u64) {
        self.0.insert(process, Life { since_ns: at_ns, parent: Some(parent) });
    }

    /// A process became another program.
    pub fn executed(&mut self, process: u32, at_ns: u64) {
        self.0.insert(process, Life { since_ns: at_ns, parent: None });
    }

    fn of(&self, process: u32) -> Life {
        self.0.get(&process).copied().unwrap_or_default()
    }
}

/// Who asked for a block, by who called whom from the innermost on: the first function that does not allocate for others, and whether
/// that follows from the innermost call alone.
pub(super) fn site(
    places: Vec<Place>,
    mut frames: impl FnMut(Place) -> Vec<Frame>,
) -> Option<(Frame, bool)> {
    let mut innermost = None;
    for (depth, place) in places.into_iter().enumerate() {
        let frames = frames(place);
        innermost = innermost.or_else(|| frames.last().cloned());
        let named = frames.into_iter().rev().find(|frame| !allocates_for_others(frame));
        if let Some(frame) = named {
            return Some((frame, depth == 0));
        }
    }
    Some((innermost?, true))
}

/// What memory is called that a function asked for.
pub(super) fn name(site: &Frame) -> String {
    format!("memory from {}", site.function)
}

/// Whether a function allocates on behalf of its caller, who is the one to be named: `operator new`, `xmalloc`, a container.
fn allocates_for_others(frame: &Frame) -> bool {
    const LIBRARIES: [&str; 6] =
        ["libc.so", "libc-", "ld-linux", "libstdc++", "libc++", "libgcc_s"];
    const LANGUAGES: [&str; 9] = [
        "operator new",
        "std::",
        "__gnu_cxx::",
        "alloc::",
        "core::",
        "<alloc::",
        "<core::",
        "<std::",
        "__rust",
    ];
    if LIBRARIES.iter().any(|library| frame.module.starts_with(library)) {
        return true;
    }
    let name = frame.function.strip_prefix("void ").unwrap_or(&frame.function);
    let own = name.split(['(', '<']).next().unwrap_or_default();
    let own = own.rsplit("::").next().unwrap_or_default();
    let own = own.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_').to_ascii_lowercase();
    LANGUAGES.iter().any(|start| name.starts_with(start)) || own.ends_with("alloc")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the library writes it: start, bytes, process, since when, when.
    fn slot(start: u64, bytes: u64, process: u64, since_ns: u64, at_ns: u64) -> Vec<u8> {
        let mut words = [7; WORDS + 1];
        words[..STACK_AT].copy_from_slice(&[start, bytes, process, since_ns, at_ns, 0x5000]);
        words[WORDS] = sum(&words[..WORDS]);
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn table(slots: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Sites::TABLE_HEAD.to_vec();
        bytes.resize(HEAD_BYTES, 0);
        bytes.extend(slots.iter().flatten());
        bytes
    }

    fn sites(slots: &[Vec<u8>]) -> Sites {
        Sites::parse(&table(slots))
    }

    fn found(sites: &Sites, lives: &Lives, process: u32, address: u64, at_ns: u64) -> Option<u64> {
        sites.find(lives, process, address, at_ns).map(|found| found.start)
    }

    /// `act/sites/src/table.rs` has these numbers too.
    #[test]
    fn the_layout_is_that_of_the_writer() {
        assert_eq!(Sites::TABLE_BYTES, 18_878_464);
        assert_eq!(sum(&(1..=15).collect::<Vec<_>>()), 0x7f24_2911_7e69_e398);
    }

    #[test]
    fn an_address_is_of_the_block_that_it_lies_in() {
        let sites = sites(&[slot(0x1000, 64, 9, 5, 5), slot(0x1040, 16, 9, 5, 5)]);
        let of = |process, address| found(&sites, &Lives::default(), process, address, 10);
        assert_eq!(of(9, 0xfff), None);
        assert_eq!((of(9, 0x1000), of(9, 0x103f)), (Some(0x1000), Some(0x1000)));
        assert_eq!((of(9, 0x1040), of(9, 0x1050)), (Some(0x1040), None));
        assert_eq!(of(8, 0x1000), None, "of another process");
    }

    #[test]
    fn what_a_later_block_overlaps_is_gone() {
        let old = [slot(0x1000, 64, 9, 5, 5), slot(0x1040, 64, 9, 5, 5), slot(0x1080, 64, 9, 5, 5)];
        let new = slot(0x1030, 0x20, 9, 6, 6);
        let new = std::slice::from_ref(&new);
        for order in [[&old[..], new].concat(), [new, &old[..]].concat()] {
            let sites = sites(&order);
            let of = |address| found(&sites, &Lives::default(), 9, address, 10);
            assert_eq!((of(0x1000), of(0x1030), of(0x1050)), (None, Some(0x1030), None));
            assert_eq!(of(0x1080), Some(0x1080));
        }
    }

    #[test]
    fn a_block_is_there_only_from_when_it_was_allocated() {
        let sites = sites(&[slot(0x1000, 64, 9, 50, 70)]);
        let lives = Lives::default();
        assert_eq!(found(&sites, &lives, 9, 0x1000, 49), None);
        let found = sites.find(&lives, 9, 0x1000, 60).unwrap();
        // Others may have got it through the same function in between.
        let was_there = |is_alone| found.block.was_there(found.until_ns, is_alone);
        assert_eq!((was_there(true), was_there(false)), (true, false));
        assert!(found.block.was_there(70, false));
    }

    #[test]
    fn a_child_has_what_its_parent_had_until_then_and_a_new_program_has_nothing() {
        const S: u64 = 100;
        let sites = sites(&[
            slot(0x1000, 64, 9, S, S),
            slot(0x2000, 64, 9, 3 * S, 3 * S),
            slot(0x3000, 64, 10, 3 * S, 3 * S),
        ]);
        let mut lives = Lives::default();
        lives.made(10, 9, 2 * S);
        lives.made(11, 10, 4 * S);
        let of = |lives: &Lives, process, address| found(&sites, lives, process, address, 9 * S);
        assert_eq!(of(&lives, 10, 0x1000), Some(0x1000));
        assert_eq!(of(&lives, 10, 0x2000), None, "its parent allocated it later");
        assert_eq!(of(&lives, 11, 0x1000), Some(0x1000), "through two");
        assert_eq!(of(&lives, 11, 0x3000), Some(0x3000));
        assert_eq!(found(&sites, &lives, 10, 0x3000, S), None, "before it was made");
        lives.executed(10, 5 * S);
        assert_eq!((of(&lives, 10, 0x1000), of(&lives, 10, 0x3000)), (None, None));
        assert_eq!(of(&lives, 11, 0x3000), Some(0x3000), "made before that");
        // Whoever is its own parent is nobody's child.
        lives.made(12, 12, 5 * S);
        assert_eq!(of(&lives, 12, 0x1000), None);
    }

    #[test]
    fn a_slot_that_is_not_whole_counts_for_nothing() {
        let whole = slot(0x1000, 64, 9, 5, 5);
        assert!(!sites(std::slice::from_ref(&whole)).is_empty());
        let other = slot(0x2000, 32, 8, 4, 6);
        for at in 1..=WORDS {
            let torn = [&whole[..at * 8], &other[at * 8..]].concat();
            assert!(sites(&[torn]).is_empty(), "{at}");
        }
        for bad in [
            slot(0, 64, 9, 5, 5),
            slot(0x1000, 0, 9, 5, 5),
            slot(0x1000, 64, 0, 5, 5),
            slot(0x1000, 64, 9, 6, 5),
            slot(u64::MAX - 3, 4 + 1, 9, 5, 5),
            vec![0; SLOT_BYTES],
        ] {
            assert!(sites(&[bad]).is_empty());
        }
    }

    #[test]
    fn whoever_allocates_for_others_is_not_named() {
        let is = |function: &str, module: &str| {
            allocates_for_others(&Frame {
                function: function.to_owned(),
                module: module.to_owned(),
                line: None,
            })
        };
        for function in [
            "operator new(unsigned long)",
            "xmalloc",
            "zcalloc",
            "g_malloc0",
            "palloc_",
            "AllocSetAlloc",
            "Pool::alloc(int)",
            "std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
            "void std::vector<int>::_M_realloc_append<int>(int&&)",
            "alloc::raw_vec::finish_grow",
            "<alloc::string::String as core::clone::Clone>::clone",
            "__rust_alloc",
        ] {
            assert!(is(function, "program"), "{function}");
        }
        assert!(is("libc.so.6+0x8a", "libc.so.6"));
        for function in
            ["main", "make_counters", "allocate_some", "Table::allocate(int)", "program+0x1130"]
        {
            assert!(!is(function, "program"), "{function}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            head in any::<bool>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            address in any::<u64>(),
        ) {
            let mut all = if head { table(&[]) } else { Vec::new() };
            all.extend(&bytes);
            let sites = Sites::parse(&all);
            prop_assert!(sites.find(&Lives::default(), 1, address, u64::MAX).is_none());
        }

        #[test]
        fn whatever_blocks_there_are_no_two_overlap_and_each_is_found(
            blocks in proptest::collection::vec((1..300_u64, 1..60_u64, 1..3_u64, 0..9_u64), 0..60),
            (broken, bit) in (0..60_usize, 0..SLOT_BYTES * 8),
            cut in 0..SLOT_BYTES,
        ) {
            let slots = blocks.iter();
            let slots = slots.map(|(start, bytes, process, at)| slot(*start, *bytes, *process, 0, *at));
            let mut slots: Vec<_> = slots.collect();
            let mut nr_whole = slots.len();
            if let Some(slot) = slots.get_mut(broken) {
                slot[bit / 8] ^= 1 << (bit % 8);
                nr_whole -= 1;
            }
            let mut bytes = table(&slots);
            if cut > 0 && broken + 1 != slots.len() && !slots.is_empty() {
                nr_whole -= 1;
            }
            let whole = if slots.is_empty() { bytes.len() } else { bytes.len() - cut };
            bytes.truncate(whole);
            let sites = Sites::parse(&bytes);
            let mut nr_left = 0;
            for (process, blocks) in &sites.0 {
                let mut end = 0;
                for (start, block) in blocks {
                    prop_assert!(*start >= end, "{sites:?}");
                    end = start + block.bytes;
                    for address in [*start, end - 1] {
                        let process = u32::try_from(*process).unwrap();
                        let found = found(&sites, &Lives::default(), process, address, u64::MAX);
                        prop_assert_eq!(found, Some(*start));
                    }
                    nr_left += 1;
                }
            }
            prop_assert!(nr_left <= nr_whole, "{nr_left} of {nr_whole}");
            prop_assert!(nr_left > 0 || nr_whole == 0);
        }

        #[test]
        fn extreme_blocks_are_read(
            (start, bytes, process) in (any::<u64>(), any::<u64>(), any::<u64>()),
            (since, at, address) in (any::<u64>(), any::<u64>(), any::<u64>()),
        ) {
            let sites = sites(&[slot(start, bytes, process, since, at)]);
            let _ = found(&sites, &Lives::default(), process as u32, address, at);
        }
    }
}
