//! Fences: `khugepaged` joins base pages to a huge page on the node that has most of them. Where the
//! parts of two nodes meet within a huge page, that undoes what was pulled, again and again. It joins
//! only what lies whole in one mapping, so a mapping that ends there keeps it off: one page at the
//! border is registered with a userfaultfd that hears nothing. No contents, no protection and no
//! access change, and the mapping is whole again once that is unregistered or closed, by our death too.

use std::sync::atomic::Ordering;

use quartier_kernel::sys::{HUGE, PAGE};
use quartier_kernel::uffd::{self, Uffd};
use quartier_session::{Counter, Rung};

use super::history::History;
use super::letterbox::BOX;
use super::look;
use super::regions::Region;
use super::serve::Server;

/// Fences at most, two mappings each.
const FENCES_MAX: usize = 256;

/// Borders within one huge page at most. Where there are more, threads of several nodes share it, and
/// as a huge page it serves them as well as anywhere.
const BORDERS_MAX: usize = 3;

/// The fences of the program, and borders at which one may be wanted: a border each, within as many
/// huge pages.
#[derive(Debug)]
pub(super) struct Fences {
    fences: [Fence; FENCES_MAX],
    len: usize,
    /// Of these the first are up.
    nr_up: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fence {
    /// The page's address.
    page: usize,
}

impl Fence {
    fn huge_page(self) -> usize {
        self.page & !(HUGE - 1)
    }

    /// Puts it up, or finds it so. Not where another userfaultfd is, be it our other one: since it was
    /// put up, the program may have mapped something else there.
    fn put_up(self, bell: Uffd) -> bool {
        bell.register(self.page, PAGE, uffd::MODE_WP).is_ok()
    }

    /// Before Linux 6.17 a userfaultfd ends the registration of any other: so only what is `bell`'s.
    fn take_down(self, bell: Uffd, marks: Uffd, rung: Rung) {
        if !self.put_up(bell) {
            return;
        }
        // SAFETY: nothing of what is registered with `bell` was taken out, and nobody waits there.
        let _ = unsafe { bell.unregister(self.page, PAGE) };
        if rung == Rung::Move && marks.mappings_changing() {
            // A marked range may have been moved here just now. The program goes on only once we have
            // read of it, and until then that is registered again.
            let _ = marks.register(self.page, PAGE, uffd::MODE_MISSING);
        }
    }
}

impl Fences {
    pub(super) fn new() -> Self {
        Self { fences: [Fence::default(); FENCES_MAX], len: 0, nr_up: 0 }
    }

    fn are_wanted(&self) -> bool {
        self.len > self.nr_up
    }

    /// Two nodes' parts meet at `page`: one fence in its huge page will do.
    fn want(&mut self, page: usize) {
        let fence = Fence { page };
        let known = self.fences[..self.len].iter().any(|one| one.huge_page() == fence.huge_page());
        if !known && self.len < FENCES_MAX {
            self.fences[self.len] = fence;
            self.len += 1;
        }
    }

    /// The first that is up in `[start, end)`.
    pub(super) fn first_up(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let up = self.fences[..self.nr_up].iter().map(|fence| (fence.page, fence.page + PAGE));
        up.filter(|(first, last)| *first < end && start < *last).min()
    }

    /// Takes down those that are up and not to be kept, and forgets those that are only wanted.
    fn lift(&mut self, mut is_kept: impl FnMut(Fence) -> bool, mut take_down: impl FnMut(Fence)) {
        let (mut kept, mut kept_up) = (0, 0);
        for index in 0..self.len {
            let fence = self.fences[index];
            if is_kept(fence) {
                self.fences[kept] = fence;
                kept += 1;
                kept_up += usize::from(index < self.nr_up);
            } else if index < self.nr_up {
                take_down(fence);
            }
        }
        (self.len, self.nr_up) = (kept, kept_up);
        BOX.fences.store(kept_up as u32, Ordering::SeqCst);
    }

    /// Whatever is up stays.
    fn forget_wanted(&mut self) {
        self.len = self.nr_up;
    }

