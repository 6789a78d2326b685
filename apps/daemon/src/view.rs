//! What is shown of the machine, with what only a daemon knows.

use std::time::SystemTime;

use quartier_decide::reporter::Reporter;
use quartier_decide::reporter::told::Told;
use quartier_decide::reporter::view::View;
use quartier_model::{Counting, Snapshot};

/// As of a snapshot.
pub fn of(
    reporter: &Reporter,
    told: &Told,
    applies: bool,
    counting: Counting,
    snapshot: &Snapshot,
) -> View {
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    View {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: unix.as_millis().try_into().unwrap_or(u64::MAX),
        counting,
        ..View::of(reporter, told, applies, snapshot)
    }
}
