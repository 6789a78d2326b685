//! What the program moves (`mremap`) and unmaps past the C library.
//!
//! What it moves by the C library is given back first (see `hooks`). At the first move past that, everything is
//! given back, and nothing is marked any more. Until that is done:
//!
//! The kernel tells of a change after it has let go of the mappings. So one thread may free memory and another
//! move marked memory to its place, and the second is told first. Until everything under way has been read
//! (*settled*: the kernel says so), what has moved is kept apart from what was there before, and nothing is
//! pulled or marked.

use quartier_kernel::sys::{self, SysResult};
use quartier_kernel::uffd::Message;
use quartier_session::{Reason, Rung};
use syscalls::Errno;

use super::regions::{Arrival, Region, Regions, take_at};
use super::serve::Server;
use crate::{own, runtime};

/// How often it is tried again while the program is changing its mappings.
pub(super) const CHANGE_TRIES: usize = 10_000;

/// Regions that a message may add: the range it is about is cut out of another at both ends.
pub(super) const REGIONS_PER_MESSAGE: usize = 2;

/// Messages that are read before the first move is taken.
pub(super) const MESSAGES_MAX: usize = 64;

/// How long the first move is held: who has changed the mappings at that moment has told it by then. Once in a
/// program's life.
const FIRST_MOVE_MICROS: u32 = 100_000;

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
        self.arrived.len() == 0 && self.left.len() == 0
    }

    /// The region at an index of all, arrived or not.
    pub fn nth(&mut self, at: usize) -> Region {
        let settled = self.all().len();
        if at < settled { self.all()[at] } else { self.arrived.all()[at - settled] }
    }

    /// `mremap` moved `[from, from + len)` to `to`.
    fn moved(&mut self, from: usize, to: usize, len: usize) {
        let end = from + len;
        let _ = self.left.insert(usize::MAX, (from, end));
        let Some(whose) = self.whose(from, end) else { return };
        self.nr_moves += 1;
        let arrival = Arrival { start: to, end: to + len, number: self.nr_moves };
        while let Some(region) = self.take_of(whose, from, end) {
            // There is room: so much is kept for it.
            let _ = self.arrived.insert(usize::MAX, region.moved(from, arrival));
        }
    }

    /// Whose a change of `[start, end)` is. Of several that have something there it is the oldest one's, whose
    /// change has waited longest to be told; one in doubt only if there is no other.
    fn whose(&mut self, start: usize, end: usize) -> Option<Whose> {
        if self.first_in(start, end).is_some() {
            return Some(Whose::Settled);
        }
        let mut there = self.arrived.all().iter().filter(|region| region.overlaps(start, end));
        let first = there.clone().next()?;
        let oldest = there.find(|region| !region.in_doubt).unwrap_or(first);
        Some(Whose::Arrived(oldest.arrival))
    }

    /// Whose a range is that is unmapped. `None` if that will be seen when all is known: of the only one that has
    /// arrived there, or of something that is none of ours. Also if it is where something was that has moved, of
    /// which the kernel tells only after the move.
    fn whose_unmapped(&mut self, start: usize, end: usize) -> Option<Whose> {
        if let Some(at) = self.left.all().iter().position(|left| *left == (start, end)) {
            self.left.remove(at);
            return None;
        }
        let whose = self.whose(start, end)?;
        let Whose::Arrived(oldest) = whose else { return Some(whose) };
        let all = self.arrived.all();
        let is_its = |region: &Region| region.arrival == oldest && region.overlaps(start, end);
        let has_another = all.iter().filter(|region| is_its(region)).any(|its| {
            let over = |other: &Region| its.overlaps(other.arrival.start, other.arrival.end);
            all.iter().any(|other| other.arrival != oldest && over(other))
        });
        if has_another {
            return Some(whose);
        }
        for at in 0..self.arrived.len() {
            let region = self.arrived.all()[at];
            if !is_its(&region) {
                continue;
            }
            // What is left of it on either side comes after it.
            if let Some(mut part) = take_at(&mut self.arrived, at, start, end) {
                part.in_doubt = true;
                let _ = self.arrived.insert(at, part);
            }
        }
        None
    }

    /// Takes out what was in doubt where something else arrives: it is gone.
    fn take_doubted(&mut self, start: usize, end: usize) -> Option<Region> {
        let gone = |region: &Region| region.in_doubt && region.overlaps(start, end);
        let at = self.arrived.all().iter().position(gone)?;
        Some(self.arrived.remove(at))
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
    /// The program moved a range, for the first time. Another thread may have moved a part of it away before,
    /// into whose place the mapping grew, and not told it yet. The mover goes on only when the next message is read,
    /// so for a while none is; then changes of a part are taken first.
    pub(super) fn first_move(&mut self, from: usize, to: usize, len: usize) {
        self.has_moved = true;
        if let Some(runtime) = runtime::get() {
            runtime.mark_no_more(Reason::MovedUnseen);
        }
        sys::sleep_micros(FIRST_MOVE_MICROS);
        let (mut others, mut nr_others) = ([Message::Unknown; MESSAGES_MAX], 0);
        while nr_others < MESSAGES_MAX
            && let Some(message) = self.next_message()
        {
            if is_of_a_part(message, from, len) {
                self.take(message);
            } else {
                others[nr_others] = message;
                nr_others += 1;
            }
        }
        self.moved(from, to, len);
        others[..nr_others].iter().for_each(|message| self.take(*message));
    }

    /// After that move: all is given back, and what mappings have grown by since they were marked is not left
    /// registered, which would keep them cut.
    pub(super) fn let_go(&mut self) {
        if self.has_let_go {
            return;
        }
        self.give_back(0, usize::MAX);
        self.end_registrations();
        self.has_let_go = true;
    }

    /// The program moved a range.
    pub(super) fn moved(&mut self, from: usize, to: usize, len: usize) {
        // The kernel moves nothing onto itself.
        if to < from + len && from < to + len {
            return;
        }
        while let Some(gone) = self.regions.take_doubted(to, to + len) {
            self.discard(gone);
        }
        self.regions.moved(from, to, len);
    }

    /// The program unmapped a range, or moved it away, which the kernel tells after the move. It tells us when it has
    /// done so: there is nothing to wait for. Whether it was something that has arrived there is seen when all is
    /// known.
    pub(super) fn unmapped(&mut self, start: usize, end: usize) {
        let Some(whose) = self.regions.whose_unmapped(start, end) else { return };
        while let Some(region) = self.regions.take_of(whose, start, end) {
            self.discard(region);
        }
    }

    /// Drops what lies in a range of what has arrived; `false` if nothing has.
    pub(super) fn forget_arrived(&mut self, start: usize, end: usize) -> bool {
        let mut any = false;
        for at in 0..self.regions.arrived.len() {
            let region = self.regions.arrived.all()[at];
            if region.overlaps(start, end) {
                self.drop_part(&region, start, end);
                any = true;
            }
        }
        any
    }

    /// Joins what has moved with the rest, if all that the program has changed is known; `false` if not.
    pub(super) fn settle(&mut self) -> bool {
        if self.regions.are_settled() {
            return true;
        }
        if self.uffd.mappings_changing()
            || !self.drop_unmapped()
            || self.regions.make_room(2 * self.regions.arrived.len()).is_err()
        {
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

    /// The same, reading what the program changes if need be; `false` if that takes too long.
    pub(super) fn settle_by_reading(&mut self) -> bool {
        self.settle() || self.read_changes()
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

    /// Drops what has arrived and was unmapped since. `false` if the program changes its mappings again, of which
    /// we are to read first.
    fn drop_unmapped(&mut self) -> bool {
        let mut at = 0;
        while let Some(region) = self.regions.arrived.all().get(at).copied() {
            let Ok(gone) = self.first_unregistered(&region) else { return false };
            let part =
                gone.and_then(|(start, end)| take_at(&mut self.regions.arrived, at, start, end));
            match part {
                Some(part) => self.discard(part),
                None => at += 1,
            }
        }
        true
    }

    /// Where the first mapping in a region is that is not registered, or nothing; `EAGAIN` while the program changes
    /// its mappings.
    fn first_unregistered(&self, region: &Region) -> SysResult<Option<(usize, usize)>> {
        let mut at = region.start;
        while at < region.end {
            let next = self.mapping_after(at);
            // In this order: what was found is so if nothing has changed since.
            let is_registered = self.uffd.is_registered(at, own::NOTHING).ok_or(Errno::EAGAIN)?;
            let (start, end) = next.unwrap_or((region.end, region.end));
            // Another mapping, which has grown over it: what moves comes to the start of one.
            let is_other = region.in_doubt && start < region.arrival.start;
            if start > at {
                return Ok(Some((at, start)));
            }
            if !is_registered || is_other {
                return Ok(Some((at, end)));
            }
            at = end;
        }
        Ok(None)
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

/// Whether a message is of a change within `[from, from + len)`, but not of all of it.
fn is_of_a_part(message: Message, from: usize, len: usize) -> bool {
    let (start, end) = match message {
        Message::Remap { from, len, .. } => (from, from + len),
        Message::Unmap { start, end } => (start, end),
        _ => return false,
    };
    start >= from && end <= from + len && end - start < len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quartier_kernel::sys::PAGE;
    use quartier_kernel::uffd::Uffd;
    use std::collections::BTreeMap;

    const BLOCK: usize = 65536;

    fn settle(regions: &mut Regions) {
        regions.left.clear();
        while !regions.are_settled() {
            let region = regions.arrived.remove(0);
            while let Some(gone) = regions.take(region.start, region.end) {
                gone.free(Uffd(-1));
            }
            regions.insert(region).unwrap();
        }
    }

    #[test]
    fn before_a_move_come_changes_of_a_part_of_what_it_moved() {
        let moved = |from, len| Message::Remap { from, to: 0x9000_0000, len };
        let unmapped = |start, end| Message::Unmap { start, end };
        for (message, expected) in [
            (moved(0x5000, 0x3000), true),
            (moved(0x4000, 0x3000), true),
            (unmapped(0x6000, 0x8000), true),
            // The place that it left, and what has nothing to do with it.
            (unmapped(0x4000, 0x8000), false),
            (moved(0x4000, 0x4000), false),
            (moved(0x7000, 0x2000), false),
            (unmapped(0x1000, 0x2000), false),
            (Message::Touch { address: 0x5000, tid: 1 }, false),
        ] {
            assert_eq!(is_of_a_part(message, 0x4000, 0x4000), expected, "{message:?}");
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

    /// A program's mappings as they are, and what the helper has not read of them.
    #[derive(Default)]
    struct Model {
        /// Of each thread: where its mapping begins and the pages it has; its shadow is at `shadow(thread)`.
        mappings: [Option<(usize, usize)>; THREADS],
        /// Of each thread: what it has done and not been told to go on from.
        unread: [Option<Change>; THREADS],
        freed: Vec<usize>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Moved {
            from: usize,
            to: usize,
            pages: usize,
        },
        Unmapped {
            start: usize,
            pages: usize,
        },
        /// The place that something moved from, of which the move has been read.
        Left {
            start: usize,
            pages: usize,
        },
    }

    const THREADS: usize = 4;
    const FIRST: usize = 0x1000_0000;

    fn shadow(thread: usize) -> usize {
        0x7000_0000_0000 + thread * 8 * PAGE
    }

    fn are_apart((start, pages): (usize, usize), (other, others): (usize, usize)) -> bool {
        start + pages * PAGE <= other || other + others * PAGE <= start
    }

    impl Model {
        /// Two mappings side by side in one region, one whose first page is in none, and one alone.
        fn new(regions: &mut Regions) -> Self {
            let mappings = [(FIRST, 8), (FIRST + 8 * PAGE, 8), (FIRST / 2, 5), (FIRST / 4, 4)];
            let enter = |regions: &mut Regions, thread: usize, first: usize, end: usize| {
                let start = mappings[thread].0;
                let mut region =
                    Region::new(start + first * PAGE, start + end * PAGE, BLOCK).unwrap();
                region.shadow_delta = shadow(thread).wrapping_sub(start);
                regions.insert(region).unwrap();
            };
            enter(regions, 0, 0, 16);
            enter(regions, 2, 1, 5);
            enter(regions, 3, 0, 4);
            Self { mappings: mappings.map(Some), ..Self::default() }
        }

        fn is_free(&self, start: usize, pages: usize) -> bool {
            self.mappings.iter().flatten().all(|mapping| are_apart((start, pages), *mapping))
        }

        /// A place that overlaps one that was freed, if there is one.
        fn place(&self, pick: usize, pages: usize) -> usize {
            let freed = self.freed.iter().rev().take(3).flat_map(|start| {
                [*start, start + PAGE, start.wrapping_sub(PAGE), start + 2 * PAGE]
            });
            let places: Vec<_> = freed.filter(|start| self.is_free(*start, pages)).collect();
            let fresh = 2 * FIRST + (self.freed.len() + 1) * 0x100_0000;
            places.get(pick % (places.len() + 1)).copied().unwrap_or(fresh)
        }

        /// A thread moves or unmaps what it has; not where it would overtake another twice, see `docs/run.md`.
        fn change(&mut self, thread: usize, pick: usize) {
            let Some((start, pages)) = self.mappings[thread] else { return };
            let overtakes = |change: &Change| {
                let (Change::Moved { from: other, pages: others, .. }
                | Change::Unmapped { start: other, pages: others }
                | Change::Left { start: other, pages: others }) = *change;
                !are_apart((start, pages), (other, others))
            };
            if self.unread.iter().flatten().any(overtakes) {
                return;
            }
            let (mapping, change) = if pick.is_multiple_of(4) {
                (None, Change::Unmapped { start, pages })
            } else {
                let to = self.place(pick, pages);
                (Some((to, pages)), Change::Moved { from: start, to, pages })
            };
            self.freed.push(start);
            self.mappings[thread] = mapping;
            self.unread[thread] = Some(change);
        }

        fn read(&mut self, regions: &mut Regions, thread: usize, change: Change) {
            regions.make_room(REGIONS_PER_MESSAGE).unwrap();
            match change {
                Change::Moved { from, to, pages } => {
                    while let Some(gone) = regions.take_doubted(to, to + pages * PAGE) {
                        gone.free(Uffd(-1));
                    }
                    regions.moved(from, to, pages * PAGE);
                    self.unread[thread] = Some(Change::Left { start: from, pages });
                }
                Change::Unmapped { start, pages } | Change::Left { start, pages } => {
                    let end = start + pages * PAGE;
                    if let Some(whose) = regions.whose_unmapped(start, end) {
                        while let Some(gone) = regions.take_of(whose, start, end) {
                            gone.free(Uffd(-1));
                        }
                    }
                }
            }
            if self.unread.iter().any(Option::is_some) {
                return;
            }
            let mut page = 0;
            while let Some(region) = regions.arrived.all().get(page / 16).copied() {
                let address = region.start + page % 16 * PAGE;
                if address < region.end && self.is_free(address, 1) {
                    regions.make_room(REGIONS_PER_MESSAGE).unwrap();
                    let gone = take_at(&mut regions.arrived, page / 16, address, address + PAGE);
                    gone.unwrap().free(Uffd(-1));
                    page = page / 16 * 16;
                } else {
                    page += 1;
                }
            }
            settle(regions);
        }
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

        /// In whatever order threads' changes are told, each page is found where it is by now, and no other.
        #[test]
        fn every_page_is_found_where_it_is(steps in prop::collection::vec((0..THREADS, 0usize..100), 1..60)) {
            let mut regions = Regions::new().unwrap();
            let mut model = Model::new(&mut regions);
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
            let mut due = BTreeMap::new();
            for (thread, mapping) in model.mappings.iter().enumerate() {
                let Some((start, pages)) = *mapping else { continue };
                due.extend((0..pages).map(|page| (start + page * PAGE, shadow(thread) + page * PAGE)));
            }
            // The page that is in no region.
            due.retain(|_, at| *at != shadow(2));
            let mut found = BTreeMap::new();
            while let Some(region) = regions.take(0, usize::MAX) {
                let pages = (region.start..region.end).step_by(PAGE);
                found.extend(pages.map(|page| (page, region.shadow_of(page))));
                region.free(Uffd(-1));
            }
            prop_assert_eq!(found, due);
        }
    }
}
