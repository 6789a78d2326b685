//! From what is seen to what is done: earlier moves are judged, every process is given a place, and those that
//! gain enough by it are moved.

use std::cmp::Reverse;

use quartier_model::{Factors, Left, Machine, Plan, ProcessSeen, Snapshot, Standing, Trigger, Why};

use super::arrange::{Arrangement, Given};
use super::judge::{self, Judgement};
use super::power::Power;
use super::pressure::Pressure;
use super::terms::Terms;
use super::trigger::Signature;
use super::{Known, Settings, State};
use crate::dqdt::Tree;

/// A snapshot in terms of the factors.
pub struct Sight<'a> {
    pub machine: &'a Machine,
    tree: &'a Tree,
    pub power: &'a Power,
    settings: &'a Settings,
    pub snapshot: &'a Snapshot,
    pub all: Vec<Terms<'a>>,
    /// As it is now.
    pub pressure: Pressure,
    /// Whether pages move that were to, or did in the window: memory is not yet where it will be, and moving it takes CPUs from
    /// others.
    pub is_disturbed: bool,
}

/// What a process was given, by its index among all.
type GivenTo = (usize, Result<Given, Why>);

/// What becomes of a process.
enum Fate {
    /// It has not been given a place yet.
    Open,
    /// It keeps its place; what it would gain elsewhere, if that was asked.
    Kept(Why, Option<f64>),
    Moved(Judgement),
}

impl<'a> Sight<'a> {
    pub fn new(
        machine: &'a Machine,
        tree: &'a Tree,
        power: &'a Power,
        settings: &'a Settings,
        snapshot: &'a Snapshot,
        state: &State,
    ) -> Self {
        let is_disturbed = state.is_under_way() || state.was_under_way(snapshot);
        let of = |seen: &'a ProcessSeen| Terms::new(machine, settings, snapshot, seen);
        let all: Vec<_> = snapshot.processes.iter().map(of).collect();
        let mut pressure = Pressure::none(machine, snapshot);
        all.iter().for_each(|process| pressure.add(process));
        Self { machine, tree, power, settings, snapshot, all, pressure, is_disturbed }
    }

