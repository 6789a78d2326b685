//! What happens at the shared level when a CPU reads, owns, writes through or evicts a line.
//!
//! Each request is one step under the lock of the line's shard. The rules, for both sides:
//!
//! * A read takes the right to write from whoever had it; what they had written stays dirty at the last
//!   level that serves the reader (no write-back then: it comes when that last level replaces it).
//! * To write (back), a CPU becomes the only holder: all other copies go.
//! * One request is at most one command. Its target is the node that gives the line: a cache that had
//!   written it, else the home. If no line has to move, it is the home, who orders others to drop theirs;
//!   and where home is the writer's own node, the farthest of those others.

use crate::directory::Holder;
use crate::geometry::{Fill, Side};
use crate::shared::{Served, Shard, Source};
use crate::system::System;
use crate::tags::{State, Tags};

/// Where a line that was asked for is put.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The cache that makes its CPU a holder: L2, or a first level where there is none.
    pub(crate) tags: &'a Tags,
    pub(crate) slot: usize,
    /// Whether the cache is ever written: not one for instructions alone.
    pub(crate) is_written: bool,
}

impl System {
    /// A CPU reads a line that its caches lack. Without a place for it, nobody becomes its holder.
    pub(crate) fn read(&self, cpu: u16, line: u64, home: u16, place: Option<Place<'_>>) -> Served {
        let mut shard = self.shared.lock(line);
        let mut served = Served::new(State::Shared);
        let cache = self.last_level_for(cpu, home);
        let is_dirty = self.source(&mut shard, &mut served, cpu, line, cache);
        if let Source::Owner(node) = served.source {
            served.target = Some(node);
        } else if served.source == Source::Memory || self.is_home_side() {
            served.target = Some(home);
        }
        self.fill_last_level(&mut shard, &mut served, cache, line, is_dirty);
        let Some(Place { tags, slot, is_written }) = place else { return served };
        let may_own = is_written && !self.writes_through();
        let is_alone = may_own && self.is_alone(&shard, cpu, line, cache);
        if is_alone {
            served.state = State::Exclusive;
        }
        shard.directory.add(line, Holder::cpu(cpu));
        shard.directory.set_owned(line, is_alone);
        tags.put(slot, line, served.state);
        served
    }

    /// A CPU becomes the only holder of a line, to write it. The line is put into `place` where it is
    /// not there yet.
    pub(crate) fn own(&self, cpu: u16, line: u64, home: u16, place: Place<'_>) -> Served {
        let mut shard = self.shared.lock(line);
        let mut served = Served::new(State::Exclusive);
        let cache = self.last_level_for(cpu, home);
        let has_line = place.tags.at(place.slot).is_some_and(|(held, _)| held == line);
        if !has_line {
            let is_dirty = self.source(&mut shard, &mut served, cpu, line, cache);
            // What others had written comes along, and is the new owner's to write back.
            self.fill_last_level(&mut shard, &mut served, cache, line, is_dirty);
        }
        let farthest = self.take_from_others(&mut shard, &mut served, cpu, line, cache);
        served.target = match served.source {
            Source::Owner(node) => Some(node),
            Source::Memory => Some(home),
            _ if self.is_home_side() => Some(home),
            _ => farthest.map(|node| if home == self.node_of_cpu(cpu) { node } else { home }),
        };
        self.private[usize::from(cpu)].l1i.remove(line);
        shard.directory.add(line, Holder::cpu(cpu));
        shard.directory.set_owned(line, true);
        place.tags.put(place.slot, line, State::Exclusive);
        served
    }

    /// A CPU writes a word of a line through to its home; what it holds itself stays.
    pub(crate) fn write_through(&self, cpu: u16, line: u64, home: u16) -> Served {
        let mut shard = self.shared.lock(line);
        let mut served = Served::new(State::Shared);
        served.target = Some(home);
        served.source = if shard.touch(home, line) { Source::LastLevel } else { Source::Memory };
        self.take_from_others(&mut shard, &mut served, cpu, line, home);
        self.fill_last_level(&mut shard, &mut served, home, line, true);
        let own = &self.private[usize::from(cpu)];
        if own.l1i.remove(line).is_some() && own.l1d.find(line).is_none() {
            shard.directory.remove(line, Holder::cpu(cpu));
        }
        served
    }

