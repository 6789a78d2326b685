//! Where pages lie, as `move_pages` tells without moving any.

use quartier_kernel::sys::{self, HUGE, PAGE};

/// Pages asked for at a time: a huge page.
pub(super) const PAGES: usize = HUGE / PAGE;

/// The nodes of the pages of a range.
pub(super) struct Homes {
    first: usize,
    stride: usize,
    nodes: [i32; PAGES],
    count: usize,
}

impl Homes {
    /// Asks for a page every `stride` bytes, [`PAGES`] at most.
    pub(super) fn ask(first: usize, last: usize, stride: usize) -> Self {
        let (pages, count) = pages(first, last, stride);
        let mut nodes = [-1; PAGES];
        if sys::query_nodes(&pages[..count], &mut nodes).is_err() {
            nodes = [-1; PAGES];
        }
        Self { first, stride, nodes, count }
    }

    /// OS ids, negative where unknown.
    pub(super) fn all(&self) -> &[i32] {
        &self.nodes[..self.count]
    }

    /// Neighbours for which `test` says the same: start, end and what it says.
    pub(super) fn groups(
        &self,
        test: impl Fn(i32) -> bool + Copy,
    ) -> impl Iterator<Item = (usize, usize, bool)> {
        let mut at = self.first;
        self.all().chunk_by(move |a, b| test(*a) == test(*b)).map(move |group| {
            let start = at;
            at += group.len() * self.stride;
            (start, at, test(group[0]))
        })
    }

    /// The first page's.
    pub(super) fn first(&self) -> Option<u32> {
        u32::try_from(*self.all().first()?).ok()
    }
}

/// A page every `stride` bytes, [`PAGES`] at most, and how many.
pub(super) fn pages(first: usize, last: usize, stride: usize) -> ([usize; PAGES], usize) {
    let mut pages = [0; PAGES];
    let mut count = 0;
    for (page, address) in pages.iter_mut().zip((first..last).step_by(stride)) {
        *page = address;
        count += 1;
    }
    (pages, count)
}
