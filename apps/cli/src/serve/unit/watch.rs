//! What is seen, what is decided, and what is done about it, ten times a second.

use std::time::{Duration, Instant};

use quartier_decide::steer::{State, Why};
use quartier_observe::Listening;
use rustix::process::Signal;

use super::Unit;
use crate::say;
use crate::serve::active::Active;
use crate::serve::chooser::Chooser;
use crate::serve::copy::{Copy, Life};
use crate::serve::logs::BYTES_MAX;
use crate::serve::report;

/// Processes and sockets of others are looked through, and the status is written, once in so many looks.
const SLOW_LOOKS: u64 = 10;
/// And the size of logs once in so many.
const LOG_LOOKS: u64 = 100;

/// New sockets of copies that are up already are looked for once a second, or as rarely as it takes for that to be a part
/// in so many of one CPU: the kernel goes through all connections for it.
const FOUND_EVERY: Duration = Duration::from_secs(1);
const FOUND_PART: u32 = 300;

impl Unit {
    pub(super) fn find_processes(&mut self) {
        for copy in &self.copies {
            self.processes[copy.number] =
                copy.pid.map(|pid| self.host.server_processes(pid)).unwrap_or_default();
        }
    }

    /// Gives who else listens on the same addresses.
    pub(super) fn find_sockets(&mut self) -> Vec<Listening> {
        let Ok(listening) = self.host.listening(std::process::id()) else { return Vec::new() };
        let (owned, strangers) =
            self.sockets.look(&listening, &self.processes, &self.recipe.ports, &self.host);
        self.owned = owned;
        for copy in &mut self.copies {
            if self.owned.iter().any(|socket| socket.copy == copy.number) {
                copy.is_up();
            }
        }
        strangers
    }

    pub(super) fn look(&mut self) {
        let seconds = std::mem::replace(&mut self.looked, Instant::now()).elapsed().as_secs_f64();
        let starts = self.copies.iter().any(Copy::may_open_more);
        let mut stay = true;
        self.owned.iter_mut().for_each(|socket| stay &= socket.look());
        let is_due = self.next_find.is_none_or(|next| next <= self.looked);
        if starts || !stay || self.nr_looks.is_multiple_of(SLOW_LOOKS) {
            self.find_processes();
        }
        self.nr_looks += 1;
        if starts || !stay || is_due {
            let began = Instant::now();
            self.sockets.forget_foreign();
            self.find_sockets();
            self.next_find = Some(began + FOUND_EVERY.max(FOUND_PART * began.elapsed()));
        }
        if let Some(chooser) = &mut self.chooser {
            for complaint in chooser.follow(&self.owned) {
                self.note(complaint);
            }
        }
        let given = self.chooser.as_ref().map(Chooser::given);
        if let Some(given) = given {
            self.spills.count(&given.new, &self.places.homes, self.decision.as_ref());
        }
        self.seen = self.looks.look(
            &self.host,
            &self.places,
            &self.copies,
            &self.processes,
            &self.owned,
            given,
        );
        self.count_threads();
        if let Some(sentence) = self.counted.unsaid() {
            say::sentence(&sentence);
        }
        self.ask_tree(seconds);
        self.decision = Some(self.steering.look(seconds, &self.seen));
    }

    /// Counts the threads that copies keep active in the decision tree.
    pub(super) fn count_threads(&mut self) {
        self.counted.keep();
        let active = self.actives.look(&self.host, &self.processes);
        for (at, active) in active.into_iter().flatten().enumerate() {
            self.counted.count(at, active);
        }
        // Whoever was stopped is not active from then on, whatever he did since the last look.
        for (at, seen) in self.seen.iter().enumerate() {
            if seen.state == State::Stopped {
                self.counted.count(at, Active::default());
            }
        }
    }

    /// What the tree says of the copies' CPUs.
    fn ask_tree(&mut self, seconds: f64) {
        self.counted.look(seconds);
        let takes_usage = self.counted.takes_usage();
        for (at, seen) in self.seen.iter_mut().enumerate() {
            if let Some(told) = self.counted.told(at) {
                seen.usage = told.usage.filter(|_| takes_usage);
                seen.others = Some(told.others);
            }
        }
    }

    pub(super) fn act(&mut self) {
        let Some(decision) = self.decision.clone() else { return };
        if let Some(chooser) = &mut self.chooser
            && let Err(error) = chooser.write(&decision.shares)
        {
            self.note(format!(
                "connections go where they went: the table cannot be written: {error}"
            ));
        }
        for (at, verdict) in decision.verdicts.iter().enumerate() {
            self.move_waiting(at, verdict.out);
        }
        if self.nr_looks.is_multiple_of(LOG_LOOKS) {
            self.put_logs_aside();
        }
        if self.nr_looks % SLOW_LOOKS == 1
            && let Err(error) = report::write(self)
        {
            say::sentence(&format!("{error:#}"));
        }
    }

    /// Where nobody else looks after them, they would fill the disk.
    fn put_logs_aside(&mut self) {
        let Some(logs) = self.options.logs.clone() else { return };
        for at in 0..self.copies.len() {
            // One that has only just begun may not know yet what it is told.
            if !matches!(self.copies[at].life, Life::Up { .. }) {
                continue;
            }
            match logs.put_aside(at, BYTES_MAX) {
                Ok(true) => {
                    if let Some(pid) = self.copies[at].pid {
                        quartier_steer::signal(pid, Signal::USR1);
                    }
                }
                Ok(false) => {}
                Err(error) => self.note(format!("the logs of copy {at} grow on: {error}")),
            }
        }
    }

    /// What waits at a copy that is out goes to others, as often as something does.
    pub(super) fn move_waiting(&mut self, at: usize, out: Option<Why>) {
        let waits = self.seen[at].waiting.is_some_and(|waiting| waiting > 0);
        let steers = self.chooser.is_some();
        let complaint = match out {
            Some(Why::Stopped) if waits || !steers => self.empty(at),
            Some(Why::Stalled) if waits && steers => self.empty(at),
            _ if self.seen[at].state != State::Stopped => self.outs.take_in(at),
            _ => None,
        };
        if let Some(complaint) = complaint {
            self.note(complaint);
        }
    }

    /// Whether somebody takes what is moved; else it would be reset.
    pub(super) fn others_serve(&self, at: usize) -> bool {
        let Some(decision) = &self.decision else { return false };
        let copies = self.seen.iter().zip(&decision.verdicts).enumerate();
        copies.filter(|(other, _)| *other != at).any(|(other, (seen, verdict))| {
            let is_alive =
                self.copies[other].pid.is_some_and(|pid| self.host.server_process(pid).is_some());
            seen.state == State::Listens && verdict.out.is_none() && is_alive
        })
    }

    pub(super) fn empty(&mut self, at: usize) -> Option<String> {
        if !self.others_serve(at) {
            return None;
        }
        let migrates = self.host.tcp_migrates() == Some(true);
        self.outs.take_out(at, &self.owned, self.chooser.as_ref(), migrates)
    }

    /// Said once, and kept for the status.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            say::sentence(&note);
            self.notes.push(note);
        }
    }
}