    /// A CPU needs the place of a line.
    pub(crate) fn evict(&self, cpu: u16, line: u64, place: Place<'_>) -> Served {
        let mut shard = self.shared.lock(line);
        let mut served = Served::new(State::Shared);
        // Somebody may have taken it away meanwhile.
        let Some(state) = place.tags.take(place.slot, line) else { return served };
        let own = &self.private[usize::from(cpu)];
        let mut is_dirty = state == State::Modified;
        let stays = if own.l2.is_some() {
            own.l1i.remove(line);
            is_dirty |= own.l1d.remove(line) == Some(State::Modified);
            false
        } else {
            own.l1i.find(line).is_some() || own.l1d.find(line).is_some()
        };
        if state != State::Shared {
            shard.directory.set_owned(line, false);
        }
        let Some(home) = self.home_of_line(line) else { return served };
        let cache = self.last_level_for(cpu, home);
        if is_dirty && self.is_home_side() {
            served.target = Some(home);
        }
        let is_victim_cache = self.shared.fill == Fill::Victim && !stays;
        if !shard.set_dirty_if(cache, line, is_dirty) && (is_dirty || is_victim_cache) {
            self.put_into_last_level(&mut shard, &mut served, cache, line, is_dirty);
        }
        if !stays {
            shard.directory.remove(line, Holder::cpu(cpu));
        }
        served
    }

    pub(crate) fn is_home_side(&self) -> bool {
        self.geometry.last_level.side == Side::Home
    }

    fn writes_through(&self) -> bool {
        self.geometry.l1d.write == crate::geometry::WritePolicy::Through
    }

    /// Finds who gives a line, and takes the right to write it away. True if memory lacks what they
    /// had written.
    fn source(
        &self,
        shard: &mut Shard,
        served: &mut Served,
        cpu: u16,
        line: u64,
        cache: u16,
    ) -> bool {
        if let Some(owner) = shard.directory.owner(line) {
            shard.directory.set_owned(line, false);
            if self.demote(owner, line) {
                served.taken_from = Some(owner);
                let is_peer = !self.is_home_side() && self.last_level_of(owner) == cache;
                let node = self.node_of_cpu(owner);
                served.source = if is_peer { Source::Peer } else { Source::Owner(node) };
                if !is_peer && !self.is_home_side() {
                    // An older copy there is not to be written back any more.
                    shard.set_dirty(self.last_level_of(owner), line, false);
                }
                return true;
            }
        }
        if shard.touch(cache, line) {
            served.source = Source::LastLevel;
            return shard.peek(cache, line) == Some(true);
        }
        served.source = Source::Memory;
        if self.is_home_side() {
            return false;
        }
        let is_peer = |other: u16| other != cpu && self.last_level_of(other) == cache;
        if shard.directory.holders(line).any(|holder| holder.which().is_ok_and(is_peer)) {
            served.source = Source::Peer;
            return false;
        }
        let mut others = shard.other_last_levels(line, cache).into_iter();
        let Some(elsewhere) = others.find(|&other| shard.peek(other, line) == Some(true)) else {
            return false;
        };
        shard.set_dirty(elsewhere, line, false);
        served.source = Source::Owner(self.node_of_last_level[usize::from(elsewhere)]);
        true
    }

    /// A CPU may no longer write a line; true if it had.
    fn demote(&self, cpu: u16, line: u64) -> bool {
        let tags = &self.private[usize::from(cpu)];
        let l2 = tags.l2.as_ref().and_then(|l2| l2.demote(line));
        let l1d = tags.l1d.demote(line);
        l2 == Some(State::Modified) || l1d == Some(State::Modified)
    }

