//! What became of a request at the shared level: its counts, its command and its modelled cycles.

use super::{Cpu, Handover};
use crate::cost::Request;
use crate::geometry::Side;
use crate::kinds::{Class, Event, Kind};
use crate::meter::Moved;
use crate::protocol::Place;
use crate::shared::{Served, Source};

impl Cpu {
    /// Takes a line out of the place that another needs.
    pub(super) fn evict(&mut self, victim: Option<u64>, place: Place<'_>, class: Class) {
        let Some(victim) = victim else { return };
        let sample = self.sample;
        self.sample.weight = sample.of_set;
        let served = self.system.evict(self.index, victim, place);
        if let Some(home) = served.target {
            self.write_back(home, victim, class);
            let cache = self.system.last_level_for(self.index, home);
            let request = Request::write(Some(cache), self.line_bytes());
            self.charge(&Request { path: Some(home), ..request });
        }
        self.finish(&served, class, victim);
        self.sample = sample;
    }

    /// The request that is under way depends on what CPUs do, and not on what else is in the set.
    pub(super) fn stands_for_itself(&mut self) {
        if self.sample.is_everywhere {
            self.sample.weight = 1;
        }
    }

    /// Counts what became of a request, and its command.
    pub(super) fn account(
        &mut self,
        served: &Served,
        line: u64,
        home: u16,
        kind: Kind,
        class: Class,
        moved: Moved,
    ) {
        let is_through = !self.writes_back && !kind.is_read();
        let event = match served.source {
            _ if is_through => None,
            Source::Asker => None,
            Source::LastLevel => Some(Event::LastLevelHits),
            Source::Peer => Some(Event::PeerHits),
            Source::Owner(_) => Some(Event::OwnerHits),
            Source::Memory => Some(Event::MemoryReads),
        };
        if let Some(event) = event {
            self.count(event, 1);
        }
        let is_data = matches!(kind, Kind::Read | Kind::Write | Kind::Atomic);
        if let Some(from) = served.taken_from.filter(|_| is_data) {
            self.handover = Some(Handover { line: line << self.line_shift, from });
        }
        if let Some(target) = served.target {
            self.command(target, line, kind, class, moved);
            if is_data {
                self.asked = Some(target);
            }
        }
        let cache = match served.source {
            Source::Owner(_) if self.system.geometry.last_level.side == Side::Home => None,
            _ => Some(self.system.last_level_for(self.index, home)),
        };
        let is_line = moved.words == 0 || served.source == Source::Memory;
        self.charge(&Request {
            cache,
            memory: (served.source == Source::Memory).then_some(home),
            path: served.target,
            to_bytes: if kind.is_read() { 0 } else { moved.words as u32 * self.word_bytes() },
            from_bytes: if moved.words == 0 { self.line_bytes() } else { 0 },
            is_posted: !kind.is_read() && kind != Kind::Atomic,
            nr_lines: u32::from(is_line),
            nr_requests: moved.commands as u32,
        });
        self.finish(served, class, line);
    }

    /// Counts what a request brought about besides.
    pub(super) fn finish(&mut self, served: &Served, class: Class, line: u64) {
        self.count(Event::Invalidations, u64::from(served.nr_invalidated));
        // The rest is because of other lines in the set.
        self.sample.weight = self.sample.of_set;
        for &home in served.write_backs.homes() {
            // A line that a last level replaces is of the same set as the one that it makes room for.
            self.write_back(home, line, class);
            let request = Request::write(None, self.line_bytes());
            self.charge(&Request { path: Some(home), memory: Some(home), ..request });
        }
        let home = self.system.home_of_line(line);
        for _ in 0..served.nr_memory_writes {
            self.charge(&Request { memory: home, ..Request::write(None, 0) });
        }
    }

    fn write_back(&mut self, home: u16, line: u64, class: Class) {
        self.count(Event::WriteBacks, 1);
        self.command(home, line, Kind::Write, class, Moved::LINE);
    }

    fn command(&mut self, target: u16, line: u64, kind: Kind, class: Class, moved: Moved) {
        let weight = u64::from(self.sample.weight);
        self.meter.command(self.plane, target, kind, class, moved.times(weight));
        // What stands for itself alone adds nothing to the error.
        if target != self.node && self.sample.weight == self.sets.one_in {
            let lines = (moved.commands - moved.words) * u64::from(self.line_bytes());
            let bytes = lines + moved.words * u64::from(self.word_bytes());
            self.meter.remote(self.plane, self.sets.of(line), bytes);
        }
    }

    /// Counts an event of a modelled set, which stands for those of others.
    pub(super) fn count(&self, event: Event, by: u64) {
        self.meter.count(self.plane, event, by * u64::from(self.sample.weight));
    }

    fn line_bytes(&self) -> u32 {
        self.system.geometry.line_bytes
    }

    fn word_bytes(&self) -> u32 {
        self.system.geometry.word_bytes
    }

    pub(super) fn stall_for_l2(&mut self) {
        let cost = &self.system.geometry.cost;
        let millicycles = u64::from(cost.l2_cycles) * 1000 / u64::from(cost.reads_in_flight);
        self.stall(millicycles * u64::from(self.sample.weight));
    }

    pub(super) fn stall(&mut self, millicycles: u64) {
        self.meter.count(self.plane, Event::ModelledStallMillicycles, millicycles);
    }

    pub(super) fn charge(&mut self, request: &Request) {
        let millicycles =
            self.clock.charge(&self.system, &self.meter, self.node, request, self.sample.weight);
        self.stall(millicycles);
    }
}
