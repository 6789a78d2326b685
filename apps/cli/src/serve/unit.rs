//! All copies as one: started, watched and steered, reloaded, drained and stopped.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quartier_decide::steer::{CopySeen, Decision, State, Steering, Why};
use quartier_model::Machine;
use quartier_observe::{Host, Listening};
use rustix::process::{Signal, WaitOptions};

use super::ReloadBy;
use super::chooser::Chooser;
use super::copy::{Copy, Life, Recipe};
use super::instance::Instance;
use super::looks::Looks;
use super::outs::Outs;
use super::places::Places;
use super::receiving::Receiving;
use super::report;
use super::sockets::{Owned, Processes, Sockets};
use crate::say;

/// How often it is looked and decided.
const PERIOD: Duration = Duration::from_millis(100);

/// Until the first copy listens.
const START_PERIOD: Duration = Duration::from_millis(20);

/// A server that listens on several ports opens one after the other: it is ready when so long no other came.
const READY_AFTER: Duration = Duration::from_millis(100);

/// Processes and sockets of others are looked through, and the status is written, once in so many looks.
const SLOW_LOOKS: u64 = 10;

/// A copy that was told to reload is believed to have after this.
const RELOADED_AFTER: Duration = Duration::from_secs(1);

/// What the unit is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Stop,
    Reload,
    /// One has ended.
    Child,
}

/// What the command line says.
#[derive(Debug)]
pub struct Options {
    pub name: String,
    pub steers: bool,
    pub stop_signal: Signal,
    pub reload_by: ReloadBy,
    pub drain: Duration,
    pub start_timeout: Duration,
}

/// All copies.
#[derive(Debug)]
pub struct Unit {
    /// Taken back before the instance's directory goes, where its journal is.
    receiving: Option<Receiving>,
    pub host: Host,
    pub places: Places,
    pub options: Options,
    pub copies: Vec<Copy>,
    pub owned: Vec<Owned>,
    pub chooser: Option<Chooser>,
    pub why_not_steered: Option<String>,
    pub seen: Vec<CopySeen>,
    pub decision: Option<Decision>,
    pub notes: Vec<String>,
    pub instance: Instance,
    recipe: Recipe,
    processes: Vec<Processes>,
    sockets: Sockets,
    looks: Looks,
    steering: Steering,
    outs: Outs,
    nr_looks: u64,
    looked: Instant,
    /// To be reloaded, and since when the first of them is.
    reloads: VecDeque<usize>,
    reloading: Option<Instant>,
    is_stopping: bool,
}

impl Unit {
    #[allow(clippy::too_many_arguments)] // Once, from the command line's parts.
    pub fn new(
        host: Host,
        machine: &Machine,
        places: Places,
        recipe: Recipe,
        instance: Instance,
        options: Options,
        copies: Vec<Copy>,
        notes: Vec<String>,
    ) -> Self {
        let (chooser, why_not_steered) = if options.steers {
            match Chooser::new(&places) {
                Ok(chooser) => (Some(chooser), None),
                Err(error) => (None, Some(error.to_string())),
            }
        } else {
            (None, Some("the kernel's own hashing was asked for (--choose kernel)".to_owned()))
        };
        let steering = Steering::new(places.shape(machine));
        Self {
            receiving: None,
            host,
            places,
            options,
            owned: Vec::new(),
            chooser,
            why_not_steered,
            seen: Vec::new(),
            decision: None,
            notes,
            instance,
            recipe,
            processes: vec![Processes::new(); copies.len()],
            copies,
            sockets: Sockets::default(),
            looks: Looks::default(),
            steering,
            outs: Outs::default(),
            nr_looks: 0,
            looked: Instant::now(),
            reloads: VecDeque::new(),
            reloading: None,
            is_stopping: false,
        }
    }

    /// With settings that are taken back when all is over.
    pub fn with(self, receiving: Option<Receiving>) -> Self {
        Self { receiving, ..self }
    }

    /// Until it is told to stop.
    pub fn run(mut self, events: &Receiver<Event>) -> anyhow::Result<ExitCode> {
        if let Some(why) = &self.why_not_steered {
            say::sentence(&format!("connections are not steered: {why}"));
        }
        if let Err(error) = self.start_first(events) {
            self.stop();
            while !self.all_gone() {
                std::thread::sleep(START_PERIOD);
                self.reap();
            }
            return Err(error);
        }
        for copy in self.copies.iter_mut().skip(1) {
            copy.restart_now();
        }
        while !(self.is_stopping && self.all_gone()) {
            match events.recv_timeout(PERIOD.saturating_sub(self.looked.elapsed())) {
                Ok(Event::Stop) => self.stop(),
                Ok(Event::Reload) => self.reload(),
                Ok(Event::Child) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("signals are watched no more"),
            }
            // Nobody else is to be sent to a copy that has ended.
            let has_one_ended = !self.reap().is_empty();
            self.start_due();
            self.go_on_reloading();
            if has_one_ended || self.looked.elapsed() >= PERIOD {
                self.look();
                self.act();
            }
        }
        drop(self.receiving.take());
        Ok(ExitCode::SUCCESS)
    }

