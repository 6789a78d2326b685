//! What the program moves (`mremap`) and unmaps past the C library.
//!
//! The kernel tells of a change after it has let go of the mappings. So one thread may free memory and another
//! move marked memory to its place, and the second is told first. Until everything under way has been read
//! (*settled*: the kernel says so), what has moved is kept apart from what was there before, and nothing is
//! pulled or marked.

use quartier_kernel::sys::{self, PAGE};
use quartier_session::Rung;

use super::regions::{Arrival, Region, Regions, take_at};
use super::serve::Server;
use crate::own;

/// How often it is tried again while the program is changing its mappings.
pub(super) const CHANGE_TRIES: usize = 10_000;

/// Regions that a message may add: the range it is about is cut out of another at both ends.
pub(super) const REGIONS_PER_MESSAGE: usize = 2;

/// Whose change the kernel tells of.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// What lay there when all was known.
    Settled,
    /// What has arrived there since.
    Arrived(Arrival),
}

impl Regions {
    /// Whether nothing has moved since all changes were known.
    pub fn are_settled(&self) -> bool {
        self.arrived.len() == 0
    }

    /// The first region that overlaps `[start, end)`, of what has arrived there if any has.
    pub fn first_of_newest(&mut self, start: usize, end: usize) -> Option<Region> {
        if let Some(at) = self.first_arrived(start, end) {
            return Some(self.arrived.all()[at]);
        }
        self.first_in(start, end).map(|at| self.all()[at])
    }

    /// The region at an index of all, arrived or not.
    pub fn nth(&mut self, at: usize) -> Region {
        let settled = self.all().len();
        if at < settled { self.all()[at] } else { self.arrived.all()[at - settled] }
    }

    /// `mremap` moved `[from, from + len)` to `to`.
    fn moved(&mut self, from: usize, to: usize, len: usize) {
        let end = from + len;
        let part = self.first_arrived(from, end).map(|at| self.arrived.all()[at].arrival);
        let whose = self.whose(from, end).or(part.map(Whose::Arrived));
        let Some(whose) = whose else { return };
        self.nr_moves += 1;
        let arrival = Arrival { start: to, number: self.nr_moves };
        while let Some(region) = self.take_of(whose, from, end) {
            // There is room: so much is kept for it.
            let _ = self.arrived.insert(usize::MAX, region.moved(from, arrival));
        }
        let _ = self.left.insert(usize::MAX, (from, end));
    }

    /// The program unmapped a range: gives whose, if any of ours.
    fn unmapped(&mut self, start: usize, end: usize) -> Option<Whose> {
        if let Some(at) = self.left.all().iter().position(|left| *left == (start, end)) {
            self.left.remove(at);
            return None;
        }
        let whose = self.whose(start, end);
        if !matches!(whose, Some(Whose::Arrived(_))) {
            self.in_doubt |= self.first_arrived(start, end).is_some();
        }
        whose
    }

    /// Whose a change of `[start, end)` is. Programs change what they have from its start; of two that start
    /// there it is the older one's, whose change has waited longer to be told. `None` where only a part of what
    /// has arrived can be meant, or something that is none of ours.
    fn whose(&mut self, start: usize, end: usize) -> Option<Whose> {
        let settled = self.first_in(start, end).map(|at| self.all()[at].start);
        let is_exact =
            |region: &&Region| region.arrival.start == start && region.overlaps(start, end);
        match self.arrived.all().iter().find(is_exact) {
            Some(region) if settled != Some(start) => Some(Whose::Arrived(region.arrival)),
            _ => settled.map(|_| Whose::Settled),
        }
    }

    fn first_arrived(&mut self, start: usize, end: usize) -> Option<usize> {
        self.arrived.all().iter().position(|region| region.overlaps(start, end))
    }

    /// Takes a region out of `[start, end)`.
    fn take_of(&mut self, whose: Whose, start: usize, end: usize) -> Option<Region> {
        let Whose::Arrived(arrival) = whose else { return self.take(start, end) };
        let its = |region: &Region| region.arrival == arrival && region.overlaps(start, end);
        let at = self.arrived.all().iter().position(its)?;
        take_at(&mut self.arrived, at, start, end)
    }
}

impl Server {
    /// The program moved a range.
    pub(super) fn moved(&mut self, from: usize, to: usize, len: usize) {
        // The kernel moves nothing onto itself.
        if to >= from + len || from >= to + len {
            self.regions.moved(from, to, len);
        }
    }

