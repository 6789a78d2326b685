//! Off the path of a hit: bringing lines into the private caches, and the right to write them.

use super::{Cpu, First};
use crate::geometry::WalksEnter;
use crate::kinds::{Class, Event, Kind};
use crate::meter::Moved;
use crate::protocol::Place;
use crate::shared::Source;
use crate::tags::{Level, State, Tags};

impl Cpu {
    /// A walk reads a table entry.
    pub(super) fn read_table(&mut self, paddr: u64, kind: Kind) {
        self.meter.count(self.plane, Event::TableReads, 1);
        let line = paddr >> self.line_shift;
        if !self.sets.are_modelled(line) {
            return;
        }
        self.sample = self.sets.sample(line, false);
        let enters = self.system.geometry.walks_enter;
        let is_hit = match enters {
            WalksEnter::L1d => self.l1d.touch(line).is_some(),
            WalksEnter::L2 => self.l2.as_mut().is_some_and(|l2| l2.touch(line).is_some()),
            WalksEnter::LastLevel => false,
        };
        if is_hit {
            return;
        }
        let Some(home) = self.home(line) else { return };
        self.count(Event::TableMisses, 1);
        match enters {
            WalksEnter::L1d => self.fill(First::Data, line, home, kind, Class::Walk),
            WalksEnter::L2 => {
                self.fill_l2(line, home, kind, Class::Walk);
            }
            WalksEnter::LastLevel => {
                let served = self.system.read(self.index, line, home, None);
                self.account(&served, line, home, kind, Class::Walk, Moved::LINE);
            }
        }
    }

    /// The node of a line; an access of device memory is counted as such.
    pub(super) fn home(&mut self, line: u64) -> Option<u16> {
        let home = self.system.home_of_line(line);
        if home.is_none() {
            self.count(Event::DeviceAccesses, 1);
        }
        home
    }

    /// A line to be read is not in its first level.
    #[cold]
    pub(super) fn miss(&mut self, side: First, line: u64, kind: Kind, class: Class) {
        let Some(home) = self.home(line) else { return };
        if side == First::Data && self.was_invalidated(line) {
            self.stands_for_itself();
        }
        let event = match side {
            First::Instruction => Event::L1iMisses,
            First::Data => Event::L1dReadMisses,
        };
        self.count(event, 1);
        self.fill(side, line, home, kind, class);
    }

    /// Whether the CPU would have a line if another had not taken it away.
    fn was_invalidated(&self, line: u64) -> bool {
        self.l2.as_ref().unwrap_or(&self.l1d).tags.was_invalidated(line)
    }

    /// Brings a line to a first level.
    pub(super) fn fill(&mut self, side: First, line: u64, home: u16, kind: Kind, class: Class) {
        if self.l2.is_some() {
            if let Some(slot) = self.fill_l2(line, home, kind, class) {
                self.fill_first(side, line, slot);
            }
            return;
        }
        let level = self.first(side);
        let (slot, victim) = level.room(line);
        let tags = level.tags.clone();
        let place = Place { tags: &tags, slot, is_written: side == First::Data };
        self.evict(victim, place, class);
        let served = self.system.read(self.index, line, home, Some(place));
        self.account(&served, line, home, kind, class, Moved::LINE);
    }

    pub(super) fn first(&mut self, side: First) -> &mut Level {
        match side {
            First::Instruction => &mut self.l1i,
            First::Data => &mut self.l1d,
        }
    }

    /// Brings a line to the second level, if it is not there; where it is then.
    pub(super) fn fill_l2(
        &mut self,
        line: u64,
        home: u16,
        kind: Kind,
        class: Class,
    ) -> Option<usize> {
        let l2 = self.l2.as_mut()?;
        if let Some((slot, _)) = l2.touch(line) {
            self.count(Event::L2Hits, 1);
            self.stall_for_l2();
            return Some(slot);
        }
        let (slot, victim) = l2.room(line);
        let tags = l2.tags.clone();
        let place = Place { tags: &tags, slot, is_written: true };
        self.evict(victim, place, class);
        let served = self.system.read(self.index, line, home, Some(place));
        self.account(&served, line, home, kind, class, Moved::LINE);
        Some(slot)
    }

