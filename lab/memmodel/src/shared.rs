//! The shared level: last levels and directory, in shards with a lock each.
//!
//! A line belongs to the shard that its low bits name, and so does everything about it: its directory
//! entry, its set in every last level, and, by rule, its presence in private caches: a line is put
//! into a private cache without an L2 above it, or taken out, only while its shard is locked. So what is
//! true of a line is true in parallel runs too, and no two shards are ever locked at once (a line that
//! a last level replaces has the same set, hence the same shard).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::directory::{Directory, Holder};
use crate::geometry::{Fill, Geometry};
use crate::tags::{Order, State};

/// Shards of the largest caches; enough that threads seldom meet.
const SHARD_BITS_MAX: u32 = 10;

/// Bits of an entry of a last level below the line's number.
const USED: u64 = 1;
const DIRTY: u64 = 2;

/// Sets of every last level and the directory of some lines.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) directory: Directory,
    entries: Vec<u64>,
    orders: Vec<Order>,
    nr_sets: usize,
    ways: usize,
    shard_bits: u32,
}

/// A line that a last level replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) line: u64,
    pub(crate) is_dirty: bool,
}

impl Shard {
    fn slots(&self, cache: u16, line: u64) -> (usize, std::ops::Range<usize>) {
        let within = (line >> self.shard_bits) as usize % self.nr_sets;
        let set = usize::from(cache) * self.nr_sets + within;
        (set, set * self.ways..(set + 1) * self.ways)
    }

    fn find(&self, cache: u16, line: u64) -> Option<(usize, usize)> {
        let (set, slots) = self.slots(cache, line);
        let matches = |&slot: &usize| self.entries[slot] & !DIRTY == line << 2 | USED;
        Some((set, slots.into_iter().find(matches)?))
    }

    /// Whether a last level has a line, and then whether memory lacks what was written to it.
    pub(crate) fn peek(&self, cache: u16, line: u64) -> Option<bool> {
        self.find(cache, line).map(|(_, slot)| self.entries[slot] & DIRTY != 0)
    }

    /// Whether a last level has a line; it is the last used from now on.
    pub(crate) fn touch(&mut self, cache: u16, line: u64) -> bool {
        let Some((set, slot)) = self.find(cache, line) else { return false };
        self.orders[set].touch(slot % self.ways);
        true
    }

    /// Says whether memory lacks what was written; false if the line is not there. No use of it.
    pub(crate) fn set_dirty(&mut self, cache: u16, line: u64, is_dirty: bool) -> bool {
        let Some((_, slot)) = self.find(cache, line) else { return false };
        self.entries[slot] = line << 2 | USED | if is_dirty { DIRTY } else { 0 };
        true
    }

    /// Whether a last level has a line, which memory lacks from now on if `is_dirty`.
    pub(crate) fn set_dirty_if(&mut self, cache: u16, line: u64, is_dirty: bool) -> bool {
        if is_dirty { self.set_dirty(cache, line, true) } else { self.find(cache, line).is_some() }
    }

    /// Puts a line that is not there into a last level, in the place of the least recently used.
    pub(crate) fn put(&mut self, cache: u16, line: u64, is_dirty: bool) -> Option<Replaced> {
        let (set, slots) = self.slots(cache, line);
        let begin = slots.start;
        let empty = slots.into_iter().find(|&slot| self.entries[slot] == 0);
        let slot = empty.unwrap_or_else(|| begin + self.orders[set].last(self.ways));
        self.orders[set].touch(slot - begin);
        let entry = line << 2 | USED | if is_dirty { DIRTY } else { 0 };
        let before = std::mem::replace(&mut self.entries[slot], entry);
        (before != 0).then_some(Replaced { line: before >> 2, is_dirty: before & DIRTY != 0 })
    }

    /// Takes a line out of a last level.
    pub(crate) fn drop_line(&mut self, cache: u16, line: u64) {
        if let Some((_, slot)) = self.find(cache, line) {
            self.entries[slot] = 0;
        }
    }

