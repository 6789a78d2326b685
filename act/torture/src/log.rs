//! What was done last, by whom; and how a difference is told. All in memory that is never marked, so
//! that a child and the watchdog read it too.

use std::fmt::{self, Write};
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

/// Words of an operation in a ring: its number and kind, first page, last page, and for a move the
/// first page of its target (`NOWHERE` for others).
const WORDS: usize = 4;
const NOWHERE: u64 = u64::MAX;

/// The logs of all workers.
#[derive(Debug)]
pub struct Log {
    /// Per worker: operations done, then a ring of operations.
    rings: &'static [[AtomicU64; 1 + WORDS * KEPT]],
    seed: u64,
}

/// An operation, as the log has it.
struct Entry {
    number: u64,
    name: &'static str,
    pages: Range<u64>,
    target: u64,
}

impl Entry {
    fn targets(&self) -> Range<u64> {
        match self.target {
            NOWHERE => 0..0,
            target => target..target + (self.pages.end - self.pages.start),
        }
    }

    fn concerns(&self, page: u64) -> bool {
        self.pages.contains(&page) || self.targets().contains(&page)
    }

    /// The page that was moved to this one.
    fn source(&self, page: u64) -> Option<u64> {
        self.targets().contains(&page).then(|| self.pages.start + page - self.target)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.pages;
        write!(f, "{} {} pages {start}..{end}", self.number, self.name)?;
        if self.target != NOWHERE {
            write!(f, " to {}", self.target)?;
        }
        Ok(())
    }
}

impl Log {
    /// Logs for so many workers.
    #[must_use]
    pub fn new(workers: usize, seed: u64) -> Self {
        Self { rings: sys::shared(workers), seed }
    }

    /// Notes that a worker begins an operation on a page range.
    pub fn begin(&self, worker: usize, op: Op, pages: &Range<usize>) {
        self.note(worker, op, pages, NOWHERE);
    }

    /// Notes that a worker begins to move pages.
    pub fn begin_move(&self, worker: usize, op: Op, from: &Range<usize>, to: &Range<usize>) {
        self.note(worker, op, from, to.start as u64);
    }

    fn note(&self, worker: usize, op: Op, pages: &Range<usize>, target: u64) {
        let ring = &self.rings[worker];
        let number = ring[0].fetch_add(1, Ordering::Relaxed);
        let words = [number << 8 | op as u64, pages.start as u64, pages.end as u64, target];
        for (place, word) in ring[1 + number as usize % KEPT * WORDS..].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Operations begun by all workers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rings.iter().map(|ring| ring[0].load(Ordering::Relaxed)).sum()
    }

    /// A worker's last `count` operations, oldest first.
    fn last(&self, worker: usize, count: usize) -> impl DoubleEndedIterator<Item = Entry> {
        let ring = &self.rings[worker];
        let done = ring[0].load(Ordering::Relaxed);
        (done.saturating_sub(count.min(KEPT) as u64)..done).map(move |number| {
            let at = 1 + number as usize % KEPT * WORDS;
            let [what, start, end, target] =
                [0, 1, 2, 3].map(|n| ring[at + n].load(Ordering::Relaxed));
            let name = NAMES.get(what as u8 as usize).copied().unwrap_or("?");
            Entry { number: what >> 8, name, pages: start..end, target }
        })
    }

    /// Says what every worker did last.
    pub fn say_all(&self, count: usize) {
        for worker in 0..self.rings.len() {
            let mut line = Line::new();
            let _ = writeln!(line, "  worker {worker}:");
            self.last(worker, count).for_each(|entry| {
                let _ = writeln!(line, "    {entry}");
            });
            line.say();
        }
    }

    /// Says which operations concerned a page lately, and the page that its contents came from.
    pub fn say_about(&self, page: usize) {
        for page in [Some(page), self.source(page)].into_iter().flatten() {
            for worker in 0..self.rings.len() - 1 {
                let mut line = Line::new();
                self.last(worker, KEPT).filter(|entry| entry.concerns(page as u64)).for_each(
                    |entry| {
                        let _ = writeln!(line, "    page {page}, worker {worker}: {entry}");
                    },
                );
                line.say();
            }
        }
    }

    /// The page that was moved to this one, by a worker's last move that did so.
    fn source(&self, page: usize) -> Option<usize> {
        let moved = |worker| {
            let mut entries = self.last(worker, KEPT).rev();
            entries.find_map(|entry| Some((entry.number, entry.source(page as u64)?)))
        };
        (0..self.rings.len() - 1).filter_map(moved).max().map(|(_, source)| source as usize)
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
            "  now it is {:#x}; lately here, and where it came from:",
            arena.read(granule, wrong.index)
        );
        if let Some(source) = self.source(page) {
            let _ = writeln!(
                line,
                "  page {source} was moved here; its page table entry: {:#x}",
                sys::pagemap(std::process::id() as i32, arena.address(source)),
            );
        }
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
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.len..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}