    pub fn plan(&self, triggers: Vec<Trigger>, state: &mut State) -> Plan {
        let at = self.snapshot.at;
        let mut plan = Plan { at, triggers, ..Plan::default() };
        for process in self.all.iter().filter(|_| !self.is_disturbed) {
            // If one does not run at the moment it will be judged when it does.
            if let Some(known) = state.processes.get_mut(&process.id())
                && known.is_due(process.seen, at, self.settings)
                && !judge::is_outgrown(self, process, known)
                && let Some(now) = judge::efficiency(self, process)
            {
                plan.steps.extend(known.judge(process.id(), at, now, self.settings));
            }
        }
        let fates = self.fates(state);
        for (process, fate) in self.all.iter().zip(fates) {
            self.note(process, fate, state, &mut plan);
        }
        plan.steps.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.process.cmp(&b.process)));
        plan.factors.sort_by(|a, b| {
            let speedup = |factors: &Factors| factors.speedup.unwrap_or(0.0);
            speedup(b).total_cmp(&speedup(a)).then(a.process.cmp(&b.process))
        });
        plan
    }

    fn fates(&self, state: &State) -> Vec<Fate> {
        let first = |process: &Terms<'_>| {
            let known = &state.processes[&process.id()];
            judge::is_left(self, process, known).map_or(Fate::Open, |why| Fate::Kept(why, None))
        };
        let mut fates: Vec<_> = self.all.iter().map(first).collect();
        // Whoever is not moved after all keeps its place, which others may have been given: once more.
        loop {
            let (then, givens) = self.arrange(&fates);
            let mut is_final = true;
            for (at, given) in givens {
                let process = &self.all[at];
                let known = &state.processes[&process.id()];
                let fate = self.fate(process, known, given, &then);
                is_final &= matches!(fate, Fate::Moved(_));
                fates[at] = fate;
            }
            if is_final {
                return fates;
            }
            for fate in &mut fates {
                if matches!(fate, Fate::Moved(_)) {
                    *fate = Fate::Open;
                }
            }
        }
    }

    /// Gives a place to each whose fate is open; the pressure that there will be, and the places. Whoever is well placed, but held
    /// nowhere, has its place from the kernel, which may take it elsewhere: that is in nobody's way who has more memory there.
    fn arrange(&self, fates: &[Fate]) -> (Pressure, Vec<GivenTo>) {
        let fair = self.pressure.fair();
        let mut arrangement = Arrangement::new(self, self.tree, fair);
        let mut open = Vec::new();
        for (at, (process, fate)) in self.all.iter().zip(fates).enumerate() {
            match fate {
                Fate::Open => open.push(at),
                Fate::Kept(Why::WellPlaced, _) if process.is_left_to_kernel() => open.push(at),
                Fate::Kept(..) | Fate::Moved(_) => arrangement.keep(process),
            }
        }
        // Pins first; then, where CPUs are not all alike, whoever gains most by powerful ones; then whoever has most memory
        // in one place.
        open.sort_by_key(|&at| {
            let process = &self.all[at];
            let at_home = process.home().map(|home| process.resident - process.bytes_off(home));
            let wish = Reverse(self.power.wish(process));
            (process.seen.pin.is_none(), wish, Reverse(at_home), process.id())
        });
        let mut givens = Vec::new();
        open.retain(|&at| {
            if !matches!(fates[at], Fate::Open) {
                arrangement.keep(&self.all[at]);
                return false;
            }
            let given = arrangement.place_at_home(&self.all[at]);
            let is_homeless = given.is_none();
            givens.extend(given.map(|given| (at, Ok(given))));
            is_homeless
        });
        givens.extend(open.into_iter().map(|at| (at, arrangement.place(&self.all[at]))));
        (arrangement.pressure, givens)
    }

    fn fate(
        &self,
        process: &Terms<'_>,
        known: &Known,
        given: Result<Given, Why>,
        then: &Pressure,
    ) -> Fate {
        let given = match given {
            Ok(given) => given,
            Err(why) => return Fate::Kept(why, None),
        };
        let judgement = Judgement::of(self, process, known, &given, then);
        if judgement.changes_nothing(process) {
            return Fate::Kept(Why::WellPlaced, None);
        }
        match judgement.verdict(self, process) {
            Ok(()) => Fate::Moved(judgement),
            Err(why) => Fate::Kept(why, Some(judgement.speedup)),
        }
    }

    /// Writes down what becomes of a process.
    fn note(&self, process: &Terms<'_>, fate: Fate, state: &mut State, plan: &mut Plan) {
        let Some(known) = state.processes.get_mut(&process.id()) else { return };
        let signature = Signature::of(self.machine, process);
        let before = known.signature.replace(signature.clone());
        if before.is_some_and(|before| signature.is_other_than(&before)) {
            known.calm.looked(self.snapshot.at, !matches!(fate, Fate::Moved(_)));
        }
        let crowded = judge::contention(process, &self.pressure);
        let mut factors = process.factors(self.machine, crowded);
        known.again = match &fate {
            Fate::Kept(why, _) => judge::passes(*why, process, self),
            Fate::Open | Fate::Moved(_) => None,
        };
        match fate {
            Fate::Moved(judgement) => {
                factors.speedup = Some(judgement.speedup);
                let before = judge::efficiency(self, process);
                known.try_out(process, before, self.snapshot.at, self.settings);
                plan.steps.push(judgement.step);
            }
            Fate::Kept(why, speedup) => {
                factors.speedup = speedup;
                if judge::is_outgrown(self, process, known) {
                    plan.steps.push(known.let_go(process));
                }
                plan.left.push(Left { process: process.id(), why });
            }
            Fate::Open => {}
        }
        plan.factors.extend((process.seen.standing == Standing::Free).then_some(factors));
    }

    pub fn settings(&self) -> &Settings {
        self.settings
    }
}