    /// Lines of a last level that lie in this shard, and whether they are dirty.
    pub(crate) fn lines(&self, cache: u16) -> impl Iterator<Item = (u64, bool)> + '_ {
        let per_cache = self.nr_sets * self.ways;
        let begin = usize::from(cache) * per_cache;
        let used = self.entries[begin..begin + per_cache].iter().filter(|&&entry| entry != 0);
        used.map(|&entry| (entry >> 2, entry & DIRTY != 0))
    }

    /// The last levels that hold a line, without one.
    pub(crate) fn other_last_levels(&self, line: u64, but: u16) -> Vec<u16> {
        let others = self.directory.holders(line).filter_map(|holder| holder.which().err());
        others.filter(|&cache| cache != but).collect()
    }

    /// The CPUs that hold a line, without one.
    pub(crate) fn other_cpus(&self, line: u64, but: u16) -> Vec<u16> {
        let others = self.directory.holders(line).filter_map(|holder: Holder| holder.which().ok());
        others.filter(|&cpu| cpu != but).collect()
    }
}

/// All shards.
#[derive(Debug)]
pub(crate) struct Shared {
    shards: Box<[Mutex<Shard>]>,
    pub(crate) fill: Fill,
}

impl Shared {
    pub(crate) fn new(geometry: &Geometry, nr_caches: usize) -> Self {
        let last = &geometry.last_level;
        let nr_sets = geometry.sets(last.bytes, last.ways);
        let shard_bits = nr_sets.trailing_zeros().min(SHARD_BITS_MAX);
        let nr_sets = nr_sets >> shard_bits;
        let shard = |_| {
            let ways = last.ways as usize;
            Mutex::new(Shard {
                directory: Directory::new(),
                entries: vec![0; nr_caches * nr_sets * ways],
                orders: vec![Order::NEW; nr_caches * nr_sets],
                nr_sets,
                ways,
                shard_bits,
            })
        };
        Self { shards: (0..1_usize << shard_bits).map(shard).collect(), fill: last.fill }
    }

    /// Locks what belongs to a line.
    pub(crate) fn lock(&self, line: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[line as usize & (self.shards.len() - 1)];
        // Nothing in here panics half-way; a poisoned shard is as good as another.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every shard, one after the other.
    pub(crate) fn each(&self, mut f: impl FnMut(&Shard)) {
        for shard in &self.shards {
            f(&shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Bytes that last levels and directory take.
    pub(crate) fn nr_bytes(&self) -> usize {
        let mut nr_bytes = size_of_val(&*self.shards);
        self.each(|shard| {
            nr_bytes += 8 * (shard.entries.len() + shard.orders.len()) + shard.directory.nr_bytes();
        });
        nr_bytes
    }
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere: the asker had it.
    Asker,
    /// A last level.
    LastLevel,
    /// A CPU of the same last level.
    Peer,
    /// A cache on a node elsewhere, or anywhere where last levels are on the home side.
    Owner(u16),
    /// Memory.
    Memory,
}

/// Homes to which a request made its last level write lines back: its own victim, and the line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteBacks {
    homes: [u16; 2],
    nr: usize,
}

impl WriteBacks {
    pub(crate) fn push(&mut self, home: u16) {
        self.homes[self.nr] = home;
        self.nr += 1;
    }

    pub(crate) fn homes(&self) -> &[u16] {
        &self.homes[..self.nr]
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) source: Source,
    /// The node of the command; `None`: nothing left the last level's CPUs.
    pub(crate) target: Option<u16>,
    /// What the asker may do with the line.
    pub(crate) state: State,
    pub(crate) write_backs: WriteBacks,
    /// Lines that a last level on the home side wrote to its own memory: work, but no command.
    pub(crate) nr_memory_writes: u32,
    pub(crate) nr_invalidated: u32,
    /// The CPU from which the line was taken: it had written it since, or had it where the asker writes.
    pub(crate) taken_from: Option<u16>,
}

impl Served {
    pub(crate) fn new(state: State) -> Self {
        Self {
            source: Source::Asker,
            target: None,
            state,
            write_backs: WriteBacks::default(),
            nr_memory_writes: 0,
            nr_invalidated: 0,
            taken_from: None,
        }
    }
}