    /// Those that are wanted and not up, and none any more.
    fn take_wanted(&mut self) -> impl Iterator<Item = Fence> + use<> {
        let (fences, wanted) = (self.fences, self.nr_up..self.len);
        self.forget_wanted();
        wanted.map(move |index| fences[index])
    }

    /// A fence is up.
    fn add(&mut self, fence: Fence) {
        self.fences[self.nr_up] = fence;
        self.nr_up += 1;
        self.len = self.nr_up;
    }
}

impl Server {
    /// `[start, end)` of a region was touched from `node`, and is noted in the history.
    pub(super) fn note_borders(
        &mut self,
        region: &Region,
        (start, end): (usize, usize),
        node: u32,
    ) {
        for (page, beyond) in [(start, start.wrapping_sub(1)), (end, end)] {
            let huge = page & !(HUGE - 1);
            let is_inside = region.start <= huge && huge + HUGE <= region.end;
            if page != huge && is_inside && !self.history.is_of(beyond, node) {
                self.fences.want(page);
            }
        }
    }

    /// Puts up what is wanted.
    pub(super) fn put_up_fences(&mut self) {
        if !self.fences.are_wanted() {
            return;
        }
        if !look::huge_pages_are_made() {
            self.fences.forget_wanted();
            return;
        }
        // Said before they are up: who holds marking afterwards asks for them.
        BOX.fences.store(self.fences.len as u32, Ordering::SeqCst);
        if !BOX.is_held() {
            self.put_up_wanted();
        }
        BOX.fences.store(self.fences.nr_up as u32, Ordering::SeqCst);
    }

    fn put_up_wanted(&mut self) {
        for fence in self.fences.take_wanted() {
            let has_room = self.regions.len() + self.fences.nr_up < self.room.regions;
            if has_room
                && self.settle()
                && self.history.has_borders(fence.huge_page())
                && self.end_marking(fence.page)
                && fence.put_up(self.bell)
            {
                self.fences.add(fence);
                self.orders.slot.add(Counter::Fences, 1);
            }
        }
    }

    /// Takes down what is within `[start, end)`: the program wants it as it was, or its threads are new.
    pub(super) fn lift_fences(&mut self, start: usize, end: usize) {
        let (bell, uffd, rung) = (self.bell, self.uffd, self.rung);
        self.fences.lift(
            |fence| fence.page + PAGE <= start || fence.page >= end,
            |fence| fence.take_down(bell, uffd, rung),
        );
    }

    /// Takes down what is no border any more, and forgets what the program has unmapped. What is only
    /// wanted is forgotten: to look whether it is up would put it up, where something is to be marked.
    pub(super) fn lift_stale_fences(&mut self) {
        self.fences.forget_wanted();
        let (bell, uffd, rung) = (self.bell, self.uffd, self.rung);
        let history = &mut self.history;
        self.fences.lift(
            |fence| history.has_borders(fence.huge_page()) && fence.put_up(bell),
            |fence| fence.take_down(bell, uffd, rung),
        );
    }

