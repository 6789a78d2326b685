//! The command's life: its input, output and signals, and everything it leaves orphaned.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::Host;
use crate::error::{Context, Error, Result};
use crate::frame::{DATA_BYTES_MAX, Exit, Frame, Start};

/// How often a reader looks whether the command has ended while nothing comes.
const DRAIN_POLL: rustix::time::Timespec =
    rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// What a pipe can still hold when the command ends; more is from processes that outlive it.
const DRAIN_BYTES_MAX: usize = 1 << 20;

/// What is read from a stream becomes such a frame.
type Wrap = fn(Vec<u8>) -> Frame;

/// The command's three streams, this side of them.
struct Streams {
    input: File,
    outputs: Vec<(File, Wrap)>,
    terminal: Option<OwnedFd>,
}

/// Runs the command to its end and gives its status; everything it wrote has then been sent.
pub fn run(start: &Start, host: &Host, from_host: File) -> Result<Exit> {
    let plan = plan_file(start)?;
    spawn_beside(start)?;
    let (child, streams) = spawn(start, &plan)?;
    host.send(&Frame::Started).doing("write to the host")?;
    let ended = Arc::new(AtomicBool::new(false));
    let (input, to_input) = mpsc::channel();
    let writer_host = host.clone();
    thread::spawn(move || write_input(streams.input, &to_input, &writer_host));
    thread::spawn(move || obey_host(from_host, child, &input, streams.terminal));
    let readers: Vec<_> = streams
        .outputs
        .into_iter()
        .map(|(file, frame)| {
            let (host, ended) = (host.clone(), ended.clone());
            thread::spawn(move || forward_output(file, frame, &host, &ended))
        })
        .collect();
    let exit = reap_until(child)?;
    if start.is_counted {
        quartier_marker::stop();
    }
    ended.store(true, Ordering::SeqCst);
    for reader in readers {
        let _ = reader.join();
    }
    Ok(exit)
}

/// The plan for [`super::enter`], in memory; it reads it through /proc.
fn plan_file(start: &Start) -> Result<File> {
    let bytes = postcard::to_stdvec(start).map_err(io::Error::other).doing("write the plan")?;
    let file = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC).doing("make a memory file")?;
    let mut file = File::from(file);
    file.write_all(&bytes).doing("write the plan")?;
    Ok(file)
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

fn spawn(start: &Start, plan: &File) -> Result<(Pid, Streams)> {
    use std::os::fd::AsRawFd;
    let mut command = Command::new("/proc/self/exe");
    command.env_clear().args(["lab", "enter"]).arg(format!("/proc/1/fd/{}", plan.as_raw_fd()));
    let terminal = start.terminal.map(|size| open_terminal(size, start)).transpose()?;
    let piped = |wanted| if wanted { Stdio::piped() } else { Stdio::null() };
    let stderr_piped = terminal.is_none() || !start.terminal_stderr;
    if let Some((_, user_side)) = &terminal {
        let side = || user_side.try_clone().map(Stdio::from).doing("use the terminal");
        command.stdin(side()?).stdout(side()?);
        command.stderr(if stderr_piped { Stdio::piped() } else { side()? });
    } else {
        command.stdin(piped(true)).stdout(piped(true)).stderr(piped(true));
    }
    let mut child = command.spawn().doing("start the command")?;
    drop(command);
    let missing = || Error::refused("the command has no stream to the agent");
    let pid = Pid::from_raw(child.id() as i32).ok_or_else(missing)?;
    let mut outputs: Vec<(File, Wrap)> = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        outputs.push((File::from(OwnedFd::from(stderr)), Frame::ErrorOutput));
    }
    let streams = match terminal {
        Some((agent_side, _)) => {
            let clone = || agent_side.try_clone().doing("use the terminal");
            outputs.push((clone()?.into(), Frame::Output));
            Streams { input: clone()?.into(), outputs, terminal: Some(agent_side) }
        }
        None => {
            let stdout = child.stdout.take().ok_or_else(missing)?;
            outputs.push((File::from(OwnedFd::from(stdout)), Frame::Output));
            let stdin = child.stdin.take().ok_or_else(missing)?;
            Streams { input: File::from(OwnedFd::from(stdin)), outputs, terminal: None }
        }
    };
    Ok((pid, streams))
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

fn set_size(terminal: &OwnedFd, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // A terminal of unknown size is still a terminal.
    let _ = rustix::termios::tcsetwinsize(terminal, size);
}

/// Reads the host's frames until there are no more.
fn obey_host(
    mut from_host: File,
    child: Pid,
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
                    let _ = rustix::process::kill_process_group(child, signal);
                }
            }
            Frame::WindowSize(rows, columns) => {
                if let Some(terminal) = &tty {
                    set_size(terminal, (rows, columns));
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

/// Sends what the command writes, until it and all others have closed the stream, or until it has
/// ended and the stream is empty.
fn forward_output(mut from: File, frame: Wrap, host: &Host, ended: &AtomicBool) {
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
                if host.send(&frame(buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return, // EIO: the last user of a terminal is gone.
        }
    }
}

/// Waits for the command, and for every orphan that becomes the first process's child meanwhile.
fn reap_until(child: Pid) -> Result<Exit> {
    loop {
        let ended = match rustix::process::wait(WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.doing("wait for the command")?,
        };
        if let Some((_, status)) = ended.filter(|(pid, _)| *pid == child) {
            if let Some(code) = status.exit_status() {
                return Ok(Exit::Status(code));
            }
            if let Some(signal) = status.terminating_signal() {
                return Ok(Exit::Signal(signal));
            }
        }
    }
}
