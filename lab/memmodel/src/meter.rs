//! Counters with one writer each, which anybody may read at any time: relaxed loads and stores, no
//! locked instruction on the path of an access.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kinds::{Class, Event, Kind, NR_EVENTS, Owner, Totals};

/// Counts go to an owner's plane, or to none that is ever read.
pub(crate) const NR_PLANES: usize = 3;
/// The plane of what is not counted; the modelled clock still needs it.
pub(crate) const UNCOUNTED: usize = 2;

const NR_KINDS: usize = Kind::ALL.len();
const NR_CLASSES: usize = Class::ALL.len();

/// Adds to a counter whose only writer the caller is.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The sets that all caches tell apart: bits 6 to 11 of an address, as its page has no say in them.
pub(crate) const NR_SETS_MAX: usize = 64;

/// Commands of one CPU to one node, for each owner.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) commands: [[[AtomicU64; NR_CLASSES]; NR_KINDS]; Owner::ALL.len()],
    /// Of WR and LL/SC, those that moved a word and no line.
    pub(crate) words: [AtomicU64; Owner::ALL.len()],
}

/// Everything counted for one CPU.
#[derive(Debug)]
pub(crate) struct Meter {
    events: [[AtomicU64; NR_EVENTS]; NR_PLANES],
    /// By target node; a node that is never asked takes no row.
    rows: Box<[OnceLock<Box<Row>>]>,
    /// Bytes that commands moved between nodes, by set of the caches.
    remote_bytes: [[AtomicU64; NR_SETS_MAX]; Owner::ALL.len()],
}

impl Meter {
    pub(crate) fn new(nr_nodes: usize) -> Self {
        let rows = (0..nr_nodes).map(|_| OnceLock::new()).collect();
        let zero = |_| std::array::from_fn(|_| AtomicU64::new(0));
        let none = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { events: std::array::from_fn(zero), rows, remote_bytes: std::array::from_fn(none) }
    }

    #[inline]
    pub(crate) fn count(&self, plane: usize, event: Event, by: u64) {
        bump(&self.events[plane][event as usize], by);
    }

    /// Counts a command, if its plane is an owner's.
    pub(crate) fn command(&self, plane: usize, target: u16, kind: Kind, class: Class, nr: Moved) {
        if plane == UNCOUNTED {
            return;
        }
        let row = self.rows[usize::from(target)].get_or_init(Box::default);
        bump(&row.commands[plane][kind as usize][class as usize], nr.commands);
        bump(&row.words[plane], nr.words);
    }

    /// Counts bytes that left their node, if the plane is an owner's.
    pub(crate) fn remote(&self, plane: usize, set: usize, bytes: u64) {
        if plane != UNCOUNTED {
            bump(&self.remote_bytes[plane][set], bytes);
        }
    }

    /// Bytes that left their node, by set.
    pub(crate) fn remote_bytes(&self, owner: Owner) -> impl Iterator<Item = u64> {
        self.remote_bytes[owner as usize].iter().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    pub(crate) fn event(&self, plane: usize, event: Event) -> u64 {
        self.events[plane][event as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn totals(&self, owner: Owner) -> Totals {
        let plane = &self.events[owner as usize];
        Totals::from_array(std::array::from_fn(|at| plane[at].load(Ordering::Relaxed)))
    }

    /// The nodes that were asked.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u16, &Row)> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(node, row)| Some((node as u16, &**row.get()?)))
    }

    /// Bytes that the counters take.
    pub(crate) fn nr_bytes(&self) -> usize {
        let nr_rows = self.rows.iter().filter(|row| row.get().is_some()).count();
        size_of::<Self>() + size_of_val(&*self.rows) + nr_rows * size_of::<Row>()
    }
}

/// How many commands, and how many of them moved no line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) commands: u64,
    pub(crate) words: u64,
}

impl Moved {
    pub(crate) fn times(self, weight: u64) -> Self {
        Self { commands: self.commands * weight, words: self.words * weight }
    }

    pub(crate) const LINE: Self = Self { commands: 1, words: 0 };
    pub(crate) const WORD: Self = Self { commands: 1, words: 1 };
    /// LL and SC.
    pub(crate) const TWO_WORDS: Self = Self { commands: 2, words: 2 };
}
