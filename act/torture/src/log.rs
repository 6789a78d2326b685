//! What was done last, by whom; and how a difference is told. All in memory that is never marked, so
//! that a child and the watchdog read it too.

use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::Arena;
use crate::model::{self, Wrong};
use crate::sys;

/// Operations kept for each worker.
const KEPT: usize = 8192;

macro_rules! operations {
    ($($name:ident,)+) => {
        /// An operation's kind, for the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // The names are those of the calls.
        #[repr(u8)]
        pub enum Op { $($name,)+ }
        const OPS: &[Op] = &[$(Op::$name,)+];
        const NAMES: &[&str] = &[$(stringify!($name),)+];
    };
}
operations! {
    Read, Write, SweepRead, SweepWrite, PipeOut, PipeIn, FileOut, FileIn, VectorOut,
    VectorIn, PeekSelf, PokeSelf, Random, Stat, FutexWord, ZeroDevice, BadAddress, DontNeed, Free,
    Protect, Unprotect, Move, MoveKeep, Unmap, MapFixed, Refill, Lock, Advise,
    Mark, Fork, ForkUnder, ForkUnseen, ForkExec, VforkExec, Spawn, Thread, Zones, Race,
    Verify, BottomFork, RawFork, CheckAll, Populate, MoveFailed,
}

impl Op {
    /// The operation of a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let at = NAMES.iter().position(|other| other.eq_ignore_ascii_case(name))?;
        Some(OPS[at])
    }
}

/// The logs of all workers.
#[derive(Debug)]
pub struct Log {
    /// Per worker: operations done, then a ring of (operation number and kind, first page, last).
    rings: &'static [[AtomicU64; 1 + 3 * KEPT]],
    seed: u64,
}

impl Log {
    /// Logs for so many workers.
    #[must_use]
    pub fn new(workers: usize, seed: u64) -> Self {
        Self { rings: sys::shared(workers), seed }
    }

    /// Notes that a worker begins an operation on a page range.
    pub fn begin(&self, worker: usize, op: Op, pages: &Range<usize>) {
        let ring = &self.rings[worker];
        let number = ring[0].fetch_add(1, Ordering::Relaxed);
        let at = 1 + number as usize % KEPT * 3;
        ring[at].store(number << 8 | op as u64, Ordering::Relaxed);
        ring[at + 1].store(pages.start as u64, Ordering::Relaxed);
        ring[at + 2].store(pages.end as u64, Ordering::Relaxed);
    }

    /// Operations begun by all workers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rings.iter().map(|ring| ring[0].load(Ordering::Relaxed)).sum()
    }

    /// A worker's last `count` operations, oldest first.
    fn last(&self, worker: usize, count: usize) -> impl Iterator<Item = (u64, &str, u64, u64)> {
        let ring = &self.rings[worker];
        let done = ring[0].load(Ordering::Relaxed);
        (done.saturating_sub(count.min(KEPT) as u64)..done).map(move |number| {
            let at = 1 + number as usize % KEPT * 3;
            let [what, first, last] = [0, 1, 2].map(|n| ring[at + n].load(Ordering::Relaxed));
            let name = NAMES.get(what as u8 as usize).copied().unwrap_or("?");
            (what >> 8, name, first, last)
        })
    }

    /// Says what every worker did last.
    pub fn say_all(&self, count: usize) {
        for worker in 0..self.rings.len() {
            let mut line = Line::new();
            let _ = writeln!(line, "  worker {worker}:");
            self.last(worker, count).for_each(|(number, name, first, last)| {
                let _ = writeln!(line, "    {number} {name} pages {first}..{last}");
            });
            line.say();
        }
    }

    /// Says which operations touched a page lately.
    pub fn say_about(&self, page: usize) {
        for worker in 0..self.rings.len() - 1 {
            let mut line = Line::new();
            self.last(worker, KEPT)
                .filter(|(_, _, first, last)| (*first..*last).contains(&(page as u64)))
                .for_each(|(number, name, first, last)| {
                    let _ = writeln!(
                        line,
                        "    worker {worker}: {number} {name} pages {first}..{last}"
                    );
                });
            line.say();
        }
    }

    /// Says that contents differ, and ends the process with status 1.
    pub fn differ(
        &self,
        worker: usize,
        arena: &Arena,
        granule: usize,
        wrong: Wrong,
        where_: &str,
    ) -> ! {
        let page = granule / model::PER_PAGE;
        let address = arena.granule_address(granule) + wrong.index * 8;
        let mut line = Line::new();
        let _ = writeln!(
            line,
            "DIFFERENCE seed {} worker {worker} operation {} of {} ({where_}, pid {}): address {address:#x} \
             (page {page}, {:?}, tag {:#x}): expected {:#x}, found {:#x}",
            self.seed,
            self.rings[worker][0].load(Ordering::Relaxed),
            self.total(),
            std::process::id(),
            arena.state(page),
            arena.tags.get(granule),
            wrong.expected,
            wrong.found,
        );
        match model::origin(wrong.found) {
            Some((tag, index)) => {
                let _ = writeln!(line, "  found is word {index} of a page with tag {tag:#x}");
                for other in (0..arena.tags.0.len()).filter(|at| arena.tags.get(*at) == tag) {
                    let page = other / model::PER_PAGE;
                    let _ = writeln!(line, "  which granule {other} of page {page} has now");
                }
            }
            None if wrong.found == 0 => {}
            None => {
                let _ = writeln!(line, "  found is no word of ours");
            }
        }
        // SAFETY: a query.
        let parent = unsafe { libc::getppid() };
        let _ = writeln!(
            line,
            "  page table entry before: {:#x}; the parent's: {:#x}",
            sys::pagemap(std::process::id() as i32, arena.address(page)),
            sys::pagemap(parent, arena.address(page)),
        );
        let _ = writeln!(
            line,
            "  now it is {:#x}; lately on this page:",
            arena.read(granule, wrong.index)
        );
        line.say();
        self.say_about(page);
        sys::say("  the worker's last operations:\n");
        self.say_all(12);
        sys::exit_now(1)
    }

    /// Says that something else went wrong, and ends the process with status 1.
    pub fn fail(&self, worker: usize, what: &str, number: i64) -> ! {
        self.fail_at(worker, what, number, None)
    }

    /// The same, about a page.
    pub fn fail_at(&self, worker: usize, what: &str, number: i64, page: Option<usize>) -> ! {
        let mut line = Line::new();
        let _ = writeln!(
            line,
            "FAILURE seed {} worker {worker} operation {}: {what}: {number}",
            self.seed,
            self.total()
        );
        line.say();
        page.into_iter().for_each(|page| self.say_about(page));
        self.say_all(12);
        sys::exit_now(1)
    }
}

/// Text without a heap: a child of a fork may hold the allocator's lock.
struct Line {
    text: [u8; 16384],
    len: usize,
}

impl Line {
    fn new() -> Self {
        Self { text: [0; 16384], len: 0 }
    }

    fn say(&self) {
        sys::say(std::str::from_utf8(&self.text[..self.len]).unwrap_or("?\n"));
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.text[self.len..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}
