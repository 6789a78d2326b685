//! The coordinator and its workers: phases, each of which begins and ends with all together.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::log::Op;
use crate::rng::Rng;
use crate::worker::Worker;
use crate::world::World;
use crate::{ops, signals, sys};

/// What the workers do in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Phase {
    /// Everything, each in a part of its own.
    Apart = 0,
    /// All read the same pages; contents stay.
    Race = 1,
    /// Each checks its part.
    Check = 2,
    /// The end.
    Stop = 3,
}

/// The part of the main zone that a worker has in a phase: cut anywhere, also inside blocks.
fn span(world: &World, phase: u64, index: usize) -> Range<usize> {
    let zone = &world.arena.zones.main;
    let each = zone.len() / world.workers;
    let mut rng = Rng::new(world.seed, phase, 0);
    let cuts: Vec<usize> = (0..=world.workers)
        .map(|cut| {
            let jitter = rng.below(each / 2) as isize - (each / 4) as isize;
            match cut {
                0 => zone.start,
                cut if cut == world.workers => zone.end,
                cut => (zone.start + cut * each).wrapping_add_signed(jitter),
            }
        })
        .collect();
    // Not always the same part for the same worker.
    let part = (index + rng.below(world.workers)) % world.workers;
    cuts[part]..cuts[part + 1]
}

fn work(worker: &mut Worker) {
    let world = worker.world;
    signals::own_stack(worker);
    let mut phase = 0;
    loop {
        while world.phase.load(Ordering::Acquire) == phase {
            sys::futex_wait(world.phase, phase);
        }
        phase = world.phase.load(Ordering::Acquire);
        let share = world.share.load(Ordering::Relaxed) as usize;
        let part = span(world, phase.into(), worker.index);
        worker.begin(phase.into(), part);
        match world.kind.load(Ordering::Relaxed) {
            kind if kind == Phase::Apart as u32 => (0..share).for_each(|_| ops::step(worker)),
            kind if kind == Phase::Race as u32 => ops::race(worker, share),
            kind if kind == Phase::Check as u32 => ops::check_all(worker),
            _ => return,
        }
        if world.done.fetch_add(1, Ordering::AcqRel) + 1 == world.workers as u32 {
            sys::futex_wake(world.done);
        }
    }
}

extern "C" fn start(worker: *mut c_void) -> *mut c_void {
    // SAFETY: made by `Team::new` for this thread alone.
    let mut worker = unsafe { Box::from_raw(worker.cast::<Worker>()) };
    work(&mut worker);
    std::ptr::null_mut()
}

/// The workers, seen by the coordinator.
#[derive(Debug)]
pub struct Team {
    world: &'static World,
    threads: Vec<libc::pthread_t>,
    rng: Rng,
}

impl Team {
    /// Starts the workers.
    #[must_use]
    pub fn new(world: &'static World) -> Self {
        let threads = (0..world.workers)
            .map(|index| {
                let worker = Box::into_raw(Box::new(Worker::new(world, index)));
                let mut thread = 0;
                // SAFETY: the thread takes the worker over.
                let status = unsafe {
                    let none = std::ptr::null();
                    libc::pthread_create(&raw mut thread, none, start, worker.cast())
                };
                assert!(status == 0, "no thread: {status}");
                thread
            })
            .collect();
        Self { world, threads, rng: Rng::new(world.seed, 0, 0) }
    }

    fn begin(&self, kind: Phase, share: usize) {
        let world = self.world;
        world.kind.store(kind as u32, Ordering::Relaxed);
        world.share.store(share as u32, Ordering::Relaxed);
        world.done.store(0, Ordering::Release);
        world.phase.fetch_add(1, Ordering::AcqRel);
        sys::futex_wake(world.phase);
    }

    fn finish(&self) {
        let all = self.world.workers as u32;
        loop {
            match self.world.done.load(Ordering::Acquire) {
                done if done == all => return,
                done => sys::futex_wait(self.world.done, done),
            }
        }
    }

    /// Works until so many operations are done, or the time is over; gives the operations.
    pub fn run(&mut self, operations: u64, limit: Duration) -> u64 {
        let began = Instant::now();
        while self.world.log.total() < operations && began.elapsed() < limit {
            self.round(operations);
        }
        signals::every(0);
        if self.world.arena.can_mark() {
            self.mark();
            let status = ops::raw_fork(self.world);
            if status != 0 {
                // Whether the parent has what the child missed is worth to know.
                self.begin(Phase::Check, 0);
                self.finish();
                self.world.log.fail(self.world.workers, "a child of a raw fork", status.into());
            }
        }
        self.begin(Phase::Check, 0);
        self.finish();
        self.world.log.total()
    }

    /// Marks, and lets the workers do something.
    fn round(&mut self, operations: u64) {
        signals::watch(self.world, self.rng.once_in(2));
        let period = [0, 1000, 2500, 5000][self.rng.below(4)];
        signals::every(if self.world.no_signals { 0 } else { period });
        self.mark();
        let left = operations.saturating_sub(self.world.log.total()) as usize;
        let most = (left / self.world.workers).max(20);
        if self.rng.once_in(8) {
            self.race(most);
        } else {
            let share = (20 + self.rng.below(600)).min(most);
            self.begin(Phase::Apart, share);
            if self.rng.once_in(3) {
                self.mark();
            }
            self.finish();
        }
    }

    /// All read the same; now and then there is a fork, or more marks, in the middle.
    fn race(&mut self, most: usize) {
        let share = (1 + self.rng.below(40)).min(most);
        self.begin(Phase::Race, share);
        let (seen, unseen) = (Op::ForkUnder, Op::ForkUnseen);
        match self.rng.below(self.world.fork_every / 256 + 8) {
            0..=1 if self.world.allows(seen) => ops::fork_under(self.world, false),
            2..=3 if self.world.unseen_forks && self.world.allows(unseen) => {
                ops::fork_under(self.world, true);
            }
            4..=6 => self.mark(),
            _ => {}
        }
        self.finish();
    }

    /// Marks some ranges, or all.
    fn mark(&mut self) {
        let arena = &self.world.arena;
        let all = arena.zones.stacks.end;
        for _ in 0..1 + self.rng.below(3) {
            let start = if self.rng.once_in(4) { 0 } else { self.rng.below(all) };
            let pages = start..(start + 1 + self.rng.below(all)).min(all);
            self.world.log.begin(self.world.workers, Op::Mark, &pages);
            arena.mark(arena.address(pages.start), pages.len() * sys::PAGE);
        }
    }

    /// Ends the workers.
    pub fn stop(self) {
        self.begin(Phase::Stop, 0);
        for thread in self.threads {
            // SAFETY: a thread of ours, joined once.
            unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        }
    }
}
