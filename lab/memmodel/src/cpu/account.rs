//! What became of a request at the shared level: its counts, its command and its modelled cycles.

use super::Cpu;
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
        let served = self.system.evict(self.index, victim, place);
        if let Some(home) = served.target {
            self.write_back(home, class);
            let cache = self.system.last_level_for(self.index, home);
            let request = Request::write(Some(cache), self.line_bytes());
            self.charge(&Request { path: Some(home), ..request });
        }
        self.finish(&served, class, self.system.home_of_line(victim));
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
            self.meter.count(self.plane, event, 1);
        }
        if let Some(target) = served.target {
            self.meter.command(self.plane, target, kind, class, moved);
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
        self.finish(served, class, self.system.home_of_line(line));
    }

    /// Counts what a request brought about besides.
    pub(super) fn finish(&mut self, served: &Served, class: Class, home: Option<u16>) {
        self.meter.count(self.plane, Event::Invalidations, u64::from(served.nr_invalidated));
        for &home in served.write_backs.homes() {
            self.write_back(home, class);
            let request = Request::write(None, self.line_bytes());
            self.charge(&Request { path: Some(home), memory: Some(home), ..request });
        }
        for _ in 0..served.nr_memory_writes {
            self.charge(&Request { memory: home, ..Request::write(None, 0) });
        }
    }

    fn write_back(&mut self, home: u16, class: Class) {
        self.meter.count(self.plane, Event::WriteBacks, 1);
        self.meter.command(self.plane, home, Kind::Write, class, Moved::LINE);
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
        self.stall(millicycles);
    }

    pub(super) fn stall(&mut self, millicycles: u64) {
        self.meter.count(self.plane, Event::StallMillicycles, millicycles);
    }

    pub(super) fn charge(&mut self, request: &Request) {
        let millicycles = self.clock.charge(&self.system, &self.meter, self.node, request);
        self.stall(millicycles);
    }
}
