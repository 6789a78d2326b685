//! The command's life: its input, output and signals, and everything it leaves orphaned.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use quartier_marker::Facts;
use rustix::process::{Pid, Signal, WaitOptions};

use super::enter::STATUS_NOT_EXECUTABLE;
use super::plan::{Plan, Role};
use super::spaces::Watch;
use super::streams::Wrap;
use super::{Host, clocks, server, streams};
use crate::error::{Context, Error, Result};
use crate::frame::{Exit, Frame, Start};

/// Runs the command to its end, or a server and its load to the load's, and gives its status; everything
/// it wrote has then been sent.
pub fn run(start: &Start, host: &Host, from_host: File) -> Result<Exit> {
    let facts = start.is_counted.then(facts).transpose()?;
    clocks::slow(Path::new("/"), start.slow_clocks)?;
    spawn_beside(start)?;
    match &start.load {
        Some(load) => server::run(start, load, facts.as_ref(), host, from_host),
        None => {
            let plan = Plan::new(start.clone(), Role::Command, facts.as_ref());
            attend(plan, host, from_host, |_| {})
        }
    }
}

fn facts() -> Result<Facts> {
    Facts::read(Path::new("/")).map_err(|error| {
        Error::refused(format!(
            "nothing can be counted under this kernel: {error}; try one of Debian's \
             (`quartier lab kernels`)"
        ))
    })
}

/// Starts what runs beside the command. It ends with the guest.
fn spawn_beside(start: &Start) -> Result<()> {
    let Some((program, arguments)) = start.beside.split_first() else { return Ok(()) };
    let program = OsStr::from_bytes(program);
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).path("start", Path::new(program))
}

/// A process that has ended, and the command meanwhile.
pub struct Ended {
    pub process: Pid,
    pub exit: Exit,
    pub command: Pid,
}

/// Runs what the host talks to, to its end. `on_end` hears of every process that has ended meanwhile.
pub fn attend(
    plan: Plan,
    host: &Host,
    from_host: File,
    on_end: impl FnMut(&Ended),
) -> Result<Exit> {
    let is_counted = plan.facts().is_some();
    let start = plan.start.clone();
    let mut plan = plan.write()?;
    let watch = start.tells_spaces.then(|| Watch::begin(&start)).transpose()?;
    let (command, streams) = streams::spawn(&start, &plan)?;
    host.send(&Frame::Started).doing("write to the host")?;
    let ended = Arc::new(AtomicBool::new(false));
    let (input, to_input) = mpsc::channel();
    if let Some(file) = streams.input {
        let host = host.clone();
        thread::spawn(move || write_input(file, &to_input, &host));
    }
    thread::spawn(move || obey_host(from_host, command, &input, streams.terminal));
    let forward = |(file, wrap): (File, Wrap)| {
        let (host, ended) = (host.clone(), ended.clone());
        let send = move |data: &[u8]| host.send(&wrap(data.to_vec()));
        thread::spawn(move || streams::forward(file, &ended, send))
    };
    let mut outputs = streams.outputs;
    let while_it_runs: Vec<_> =
        if start.is_repeatable { Vec::new() } else { outputs.drain(..).map(forward).collect() };
    let exit = reap_until(command, on_end)?;
    if is_counted {
        quartier_marker::stop();
    }
    watch.map(|watch| watch.end(host)).transpose()?;
    for (file, _) in &mut outputs {
        file.rewind().doing("read what the command wrote")?;
    }
    let afterwards: Vec<_> = outputs.into_iter().map(forward).collect();
    for reader in afterwards {
        let _ = reader.join();
    }
    ended.store(true, Ordering::SeqCst);
    for reader in while_it_runs {
        let _ = reader.join();
    }
    match plan.failure().filter(|_| exit == Exit::Status(STATUS_NOT_EXECUTABLE)) {
        Some(why) => Err(Error::refused(format!("nothing was counted: {why}"))),
        None => Ok(exit),
    }
}

/// Reads the host's frames until there are no more.
fn obey_host(
    mut from_host: File,
    command: Pid,
    input: &Sender<Option<Vec<u8>>>,
    tty: Option<OwnedFd>,
) {
    while let Ok(Some(frame)) = Frame::read(&mut from_host) {
        match frame {
            Frame::Input(data) => drop(input.send(Some(data))),
            Frame::InputEnd => drop(input.send(None)),
            Frame::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    // The command leads a session, so its group has its id.
                    let _ = rustix::process::kill_process_group(command, signal);
                }
            }
            Frame::WindowSize(rows, columns) => {
                if let Some(terminal) = &tty {
                    streams::set_size(terminal, (rows, columns));
                }
            }
            _ => {}
        }
    }
}

/// Gives the command its input and the host new credit for what was taken.
fn write_input(mut to: File, from: &Receiver<Option<Vec<u8>>>, host: &Host) {
    // Dropping `to` on the way out is what tells the command that its input has ended.
    while let Ok(Some(data)) = from.recv() {
        let taken = to.write_all(&data);
        // A command that closed its input still gets the rest taken, as from a broken pipe.
        let _ = taken;
        if host.send(&Frame::Credit(data.len() as u32)).is_err() {
            return;
        }
    }
}

/// Waits for the command, and for every orphan that becomes the first process's child meanwhile.
fn reap_until(command: Pid, mut on_end: impl FnMut(&Ended)) -> Result<Exit> {
    loop {
        if let Some((process, exit)) = reap(WaitOptions::empty())? {
            on_end(&Ended { process, exit, command });
            if process == command {
                return Ok(exit);
            }
        }
    }
}

/// A child that has ended, if there is one; waits for it unless the options say otherwise.
pub fn reap(options: WaitOptions) -> Result<Option<(Pid, Exit)>> {
    let ended = match rustix::process::wait(options) {
        Err(rustix::io::Errno::INTR | rustix::io::Errno::CHILD) => None,
        other => other.doing("wait for the command")?,
    };
    Ok(ended.and_then(|(process, status)| {
        let code = status.exit_status().map(Exit::Status);
        Some((process, code.or(status.terminating_signal().map(Exit::Signal))?))
    }))
}
