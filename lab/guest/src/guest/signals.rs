//! Signals of this process, passed on to the command; a second one ends the guest at once.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, mpsc::Sender};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::{Handle, Signals};

use crate::error::{Context, Result};
use crate::frame::Frame;

/// Ends the guest, from any thread and whatever the others are blocked in.
#[derive(Clone, Debug)]
pub struct Ending {
    qemu: u32,
    /// The signal that ended the run, or 0.
    signal: Arc<AtomicI32>,
}

impl Ending {
    pub fn new(qemu: u32) -> Self {
        Self { qemu, signal: Arc::default() }
    }

    /// Ends the guest because of `signal`.
    pub fn end(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        if let Some(pid) = Pid::from_raw(self.qemu as i32) {
            // QEMU is waited for only after this thread: its id cannot be another's.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// The signal that ended the guest, if one did.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }
}

/// Takes this process's signals until dropped.
#[derive(Debug)]
pub struct Forwarder {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// `started` says whether there is a command to pass signals on to.
    pub fn start(
        to_guest: Sender<Frame>,
        started: Arc<AtomicBool>,
        ending: Ending,
    ) -> Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH])
            .doing("take this process's signals")?;
        let handle = signals.handle();
        let thread = thread::spawn(move || {
            let mut passed_on = false;
            for signal in &mut signals {
                if signal == SIGWINCH {
                    if let Some((rows, columns)) = window_size(rustix::stdio::stdin()) {
                        let _ = to_guest.send(Frame::WindowSize(rows, columns));
                    }
                } else if passed_on || !started.load(Ordering::SeqCst) {
                    ending.end(signal);
                } else {
                    passed_on = true;
                    let _ = to_guest.send(Frame::Signal(signal));
                }
            }
        });
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A terminal's rows and columns.
pub fn window_size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some((size.ws_row, size.ws_col))
}
