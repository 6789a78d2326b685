//! A copy that is made of several programs, a web server and its PHP: started, told and ended as one.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/// One of the programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// It and its arguments.
    pub command: Vec<String>,
    /// What tells it to finish and end.
    pub stop: String,
    /// What tells it to reload.
    pub reload: String,
    /// What tells it to open its logs anew.
    pub reopen: String,
}

/// Options of `quartier serve together`, which recipes use.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The parts, as JSON
    parts: PathBuf,
}

impl Args {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let read = || format!("cannot read {}", self.parts.display());
        let text = std::fs::read_to_string(&self.parts).with_context(read)?;
        let parts: Vec<Part> = serde_json::from_str(&text).with_context(read)?;
        let mut signals = signal_hook::iterator::Signals::new([
            SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1,
        ])?;
        let mut running = Vec::new();
        for part in &parts {
            let program = part.command.first().context("a part has no command")?;
            let started = Command::new(program)
                .args(&part.command[1..])
                .stdin(Stdio::null())
                .spawn()
                .with_context(|| format!("cannot start `{program}`"));
            match started {
                Ok(child) => running.push((child.id(), part)),
                Err(error) => {
                    tell(&running, |part| &part.stop);
                    return Err(error);
                }
            }
        }
        // The first that ends says how all of it did; nobody waits for a part that was not asked to end.
        let mut status = None;
        for signal in signals.forever() {
            match signal {
                SIGCHLD => {
                    while let Ok(Some((pid, how))) = rustix::process::wait(WaitOptions::NOHANG) {
                        let pid = pid.as_raw_nonzero().get() as u32;
                        let before = running.len();
                        running.retain(|(id, _)| *id != pid);
                        if running.len() < before && status.is_none() {
                            status = Some(how.exit_status().map_or(1, |code| code as u8));
                            tell(&running, |part| &part.stop);
                        }
                    }
                    if running.is_empty() {
                        break;
                    }
                }
                SIGHUP => tell(&running, |part| &part.reload),
                SIGUSR1 => tell(&running, |part| &part.reopen),
                _ => {
                    status = status.or(Some(0));
                    tell(&running, |part| &part.stop);
                }
            }
        }
        Ok(ExitCode::from(status.unwrap_or(0)))
    }
}

fn tell(running: &[(u32, &Part)], what: impl Fn(&Part) -> &String) {
    for (pid, part) in running {
        if let (Some(pid), Ok(signal)) =
            (Pid::from_raw(*pid as i32), super::signal(what(part)) as Result<Signal, _>)
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}