    /// The first copy starts alone: what is wrong with all of them is wrong with it, and who has its port
    /// already is found out by the kernel.
    fn start_first(&mut self, events: &Receiver<Event>) -> anyhow::Result<()> {
        std::fs::write(&self.recipe.alone, "")
            .with_context(|| format!("cannot write {}", self.recipe.alone.display()))?;
        self.copies[0].start(&self.recipe)?;
        let began = Instant::now();
        let mut ready: Option<(Instant, Vec<Owned>)> = None;
        loop {
            match events.recv_timeout(START_PERIOD) {
                Ok(Event::Stop) => bail!("stopped before the first copy listened"),
                Ok(Event::Reload | Event::Child) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("signals are watched no more"),
            }
            if let Some(how) = self.reap().into_iter().next() {
                bail!("{how}; what it said is above{}", self.hint_of_background());
            }
            self.find_processes();
            let strangers = self.find_sockets();
            if let Some(stranger) = strangers.first() {
                bail!(
                    "{} is in use by {} too: stop that, or serve on another port",
                    stranger.address,
                    owner(&self.host, stranger)
                );
            }
            let same = |(_, before): &(Instant, Vec<Owned>)| before.len() == self.owned.len();
            let since =
                ready.as_ref().filter(|ready| same(ready)).map_or_else(Instant::now, |it| it.0);
            ready = Some((since, self.owned.clone()));
            if self.listens_on_all_ports() && since.elapsed() >= READY_AFTER {
                break;
            }
            if began.elapsed() > self.options.start_timeout {
                bail!(
                    "copy 0 listens on {} after {} s: give it more with --start-timeout, or see what it waits for",
                    self.missing_ports(),
                    self.options.start_timeout.as_secs()
                );
            }
        }
        std::fs::remove_file(&self.recipe.alone)
            .with_context(|| format!("cannot remove {}", self.recipe.alone.display()))?;
        let mut addresses: Vec<_> = report::addresses(&self.owned);
        addresses.dedup();
        say::sentence(&format!(
            "{}: {} on {}",
            self.options.name,
            count(self.copies.len()),
            addresses.join(", ")
        ));
        Ok(())
    }

