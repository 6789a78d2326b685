//! The Reporter (UNAS, algorithm 2): what the Monitor saw in, a plan out.
//!
//! Pure, like every decision: the same snapshots and outcomes in the same order give the same plans, bit for
//! bit. UNAS does not publish its formulas; these are ours. For a thread i that runs `r` CPUs' worth of the time and
//! waits for a CPU `w` of it:
//!
//! - **remoteness** σ = Σ over nodes of (share of its pages there × (distance ÷ 10 − 1)), 0 when all are local;
//! - **intensity** μ, the part of its running time in which it would wait for memory, were all of it local;
//! - **contention degradation factor** C = Σ over nodes of (share of its pages there × the node's pressure
//!   above the fair share), see `pressure.rs`;
//! - *work* = r ÷ (1 + μ (σ + C) + (1 − μ) (1 ÷ p − 1)), in CPUs' worth of running on the most powerful CPUs with
//!   local, quiet memory, where p is how powerful its CPU is beside these, see `power.rs`;
//! - **run-time speedup factor** S = its work elsewhere ÷ its work now, where elsewhere it runs r + w, as far as
//!   CPUs suffice.
//!
//! A process is moved when S is large enough, and when what it gains pays for its pages within a stated
//! time, which is not longer than it has lived so far.

mod arrange;
mod calm;
mod judge;
pub mod log;
mod overview;
mod plan;
mod power;
mod pressure;
mod show;
mod terms;
pub mod told;
mod trigger;
mod users;
pub mod view;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::collections::{BTreeMap, BTreeSet};

use quartier_model::{Bytes, Machine, Nanos, Outcome, Pages, Plan, Snapshot, TaskId, Trigger};
use serde::{Deserialize, Serialize};

use crate::dqdt::Tree;
use calm::Calm;
use judge::Trial;
pub use overview::{NodeOverview, Overview, Placed, local_part};
use plan::Sight;
use power::Power;
use trigger::Signature;

/// What may be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A process is not moved for less: it would run so many times as fast.
    pub speedup_min: f64,
    /// Nor for less than so many CPUs' worth of work.
    pub gain_min: f64,
    /// A move has to pay for itself within this time.
    pub payback: Nanos,
    /// What it costs to move a page of 4 KiB: CPU time, and the program's stall.
    pub page_cost: Nanos,
    /// What was moved stays for this long, and twice as long each time,
    pub rest: Nanos,
    /// up to this.
    pub rest_max: Nanos,
    /// So long after a move it is asked whether it helped.
    pub trial: Nanos,
    /// What a move did not help is not moved again for this long.
    pub remember: Nanos,
    /// What a fetch costs that misses the last-level cache, from local memory.
    pub llc_miss: Nanos,
    /// Pages of a process with more of its own stay.
    pub resident_max: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self {
            speedup_min: 1.05,
            gain_min: 0.02,
            payback: Nanos(10 * SECOND),
            page_cost: Nanos(2_000),
            rest: Nanos(10 * SECOND),
            rest_max: Nanos(640 * SECOND),
            trial: Nanos(5 * SECOND),
            remember: Nanos(600 * SECOND),
            llc_miss: Nanos(100),
            resident_max: Bytes(4 << 30),
        }
    }
}

/// What is remembered of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    seen_at: Nanos,
    /// As it was when it was last decided over.
    signature: Option<Signature>,
    /// It is not moved before.
    rests_until: Nanos,
    /// For how long it rests the next time.
    rest: Nanos,
    /// So many threads of it ran when it was moved last.
    #[serde(default)]
    nr_placed: usize,
    /// It is not moved before: it did not help.
    failed_until: Nanos,
    /// It was left for a reason that may have passed then.
    #[serde(default)]
    again: Option<Nanos>,
    /// So much of its memory did not move when it was asked to (pages that it shares with its parent, say), and is not asked
    /// again until then.
    #[serde(default)]
    stayed: Option<(Bytes, Nanos)>,
    /// It behaved otherwise, and was left: it may do that now and then, and is not looked at each time.
    calm: Calm,
    trial: Option<Trial>,
}

