//! A worker: a long-lived thread with a part of the memory of its own in each phase.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::arena::{STACK_PAGES, State};
use crate::log::Op;
use crate::model::{self, PER_PAGE};
use crate::rng::Rng;
use crate::sys;
use crate::world::World;

/// Bytes of the scratch buffer: as much as a pipe holds.
pub const SCRATCH_BYTES: usize = 64 << 10;

/// A worker in a phase.
#[derive(Debug)]
pub struct Worker {
    /// The whole test.
    pub world: &'static World,
    /// Its number.
    pub index: usize,
    /// Its random numbers, fresh for each phase.
    pub rng: Rng,
    /// Its pages of the main zone in this phase.
    pub span: Range<usize>,
    /// A buffer outside the memory under test.
    pub scratch: &'static [AtomicU64],
    /// A pipe: where to read, where to write.
    pub pipe: [i32; 2],
    /// A file in memory.
    pub file: i32,
}

impl Worker {
    /// A worker with its descriptors.
    pub fn new(world: &'static World, index: usize) -> Self {
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors; the name is a C string.
        let (piped, file) = unsafe {
            let flags = libc::O_CLOEXEC;
            (libc::pipe2(pipe.as_mut_ptr(), flags), libc::memfd_create(c"torture".as_ptr(), 1))
        };
        assert!(piped == 0 && file >= 0, "no descriptors: {}", sys::errno());
        let scratch = sys::shared(SCRATCH_BYTES / 8);
        Self { world, index, rng: Rng::new(0, 0, 0), span: 0..0, scratch, pipe, file }
    }

    /// Begins a phase with a part of the main zone.
    pub fn begin(&mut self, phase: u64, span: Range<usize>) {
        self.rng = Rng::new(self.world.seed, phase, self.index as u64 + 1);
        self.span = span;
    }

    /// Logs an operation.
    pub fn log(&self, op: Op, pages: &Range<usize>) {
        self.world.log.begin(self.index, op, pages);
    }

    /// Logs a move.
    pub fn log_move(&self, op: Op, from: &Range<usize>, to: &Range<usize>) {
        self.world.log.begin_move(self.index, op, from, to);
    }

    /// A fresh tag.
    pub fn tag(&mut self) -> u32 {
        (self.rng.next() as u32 & !model::MAYBE_ZERO).max(1)
    }

    /// Ends the test because a system call did what it must not.
    pub fn fail(&self, what: &str, number: i64) -> ! {
        self.world.log.fail(self.index, what, number)
    }

    /// Checks a granule; ends the test if it is wrong.
    pub fn check(&self, granule: usize, where_: &str) {
        let arena = &self.world.arena;
        // What `MADV_FREE` dropped may vanish while it is being read: it is read once more.
        let freed = arena.tags.get(granule) & model::MAYBE_ZERO != 0;
        let first = arena.check(granule);
        if let Err(wrong) = if freed { first.or_else(|_| arena.check(granule)) } else { first } {
            self.world.log.differ(self.index, arena, granule, wrong, where_);
        }
    }

    /// Any pages of the worker's own part, at most `max`.
    pub fn pick(&mut self, max: usize) -> Range<usize> {
        let len = self.rng.length(max.min(self.span.len()));
        let start = self.span.start + self.rng.below(self.span.len() - len + 1);
        start..start + len
    }

    /// Pages of which each satisfies `good`; empty when a few tries find none.
    pub fn pick_where(&mut self, max: usize, good: impl Fn(State) -> bool) -> Range<usize> {
        for _ in 0..4 {
            let pages = self.pick(max);
            let state = |page: &usize| good(self.world.arena.state(*page));
            let len = pages.clone().take_while(state).count();
            if len > 0 {
                return pages.start..pages.start + len;
            }
        }
        0..0
    }

    /// Readable pages.
    pub fn readable(&mut self, max: usize) -> Range<usize> {
        self.pick_where(max, |state| matches!(state, State::Writable | State::ReadOnly))
    }

    /// Writable pages.
    pub fn writable(&mut self, max: usize) -> Range<usize> {
        self.pick_where(max, |state| state == State::Writable)
    }

    /// Mapped pages.
    pub fn mapped(&mut self, max: usize) -> Range<usize> {
        self.pick_where(max, |state| state != State::Hole)
    }

    /// Granules of a page range that begin and end anywhere in it, as many as the scratch holds.
    pub fn granules(&mut self, pages: &Range<usize>) -> Range<usize> {
        let all = pages.start * PER_PAGE..pages.end * PER_PAGE;
        let start = all.start + self.rng.below(all.len().min(PER_PAGE));
        let most = (all.end - start).min(SCRATCH_BYTES / model::GRANULE);
        start..start + 1 + self.rng.below(most)
    }

    /// A page of another zone that is this worker's alone.
    pub fn own_page_of(&mut self, zone: &Range<usize>) -> usize {
        let each = zone.len() / self.world.workers;
        zone.start + self.rng.below(each) * self.world.workers + self.index
    }

    /// The pages of the worker's stacks: the first for signals, the second for a short-lived thread.
    pub fn stack(&self, second: bool) -> Range<usize> {
        let start = self.world.arena.zones.stacks.start;
        let start = start + (2 * self.index + usize::from(second)) * STACK_PAGES;
        start..start + STACK_PAGES
    }
}
