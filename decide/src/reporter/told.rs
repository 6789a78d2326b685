//! What was decided and done lately, to be told to who asks.

use std::collections::{BTreeMap, VecDeque};

use quartier_model::{Outcome, Plan, ProcessSeen, Snapshot, TaskId};

use super::view::{Counts, Decided, Event, Happened, What};

/// What happened lately.
#[derive(Debug)]
pub struct Told {
    events: VecDeque<Event>,
    events_max: usize,
    /// What was decided last of those that were seen then.
    decided: BTreeMap<TaskId, Decided>,
    /// Since it began.
    pub counts: Counts,
}

impl Told {
    /// Keeps so many events; of older ones the decision log tells.
    #[must_use]
    pub fn keeping(events_max: usize) -> Self {
        let (events, decided) = (VecDeque::new(), BTreeMap::new());
        Self { events, events_max, decided, counts: Counts::default() }
    }

    /// A plan was made.
    pub fn plan(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let at = plan.at;
        self.counts.plans += 1;
        self.counts.steps += plan.steps.len() as u64;
        let speedups = plan.factors.iter().map(|factors| (factors.process, factors.speedup));
        let speedups: BTreeMap<_, _> = speedups.collect();
        let speedup = |process| speedups.get(&process).copied().flatten();
        self.decided.clear();
        for left in &plan.left {
            let what = What::Left(left.why);
            let decided = Decided { at, speedup: speedup(left.process), what };
            self.decided.insert(left.process, decided);
        }
        for step in &plan.steps {
            let what = What::Step(step.clone());
            let decided = Decided { at, speedup: speedup(step.process), what };
            self.decided.insert(step.process, decided);
            let seen = snapshot.processes.iter().find(|seen| seen.id == step.process);
            let name = seen.map_or_else(String::new, |seen| seen.name.clone());
            let what = Happened::Decided(step.clone());
            self.keep(Event { at, process: step.process, name, what });
        }
    }

    /// Something came of it.
    pub fn outcome(&mut self, outcome: &Outcome) {
        self.counts.threads_held += u64::from(outcome.threads_held);
        self.counts.moved = self.counts.moved + outcome.moved;
        self.counts.stayed = self.counts.stayed + outcome.stayed;
        let of = |event: &&Event| event.process == outcome.process;
        let name = self.events.iter().rev().find(of).map(|event| event.name.clone());
        self.keep(Event {
            at: outcome.at,
            process: outcome.process,
            name: name.unwrap_or_default(),
            what: Happened::Done(outcome.clone()),
        });
    }

    fn keep(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > self.events_max {
            self.events.pop_front();
        }
    }

    /// What the last plan says of a process; `None`: there was none, or it was not seen then.
    #[must_use]
    pub fn decided(&self, seen: &ProcessSeen) -> Option<Decided> {
        self.decided.get(&seen.id).cloned()
    }

    /// The latest last.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

#[cfg(test)]
mod tests {
    use quartier_model::{Bytes, Kind, Left, Nanos, Pages, Step, Why};

    use super::*;

    fn id(id: u32) -> TaskId {
        TaskId { id, start_ticks: 1 }
    }

    fn plan(at: u64, moved: u32, left: u32) -> Plan {
        let step = Step {
            process: id(moved),
            kind: Kind::Gather,
            threads: Vec::new(),
            others: None,
            pages: Pages::Stay,
            gain: 1.0,
            cost: Nanos(0),
        };
        let left = Left { process: id(left), why: Why::WellPlaced };
        Plan { at: Nanos(at), steps: vec![step], left: vec![left], ..Plan::default() }
    }

    #[test]
    fn the_latest_decision_and_the_latest_events_are_told() {
        let mut told = Told::keeping(512);
        (0..2000).for_each(|at| told.plan(&Snapshot::default(), &plan(at, 1, 2)));
        told.outcome(&Outcome {
            at: Nanos(2000),
            process: id(1),
            threads_held: 1,
            threads_left: 0,
            moved: Bytes(0),
            stayed: Bytes(0),
            refusal: None,
            by_cpuset: None,
        });
        let events: Vec<_> = told.events().map(|event| event.at.0).collect();
        assert_eq!((events.len(), events[0], events[511]), (512, 2000 - 511, 2000));
        assert_eq!(told.decided[&id(2)].what, What::Left(Why::WellPlaced));
        told.plan(&Snapshot::default(), &plan(3000, 2, 1));
        assert!(matches!(told.decided[&id(2)].what, What::Step(_)));
        assert_eq!(told.decided.len(), 2);
    }
}
