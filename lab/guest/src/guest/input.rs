//! The command's standard input on this side: read when the guest has room for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::termios::{OptionalActions, Termios};

use super::Input;
use super::signals::Ending;
use crate::error::{Context, Result};
use crate::frame::{DATA_BYTES_MAX, Frame, INPUT_CREDIT_BYTES};

/// How often a reader without input looks whether the run is over.
const POLL: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Ctrl-], which three times in a second ends a guest whose terminal no longer reacts.
const ESCAPE: u8 = 0x1d;
const ESCAPE_COUNT: usize = 3;
const ESCAPE_WITHIN: Duration = Duration::from_secs(1);

/// Sends input until it ends or this is dropped.
#[derive(Debug)]
pub struct Pump {
    over: Arc<AtomicBool>,
    credit: Sender<u32>,
    thread: Option<JoinHandle<()>>,
    /// After the thread: the terminal is given back once nobody reads it.
    _raw: Option<RawMode>,
}

impl Pump {
    pub fn start(input: Input, to_guest: Sender<Frame>, ending: Ending) -> Result<Self> {
        let raw = match &input {
            Input::Terminal { file, .. } => Some(RawMode::enter(file)?),
            _ => None,
        };
        let over = Arc::new(AtomicBool::new(false));
        let (credit, granted) = mpsc::channel();
        let reader = Reader { over: over.clone(), granted, credit: INPUT_CREDIT_BYTES, to_guest };
        let thread = thread::spawn(move || reader.run(input, &ending));
        Ok(Self { over, credit, thread: Some(thread), _raw: raw })
    }

    /// The guest has room for so many more bytes.
    pub fn grant(&self, bytes: u32) {
        let _ = self.credit.send(bytes);
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Reader {
    over: Arc<AtomicBool>,
    granted: Receiver<u32>,
    credit: u32,
    to_guest: Sender<Frame>,
}

impl Reader {
    fn run(mut self, input: Input, ending: &Ending) {
        match input {
            Input::Null => {}
            Input::Bytes(bytes) => {
                for data in bytes.chunks(DATA_BYTES_MAX) {
                    let mut rest = data;
                    while !rest.is_empty() {
                        let Some(room) = self.room() else { return };
                        let (now, later) = rest.split_at(room.min(rest.len()));
                        self.send(now);
                        rest = later;
                    }
                }
            }
            Input::File(file) => self.copy(&file, None),
            Input::Terminal { file, .. } => self.copy(&file, Some(ending)),
        }
        let _ = self.to_guest.send(Frame::InputEnd);
    }

    fn copy(&mut self, file: &OwnedFd, terminal: Option<&Ending>) {
        let mut buffer = vec![0; DATA_BYTES_MAX];
        let mut escapes = Vec::new();
        while let Some(room) = self.room() {
            if !self.wait_readable(file.as_fd()) {
                return;
            }
            let room = room.min(buffer.len());
            match rustix::io::read(file, &mut buffer[..room]) {
                Ok(0) => return,
                Ok(count) => match terminal {
                    Some(ending) if is_escape(&buffer[..count], &mut escapes, Instant::now()) => {
                        return ending.end(signal_hook::consts::SIGINT);
                    }
                    _ => self.send(&buffer[..count]),
                },
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }

    /// How much may be sent, once that is something; `None` when the run is over.
    fn room(&mut self) -> Option<usize> {
        loop {
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
            self.credit += self.granted.try_iter().sum::<u32>();
            if self.credit > 0 {
                return Some(self.credit as usize);
            }
            match self.granted.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => self.credit += bytes,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn send(&mut self, data: &[u8]) {
        self.credit -= data.len() as u32;
        let _ = self.to_guest.send(Frame::Input(data.to_vec()));
    }

    /// Waits for input without taking any, so that none is lost when the run ends meanwhile.
    fn wait_readable(&self, file: BorrowedFd<'_>) -> bool {
        while !self.over.load(Ordering::SeqCst) {
            let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
            match rustix::event::poll(&mut polled, Some(&POLL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

/// Whether the escape key has now been pressed often enough in time.
fn is_escape(data: &[u8], presses: &mut Vec<Instant>, now: Instant) -> bool {
    for &byte in data {
        if byte == ESCAPE {
            presses.push(now);
        } else {
            presses.clear();
        }
    }
    presses.retain(|press| now.duration_since(*press) <= ESCAPE_WITHIN);
    presses.len() >= ESCAPE_COUNT
}

/// A terminal that passes every key on; as it was before, once dropped.
#[derive(Debug)]
struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    fn enter(terminal: &OwnedFd) -> Result<Self> {
        let doing = "prepare the terminal";
        let terminal = terminal.try_clone().doing(doing)?;
        let before = rustix::termios::tcgetattr(&terminal).doing(doing)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&terminal, OptionalActions::Drain, &raw).doing(doing)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_escapes_in_a_second_are_one_too_many() {
        let start = Instant::now();
        let mut presses = Vec::new();
        assert!(!is_escape(&[ESCAPE, ESCAPE], &mut presses, start));
        assert!(is_escape(&[ESCAPE], &mut presses, start + ESCAPE_WITHIN / 2));
        let mut presses = Vec::new();
        assert!(!is_escape(&[ESCAPE, b'a', ESCAPE, ESCAPE], &mut presses, start));
        assert!(!is_escape(&[ESCAPE], &mut presses, start + ESCAPE_WITHIN * 2));
    }
}
