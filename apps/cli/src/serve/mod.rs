//! `quartier serve`: one copy of a server per node, and every connection on the node that received it.

mod chooser;
mod copy;
mod instance;
mod looks;
mod metrics;
mod outs;
mod places;
mod report;
mod sockets;
mod status;
mod template;
mod unit;

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
use copy::{Copy, Recipe};
use instance::Instance;
use places::{Per, Places};
use template::Values;
use unit::{Event, Unit};

const EXAMPLES: &str = "\
Examples:
  quartier serve --port 8080 -- ./server --listen 8080
      A copy on each node; a connection goes to the copy on the node whose CPU received it
  quartier serve --config nginx.conf -- nginx -g 'daemon off;' -c {dir}/nginx.conf
      {dir} is the copy's own directory, where nginx.conf lies with {node}, {copy} filled in
  quartier serve status
      Connections and load of each copy, and why anything is not done
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
    /// A configuration file that each copy gets with {copy}, {copies}, {node}, {cpus} and {dir} filled in,
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
    /// The server and its arguments; it has to stay in the foreground
    #[arg(last = true, required = true, value_name = "CMD")]
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
            None => self.serve.run(),
        }
    }
}

impl Serve {
    fn run(self) -> anyhow::Result<ExitCode> {
        let program = Program::find(self.command[0].as_ref(), std::env::var_os("PATH").as_deref())?;
        let host = Host::live();
        let machine = host.machine()?;
        let allowed = host.process_limits(Pid::Own)?.cpus;
        let places = Places::new(&machine, &allowed, self.per, self.copies)?;
        let name = self.name.clone().unwrap_or_else(|| name_of(&self.command[0]));
        let instance = Instance::take(&name)?;
        self.check_ports(&host)?;
        let mut notes = Vec::new();
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
            configs: self.config.clone(),
            library,
            ports: self.port.clone(),
            alone: instance.directory.join("alone"),
        };
        let copies = self.copies(&places, &instance)?;
        for copy in &copies {
            copy.command(&recipe)?;
            copy.fill_configs(&recipe)?;
        }
        let (events, received) = channel();
        watch_signals(events)?;
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let options = unit::Options {
            name,
            steers: self.choose == Choose::Auto,
            stop_signal: self.stop_signal,
            reload_by: self.reload_by,
            drain: Duration::from_secs(self.drain),
            start_timeout: Duration::from_secs(self.start_timeout),
        };
        notes.iter().for_each(|note| say::sentence(note));
        Unit::new(host, &machine, places, recipe, instance, options, copies, notes).run(&received)
    }

    fn copies(&self, places: &Places, instance: &Instance) -> anyhow::Result<Vec<Copy>> {
        let nr_copies = places.homes.len();
        let copy = |number: usize| {
            let directory = instance.of_copy(number);
            let binding = places.binding(number);
            let node = places.domains[places.homes[number]].node_os_id.0;
            let cpus = binding.cpus.to_string();
            let values = Values::new(number, nr_copies, node, &cpus, &directory);
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
