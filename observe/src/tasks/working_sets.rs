//! How much of its memory each process uses: those that run and have much, one after the other.

use std::io;

use quartier_model::{Bytes, Nanos, WorkingSets};

use super::process::Process;
use super::{Monitor, SECOND, find_mut};
use crate::damon::{Used, Watcher};

/// What has less fits into caches.
const RESIDENT_MIN: Bytes = Bytes::from_mib(16);
/// A process is watched this often; where none can be, it is tried again after so long.
const AGAIN: Nanos = Nanos(60 * SECOND);
/// What was found out is believed for so long.
const LASTS: Nanos = Nanos(300 * SECOND);

/// What is known of one process.
#[derive(Debug, Default)]
pub struct Usage {
    asked: Option<Nanos>,
    found: Option<(Nanos, Used)>,
}

impl Usage {
    /// What it uses, if that was found out lately.
    pub fn used(&self, now: Nanos) -> Option<Used> {
        self.found.filter(|(at, _)| now < *at + LASTS).map(|(_, used)| used)
    }
}

/// Who watches, if somebody is to.
#[derive(Debug, Default)]
pub struct Watching {
    watcher: Option<Watcher>,
    pub state: WorkingSets,
    next: Nanos,
}

impl Monitor {
    /// Whether working sets are known.
    #[must_use]
    pub fn working_sets(&self) -> WorkingSets {
        self.watching.state
    }

    /// Watches working sets from now on, or does not any more.
    ///
    /// # Errors
    /// When there can be no thread for it.
    pub fn watch_working_sets(&mut self, are_wanted: bool) -> io::Result<()> {
        if are_wanted != self.watching.watcher.is_some() {
            self.watching = Watching::default();
            let root = self.files.path("");
            self.watching.watcher = are_wanted.then(|| Watcher::begin(&root)).transpose()?;
        }
        Ok(())
    }

    pub(super) fn look_at_working_sets(&mut self, at: Nanos) {
        let Watching { watcher, state, next } = &mut self.watching;
        let Some(watcher) = watcher else { return };
        if let Some(found) = watcher.take() {
            match found.used {
                Ok(used) => {
                    *state = WorkingSets::Watched;
                    if let Some(process) = find_mut(&mut self.processes, found.process) {
                        process.usage.found = Some((at, used));
                    }
                }
                Err(why) => {
                    if let Some(of_all) = why.state() {
                        (*state, *next) = (of_all, at + AGAIN);
                    }
                }
            }
        }
        if watcher.is_busy() || at < *next {
            return;
        }
        if let Some(process) = longest_unasked(self.processes.values_mut(), at) {
            process.usage.asked = Some(at);
            watcher.ask(process.id);
        }
    }
}

/// Of those that are worth it, the one that has not been asked about for longest.
fn longest_unasked<'a>(
    processes: impl Iterator<Item = &'a mut Process>,
    at: Nanos,
) -> Option<&'a mut Process> {
    let is_old = |process: &&mut Process| {
        process.usage.asked.is_none_or(|asked| at >= asked + AGAIN)
            && process.is_busy()
            && process.resident().is_some_and(|resident| resident >= RESIDENT_MIN)
    };
    let first = |process: &&mut Process| (process.usage.asked, process.id);
    processes.filter(is_old).min_by_key(first)
}
