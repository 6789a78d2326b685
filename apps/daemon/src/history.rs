//! How local the machine was lately, whether or not anybody looked.

use std::collections::VecDeque;

use quartier_decide::reporter::view::LocalAt;
use quartier_decide::reporter::{Reporter, local_part};
use quartier_model::{Nanos, Snapshot};

use crate::view::unix_ms;

/// It is noted this often,
const NOTE_EVERY: Nanos = Nanos(4_000_000_000);
/// and so many notes are kept: ten minutes.
const NOTES_MAX: usize = 150;

/// The latest notes.
#[derive(Debug, Default)]
pub struct History {
    notes: VecDeque<LocalAt>,
    next: Nanos,
}

impl History {
    /// Notes what a snapshot says, if it is time.
    pub fn note(&mut self, reporter: &Reporter, snapshot: &Snapshot) {
        if snapshot.at < self.next {
            return;
        }
        self.next = snapshot.at + NOTE_EVERY;
        if self.notes.len() == NOTES_MAX {
            self.notes.pop_front();
        }
        let local = local_part(&reporter.overview(snapshot).flows_cpus);
        self.notes.push_back(LocalAt { unix_ms: unix_ms(), local });
    }

    /// The latest last.
    pub fn notes(&self) -> Vec<LocalAt> {
        self.notes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use quartier_decide::reporter::{Settings, State};
    use quartier_model::SyntheticSpec;

    use super::*;

    #[test]
    fn ten_minutes_are_kept_and_no_more() {
        let machine = SyntheticSpec::uniform(2, 2).machine().unwrap();
        let reporter = Reporter::new(machine, Settings::default(), State::default());
        let mut history = History::default();
        for fifth in 0..5 * 900 {
            let at = Nanos(fifth * 200_000_000);
            history.note(&reporter, &Snapshot { at, ..Snapshot::default() });
        }
        assert_eq!(history.notes().len(), 150);
        assert_eq!(history.notes()[0].local, None, "nothing ran");
    }
}
