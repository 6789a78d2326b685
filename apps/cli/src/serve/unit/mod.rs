//! All copies as one: started, watched and steered, reloaded, drained and stopped.

mod lives;
mod watch;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use quartier_decide::steer::{CopySeen, Decision, Steering};
use quartier_model::Machine;
use quartier_observe::{Host, Listening};
use rustix::process::Signal;

use super::ReloadBy;
use super::active::Actives;
use super::chooser::Chooser;
use super::copy::{Copy, Recipe};
use super::counted::Counted;
use super::instance::Instance;
use super::logs::Logs;
use super::looks::Looks;
use super::outs::Outs;
use super::places::Places;
use super::receiving::Receiving;
use super::report;
use super::roots::Roots;
use super::sockets::{Owned, Processes, Sockets, hidden};
use super::spills::Spills;
use super::supervisor::Supervisor;
use super::trees::Directories;
use crate::say;

/// How often it is looked and decided.
const PERIOD: Duration = Duration::from_millis(100);

/// Until the first copy listens.
const START_PERIOD: Duration = Duration::from_millis(20);

/// A server that listens on several ports opens one after the other: it is ready when so long no other came.
const READY_AFTER: Duration = Duration::from_millis(100);

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
    /// Those that are put aside when they get large.
    pub logs: Option<Logs>,
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
    pub roots: Option<Roots>,
    pub host: Host,
    pub places: Places,
    pub options: Options,
    pub copies: Vec<Copy>,
    pub owned: Vec<Owned>,
    pub chooser: Option<Chooser>,
    pub why_not_steered: Option<String>,
    pub seen: Vec<CopySeen>,
    pub decision: Option<Decision>,
    pub spills: Spills,
    pub counted: Counted,
    pub notes: Vec<String>,
    pub instance: Instance,
    recipe: Recipe,
    processes: Vec<Processes>,
    sockets: Sockets,
    looks: Looks,
    pub actives: Actives,
    steering: Steering,
    outs: Outs,
    nr_looks: u64,
    looked: Instant,
    /// When it is looked for sockets next.
    next_find: Option<Instant>,
    /// To be reloaded, and since when the first of them is.
    reloads: VecDeque<usize>,
    reloading: Option<Instant>,
    is_stopping: bool,
    supervisor: Supervisor,
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
        let counted = Counted::new(Directories::default(), machine, &places);
        let actives = Actives::new(&host);
        Self {
            receiving: None,
            roots: None,
            host,
            places,
            options,
            owned: Vec::new(),
            chooser,
            why_not_steered,
            seen: Vec::new(),
            decision: None,
            spills: Spills::default(),
            counted,
            notes,
            instance,
            recipe,
            processes: vec![Processes::new(); copies.len()],
            copies,
            sockets: Sockets::default(),
            looks: Looks::default(),
            actives,
            steering,
            outs: Outs::default(),
            nr_looks: 0,
            looked: Instant::now(),
            next_find: None,
            reloads: VecDeque::new(),
            reloading: None,
            is_stopping: false,
            supervisor: Supervisor::default(),
        }
    }

    /// With what is taken back when all is over: settings, and the copies' own folders.
    pub fn with(self, receiving: Option<Receiving>, roots: Option<Roots>) -> Self {
        Self { receiving, roots, ..self }
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
        self.supervisor.ready(report::summary(&self));
        if let Some(why) = self.actives.why_not() {
            self.note(why.to_owned());
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
                let summary = report::summary(&self);
                self.supervisor.follow(!self.reloads.is_empty(), summary);
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
        let mut ready: Option<(Instant, usize)> = None;
        let mut strangers_before = Vec::new();
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
            self.count_threads();
            self.sockets.forget_foreign();
            let strangers = self.find_sockets();
            // A process of the copy that began in between is no stranger the next time.
            let stays = |stranger: &&Listening| {
                strangers_before.iter().any(|before: &Listening| before.inode == stranger.inode)
            };
            if let Some(stranger) = strangers.iter().find(stays) {
                bail!(
                    "{} is in use by {} too: stop that, or serve on another port",
                    stranger.address,
                    owner(&self.host, stranger)
                );
            }
            strangers_before = strangers;
            let same = ready.filter(|(_, nr_before)| *nr_before == self.owned.len());
            let since = same.map_or_else(Instant::now, |(since, _)| since);
            ready = Some((since, self.owned.len()));
            if self.listens_on_all_ports() && since.elapsed() >= READY_AFTER {
                break;
            }
            if began.elapsed() > self.options.start_timeout {
                return Err(self.listens_too_late());
            }
        }
        self.check_is_shared()?;
        std::fs::remove_file(&self.recipe.alone)
            .with_context(|| format!("cannot remove {}", self.recipe.alone.display()))?;
        let addresses = report::addresses(&self.owned);
        say::sentence(&format!(
            "{}: {} on {}",
            self.options.name,
            count(self.copies.len()),
            addresses.join(", ")
        ));
        Ok(())
    }

    fn listens_too_late(&self) -> anyhow::Error {
        let after = self.options.start_timeout.as_secs();
        if let Some(pid) = hidden(&self.processes[0]).filter(|_| self.owned.is_empty()) {
            return anyhow!(
                "after {after} s it is unknown where copy 0 listens: process {pid} of it is another user's, and may not be looked into: \
                 give the command CAP_SYS_PTRACE, or start the servers as its own user"
            );
        }
        anyhow!(
            "copy 0 {} after {after} s: give it more with --start-timeout, or see what it waits for",
            self.missing_ports()
        )
    }

    /// Where the first copy has a port for itself no other could bind: it would be started again for ever.
    fn check_is_shared(&mut self) -> anyhow::Result<()> {
        if self.copies.len() == 1 {
            return Ok(());
        }
        let why = match &self.recipe.library {
            Ok(_) => "it does not bind through the C library; use a build that does".to_owned(),
            Err(obstacle) => obstacle.to_string(),
        };
        for socket in &self.owned {
            if socket.is_shared() == Some(false) {
                bail!(
                    "copy 0 listens on {} without SO_REUSEPORT, so no other copy could, and that cannot be set for it: {why}, have the \
                     server set it itself, or give --copies 1",
                    socket.listening.address
                );
            }
        }
        if self.recipe.library.is_err() && self.owned.iter().any(|it| it.is_shared().is_none()) {
            self.note(format!(
                "copies share ports only where the server sets SO_REUSEPORT itself: {why}"
            ));
        }
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
            Some(port) => format!("does not listen on port {port}"),
            None => "listens on no port".to_owned(),
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
