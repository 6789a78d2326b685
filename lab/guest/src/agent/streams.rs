//! The agent's side of what a process reads and writes: pipes, or a terminal.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::process::Pid;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::plan::PlanFile;
use crate::error::{Context, Error, Result};
use crate::frame::{DATA_BYTES_MAX, Frame, Start};

/// How often a reader looks whether the command has ended while nothing comes.
const DRAIN_POLL: rustix::time::Timespec =
    rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// What a pipe can still hold when the command ends; more is from processes that outlive it.
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// What is read from a stream becomes such a frame.
pub type Wrap = fn(Vec<u8>) -> Frame;

/// The command's three streams, this side of them.
pub struct Streams {
    /// None where the command has no input.
    pub input: Option<File>,
    pub outputs: Vec<(File, Wrap)>,
    pub terminal: Option<OwnedFd>,
}

/// Starts the command that the host talks to.
pub fn spawn(start: &Start, plan: &PlanFile) -> Result<(Pid, Streams)> {
    if start.is_repeatable {
        return spawn_alone(plan);
    }
    let mut command = plan.command();
    let terminal = start.terminal.map(|size| open_terminal(size, start)).transpose()?;
    let stderr_piped = terminal.is_none() || !start.terminal_stderr;
    if let Some((_, user_side)) = &terminal {
        let side = || user_side.try_clone().map(Stdio::from).doing("use the terminal");
        command.stdin(side()?).stdout(side()?);
        command.stderr(if stderr_piped { Stdio::piped() } else { side()? });
    } else {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().doing("start the command")?;
    drop(command);
    let (pid, mut outputs) = pipes(&mut child, Frame::Output)?;
    let streams = match terminal {
        Some((agent_side, _)) => {
            let clone = || agent_side.try_clone().doing("use the terminal");
            outputs.push((clone()?.into(), Frame::Output));
            Streams { input: Some(clone()?.into()), outputs, terminal: Some(agent_side) }
        }
        None => {
            let missing = || Error::refused("the command has no stream to the agent");
            let stdin = child.stdin.take().ok_or_else(missing)?;
            let input = Some(File::from(OwnedFd::from(stdin)));
            Streams { input, outputs, terminal: None }
        }
    };
    Ok((pid, streams))
}

/// Starts it with nobody at the other end: its outputs are files, to be read from their begin when it has
/// ended.
fn spawn_alone(plan: &PlanFile) -> Result<(Pid, Streams)> {
    let file = || {
        let making = "make a memory file";
        let file = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).doing(making)?;
        Ok::<_, Error>((file.try_clone().doing(making)?, File::from(file)))
    };
    let ((to_output, output), (to_errors, errors)) = (file()?, file()?);
    let mut command = plan.command();
    command.stdin(Stdio::null()).stdout(to_output).stderr(to_errors);
    let mut child = command.spawn().doing("start the command")?;
    let (pid, _) = pipes(&mut child, Frame::Output)?;
    let outputs: Vec<(File, Wrap)> = vec![(errors, Frame::ErrorOutput), (output, Frame::Output)];
    Ok((pid, Streams { input: None, outputs, terminal: None }))
}

/// A process's number, and those of its outputs that are pipes.
pub fn pipes(child: &mut Child, output: Wrap) -> Result<(Pid, Vec<(File, Wrap)>)> {
    let nameless = || Error::refused("the command has no number");
    let pid = Pid::from_raw(child.id() as i32).ok_or_else(nameless)?;
    let mut outputs: Vec<(File, Wrap)> = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        outputs.push((File::from(OwnedFd::from(stderr)), Frame::ErrorOutput));
    }
    if let Some(stdout) = child.stdout.take() {
        outputs.push((File::from(OwnedFd::from(stdout)), output));
    }
    Ok((pid, outputs))
}

/// A new terminal of the given size that belongs to the command's user: agent's side, user's side.
fn open_terminal(size: (u16, u16), start: &Start) -> Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let agent_side = rustix::pty::openpt(flags).doing("open a terminal")?;
    rustix::pty::grantpt(&agent_side).doing("open a terminal")?;
    rustix::pty::unlockpt(&agent_side).doing("open a terminal")?;
    set_size(&agent_side, size);
    let user_side = rustix::pty::ioctl_tiocgptpeer(&agent_side, flags).doing("open a terminal")?;
    let owner = Some(rustix::fs::Uid::from_raw(start.uid));
    rustix::fs::fchown(&user_side, owner, None).doing("give the terminal to the user")?;
    Ok((agent_side, user_side))
}

pub fn set_size(terminal: &OwnedFd, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // A terminal of unknown size is still a terminal.
    let _ = rustix::termios::tcsetwinsize(terminal, size);
}

/// Passes on what a process writes, until it and all others have closed the stream, or until it has
/// ended and the stream is empty.
pub fn forward(
    mut from: File,
    ended: &AtomicBool,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) {
    let mut drained = 0;
    let mut buffer = vec![0; DATA_BYTES_MAX];
    while drained < DRAIN_BYTES_MAX {
        let has_ended = ended.load(Ordering::SeqCst);
        let mut polled = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&DRAIN_POLL)) {
            Ok(0) if has_ended => return,
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                drained += if has_ended { count } else { 0 };
                if pass_on(&buffer[..count]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return, // EIO: the last user of a terminal is gone.
        }
    }
}
