//! What makes the Reporter look (UNAS, algorithm 2, line 4: load is unbalanced, the behaviour of processes
//! has changed, or a powerful core is idle).

use quartier_model::{Machine, Nanos, NodeId, Snapshot, Standing, Trigger};
use serde::{Deserialize, Serialize};

use super::plan::Sight;
use super::power::IDLE_MIN;
use super::terms::Terms;
use super::{State, judge, users};

/// A thread that waits for this part of the time, while a CPU elsewhere is this idle.
const WAITING_MIN: f64 = 0.2;
/// A node's pressure above what it bears that is worth a look.
const EXCESS_MIN: f64 = 0.1;

/// Where processes begin and end all the time, who has begun waits for so long if the look before was in vain.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// How a process behaves, as far as its place goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    nr_active: u32,
    resident_mib: u64,
    home: Option<NodeId>,
    remoteness: Option<f64>,
    /// Whether it is known which thread uses which page, and of how many blocks.
    #[serde(default)]
    users_known: bool,
    #[serde(default)]
    nr_blocks: u32,
}

impl Signature {
    pub fn of(machine: &Machine, process: &Terms<'_>) -> Self {
        Self {
            nr_active: process.active().count() as u32,
            resident_mib: process.resident.0 >> 20,
            home: process.home(),
            remoteness: process.remoteness(machine),
            users_known: users::are_known(process).is_ok(),
            nr_blocks: users::nr_blocks(process),
        }
    }

    /// Whether something is known now that was not.
    fn knows_more_than(&self, before: &Self) -> bool {
        // What is seen of its touches comes and goes.
        let more_blocks = self.nr_blocks > before.nr_blocks + before.nr_blocks / 2 + 8;
        self.remoteness.is_some() && before.remoteness.is_none()
            || self.users_known && (!before.users_known || more_blocks)
    }

    /// Whether it differs enough to think again.
    pub fn is_other_than(&self, before: &Self) -> bool {
        let differs = |a: f64, b: f64, least: f64| (a - b).abs() > least;
        let grown = |a: u64, b: u64| differs(a as f64, b as f64, 4.0 + 0.25 * b as f64);
        let farther = match (self.remoteness, before.remoteness) {
            (Some(now), Some(before)) => differs(now, before, 0.1),
            (now, before) => now.is_some() != before.is_some(),
        };
        let active = (u64::from(self.nr_active), u64::from(before.nr_active));
        let more = active.0.abs_diff(active.1) > active.1 / 4;
        self.home != before.home
            || self.knows_more_than(before)
            || farther
            || more
            || grown(self.resident_mib, before.resident_mib)
    }
}

/// All that hold.
pub fn of(sight: &Sight<'_>, state: &State) -> Vec<Trigger> {
    let Sight { machine, snapshot, all, .. } = sight;
    let is_calm = state.calm.holds(snapshot.at);
    let is_soon = state.vain.is_some_and(|vain| snapshot.at < vain + PATIENCE);
    let is_due = |process: &Terms<'_>| {
        state
            .processes
            .get(&process.id())
            .is_some_and(|known| known.is_due(process.seen, snapshot.at, sight.settings()))
    };
    let powerful_idle = |process: &Terms<'_>| {
        let known = state.processes.get(&process.id());
        let rests = known
            .is_some_and(|known| known.is_resting(snapshot.at) || known.failed_until > snapshot.at);
        is_placeable(process)
            && !rests
            && process.seen.pin.is_none()
            && sight.power.has_idle_for(machine, snapshot, process)
    };
    let has_passed = |process: &Terms<'_>| {
        let known = state.processes.get(&process.id());
        let again = known.and_then(|known| known.again);
        is_placeable(process)
            && process.to_place().next().is_some()
            && again.is_some_and(|again| again <= snapshot.at)
    };
    let is_outgrown = |process: &Terms<'_>| {
        let known = state.processes.get(&process.id());
        known.is_some_and(|known| judge::is_outgrown(sight, process, known))
    };
    let holds = [
        (
            Trigger::Unbalanced,
            !is_calm && is_unbalanced(machine, snapshot, all) || all.iter().any(is_outgrown),
        ),
        (
            Trigger::Changed,
            !is_soon && all.iter().any(|process| has_changed(sight, process, state)),
        ),
        (Trigger::PowerfulIdle, !is_calm && all.iter().any(powerful_idle)),
        (Trigger::Contention, !is_calm && sight.pressure.excess_max() > EXCESS_MIN),
        (Trigger::Pinned, all.iter().any(is_pinned_elsewhere)),
        (Trigger::Passed, all.iter().any(has_passed)),
        (Trigger::Due, !sight.is_disturbed && all.iter().any(is_due)),
    ];
    holds.into_iter().filter(|(_, holds)| *holds).map(|(trigger, _)| trigger).collect()
}

fn is_placeable(process: &Terms<'_>) -> bool {
    process.seen.standing == Standing::Free
}

fn is_unbalanced(machine: &Machine, snapshot: &Snapshot, all: &[Terms<'_>]) -> bool {
    let idle_elsewhere = |node: NodeId| {
        machine.cpus().iter().zip(&snapshot.cpus_busy).any(|(cpu, busy)| {
            let is_idle =
                busy.is_some_and(|busy| (busy.0 as f64) < IDLE_MIN * snapshot.window.0 as f64);
            is_idle && cpu.node != Some(node) && snapshot.cpus.contains(cpu.os_id.0)
        })
    };
    let waits = all.iter().filter(|process| is_placeable(process)).flat_map(Terms::to_place);
    let mut waits = waits.filter(|thread| thread.waiting >= WAITING_MIN);
    waits.any(|thread| thread.at.iter().any(|(node, _)| idle_elsewhere(*node)))
}

fn has_changed(sight: &Sight<'_>, process: &Terms<'_>, state: &State) -> bool {
    if !is_placeable(process) || process.to_place().next().is_none() {
        return false;
    }
    let known = state.processes.get(&process.id());
    let before = known.and_then(|known| Some((known.signature.as_ref()?, known.calm)));
    before.is_none_or(|(before, calm)| {
        let now = Signature::of(sight.machine, process);
        now.knows_more_than(before) || !calm.holds(sight.snapshot.at) && now.is_other_than(before)
    })
}

fn is_pinned_elsewhere(process: &Terms<'_>) -> bool {
    is_placeable(process) && process.is_off_its_pin()
}
