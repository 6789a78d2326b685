//! What is shown of the machine, with what only a daemon knows.

use std::time::SystemTime;

use quartier_decide::reporter::Reporter;
use quartier_decide::reporter::told::Told;
use quartier_decide::reporter::view::View;
use quartier_model::Snapshot;
use quartier_observe::tasks::Monitor;

use crate::history::History;

/// What time it is.
pub fn unix_ms() -> u64 {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    unix.as_millis().try_into().unwrap_or(u64::MAX)
}

/// As of a snapshot.
pub fn of(
    reporter: &Reporter,
    told: &Told,
    applies: bool,
    monitor: &Monitor,
    history: &History,
    snapshot: &Snapshot,
) -> View {
    View {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: unix_ms(),
        history: history.notes(),
        counting: monitor.counting(),
        working_sets: monitor.working_sets(),
        ..View::of(reporter, told, applies, snapshot)
    }
}
