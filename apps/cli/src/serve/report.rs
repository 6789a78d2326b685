//! The status, as it is written down for `quartier serve status`.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use quartier_decide::steer::{Verdict, Why};

use super::copy::{Copy, Life, write_whole};
use super::metrics;
use super::roots::Roots;
use super::sockets::Owned;
use super::status::{CopyStatus, DomainStatus, STATUS_FORMAT, Status};
use super::unit::Unit;

/// Less than this is not worth a word.
const SPILLED_MIN: f64 = 0.005;

/// Writes `status.json` and `metrics`.
pub fn write(unit: &Unit) -> anyhow::Result<()> {
    let status = status(unit);
    let directory = &unit.instance.directory;
    write_whole(&directory.join("status.json"), &serde_json::to_string(&status)?, 0o644)?;
    write_whole(&directory.join("metrics"), &metrics::text(&status), 0o644)
}

/// In a line.
pub fn summary(unit: &Unit) -> String {
    let verdict = |at: usize| unit.decision.as_ref().map(|decision| decision.verdicts[at]);
    let serves = |copy: &&Copy| {
        matches!(copy.life, Life::Up { .. })
            && verdict(copy.number).is_none_or(|verdict| verdict.out.is_none())
    };
    let nr_serve = unit.copies.iter().filter(serves).count();
    format!(
        "{nr_serve} of {} copies serve on {}",
        unit.copies.len(),
        addresses(&unit.owned).join(", ")
    )
}

/// Where the copies listen.
pub fn addresses(owned: &[Owned]) -> Vec<String> {
    let addresses: BTreeSet<_> = owned.iter().map(|socket| socket.listening.address).collect();
    addresses.iter().map(ToString::to_string).collect()
}

fn status(unit: &Unit) -> Status {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let given = unit.chooser.as_ref().map(|chooser| chooser.given());
    let domains = unit.places.domains.iter().enumerate().map(|(at, domain)| DomainStatus {
        node: domain.node_os_id.0,
        cpus: domain.cpus.to_string(),
        given_to: given.map(|given| given.new[at].clone()).unwrap_or_default(),
        given_away: given.map(|_| unit.spills.of(at)),
    });
    Status {
        format: STATUS_FORMAT,
        name: unit.options.name.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: since_1970.as_millis() as u64,
        why_not_steered: unit.why_not_steered.clone(),
        addresses: addresses(&unit.owned),
        per: unit.places.per,
        copies: unit.copies.iter().map(|copy| copy_status(unit, copy)).collect(),
        domains: domains.collect(),
        left_to_kernel: given.map(|given| given.missed),
        notes: unit.notes.clone(),
        root: unit.roots.as_ref().map(Roots::status),
        tree: Some(unit.counted.status()),
    }
}

fn copy_status(unit: &Unit, copy: &Copy) -> CopyStatus {
    let at = copy.number;
    let home = unit.places.homes[at];
    let given = unit.chooser.as_ref().map(|chooser| chooser.given());
    let verdict = unit.decision.as_ref().map(|decision| decision.verdicts[at]);
    let seen = unit.seen.get(at);
    let told = unit.counted.told(at);
    let worked = unit.actives.total(at);
    let spilled = verdict.map_or(0.0, |verdict| verdict.spilled);
    CopyStatus {
        copy: at,
        node: unit.places.domains[home].node_os_id.0,
        cpus: copy.binding.cpus.to_string(),
        pid: copy.pid,
        state: state(copy, verdict),
        restarts: copy.restarts,
        load: verdict.and_then(|verdict| verdict.load),
        spilled_part: spilled,
        spills_because: (spilled >= SPILLED_MIN && given.is_some()).then(|| {
            format!(
                "{:.0} % of its {}'s go elsewhere, for it is more loaded than the others",
                100.0 * spilled,
                unit.places.per.word()
            )
        }),
        waiting: seen.and_then(|seen| seen.waiting),
        open: seen.and_then(|seen| seen.open),
        given: given.map(|given| given.new.iter().map(|row| row[at]).sum()),
        given_local: given.map(|given| given.new[home][at]),
        moved_here: given.map(|given| given.moved[at]),
        threads: told.map(|told| told.threads),
        own_threads: told.map(|told| told.nr_counted),
        usage_percent: told.and_then(|told| told.usage).map(|usage| 100.0 * usage),
        ran_s: worked.map(|worked| worked.ran.0 as f64 / 1e9),
        waited_s: worked.map(|worked| worked.waited.0 as f64 / 1e9),
    }
}

fn state(copy: &Copy, verdict: Option<Verdict>) -> String {
    let state = match (copy.life, verdict.and_then(|verdict| verdict.out)) {
        (Life::Down { .. } | Life::Ending { .. }, _) => "has ended",
        (Life::Starting { .. }, _) => "starts",
        (Life::Stopping { .. }, _) => "finishes",
        (Life::Up { .. }, Some(Why::Stopped)) => "is stopped (SIGSTOP)",
        (Life::Up { .. }, Some(Why::Stalled)) => "stalls: it accepts nothing of what waits",
        (Life::Up { .. }, Some(Why::Gone)) => "listens nowhere",
        (Life::Up { .. }, None) if verdict.is_some_and(|verdict| verdict.ramp < 1.0) => {
            "comes back"
        }
        (Life::Up { .. }, None) => "serves",
    };
    state.to_owned()
}