/// What is remembered from one plan to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    #[serde(with = "pairs")]
    processes: BTreeMap<TaskId, Known>,
    /// Nothing could be done about the whole machine.
    calm: Calm,
    /// When it was looked last, if in vain.
    #[serde(default)]
    vain: Option<Nanos>,
    /// Whose pages are moved, as far as it was told.
    moving: BTreeSet<TaskId>,
    /// When pages were moved last.
    moved: Option<Nanos>,
}

impl State {
    /// Whether pages are still moved of what was decided: the machine is not yet as it is to be, so nobody can be asked
    /// whether that helped.
    fn is_under_way(&self) -> bool {
        self.processes.values().any(Known::is_under_way) || !self.moving.is_empty()
    }

    /// Whether pages were moved in the window of a snapshot, if not now: whoever moves them takes CPUs from others.
    fn was_under_way(&self, snapshot: &Snapshot) -> bool {
        self.moved.is_some_and(|moved| snapshot.at - snapshot.window < moved)
    }
}

/// Who was not seen for so long is forgotten.
const FORGOTTEN_AFTER: Nanos = Nanos(1_200_000_000_000);

/// Looks at snapshots, and decides.
#[derive(Debug)]
pub struct Reporter {
    machine: Machine,
    tree: Tree,
    power: Power,
    settings: Settings,
    state: State,
}

impl Reporter {
    /// One that remembers this.
    #[must_use]
    pub fn new(machine: Machine, settings: Settings, state: State) -> Self {
        let (tree, power) = (Tree::build(&machine), Power::of(&machine));
        Self { machine, tree, power, settings, state }
    }

    /// What it decides for.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What it remembers.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What it goes by.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it goes by from now on.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Whether there is something to decide. Changes nothing.
    #[must_use]
    pub fn triggers(&self, snapshot: &Snapshot) -> Vec<Trigger> {
        let sight = self.sight(snapshot);
        trigger::of(&sight, &self.state)
    }

    /// How tasks and their memory are placed, for people. Changes nothing.
    #[must_use]
    pub fn overview(&self, snapshot: &Snapshot) -> Overview {
        Overview::of(&self.sight(snapshot))
    }

    fn sight<'a>(&'a self, snapshot: &'a Snapshot) -> Sight<'a> {
        Sight::new(&self.machine, &self.tree, &self.power, &self.settings, snapshot, &self.state)
    }

    /// Decides.
    pub fn plan(&mut self, triggers: Vec<Trigger>, snapshot: &Snapshot) -> Plan {
        let Self { machine, tree, power, settings, state } = self;
        state.remember_those_of(snapshot, settings);
        let sight = Sight::new(machine, tree, power, settings, snapshot, state);
        let plan = sight.plan(triggers, state);
        let moving = plan.steps.iter().filter(|step| step.pages != Pages::Stay);
        state.moving.extend(moving.map(|step| step.process));
        let is_vain = plan.steps.is_empty();
        state.calm.looked(snapshot.at, is_vain);
        state.vain = is_vain.then_some(snapshot.at);
        plan
    }

    /// What came of a step of an earlier plan.
    pub fn outcome(&mut self, outcome: &Outcome) {
        if self.state.moving.remove(&outcome.process) || outcome.moved > Bytes(0) {
            self.state.moved = Some(outcome.at);
        }
        if let Some(known) = self.state.processes.get_mut(&outcome.process) {
            known.outcome(outcome, &self.settings);
        }
    }
}

impl State {
    fn remember_those_of(&mut self, snapshot: &Snapshot, settings: &Settings) {
        let new = Known {
            seen_at: snapshot.at,
            signature: None,
            rests_until: Nanos(0),
            rest: settings.rest,
            nr_placed: 0,
            failed_until: Nanos(0),
            again: None,
            stayed: None,
            calm: Calm::default(),
            trial: None,
        };
        for process in &snapshot.processes {
            let known = self.processes.entry(process.id).or_insert_with(|| new.clone());
            known.seen_at = snapshot.at;
        }
        self.processes.retain(|_, known| snapshot.at - known.seen_at < FORGOTTEN_AFTER);
    }
}

/// A map as a list: keys of JSON are text.
mod pairs {
    use std::collections::BTreeMap;

    use quartier_model::TaskId;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Known;

    type Map = BTreeMap<TaskId, Known>;

    pub fn serialize<S: Serializer>(map: &Map, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Map, D::Error> {
        Ok(Vec::<(TaskId, Known)>::deserialize(from)?.into_iter().collect())
    }
}