    /// The program unmapped a range. The kernel tells us when it has done so: there is nothing to wait for.
    pub(super) fn unmapped(&mut self, start: usize, end: usize) {
        let Some(whose) = self.regions.unmapped(start, end) else { return };
        while let Some(region) = self.regions.take_of(whose, start, end) {
            self.discard(region);
        }
    }

    /// Joins what has moved with the rest, if all that the program has changed is known; `false` if not.
    pub(super) fn settle(&mut self) -> bool {
        if self.regions.are_settled() {
            return true;
        }
        if self.uffd.mappings_changing() || !self.resolve_doubts() {
            return false;
        }
        for at in 0..self.regions.arrived.len() {
            let region = self.regions.arrived.all()[at];
            self.put_in_place(region);
        }
        self.regions.arrived.clear();
        self.regions.left.clear();
        true
    }

    /// Reads what the program changes until all is known and it has gone on; `false` if that takes too long.
    pub(super) fn read_changes(&mut self) -> bool {
        for _ in 0..CHANGE_TRIES {
            if self.rung != Rung::Move || !self.uffd.mappings_changing() && self.settle() {
                return true;
            }
            self.read_messages();
            sys::sleep_micros(20);
        }
        false
    }

    /// What arrived where something was unmapped is still there if the kernel has it registered. `false` if the
    /// program changes its mappings again, of which we are to read first.
    fn resolve_doubts(&mut self) -> bool {
        let mut at = 0;
        while self.regions.in_doubt && at < self.regions.arrived.len() {
            let region = self.regions.arrived.all()[at];
            let mut gone = None;
            for page in (region.start..region.end).step_by(PAGE) {
                match self.uffd.is_registered(page, own::NOTHING) {
                    None => return false,
                    Some(true) => {}
                    Some(false) => {
                        gone = Some(page);
                        break;
                    }
                }
            }
            match gone.and_then(|page| take_at(&mut self.regions.arrived, at, page, page + PAGE)) {
                Some(gone) => self.discard(gone),
                None => at += 1,
            }
        }
        self.regions.in_doubt = false;
        true
    }

    /// Puts a region where it has arrived. What we still have there has left, of which there is no message.
    fn put_in_place(&mut self, region: Region) {
        while let Some(gone) = self.regions.take(region.start, region.end) {
            self.discard(gone);
        }
        // There is room: so much is kept for it.
        let _ = self.regions.insert(region);
    }