    /// Takes a line out of a CPU's caches, which have to make room or obey another CPU's write; whether
    /// it was modified.
    fn take_from(&self, cpu: u16, line: u64, take: impl Fn(&Tags, u64) -> Option<State>) -> bool {
        let tags = &self.private[usize::from(cpu)];
        // From the outside in: see `Cpu::fill_first`.
        let l2 = tags.l2.as_ref().and_then(|l2| take(l2, line));
        tags.l1i.remove(line);
        let l1d = take(&tags.l1d, line);
        l2 == Some(State::Modified) || l1d == Some(State::Modified)
    }

    /// Takes a line from every other CPU and last level; the farthest node of another last level or its
    /// CPUs.
    fn take_from_others(
        &self,
        shard: &mut Shard,
        served: &mut Served,
        cpu: u16,
        line: u64,
        cache: u16,
    ) -> Option<u16> {
        let node = self.node_of_cpu(cpu);
        let mut farthest: Option<u16> = None;
        let mut reach = |other: u16| {
            let hops = |node_of_other| self.distances.hops(node, node_of_other);
            if farthest.is_none_or(|farthest| hops(other) > hops(farthest)) {
                farthest = Some(other);
            }
        };
        for other in shard.other_cpus(line, cpu) {
            self.take_from(other, line, Tags::invalidate);
            shard.directory.remove(line, Holder::cpu(other));
            served.nr_invalidated += 1;
            served.taken_from = served.taken_from.or(Some(other));
            if self.is_home_side() || self.last_level_of(other) != cache {
                reach(self.node_of_cpu(other));
            }
        }
        for other in shard.other_last_levels(line, cache) {
            shard.drop_line(other, line);
            shard.directory.remove(line, Holder::last_level(other));
            served.nr_invalidated += 1;
            reach(self.node_of_last_level[usize::from(other)]);
        }
        farthest
    }

    /// Whether nobody else has a line: no CPU, no other last level.
    fn is_alone(&self, shard: &Shard, cpu: u16, line: u64, cache: u16) -> bool {
        shard.directory.holders(line).all(|holder| match holder.which() {
            // Its other first level holds it: what is written in one must not stay in the other.
            Ok(other) => other == cpu && self.private[usize::from(cpu)].l2.is_some(),
            Err(other) => other == cache,
        })
    }

    fn last_level_of(&self, cpu: u16) -> u16 {
        self.last_level_of_cpu[usize::from(cpu)]
    }

    /// A request passed a last level: the line is in it afterwards, or is not (victim).
    fn fill_last_level(
        &self,
        shard: &mut Shard,
        served: &mut Served,
        cache: u16,
        line: u64,
        is_dirty: bool,
    ) {
        let is_there = shard.set_dirty_if(cache, line, is_dirty);
        // Dirty lines have to be somewhere until they are written back.
        if !is_there && (is_dirty || self.shared.fill != Fill::Victim) {
            self.put_into_last_level(shard, served, cache, line, is_dirty);
        }
    }

    /// Puts a line into a last level, and sees to what it replaces.
    fn put_into_last_level(
        &self,
        shard: &mut Shard,
        served: &mut Served,
        cache: u16,
        line: u64,
        is_dirty: bool,
    ) {
        let replaced = shard.put(cache, line, is_dirty);
        if !self.is_home_side() {
            shard.directory.add(line, Holder::last_level(cache));
        }
        let Some(replaced) = replaced else { return };
        let mut is_dirty = replaced.is_dirty;
        if self.shared.fill == Fill::Inclusive {
            for cpu in shard.other_cpus(replaced.line, u16::MAX) {
                if self.is_home_side() || self.last_level_of(cpu) == cache {
                    is_dirty |= self.take_from(cpu, replaced.line, Tags::remove);
                    shard.directory.set_owned(replaced.line, false);
                    shard.directory.remove(replaced.line, Holder::cpu(cpu));
                }
            }
        }
        if !self.is_home_side() {
            shard.directory.remove(replaced.line, Holder::last_level(cache));
        }
        if is_dirty && self.is_home_side() {
            served.nr_memory_writes += 1;
        } else if is_dirty && let Some(home) = self.home_of_line(replaced.line) {
            served.write_backs.push(home);
        }
    }
}
