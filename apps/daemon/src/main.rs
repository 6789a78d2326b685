//! `quartierd`: the whole machine, watched, decided, moved, explained, undone.
#![forbid(unsafe_code)]

mod board;
mod config;
mod daemon;
mod live;
mod log;
mod view;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use quartier_act::scheduler::Scheduler;
use quartier_observe::Host;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use board::Board;
use config::Config;
use daemon::Daemon;

/// Watches all tasks of this machine, and brings them together with their memory.
///
/// Without --apply it only says what it would do.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  \
    quartierd                     say what would be done\n  \
    quartierd --apply             do it, until a signal comes; then take all of it back\n  \
    quartierd --log decisions.jsonl\n                                keep what was seen and decided"
)]
struct Args {
    /// Move threads and pages, instead of only saying which
    #[arg(long)]
    apply: bool,
    /// The configuration; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where what is changed is written down, so that it can be undone
    #[arg(long, value_name = "FILE", default_value = "/var/lib/quartier/journal")]
    journal: PathBuf,
    /// Where snapshots, plans and outcomes are written, as JSON lines
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quartierd: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let read = || args.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read);
    let config = read()?;
    let host = Host::live();
    let machine = host.machine().context("cannot read this machine")?;
    let scheduler = args.apply.then(|| -> anyhow::Result<_> {
        if let Some(folder) = args.journal.parent() {
            std::fs::create_dir_all(folder).with_context(|| {
                format!("cannot make the journal's folder {}", folder.display())
            })?;
        }
        Ok(Scheduler::open(machine.clone(), &args.journal)?)
    });
    let listen = config.web.listen;
    let mut daemon = Daemon::new(config, machine, scheduler.transpose()?, args.log.clone())?;
    if let Some(listen) = listen {
        show(listen, daemon.board())?;
    }
    let signals = signals()?;
    let watched = watch(&mut daemon, &signals, read);
    // Whatever went wrong, what was changed is taken back.
    let stopped = daemon.stop();
    watched.and(stopped)
}

/// Until a signal ends it.
fn watch(
    daemon: &mut Daemon,
    signals: &Receiver<i32>,
    read: impl Fn() -> anyhow::Result<Config>,
) -> anyhow::Result<()> {
    let mut next_look = Instant::now();
    loop {
        if Instant::now() >= next_look {
            daemon.look()?;
            next_look = (next_look + daemon.config().period()).max(Instant::now());
        }
        let is_moving = daemon.move_pages()?;
        let until_look = next_look.saturating_duration_since(Instant::now());
        match signals.recv_timeout(daemon.pause(is_moving, until_look)) {
            Ok(SIGHUP) => match read() {
                Ok(config) => daemon.set(config)?,
                Err(error) => eprintln!("quartierd: {error:#}; the old configuration stays"),
            },
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Serves the page. That nobody can look is no reason not to look after the machine.
fn show(listen: SocketAddr, board: &Board) -> anyhow::Result<()> {
    match web::listen(listen) {
        Ok(listener) => web::serve(listener, board.clone()),
        Err(error) => {
            eprintln!("quartierd: {error:#}; there is no page, and `quartier top` sees nothing");
            Ok(())
        }
    }
}

fn signals() -> anyhow::Result<Receiver<i32>> {
    let (to, from) = channel();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot take signals")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().try_for_each(|signal| to.send(signal)))
        .context("cannot begin a thread")?;
    Ok(from)
}
