//! `quartier serve`: one copy of a server per node, and every connection on the node that received it.

mod chooser;
mod copy;
mod instance;
mod left;
mod logs;
mod looks;
mod metrics;
mod outs;
mod places;
mod receiving;
mod recipe;
mod report;
mod rights;
mod roots;
mod sockets;
mod spills;
mod status;
mod template;
mod together;
mod unit;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use quartier_act::Program;
use quartier_observe::{Host, Pid};
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::installed;
use crate::numbers::number;
use crate::say;
use copy::{Config, Copy, Recipe};
use instance::Instance;
use logs::Logs;
use places::{Per, Places};
use receiving::Receiving;
use roots::{Original, Roots};
use template::Values;
use unit::{Event, Unit};

const EXAMPLES: &str = "\
Examples:
  quartier serve --port 8080 -- ./server --listen 8080
      A copy on each node; a connection goes to the copy on the node whose CPU received it
  quartier serve --config nginx.conf -- nginx -g 'daemon off;' -c {dir}/nginx.conf
      {dir} is the copy's own directory, where nginx.conf lies with {node}, {copy} filled in
  quartier serve --recipe nginx-php --root /srv/wiki
      nginx and PHP-FPM, one of each on each node; the system's own configuration is left alone
  quartier serve --recipe nginx-php --root /srv/www --copy-root --keep-one uploads
      The same, with the folder in each node's memory, but for what is uploaded
  quartier serve status
      Connections and load of each copy, and why anything is not done
  quartier serve logs --follow
      What is asked of all copies of a recipe, in order; --errors for what its servers complain about
  kill -HUP PID; kill PID
      Reload one copy after the other; let all finish what they have, and stop

Exit status: 0 when stopped; 2 if it could not be started.";

/// Options of `quartier serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What a running `serve` does: connections and load of each copy, and why anything is not done
    Status(status::Args),
    /// What was asked of all copies, or what they complain about, in order
    Logs(logs::Args),
    /// What a recipe's copies are: programs that begin and end together
    #[command(hide = true)]
    Together(together::Args),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// What gets a copy: each NUMA node, or each last-level cache
    #[arg(long, value_enum, default_value = "node")]
    per: Per,
    /// How many copies, dealt out to nodes in turn [default: one for each node]
    #[arg(
        long, value_name = "N", allow_negative_numbers = true, value_parser = number(1..=1024usize)
    )]
    copies: Option<usize>,
    /// The ports that copies share; the start waits until there is a listener on each [default: every port
    /// that they listen on]
    #[arg(
        long, value_name = "PORT", value_delimiter = ',', allow_negative_numbers = true,
        value_parser = number(1..=u16::MAX)
    )]
    port: Vec<u16>,
    /// A configuration file that each copy gets with {copy}, {copies}, {node}, {cpus}, {dir} and {logs} filled in,
    /// as {dir}/FILE
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// What it is called, by `quartier serve status` [default: the command's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Who chooses the copy for a connection: our program in the kernel where that is permitted, or the
    /// kernel's own hashing, to compare
    #[arg(long, value_enum, default_value = "auto")]
    choose: Choose,
    /// Have packets received on all nodes while this runs: RPS, RFS, XPS and the interrupts of queues, of these
    /// interfaces (all that are up, if none is named); written down before, and taken back in the end
    #[arg(
        long, value_name = "IF", num_args = 0..=1, require_equals = true,
        default_missing_value = receiving::ALL, value_delimiter = ','
    )]
    steer: Vec<String>,
    /// Show the status over HTTP, to this machine alone: /metrics (OpenMetrics), /status.json, /healthz; a port, or an address of this
    /// machine's
    #[arg(long, value_name = "PORT|ADDR", value_parser = web::address)]
    metrics: Option<SocketAddr>,
    /// What tells a copy to finish and end
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    stop_signal: Signal,
    /// What tells a copy to reload, or `restart`: it is stopped and started anew
    #[arg(long, value_name = "SIGNAL", default_value = "HUP", value_parser = ReloadBy::parse)]
    reload_by: ReloadBy,
    /// How long a copy may take to finish before it is killed
    #[arg(
        long, value_name = "SECS", default_value_t = 30, allow_negative_numbers = true,
        value_parser = number(0..=86_400u64)
    )]
    drain: u64,
    /// How long the first copy may take until it listens
    #[arg(
        long, value_name = "SECS", default_value_t = 30, allow_negative_numbers = true,
        value_parser = number(1..=86_400u64)
    )]
    start_timeout: u64,
    /// A server that needs no file of yours, instead of CMD: with --root, on port 80 (8080 if you are not root)
    /// or --port
    #[arg(long, value_enum, value_name = "RECIPE", conflicts_with_all = ["command", "config", "stop_signal", "reload_by"])]
    recipe: Option<recipe::Name>,
    /// The folder that is served: by a recipe, or by CMD as {root}
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Each copy has --root for itself, in its own node's memory: {root} is there. What changes in the original comes to all
    /// copies; what a server would write there is refused, so nothing gets lost in one of them
    #[arg(long, requires = "root")]
    copy_root: bool,
    /// What stays one for all copies, by its path below --root: what the server writes (uploads, data), or what is big
    #[arg(long, value_name = "PATH", requires = "copy_root", value_delimiter = ',')]
    keep_one: Vec<PathBuf>,
    /// The server and its arguments; it has to stay in the foreground
    #[arg(last = true, required_unless_present = "recipe", value_name = "CMD")]
    command: Vec<String>,
}