    /// Cuts a page out of the region that it is in, if it was touched; `false` if it waits for that.
    fn end_marking(&mut self, page: usize) -> bool {
        let Some(at) = self.regions.find(page) else { return true };
        if self.regions.all()[at].pending(page, self.orders.block_bytes)
            || self.regions.len() + 2 > self.room.regions
            || self.regions.make_room(2).is_err()
        {
            return false;
        }
        self.regions.cut(page);
        self.regions.cut(page + PAGE);
        if let Some(at) = self.regions.find(page) {
            self.finish(at);
        }
        // What is left on either side may have been waiting for the other side's blocks alone.
        for beside in [page - 1, page + PAGE] {
            let Some(at) = self.regions.find(beside) else { continue };
            if self.regions.all()[at].recount(self.orders.block_bytes) == 0 {
                self.finish(at);
            }
        }
        self.regions.find(page).is_none()
    }
}

impl History {
    /// Whether parts of different nodes meet in a huge page, and not many.
    fn has_borders(&mut self, huge_page: usize) -> bool {
        (1..=BORDERS_MAX).contains(&self.nr_borders(huge_page, huge_page + HUGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 0x7f12_3440_0000;

    fn pages(fences: &Fences) -> Vec<usize> {
        fences.fences[..fences.len].iter().map(|fence| fence.page).collect()
    }

    #[test]
    fn one_fence_in_a_huge_page_is_enough() {
        let mut fences = Fences::new();
        for page in [AT + PAGE, AT + 9 * PAGE, AT + HUGE + PAGE, AT + HUGE - PAGE] {
            fences.want(page);
        }
        assert_eq!(pages(&fences), [AT + PAGE, AT + HUGE + PAGE]);
        assert_eq!(fences.nr_up, 0);
        for fence in fences.take_wanted() {
            fences.add(fence);
        }
        fences.want(AT + 5 * PAGE);
        assert_eq!(fences.nr_up, 2);
        assert_eq!(fences.take_wanted().count(), 0);
    }

    #[test]
    fn what_is_up_stays_when_the_wanted_are_forgotten() {
        let mut fences = Fences::new();
        fences.want(AT + PAGE);
        for fence in fences.take_wanted() {
            fences.add(fence);
        }
        fences.want(AT + HUGE + PAGE);
        assert!(fences.are_wanted());
        fences.forget_wanted();
        assert!(!fences.are_wanted());
        assert_eq!((fences.nr_up, pages(&fences)), (1, vec![AT + PAGE]));
    }

    #[test]
    fn what_is_lifted_can_be_wanted_again() {
        let mut fences = Fences::new();
        (0..4).for_each(|n| fences.want(AT + n * HUGE + PAGE));
        for fence in fences.take_wanted().take(2) {
            fences.add(fence);
        }
        fences.want(AT + 2 * HUGE + PAGE);
        assert_eq!(fences.first_up(AT, AT + PAGE), None);
        let second = AT + HUGE + PAGE;
        assert_eq!(fences.first_up(AT + 2 * PAGE, usize::MAX), Some((second, second + PAGE)));
        let mut down = Vec::new();
        fences.lift(|fence| fence.page != AT + PAGE, |fence| down.push(fence.page));
        assert_eq!(down, [AT + PAGE]);
        assert_eq!(pages(&fences), [second, AT + 2 * HUGE + PAGE]);
        assert_eq!((fences.nr_up, fences.first_up(AT + 2 * HUGE, usize::MAX)), (1, None));
        fences.lift(|_| false, |fence| down.push(fence.page));
        assert_eq!(down, [AT + PAGE, second]);
        fences.want(AT + PAGE);
        assert_eq!((fences.nr_up, pages(&fences)), (0, vec![AT + PAGE]));
    }

    #[test]
    fn the_table_does_not_overflow() {
        let mut fences = Fences::new();
        (0..2 * FENCES_MAX).for_each(|n| fences.want(AT + n * HUGE + PAGE));
        for fence in fences.take_wanted() {
            fences.add(fence);
        }
        fences.want(AT + 3 * FENCES_MAX * HUGE + PAGE);
        assert_eq!((fences.nr_up, fences.len), (FENCES_MAX, FENCES_MAX));
    }

    #[test]
    fn borders_are_counted_between_touched_blocks() {
        const BLOCK: usize = 64 << 10;
        let mut history = History::new(BLOCK).unwrap();
        assert_eq!(history.nr_borders(AT, AT + HUGE), 0);
        history.note(AT, (AT, AT + 4 * BLOCK), 1, true);
        assert_eq!(history.nr_borders(AT, AT + HUGE), 0);
        history.note(AT + 8 * BLOCK, (AT + 8 * BLOCK, AT + 9 * BLOCK), 2, true);
        history.note(AT + 12 * BLOCK, (AT + 12 * BLOCK, AT + HUGE), 1, false);
        assert_eq!(history.nr_borders(AT, AT + HUGE), 2);
    }
}
