//! From the command line to copies: what cannot be is refused before anything is started.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use quartier_act::Program;
use quartier_observe::{Host, Pid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::copy::{Config, Copy, Recipe};
use super::instance::Instance;
use super::logs::Logs;
use super::places::Places;
use super::receiving::Receiving;
use super::roots::{Original, Roots};
use super::template::Values;
use super::unit::{self, Event, Unit};
use super::{Choose, Serve, must_not_be_copied, recipe, rights, web};
use crate::installed;
use crate::say;

/// Servers that are asked for what they were told before.
const KEEP_DATA: [&str; 6] =
    ["memcached", "redis-server", "valkey-server", "postgres", "mariadbd", "mysqld"];

impl Serve {
    /// Begins all that the command line asks for, and goes on until it is told to stop.
    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        self.check_root_is_used()?;
        self.check_configs_differ()?;
        let cooked = self.cook()?;
        self.check_metrics()?;
        let program = Program::find(self.command[0].as_ref(), std::env::var_os("PATH").as_deref())?;
        let host = Host::live();
        let machine = host.machine()?;
        let allowed = host.process_limits(Pid::Own)?.cpus;
        let places = Places::new(&machine, &allowed, self.per, self.copies)?;
        let nr_copies = places.homes.len();
        self.check_may_be_copied(nr_copies)?;
        let name = self.name();
        let instance = Instance::take(&name)?;
        self.check_ports(&host)?;
        let shown = |at: SocketAddr| quartier_loopback::listen(&format!("--metrics {at}"), at);
        let shown = self.metrics.map(shown).transpose()?;
        let logs = self.make_logs(&name, nr_copies)?;
        let mut notes = Vec::new();
        self.lay_down_rights(&mut notes);
        let roots = self.roots(&places, &instance, &name)?;
        let recipe = self.recipe_of(program, cooked.as_ref(), &instance)?;
        let words = cooked.map(|cooked| cooked.words);
        let copies = self.copies(&places, &instance, &logs, words.as_deref(), roots.as_ref())?;
        for copy in &copies {
            copy.command(&recipe)?;
            copy.fill_configs(&recipe)?;
        }
        let (events, received) = channel();
        watch_signals(events)?;
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let receiving = self.receive(&host, &places, &instance, &mut notes)?;
        notes.iter().for_each(|note| say::sentence(note));
        if let Some(listener) = shown {
            web::serve(listener, &instance.directory)?;
        }
        let options = self.options(name, logs);
        let unit = Unit::new(host, &machine, places, recipe, instance, options, copies, notes);
        unit.with(receiving, roots).run(&received)
    }

    /// What it is called.
    fn name(&self) -> String {
        match (self.name.clone(), self.recipe) {
            (Some(name), _) => name,
            (None, Some(recipe)) => recipe.as_str().to_owned(),
            (None, None) => name_of(&self.command[0]),
        }
    }

    /// Folders for the logs of copies, if those are to have any.
    fn make_logs(&self, name: &str, nr_copies: usize) -> anyhow::Result<Logs> {
        let logs = Logs::of(name);
        if self.recipe.is_some() || self.asks_for("{logs}") {
            let opens = self.recipe.and_then(recipe::Name::opens_logs);
            (0..nr_copies).try_for_each(|copy| logs.make(copy, opens))?;
        }
        Ok(logs)
    }

    fn lay_down_rights(&self, notes: &mut Vec<String>) {
        let steers = self.choose == Choose::Auto || !self.steer.is_empty();
        if let Err(errno) = rights::lay_down(steers, self.copy_root) {
            notes.push(format!("root's capabilities are all in effect: {errno}"));
        }
    }

    /// What is the same for all copies.
    fn recipe_of(
        &self,
        program: Program,
        cooked: Option<&recipe::Cooked>,
        instance: &Instance,
    ) -> anyhow::Result<Recipe> {
        let find =
            || installed::library("libquartier_reuseport.so", "the library that shares ports");
        let library = program.obstacle.map_or_else(|| find().map(Ok), |it| Ok(Err(it)))?;
        Ok(Recipe {
            program: program.path,
            command: self.command.clone(),
            configs: match cooked {
                Some(cooked) => cooked.configs.clone(),
                None => self.config.iter().cloned().map(Config::File).collect(),
            },
            library,
            ports: self.port.clone(),
            alone: instance.directory.join("alone"),
        })
    }

    /// What `--steer` asks for, until it is dropped.
    fn receive(
        &self,
        host: &Host,
        places: &Places,
        instance: &Instance,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<Receiving>> {
        if self.steer.is_empty() {
            return Ok(None);
        }
        let (receiving, said) = Receiving::set(host, places, &self.steer, &instance.directory)?;
        notes.extend(said);
        Ok(Some(receiving))
    }

    fn options(&self, name: String, logs: Logs) -> unit::Options {
        unit::Options {
            name,
            // Of others it is not known how they are told to open them anew.
            logs: self.recipe.map(|_| logs),
            steers: self.choose == Choose::Auto,
            stop_signal: self.stop_signal,
            reload_by: self.reload_by,
            drain: Duration::from_secs(self.drain),
            start_timeout: Duration::from_secs(self.start_timeout),
        }
    }

    /// A folder that nobody asks for is a mistake.
    fn check_root_is_used(&self) -> anyhow::Result<()> {
        const WORD: &str = "{root}";
        if self.root.is_none() || self.recipe.is_some() {
            return Ok(());
        }
        if !self.asks_for(WORD) {
            bail!(
                "--root: neither the command nor a --config file has {WORD}: put it where the server takes \
                 the name of its folder"
            );
        }
        Ok(())
    }

    /// Else the server would be told that its port is in use, and by nobody that it is by us.
    fn check_metrics(&self) -> anyhow::Result<()> {
        match self.metrics {
            Some(at) if self.port.contains(&at.port()) => bail!(
                "--metrics {at}: the server has port {} (--port): give one of the two another",
                at.port()
            ),
            _ => Ok(()),
        }
    }

    /// Whether the command or a file has a word.
    fn asks_for(&self, word: &str) -> bool {
        // One that cannot be read is refused by whoever fills it in.
        let mut texts = self.config.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        self.command.iter().any(|part| part.contains(word)) || texts.any(|text| text.contains(word))
    }

    /// A copy's directory has one file of a name.
    fn check_configs_differ(&self) -> anyhow::Result<()> {
        let names: Vec<_> = self.config.iter().filter_map(|file| file.file_name()).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = twice {
            bail!(
                "--config: two files are called {}, and each copy has one folder for all: rename one",
                name.display()
            );
        }
        Ok(())
    }

    /// Whoever keeps data for all may not be there twice on one port.
    fn check_may_be_copied(&self, nr_copies: usize) -> anyhow::Result<()> {
        let name = name_of(&self.command[0]);
        if nr_copies > 1 && self.recipe.is_none() && KEEP_DATA.contains(&name.as_str()) {
            bail!("{}", must_not_be_copied(&name));
        }
        Ok(())
    }

    /// What `--copy-root` asks for.
    fn roots(
        &self,
        places: &Places,
        instance: &Instance,
        name: &str,
    ) -> anyhow::Result<Option<Roots>> {
        let Some(root) = self.root.as_ref().filter(|_| self.copy_root) else { return Ok(None) };
        let original = Original::new(root, &self.keep_one)?;
        let bindings = (0..places.homes.len()).map(|copy| places.binding(copy)).collect();
        Roots::begin(original, (&instance.directory, name), bindings).map(Some)
    }

    /// `{root}` of a copy.
    fn root_of(&self, roots: Option<&Roots>, copy: usize) -> anyhow::Result<Option<String>> {
        let root = match (roots, &self.root) {
            (Some(roots), _) => roots.of_copy(copy),
            (None, Some(root)) => {
                root.canonicalize().with_context(|| format!("--root {}", root.display()))?
            }
            (None, None) => return Ok(None),
        };
        let root = root.into_os_string().into_string();
        root.map(Some).map_err(|_| anyhow::anyhow!("--root: its name has to be text"))
    }

    /// A recipe's command, if one was asked for, is ours from here on.
    fn cook(&mut self) -> anyhow::Result<Option<recipe::Cooked>> {
        let Some(recipe) = self.recipe else { return Ok(None) };
        let default = if rustix::process::geteuid().is_root() { 80 } else { 8080 };
        let port = match self.port[..] {
            [] => default,
            [port] => port,
            _ => bail!("--port: a recipe listens on one port; give one"),
        };
        let cooked = recipe.cook(self.root.as_deref(), self.copy_root, port)?;
        self.port = vec![port];
        self.command.clone_from(&cooked.command);
        Ok(Some(cooked))
    }

    fn copies(
        &self,
        places: &Places,
        instance: &Instance,
        logs: &Logs,
        words: Option<&[(&'static str, String)]>,
        roots: Option<&Roots>,
    ) -> anyhow::Result<Vec<Copy>> {
        let nr_copies = places.homes.len();
        let copy = |number: usize| {
            let directory = instance.of_copy(number);
            let binding = places.binding(number);
            let node = places.domains[places.homes[number]].node_os_id.0;
            let cpus = binding.cpus.to_string();
            let own_logs = logs.of_copy(number).display().to_string();
            let mut values =
                Values::new(number, nr_copies, node, &cpus, &directory).with(&[("logs", own_logs)]);
            if let Some(root) = self.root_of(roots, number)? {
                values = values.with(&[("root", root)]);
            }
            if let Some(words) = words {
                values = values.with(words).with(&recipe::words_for(binding.cpus.len()));
            }
            Copy::new(number, binding, values, directory)
        };
        (0..nr_copies).map(copy).collect()
    }

    /// Before anything is started. (Where no port is named, the first copy finds out.)
    fn check_ports(&self, host: &Host) -> anyhow::Result<()> {
        let listening = host.listening(std::process::id())?;
        let taken = listening.iter().find(|it| self.port.contains(&it.address.port()));
        if let Some(taken) = taken {
            bail!(
                "{} is in use by {}: stop that, or give another --port",
                taken.address,
                unit::owner(host, taken)
            );
        }
        Ok(())
    }
}

/// The last part of a path, as far as it may be a name.
fn name_of(command: &str) -> String {
    let last = command.rsplit('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = last.chars().map(|c| if is_name(c) { c } else { '-' }).collect();
    name.trim_start_matches('.').to_owned()
}

fn watch_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])
        .context("cannot watch signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGHUP => Event::Reload,
                SIGCHLD => Event::Child,
                _ => Event::Stop,
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}
