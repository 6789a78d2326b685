//! One copy: started, watched, restarted with back-off, stopped.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use quartier_act::Obstacle;
use quartier_steer::{Binding, signal_all};
use rustix::process::Signal;

use super::left;
use super::supervisor::VARIABLES;
use super::template::Values;
use crate::say;

/// A copy that ended is started again after this time, and after twice as long each time.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A copy that has listened for so long is as good as new.
const IS_WELL_AFTER: Duration = Duration::from_secs(10);

/// After its first socket a copy opens all others within this time.
const OPENS_ALL_WITHIN: Duration = Duration::from_secs(1);

/// What a copy's processes get to finish after the first of them has ended unasked.
const ORPHANS_END_MAX: Duration = Duration::from_secs(2);

/// What is the same for all copies.
#[derive(Debug)]
pub struct Recipe {
    /// The program's file.
    pub program: PathBuf,
    /// Its name and arguments, as templates.
    pub command: Vec<String>,
    /// Configuration files that are filled in for each copy.
    pub configs: Vec<Config>,
    /// The library that shares ports, or why the program takes none.
    pub library: Result<PathBuf, Obstacle>,
    /// Only these ports are shared; empty: all.
    pub ports: Vec<u16>,
    /// Exists while the first copy starts.
    pub alone: PathBuf,
}

/// A configuration file that each copy gets its own of.
#[derive(Clone, Debug)]
pub enum Config {
    /// From the user's, read anew for each start and reload.
    File(PathBuf),
    /// A recipe's: its name and text.
    Text(&'static str, String),
}

impl Config {
    /// Its name, its text, what it is called in a sentence, and who may read it.
    fn read(&self) -> anyhow::Result<(&OsStr, String, String, u32)> {
        match self {
            Self::File(path) => {
                let what = path.display().to_string();
                let text =
                    fs::read_to_string(path).with_context(|| format!("cannot read {what}"))?;
                let name = path.file_name().with_context(|| format!("{what} names no file"))?;
                // Who may not read the one may not read the other.
                let mode =
                    fs::metadata(path).map_or(0o600, |file| file.permissions().mode() & 0o777);
                Ok((name, text, what, mode))
            }
            Self::Text(name, text) => Ok((name.as_ref(), text.clone(), (*name).to_owned(), 0o600)),
        }
    }
}

/// Where a copy is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not started, until then.
    Down { until: Option<Instant> },
    /// Its first process has ended, as it was told or by itself; the others are given until then.
    Ending { until: Instant, was_asked: bool },
    /// Started, and listens as yet nowhere.
    Starting { since: Instant },
    /// Listens.
    Up { since: Instant },
    /// Told to stop, and killed then.
    Stopping { until: Instant },
}

/// One copy.
#[derive(Debug)]
pub struct Copy {
    pub number: usize,
    pub binding: Binding,
    pub life: Life,
    /// Its first process, which its group is named after.
    pub pid: Option<u32>,
    /// How often it was started again because it had ended.
    pub restarts: u64,
    values: Values,
    directory: PathBuf,
    back_off: Duration,
}

impl Copy {
    /// Not started yet. Makes its directory.
    pub fn new(
        number: usize,
        binding: Binding,
        values: Values,
        directory: PathBuf,
    ) -> anyhow::Result<Self> {
        make_directory(&directory)?;
        let life = Life::Down { until: None };
        let back_off = BACK_OFF_MIN;
        Ok(Self { number, binding, life, pid: None, restarts: 0, values, directory, back_off })
    }

    /// Fills in its configuration files and starts it.
    pub fn start(&mut self, recipe: &Recipe) -> anyhow::Result<()> {
        self.fill_configs(recipe)?;
        let words = self.command(recipe)?;
        let mut command = Command::new(&recipe.program);
        command.arg0(&words[0]).args(&words[1..]).stdin(Stdio::null());
        VARIABLES.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command.env("QUARTIER_COPY", self.number.to_string());
        command.env("QUARTIER_SERVE_ALONE", &recipe.alone);
        let ports: Vec<_> = recipe.ports.iter().map(u16::to_string).collect();
        command.env("QUARTIER_SERVE_PORTS", ports.join(","));
        if let Ok(library) = &recipe.library {
            command.env("LD_PRELOAD", preload(library));
        }
        let child = quartier_steer::start(&mut command, &self.binding)
            .with_context(|| format!("cannot start `{}`", recipe.program.display()))?;
        // Not a `Child`: whoever is left to us is waited for in one place.
        self.pid = Some(child.id());
        self.life = Life::Starting { since: Instant::now() };
        if let Err(error) = left::note(&self.directory, child.id()) {
            say::sentence(&format!(
                "who comes after us will not know copy {}: {error:#}",
                self.number
            ));
        }
        Ok(())
    }

