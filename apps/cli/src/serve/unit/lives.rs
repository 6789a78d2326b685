//! Copies live and end: whoever has ended is waited for and started again, reloads go round, and all stop.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::WaitOptions;

use super::Unit;
use crate::say;
use crate::serve::ReloadBy;
use crate::serve::active::Active;
use crate::serve::copy::Life;

/// A copy that was told to reload is believed to have after this.
const RELOADED_AFTER: Duration = Duration::from_secs(1);

impl Unit {
    /// Waits for whoever has ended, of whichever copy, and gives how the first processes of copies did.
    pub(super) fn reap(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get() as u32;
            let status = ExitStatus::from_raw(status.as_raw());
            let copy = self.copies.iter_mut().find(|copy| copy.pid == Some(pid));
            if let Some(copy) = copy {
                self.outs.forget(copy.number);
                told.extend(copy.has_ended(status, self.options.stop_signal));
            }
        }
        // While the first starts, the caller says it.
        if self.nr_looks > 0 {
            told.iter().for_each(|told| say::sentence(told));
        }
        self.follow_ends();
        told
    }

    /// Copies of which nothing is left are started again, or stay away.
    pub(super) fn follow_ends(&mut self) {
        for copy in &mut self.copies {
            copy.kill_if_late();
            let Life::Ending { was_asked, .. } = copy.life else { continue };
            if !copy.is_gone() {
                continue;
            }
            self.processes[copy.number].clear();
            self.counted.count(copy.number, Active::default());
            copy.life = Life::Down { until: None };
            if self.is_stopping || self.nr_looks == 0 {
                continue;
            }
            let is_reloaded = self.reloads.front() == Some(&copy.number);
            if was_asked && is_reloaded && self.options.reload_by == ReloadBy::Restart {
                copy.restart_now();
                continue;
            }
            let wait = copy.restart_later();
            let number = copy.number;
            say::sentence(&format!("copy {number} is started again in {wait:.1?}"));
            if is_reloaded {
                end_reload(number, &mut self.reloads, &mut self.reloading);
            }
        }
    }

    pub(super) fn start_due(&mut self) {
        if self.is_stopping {
            return;
        }
        for copy in self.copies.iter_mut().filter(|copy| copy.is_due()) {
            if let Err(error) = copy.start(&self.recipe) {
                say::sentence(&format!("copy {}: {error:#}", copy.number));
                copy.restart_later();
            }
        }
    }

    pub(super) fn reload(&mut self) {
        if !self.is_stopping {
            self.reloads = (0..self.copies.len()).collect();
            self.reloading = None;
            self.supervisor.reloading();
        }
    }

    /// One copy after the other, so that there are always others.
    pub(super) fn go_on_reloading(&mut self) {
        let Some(&at) = self.reloads.front() else { return };
        let copy = &mut self.copies[at];
        let Some(since) = self.reloading else {
            self.reloading = Some(Instant::now());
            let filled = copy.fill_configs(&self.recipe);
            match (filled, self.options.reload_by) {
                (Err(error), _) => {
                    say::sentence(&format!("nothing is reloaded: {error:#}"));
                    self.reloads.clear();
                }
                (Ok(()), ReloadBy::Restart) => {
                    copy.stop(self.options.stop_signal, self.options.drain);
                }
                (Ok(()), ReloadBy::Signal(signal)) => {
                    if let Some(pid) = copy.pid {
                        quartier_steer::signal(pid, signal);
                    }
                }
            }
            return;
        };
        let is_up = matches!(copy.life, Life::Up { .. });
        let is_over = since.elapsed() > self.options.drain + self.options.start_timeout;
        if since.elapsed() >= RELOADED_AFTER && is_up {
            self.reloads.pop_front();
            self.reloading = None;
        } else if is_over {
            end_reload(at, &mut self.reloads, &mut self.reloading);
        }
    }

    pub(super) fn stop(&mut self) {
        // Who says it twice means now.
        let drain = if self.is_stopping { Duration::ZERO } else { self.options.drain };
        self.is_stopping = true;
        self.supervisor.stopping(drain);
        self.reloads.clear();
        for copy in &mut self.copies {
            self.outs.take_in(copy.number);
            copy.stop(self.options.stop_signal, drain);
        }
    }

    pub(super) fn all_gone(&self) -> bool {
        self.copies.iter().all(|copy| copy.pid.is_none())
    }
}

/// What one copy does not survive, the others are spared.
fn end_reload(copy: usize, reloads: &mut VecDeque<usize>, reloading: &mut Option<Instant>) {
    let nr_left = reloads.len() - 1;
    reloads.clear();
    *reloading = None;
    if nr_left > 0 {
        say::sentence(&format!(
            "the reload ends here, since copy {copy} did not serve after it: {nr_left} of the copies stay as they are; mend that, and \
             reload again"
        ));
    }
}
