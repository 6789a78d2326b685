//! `quartierd`: the whole machine, watched, decided, moved, explained, undone.
#![forbid(unsafe_code)]

mod board;
mod config;
mod counted;
mod daemon;
mod descriptors;
mod history;
mod live;
mod log;
#[cfg(test)]
#[path = "../../cli/tests/made_up/mod.rs"]
mod made_up;
mod pace;
mod privileges;
mod say;
mod supervisor;
mod view;
mod web;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use quartier_act::scheduler::Scheduler;
use quartier_daemon::{Args, CONFIG};
use quartier_observe::Host;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use board::Board;
use config::Config;
use daemon::Daemon;
use supervisor::Supervisor;

/// Exit status when it was refused: bad input, something missing, something not permitted.
const STATUS_REFUSED: u8 = 2;
/// Exit status when it ended without being told to, or could not take everything back.
const STATUS_FAILED: u8 = 1;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and version go to standard output, as clap prints them.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => return refuse(&one_sentence(&error)),
    };
    run(&args).unwrap_or_else(|error| refuse(&format!("{error:#}")))
}

fn refuse(sentence: &str) -> ExitCode {
    say::sentence(sentence);
    ExitCode::from(STATUS_REFUSED)
}

/// What is wrong with the command line, without the lines about what would be right.
fn one_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_help = |line: &&str| line.starts_with("Usage:") || line.starts_with("tip:");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what: Vec<_> = lines.take_while(|line| !is_help(line)).collect();
    let what = what.join(" ");
    format!("{}; see `quartierd --help`", what.strip_prefix("error: ").unwrap_or(&what))
}

/// An error is a refusal; what went wrong later is said here.
fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let given = args.config.as_deref();
    let read = || config::file(given).map_or_else(|| Ok(Config::default()), Config::read);
    let config = read()?;
    if args.check {
        say::line(&match config::file(given) {
            Some(file) => format!("{}: good", file.display()),
            None => format!("there is no {CONFIG}, and none was given: the defaults hold"),
        });
        return Ok(ExitCode::SUCCESS);
    }
    privileges::lacking(args.apply, &config.tasks).iter().for_each(|what| say::sentence(what));
    let host = Host::live();
    let machine = host.machine().context("cannot read this machine")?;
    let scheduler = args.apply.then(|| -> anyhow::Result<_> {
        if let Some(folder) = args.journal.parent() {
            std::fs::create_dir_all(folder).with_context(|| {
                format!(
                    "cannot make the journal's folder {}: give another place with --journal",
                    folder.display()
                )
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
    let watched = watch(&mut daemon, &signals, args.apply, read);
    supervisor::stopping();
    // Whatever went wrong, what was changed is taken back.
    let stopped = daemon.stop();
    let errors: Vec<_> = [watched, stopped].into_iter().filter_map(Result::err).collect();
    errors.iter().for_each(|error| say::sentence(&format!("{error:#}")));
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(STATUS_FAILED) })
}

/// Until a signal ends it.
fn watch(
    daemon: &mut Daemon,
    signals: &Receiver<i32>,
    applies: bool,
    read: impl Fn() -> anyhow::Result<Config>,
) -> anyhow::Result<()> {
    let does = if applies { "moves threads and pages" } else { "only says what --apply would do" };
    let mut supervisor = Supervisor::new();
    let mut next_look = Instant::now();
    let mut is_first = true;
    loop {
        if Instant::now() >= next_look {
            daemon.look()?;
            next_look = (next_look + daemon.config().period()).max(Instant::now());
        }
        if std::mem::take(&mut is_first) {
            supervisor.ready(does);
        }
        let is_moving = daemon.move_pages()?;
        let now = Instant::now();
        supervisor.alive(now);
        let pause = daemon.pause(is_moving, next_look.saturating_duration_since(now));
        match signals.recv_timeout(supervisor.pause(now, pause)) {
            Ok(SIGHUP) => {
                supervisor.reloading();
                match read() {
                    Ok(config) => {
                        let lacking = privileges::lacking(applies, &config.tasks);
                        lacking.iter().for_each(|what| say::sentence(what));
                        daemon.set(config)?;
                        supervisor.ready(does);
                    }
                    Err(error) => {
                        say::sentence(&format!("{error:#}; the old configuration stays"));
                        supervisor.ready("the configuration is bad; the old one stays");
                    }
                }
            }
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Serves the page. That nobody can look is no reason not to look after the machine.
fn show(listen: SocketAddr, board: &Board) -> anyhow::Result<()> {
    match quartier_loopback::listen(&format!("web.listen = \"{listen}\""), listen) {
        Ok(listener) => quartier_loopback::serve(listener, web::router(board.clone())),
        Err(error) => {
            say::sentence(&format!("{error:#}; there is no page, and `quartier top` sees nothing"));
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