    /// The command with its templates filled in.
    pub fn command(&self, recipe: &Recipe) -> anyhow::Result<Vec<String>> {
        recipe.command.iter().map(|word| self.values.fill(word, "the command")).collect()
    }

    /// Its configuration files, anew.
    pub fn fill_configs(&self, recipe: &Recipe) -> anyhow::Result<()> {
        for config in &recipe.configs {
            let (name, text, what, mode) = config.read()?;
            let filled = self.values.fill(&text, &what)?;
            write_whole(&self.directory.join(name), &filled, mode)?;
        }
        Ok(())
    }

    /// It listens.
    pub fn is_up(&mut self) {
        if matches!(self.life, Life::Starting { .. }) {
            self.life = Life::Up { since: Instant::now() };
        }
    }

    /// Whether it may be about to open a socket: many open one after the other.
    pub fn may_open_more(&self) -> bool {
        match self.life {
            Life::Starting { .. } => true,
            Life::Up { since } => since.elapsed() < OPENS_ALL_WITHIN,
            _ => false,
        }
    }

    /// Its first process has ended; the others may finish. Says how, if nobody asked for that.
    pub fn has_ended(&mut self, status: ExitStatus, stop_signal: Signal) -> Option<String> {
        let (was_asked, until) = match self.life {
            Life::Stopping { until } => (true, until),
            _ => (false, Instant::now() + ORPHANS_END_MAX),
        };
        let listened = match self.life {
            Life::Up { since } if since.elapsed() > IS_WELL_AFTER => {
                self.back_off = BACK_OFF_MIN;
                true
            }
            Life::Up { .. } => true,
            _ => false,
        };
        self.tell_all(stop_signal);
        self.tell_all(Signal::CONT);
        self.life = Life::Ending { until, was_asked };
        let when = if listened { "" } else { " before it listened anywhere" };
        (!was_asked).then(|| format!("copy {} {}{when}", self.number, how(status)))
    }

    /// Whether the last of its processes is gone; whoever stays too long is killed.
    pub fn is_gone(&mut self) -> bool {
        let Some(pid) = self.pid else { return true };
        match self.life {
            Life::Ending { until, .. } if until <= Instant::now() => {
                self.tell_all(Signal::KILL);
            }
            Life::Ending { .. } => {}
            _ => return false,
        }
        let is_gone = !signal_all(pid, None);
        if is_gone {
            self.pid = None;
            left::forget(&self.directory);
        }
        is_gone
    }

    /// To be started again by and by.
    pub fn restart_later(&mut self) -> Duration {
        let wait = self.back_off;
        self.back_off = (2 * wait).min(BACK_OFF_MAX);
        self.restarts += 1;
        self.life = Life::Down { until: Some(Instant::now() + wait) };
        wait
    }

    /// To be started again now, because somebody asked.
    pub fn restart_now(&mut self) {
        self.life = Life::Down { until: Some(Instant::now()) };
    }

    /// Whether it is time to start it.
    pub fn is_due(&self) -> bool {
        matches!(self.life, Life::Down { until: Some(until) } if until <= Instant::now())
    }

    /// Tells it to stop; it is killed after `drain`.
    pub fn stop(&mut self, signal: Signal, drain: Duration) {
        match self.pid.filter(|_| !matches!(self.life, Life::Ending { .. })) {
            Some(pid) => {
                quartier_steer::signal(pid, signal);
                // One that is stopped would not notice.
                quartier_steer::signal(pid, Signal::CONT);
                self.life = Life::Stopping { until: Instant::now() + drain };
            }
            None if self.pid.is_none() => self.life = Life::Down { until: None },
            None => {}
        }
    }

    /// Kills it if it was told to stop and has not.
    pub fn kill_if_late(&mut self) -> bool {
        let is_late = matches!(self.life, Life::Stopping { until } if until <= Instant::now());
        if is_late {
            self.tell_all(Signal::KILL);
        }
        is_late
    }

    fn tell_all(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            signal_all(pid, Some(signal));
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}

/// The program's own preloads stay, after ours.
fn preload(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Others may go through it to what is theirs, whatever the umask is (a web server's user to its socket), and see nothing.
pub fn make_directory(path: &Path) -> anyhow::Result<()> {
    let make = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o711)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    };
    make().with_context(|| format!("cannot make {}", path.display()))
}

/// So that nobody reads half of it.
pub fn write_whole(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let _ = fs::remove_file(&new);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