    /// Copies a line from the second level, which includes it, to a first.
    ///
    /// Somebody may take it away meanwhile: they clear the second level and then the first; we
    /// fill the first and then look at the second. Whoever is later sees the other.
    pub(super) fn fill_first(&mut self, side: First, line: u64, l2_slot: usize) {
        let Some(l2) = self.l2.as_ref().map(|l2| l2.tags.clone()) else { return };
        let Some((_, state)) = l2.at(l2_slot).filter(|&(held, _)| held == line) else { return };
        let level = self.first(side);
        let slot = match level.tags.find(line) {
            Some((slot, _)) => slot,
            None => {
                let (slot, victim) = level.room(line);
                make_room_over_l2(&level.tags, slot, victim, &l2);
                slot
            }
        };
        let given =
            if side == First::Instruction { State::Shared } else { state.min(State::Exclusive) };
        level.tags.put(slot, line, given);
        if l2.at(l2_slot) != Some((line, state)) {
            level.tags.take(slot, line);
        }
    }

    /// A store or atomic that is no hit on a modified line. `hit` is where it hit.
    #[cold]
    pub(super) fn write(
        &mut self,
        line: u64,
        hit: Option<(usize, State)>,
        kind: Kind,
        class: Class,
    ) {
        if let Some((slot, State::Exclusive)) = hit
            && self.l1d.tags.dirty(slot, line)
        {
            self.l1i.tags.remove(line);
            return;
        }
        let Some(home) = self.home(line) else { return };
        if !self.writes_back {
            self.stands_for_itself();
            self.count(Event::StoresThrough, 1);
            let served = self.system.write_through(self.index, line, home);
            let moved = if kind == Kind::Atomic { Moved::TWO_WORDS } else { Moved::WORD };
            self.account(&served, line, home, kind, class, moved);
            return;
        }
        if hit.is_none() {
            if self.was_invalidated(line) {
                self.stands_for_itself();
            }
            self.count(Event::L1dWriteMisses, 1);
        }
        if self.l2.is_some() {
            self.own_over_l2(line, home, hit.is_some(), kind, class);
        } else {
            self.own_in_first(line, home, hit, kind, class);
        }
        if let Some((slot, _)) = self.l1d.tags.find(line) {
            self.l1d.tags.dirty(slot, line);
        }
    }

    fn own_in_first(
        &mut self,
        line: u64,
        home: u16,
        hit: Option<(usize, State)>,
        kind: Kind,
        class: Class,
    ) {
        let (slot, victim) = match hit {
            Some((slot, _)) => (slot, None),
            None => self.l1d.room(line),
        };
        let tags = self.l1d.tags.clone();
        let place = Place { tags: &tags, slot, is_written: true };
        self.evict(victim, place, class);
        self.own(line, home, place, hit.is_some(), kind, class);
    }

    fn own_over_l2(&mut self, line: u64, home: u16, was_hit: bool, kind: Kind, class: Class) {
        let Some(l2) = self.l2.as_mut() else { return };
        let found = l2.touch(line);
        let tags = l2.tags.clone();
        if found.is_some() && !was_hit {
            self.count(Event::L2Hits, 1);
        }
        let slot = match found {
            Some((slot, State::Exclusive | State::Modified)) => {
                self.stall_for_l2();
                slot
            }
            Some((slot, State::Shared)) => {
                self.own(
                    line,
                    home,
                    Place { tags: &tags, slot, is_written: true },
                    true,
                    kind,
                    class,
                );
                slot
            }
            None => {
                let Some(l2) = self.l2.as_mut() else { return };
                let (slot, victim) = l2.room(line);
                let place = Place { tags: &tags, slot, is_written: true };
                self.evict(victim, place, class);
                self.own(line, home, place, was_hit, kind, class);
                slot
            }
        };
        self.fill_first(First::Data, line, slot);
    }

    pub(super) fn own(
        &mut self,
        line: u64,
        home: u16,
        place: Place<'_>,
        had_line: bool,
        kind: Kind,
        class: Class,
    ) {
        let served = self.system.own(self.index, line, home, place);
        let moved = match served.source {
            Source::Asker => {
                self.stands_for_itself();
                self.count(Event::Upgrades, 1);
                Moved::WORD
            }
            // Nothing but the order to drop copies left the last level's CPUs.
            Source::LastLevel | Source::Peer if !self.system.is_home_side() => Moved::WORD,
            _ => Moved::LINE,
        };
        if had_line && served.source != Source::Asker {
            // Somebody took it away since it was looked up.
            self.count(Event::L1dWriteMisses, 1);
        }
        self.account(&served, line, home, kind, class, moved);
    }
}

/// Makes room in a first level above an L2, which learns what was written.
fn make_room_over_l2(first: &Tags, slot: usize, victim: Option<u64>, l2: &Tags) {
    let Some(victim) = victim else { return };
    if first.take(slot, victim) == Some(State::Modified)
        && let Some((slot, _)) = l2.find(victim)
    {
        l2.dirty(slot, victim);
    }
}
