//! What was touched before it was known how its area is used (see `areas`) moves once that is known. It has been pulled by
//! then, to where it was: pages of the program like any other, so they are migrated on either rung.

use quartier_session::Counter;

use super::areas::{area_of, areas};
use super::pull::{Pulled, within};
use super::regions::Region;
use super::serve::Server;
use crate::sys;

impl Server {
    /// Moves what is marked in `[start, end)`, was put off in this round, and may move by now.
    pub(super) fn catch_up(&mut self, start: usize, end: usize) {
        let began = sys::now_nanos();
        let mut from = start;
        while let Some(at) = self.regions.first_in(from, end) {
            let region = self.regions.all()[at];
            let (first, last) = within((start, end), &region);
            for area in areas(first, last) {
                if self.history.areas.at(area).may_catch_up() {
                    let (area, area_end) = area_of(area);
                    self.catch_up_in_area(area.max(first), area_end.min(last));
                }
            }
            from = region.end;
        }
        self.moving_nanos += sys::now_nanos() - began;
    }

    /// Catches up with the areas of `[start, end)` of which this round has nothing left to tell. Four huge pages are all
    /// that there is of an area, and their touches are too few to know it by.
    pub(super) fn catch_up_where_all_is_told(&mut self, region: &Region, start: usize, end: usize) {
        for area in areas(start, end) {
            let (area, area_end) = area_of(area);
            let known = self.history.areas.at(area);
            if !known.is_known()
                && known.may_catch_up()
                && region.is_settled(area, area_end, self.orders.block_bytes)
            {
                self.catch_up(area, area_end);
            }
        }
    }

    fn catch_up_in_area(&mut self, start: usize, end: usize) {
        let (slot, block_bytes) = (self.orders.slot, self.orders.block_bytes);
        let mut from = start;
        while let Some((first, last, node)) = self.history.first_to_catch_up(from, end) {
            from = last;
            // The program may have set one since it was touched.
            self.station.leave();
            if !sys::range_policy_is_default(first) {
                continue;
            }
            let mut pulled = Pulled::default();
            self.migrate_present(first, last, node, &mut pulled);
            if pulled.moved > 0 {
                let nr_blocks = (last - first).div_ceil(block_bytes) as u64;
                slot.add(Counter::PagesMoved, pulled.moved as u64);
                slot.recount(Counter::BlocksKept, Counter::BlocksMoved, nr_blocks);
                self.history.note_moved(first, last);
            }
        }
    }
}