/// `--choose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Choose {
    /// Our program where it is permitted
    Auto,
    /// The kernel's own hashing
    Kernel,
}

/// `--reload-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadBy {
    Signal(Signal),
    Restart,
}

impl ReloadBy {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "restart" => Ok(Self::Restart),
            _ => signal(text)
                .map(Self::Signal)
                .map_err(|_| format!("`{text}` is not HUP, USR1, USR2, WINCH or restart")),
        }
    }
}

fn signal(text: &str) -> Result<Signal, String> {
    match text.strip_prefix("SIG").unwrap_or(text) {
        "HUP" => Ok(Signal::HUP),
        "INT" => Ok(Signal::INT),
        "QUIT" => Ok(Signal::QUIT),
        "TERM" => Ok(Signal::TERM),
        "USR1" => Ok(Signal::USR1),
        "USR2" => Ok(Signal::USR2),
        "WINCH" => Ok(Signal::WINCH),
        _ => Err(format!("`{text}` is not HUP, INT, QUIT, TERM, USR1, USR2 or WINCH")),
    }
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            Some(What::Status(args)) => args.run(),
            Some(What::Logs(args)) => args.run(),
            Some(What::Together(args)) => args.run(),
            None => self.serve.run(),
        }
    }
}

impl Serve {
    fn run(mut self) -> anyhow::Result<ExitCode> {
        self.check_root_is_used()?;
        self.check_configs_differ()?;
        let cooked = self.cook()?;
        let program = Program::find(self.command[0].as_ref(), std::env::var_os("PATH").as_deref())?;
        let host = Host::live();
        let machine = host.machine()?;
        let allowed = host.process_limits(Pid::Own)?.cpus;
        let places = Places::new(&machine, &allowed, self.per, self.copies)?;
        self.check_may_be_copied(places.homes.len())?;
        let name = match (self.name.clone(), self.recipe) {
            (Some(name), _) => name,
            (None, Some(recipe)) => recipe.as_str().to_owned(),
            (None, None) => name_of(&self.command[0]),
        };
        let instance = Instance::take(&name)?;
        self.check_ports(&host)?;
        let shown = |at: SocketAddr| quartier_loopback::listen(&format!("--metrics {at}"), at);
        let shown = self.metrics.map(shown).transpose()?;
        let logs = Logs::of(&name);
        if self.recipe.is_some() || self.asks_for("{logs}") {
            let opens = self.recipe.and_then(recipe::Name::opens_logs);
            (0..places.homes.len()).try_for_each(|copy| logs.make(copy, opens))?;
        }
        let mut notes = Vec::new();
        let steers = self.choose == Choose::Auto || !self.steer.is_empty();
        if let Err(errno) = rights::lay_down(steers, self.copy_root) {
            notes.push(format!("root's capabilities are all in effect: {errno}"));
        }
        let roots = self.roots(&places, &instance, &name)?;
        let library = match program.obstacle {
            None => Some(installed::library(
                "libquartier_reuseport.so",
                "the library that shares ports",
            )?),
            Some(obstacle) => {
                notes.push(format!(
                    "copies share ports only where the server sets SO_REUSEPORT itself: {obstacle}"
                ));
                None
            }
        };
        let recipe = Recipe {
            program: program.path,
            command: self.command.clone(),
            configs: match &cooked {
                Some(cooked) => cooked.configs.clone(),
                None => self.config.iter().cloned().map(Config::File).collect(),
            },
            library,
            ports: self.port.clone(),
            alone: instance.directory.join("alone"),
        };
        let words = cooked.map(|cooked| cooked.words);
        let copies = self.copies(&places, &instance, &logs, words.as_deref(), roots.as_ref())?;
        for copy in &copies {
            copy.command(&recipe)?;
            copy.fill_configs(&recipe)?;
        }
        let (events, received) = channel();
        watch_signals(events)?;
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let receiving = if self.steer.is_empty() {
            None
        } else {
            let set = Receiving::set(&host, &places, &self.steer, &instance.directory)?;
            notes.extend(set.1);
            Some(set.0)
        };
        let options = unit::Options {
            name,
            // Of others it is not known how they are told to open them anew.
            logs: self.recipe.map(|_| logs),
            steers: self.choose == Choose::Auto,
            stop_signal: self.stop_signal,
            reload_by: self.reload_by,
            drain: Duration::from_secs(self.drain),
            start_timeout: Duration::from_secs(self.start_timeout),
        };
        notes.iter().for_each(|note| say::sentence(note));
        if let Some(listener) = shown {
            web::serve(listener, &instance.directory)?;
        }
        let unit = Unit::new(host, &machine, places, recipe, instance, options, copies, notes);
        unit.with(receiving, roots).run(&received)
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

/// Servers that are asked for what they were told before.
const KEEP_DATA: [&str; 6] =
    ["memcached", "redis-server", "valkey-server", "postgres", "mariadbd", "mysqld"];

/// Said of these, with what may be done instead.
fn must_not_be_copied(name: &str) -> String {
    format!(
        "{name} must not be copied: each copy would know a part of the data, and who asks would find it only by chance; run one, with \
         its threads placed: quartier run -- {name}"
    )
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
