//! `quartier serve`: one copy of a server per node, and every connection on the node that received it.

mod active;
mod begin;
mod chooser;
mod copy;
mod counted;
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
mod supervisor;
mod template;
mod together;
mod trees;
mod unit;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use rustix::process::Signal;

use crate::numbers::number;
use places::Per;

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
        value_parser = port
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

/// `--port`: of all addresses, those of IPv6 too.
fn port(text: &str) -> Result<u16, String> {
    match text.rsplit_once(':') {
        Some((_, last)) if last.parse::<u16>().is_ok() => Err(format!(
            "give the number alone, {last}: at which addresses it listens the server is told by its own options, and copies share all"
        )),
        _ => number(1..=u16::MAX)(text),
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

/// Said of servers that keep data, with what may be done instead.
fn must_not_be_copied(name: &str) -> String {
    format!(
        "{name} must not be copied: each copy would know a part of the data, and who asks would find it only by chance; run one, with \
         its threads placed: quartier run -- {name}"
    )
}