    /// A region whose data is nobody's any more.
    fn discard(&mut self, region: Region) {
        if self.rung == Rung::Move {
            self.drop_shadow(region.shadow_of(region.start), region.end - region.start);
        }
        region.free(self.uffd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quartier_kernel::uffd::Uffd;
    use std::collections::BTreeMap;

    const BLOCK: usize = 65536;

    fn settle(regions: &mut Regions) {
        while !regions.are_settled() {
            let region = regions.arrived.remove(0);
            while let Some(gone) = regions.take(region.start, region.end) {
                gone.free(Uffd(-1));
            }
            regions.insert(region).unwrap();
        }
    }

    #[test]
    fn the_blocks_of_a_moved_region_move_with_it() {
        let mut regions = Regions::new().unwrap();
        regions.insert(Region::new(0x10_1000, 0x20_0000, BLOCK).unwrap()).unwrap();
        regions.all()[0].settle(0x11_0000, 0x12_0000, BLOCK);
        // Once up and once down, by no multiple of a block.
        for (from, to) in [(0x10_1000, 0x50_3000), (0x50_3000, 0x4000)] {
            let nr_pending = regions.all()[0].nr_pending;
            regions.moved(from, to, 0xf_f000);
            settle(&mut regions);
            let region = &mut regions.all()[0];
            assert_eq!((region.start, region.end), (to, to + 0xf_f000));
            assert_eq!(region.recount(BLOCK), nr_pending);
            let block = (to + 0xf000, to + 0x1_f000);
            assert_eq!(region.next_settled(to, BLOCK), Some(block));
            assert_eq!(region.block_start(block.1 - 1, BLOCK), block.0);
            assert!(region.pending(block.0 - 1, BLOCK) && region.pending(block.1, BLOCK));
        }
        let region = &mut regions.all()[0];
        assert_eq!(region.settle(0x4000, region.end, BLOCK), 15);
        assert_eq!(region.nr_pending, 0);
        regions.remove(0).free(Uffd(-1));
    }

    /// A program's mappings as they are, and what the helper has read of them.
    #[derive(Default)]
    struct Model {
        /// Of each thread: where its mapping begins and the pages it has; its shadow is at `shadow(thread)`.
        mappings: [Option<(usize, usize)>; THREADS],
        /// Of each thread: a change that it has made and not been told to go on from. That the place it moved
        /// from is unmapped is told only after the move.
        unread: [Option<Change>; THREADS],
        /// Where mappings began that are gone, and those of them that the helper knows of.
        freed: Vec<usize>,
        known_freed: Vec<usize>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Moved { from: usize, to: usize, pages: usize },
        Unmapped { start: usize, pages: usize },
    }

    const THREADS: usize = 4;
    const FIRST: usize = 0x1000_0000;

    fn shadow(thread: usize) -> usize {
        0x7000_0000_0000 + thread * 0x1_0000_0000
    }

    impl Model {
        fn is_free(&self, start: usize, pages: usize) -> bool {
            let apart = |(other, others): (usize, usize)| {
                start + pages * PAGE <= other || other + others * PAGE <= start
            };
            self.mappings.iter().flatten().all(|mapping| apart(*mapping))
        }

        /// A place that overlaps one that was freed, if there is one; with the same start only if the helper
        /// knows that it was, for the other case cannot be told from another.
        fn place(&self, pick: usize, pages: usize) -> usize {
            let freed = self
                .freed
                .iter()
                .rev()
                .take(3)
                .flat_map(|start| [start + PAGE, start.wrapping_sub(PAGE), start + 2 * PAGE]);
            let known = self.known_freed.iter().rev().take(2).copied();
            let fits = |start: &usize| {
                let may_start = !self.freed.contains(start) || self.known_freed.contains(start);
                self.is_free(*start, pages) && may_start
            };
            let places: Vec<_> = freed.chain(known).filter(fits).collect();
            let fresh = FIRST + (self.freed.len() + 1) * 0x100_0000;
            places.get(pick % (places.len() + 1)).copied().unwrap_or(fresh)
        }

        fn change(&mut self, thread: usize, pick: usize) {
            let Some((start, pages)) = self.mappings[thread] else { return };
            let (mapping, change) = if pick.is_multiple_of(4) {
                (None, Change::Unmapped { start, pages })
            } else {
                let to = self.place(pick, pages);
                (Some((to, pages)), Change::Moved { from: start, to, pages })
            };
            self.freed.push(start);
            self.known_freed.retain(|known| *known != start);
            self.mappings[thread] = mapping;
            self.unread[thread] = Some(change);
        }

        fn read(&mut self, regions: &mut Regions, thread: usize, change: Change) {
            regions.make_room(REGIONS_PER_MESSAGE).unwrap();
            match change {
                Change::Moved { from, to, pages } => {
                    regions.moved(from, to, pages * PAGE);
                    self.known_freed.push(from);
                    self.unread[thread] = Some(Change::Unmapped { start: from, pages });
                }
                Change::Unmapped { start, pages } => {
                    let end = start + pages * PAGE;
                    if let Some(whose) = regions.unmapped(start, end) {
                        self.known_freed.push(start);
                        while let Some(gone) = regions.take_of(whose, start, end) {
                            gone.free(Uffd(-1));
                        }
                    }
                }
            }
            if self.unread.iter().any(Option::is_some) {
                return;
            }
            while let Some(at) = regions.arrived.all().iter().position(|r| self.is_free(r.start, 1))
            {
                regions.arrived.remove(at).free(Uffd(-1));
            }
            settle(regions);
            regions.left.clear();
        }
    }

    #[test]
    fn what_arrives_where_another_has_just_left_is_not_taken_for_it() {
        let mut regions = Regions::new().unwrap();
        for start in [0x10_0000, 0x50_0000] {
            regions.insert(Region::new(start, start + 0x10_0000, BLOCK).unwrap()).unwrap();
        }
        regions.moved(0x10_0000, 0x90_0000, 0x10_0000);
        regions.moved(0x50_0000, 0x10_0000, 0x10_0000);
        assert!(regions.unmapped(0x10_0000, 0x20_0000).is_none(), "by the first one's move");
        let whose = regions.unmapped(0x10_0000, 0x20_0000);
        assert!(matches!(whose, Some(Whose::Arrived(_))), "by the program");
        settle(&mut regions);
        (0..2).for_each(|_| regions.remove(0).free(Uffd(-1)));
    }

    #[test]
    fn of_two_that_start_at_one_place_the_older_is_unmapped_first() {
        let mut regions = Regions::new().unwrap();
        for start in [0x10_0000, 0x50_0000] {
            regions.insert(Region::new(start, start + 0x10_0000, BLOCK).unwrap()).unwrap();
        }
        let moving = regions.all()[1].shadow_of(0x50_0000);
        // One thread freed the first, another moved the second there, and that was told first.
        regions.moved(0x50_0000, 0x10_0000, 0x10_0000);
        let whose = regions.whose(0x10_0000, 0x20_0000).unwrap();
        regions.take_of(whose, 0x10_0000, 0x20_0000).unwrap().free(Uffd(-1));
        settle(&mut regions);
        assert_eq!(regions.len(), 1);
        assert_eq!(regions.all()[0].shadow_of(0x10_0000), moving);
        regions.remove(0).free(Uffd(-1));
    }

    proptest! {
        /// Moves of parts never lose or misplace a page's shadow address.
        #[test]
        fn parts_keep_their_shadow(moves in prop::collection::vec((0usize..64, 1usize..20), 1..12)) {
            let mut regions = Regions::new().unwrap();
            let mut model = BTreeMap::new();
            for n in 0..4 {
                let start = FIRST + n * 0x100_0000;
                let mut region = Region::new(start, start + 16 * PAGE, BLOCK).unwrap();
                region.shadow_delta = 0x7000_0000;
                for page in 0..16 {
                    model.insert(start + page * PAGE, start + page * PAGE + 0x7000_0000);
                }
                regions.insert(region).unwrap();
            }
            for (number, (pick, pages)) in moves.into_iter().enumerate() {
                let Some(&from) = model.keys().nth(pick % model.len().max(1)) else { break };
                let (to, len) = (0x9000_0000 + number * 0x100_0000, pages * PAGE);
                regions.moved(from, to, len);
                settle(&mut regions);
                let moving: Vec<_> = model.range(from..from + len).map(|(k, v)| (*k, *v)).collect();
                for (address, shadow) in moving {
                    model.remove(&address);
                    model.insert(address - from + to, shadow);
                }
            }
            for (address, shadow) in model {
                let at = regions.find(address).unwrap();
                prop_assert_eq!(regions.all()[at].shadow_of(address), shadow);
            }
            while let Some(region) = regions.take(0, usize::MAX) {
                region.free(Uffd(-1));
            }
        }

        /// In whatever order threads' changes are told, each page is found where it is by now.
        #[test]
        fn every_page_is_found_where_it_is(steps in prop::collection::vec((0..THREADS, 0usize..100), 1..60)) {
            let mut model = Model::default();
            let mut regions = Regions::new().unwrap();
            for thread in 0..THREADS {
                let (start, pages) = (FIRST - (thread + 1) * 0x100_0000, 3 + thread);
                model.mappings[thread] = Some((start, pages));
                let mut region = Region::new(start, start + pages * PAGE, BLOCK).unwrap();
                region.shadow_delta = shadow(thread).wrapping_sub(start);
                regions.insert(region).unwrap();
            }
            for (thread, pick) in steps {
                match model.unread[thread].take() {
                    Some(change) => model.read(&mut regions, thread, change),
                    None => model.change(thread, pick),
                }
            }
            for thread in 0..THREADS {
                while let Some(change) = model.unread[thread].take() {
                    model.read(&mut regions, thread, change);
                }
            }
            let mut misplaced = Vec::new();
            for (thread, mapping) in model.mappings.iter().enumerate() {
                let Some((start, pages)) = *mapping else { continue };
                for page in 0..pages {
                    let address = start + page * PAGE;
                    let found = regions.find(address).map(|at| regions.all()[at].shadow_of(address));
                    if found != Some(shadow(thread) + page * PAGE) {
                        misplaced.push((thread, page, found));
                    }
                }
            }
            while let Some(region) = regions.take(0, usize::MAX) {
                region.free(Uffd(-1));
            }
            prop_assert!(misplaced.is_empty(), "{:x?}", misplaced);
        }
    }
}
