//! Asks the daemon again and again, beside the screen: an answer may take seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::state::{Event, Wish};
use crate::daemon_client::Daemon;

/// Until nobody listens any more.
pub fn poll(daemon: &Daemon, interval: Duration, wishes: &Receiver<Wish>, to: &Sender<Event>) {
    let began = Instant::now();
    let (mut is_paused, mut explained) = (false, None);
    let mut next = began;
    loop {
        if !is_paused && Instant::now() >= next {
            next = Instant::now() + interval;
            let view = daemon.view().map(Box::new).map_err(|error| error.to_string());
            if to.send(Event::View(began.elapsed(), view)).is_err() {
                return;
            }
            if let Some(pid) = explained
                && to.send(explain(daemon, pid)).is_err()
            {
                return;
            }
        }
        let wish = match is_paused {
            // What is not asked for is not made.
            true => wishes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => wishes.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        match wish {
            Ok(Wish::Pause(paused)) => is_paused = paused,
            Ok(Wish::Explain(pid)) => {
                explained = pid;
                if let Some(pid) = pid
                    && to.send(explain(daemon, pid)).is_err()
                {
                    return;
                }
            }
            Ok(Wish::Nothing) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Wish::Quit) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn explain(daemon: &Daemon, pid: u32) -> Event {
    let explained = daemon.explanation(pid).map(Box::new).map_err(|error| error.to_string());
    Event::Explained(pid, explained)
}