    fn hint_of_background(&self) -> &'static str {
        let children = self.processes[0].len() > 1;
        if children {
            " (if it goes into the background, tell it not to: nginx -g 'daemon off;', httpd -DFOREGROUND)"
        } else {
            ""
        }
    }

    fn listens_on_all_ports(&self) -> bool {
        let has = |port: &u16| self.owned.iter().any(|it| it.listening.address.port() == *port);
        !self.owned.is_empty() && self.recipe.ports.iter().all(has)
    }

    fn missing_ports(&self) -> String {
        let has = |port: &&u16| self.owned.iter().any(|it| it.listening.address.port() == **port);
        match self.recipe.ports.iter().find(|port| !has(port)) {
            Some(port) => format!("other ports than {port}, if any,"),
            None => "no port".to_owned(),
        }
    }

    /// Waits for whoever has ended, of whichever copy, and gives how the first processes of copies did.
    fn reap(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get() as u32;
            let status = ExitStatus::from_raw(status.as_raw());
            let copy = self.copies.iter_mut().find(|copy| copy.pid == Some(pid));
            if let Some(copy) = copy {
                self.outs.forget(copy.number);
                told.extend(copy.has_ended(status, self.options.stop_signal));
            }
        }
        // While the first starts, the caller says it.
        if self.nr_looks > 0 {
            told.iter().for_each(|told| say::sentence(told));
        }
        self.follow_ends();
        told
    }

    /// Copies of which nothing is left are started again, or stay away.
    fn follow_ends(&mut self) {
        for copy in &mut self.copies {
            copy.kill_if_late();
            if matches!(copy.life, Life::Ending { .. }) && copy.is_gone() {
                self.processes[copy.number].clear();
                copy.life = Life::Down { until: None };
                let is_reloaded = self.reloads.front() == Some(&copy.number)
                    && self.options.reload_by == ReloadBy::Restart;
                if self.is_stopping || self.nr_looks == 0 {
                    continue;
                } else if is_reloaded {
                    copy.restart_now();
                } else {
                    let wait = copy.restart_later();
                    let number = copy.number;
                    say::sentence(&format!("copy {number} is started again in {wait:.1?}"));
                }
            }
        }
    }

    fn start_due(&mut self) {
        if self.is_stopping {
            return;
        }
        for copy in self.copies.iter_mut().filter(|copy| copy.is_due()) {
            if let Err(error) = copy.start(&self.recipe) {
                say::sentence(&format!("copy {}: {error:#}", copy.number));
                copy.restart_later();
            }
        }
    }

    fn reload(&mut self) {
        if !self.is_stopping {
            self.reloads = (0..self.copies.len()).collect();
            self.reloading = None;
        }
    }

    /// One copy after the other, so that there are always others.
    fn go_on_reloading(&mut self) {
        let Some(&at) = self.reloads.front() else { return };
        let copy = &mut self.copies[at];
        let Some(since) = self.reloading else {
            self.reloading = Some(Instant::now());
            let filled = copy.fill_configs(&self.recipe);
            match (filled, self.options.reload_by) {
                (Err(error), _) => {
                    say::sentence(&format!("nothing is reloaded: {error:#}"));
                    self.reloads.clear();
                }
                (Ok(()), ReloadBy::Restart) => {
                    copy.stop(self.options.stop_signal, self.options.drain);
                }
                (Ok(()), ReloadBy::Signal(signal)) => {
                    if let Some(pid) = copy.pid {
                        quartier_steer::signal(pid, signal);
                    }
                }
            }
            return;
        };
        let is_up = matches!(copy.life, Life::Up { .. });
        let is_over = since.elapsed() > self.options.drain + self.options.start_timeout;
        if since.elapsed() >= RELOADED_AFTER && (is_up || is_over) {
            self.reloads.pop_front();
            self.reloading = None;
        }
    }

    fn stop(&mut self) {
        // Who says it twice means now.
        let drain = if self.is_stopping { Duration::ZERO } else { self.options.drain };
        self.is_stopping = true;
        self.reloads.clear();
        for copy in &mut self.copies {
            self.outs.take_in(copy.number);
            copy.stop(self.options.stop_signal, drain);
        }
    }

    fn all_gone(&self) -> bool {
        self.copies.iter().all(|copy| copy.pid.is_none())
    }

    fn find_processes(&mut self) {
        for copy in &self.copies {
            self.processes[copy.number] =
                copy.pid.map(|pid| self.host.server_processes(pid)).unwrap_or_default();
        }
    }

    /// Gives who else listens on the same addresses.
    fn find_sockets(&mut self) -> Vec<Listening> {
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

    fn look(&mut self) {
        let seconds = std::mem::replace(&mut self.looked, Instant::now()).elapsed().as_secs_f64();
        let starts = self.copies.iter().any(|copy| matches!(copy.life, Life::Starting { .. }));
        if starts || self.nr_looks.is_multiple_of(SLOW_LOOKS) {
            self.find_processes();
            self.sockets.forget_foreign();
        }
        self.nr_looks += 1;
        self.find_sockets();
        if let Some(chooser) = &mut self.chooser {
            for complaint in chooser.follow(&self.owned) {
                self.note(complaint);
            }
        }
        let given = self.chooser.as_ref().map(Chooser::given);
        self.seen = self.looks.look(
            &self.host,
            &self.places,
            &self.copies,
            &self.processes,
            &self.owned,
            given,
        );
        self.decision = Some(self.steering.look(seconds, &self.seen));
    }

    fn act(&mut self) {
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
        if self.nr_looks % SLOW_LOOKS == 1
            && let Err(error) = report::write(self)
        {
            say::sentence(&format!("{error:#}"));
        }
    }

    /// What waits at a copy that is out goes to others, as often as something does.
    fn move_waiting(&mut self, at: usize, out: Option<Why>) {
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
    fn others_serve(&self, at: usize) -> bool {
        let Some(decision) = &self.decision else { return false };
        let copies = self.seen.iter().zip(&decision.verdicts).enumerate();
        copies.filter(|(other, _)| *other != at).any(|(other, (seen, verdict))| {
            let is_alive =
                self.copies[other].pid.is_some_and(|pid| self.host.server_process(pid).is_some());
            seen.state == State::Listens && verdict.out.is_none() && is_alive
        })
    }

    fn empty(&mut self, at: usize) -> Option<String> {
        if !self.others_serve(at) {
            return None;
        }
        let migrates = self.host.tcp_migrates() == Some(true);
        self.outs.take_out(at, &self.owned, self.chooser.as_ref(), migrates)
    }

    /// Said once, and kept for the status.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            say::sentence(&note);
            self.notes.push(note);
        }
    }
}

fn count(copies: usize) -> String {
    if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }
}

/// Who has a socket, for a sentence.
pub fn owner(host: &Host, socket: &Listening) -> String {
    let pid = host.owner_of_socket(socket.inode);
    let name = |pid| host.process_name(pid).unwrap_or_else(|| "a process".to_owned());
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("{} (process {pid})", name(pid)))
}
