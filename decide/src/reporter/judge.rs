//! Whether a process is well placed, what it would gain elsewhere, whether that pays, and whether an
//! earlier move helped.

use quartier_model::{
    Bytes, Kind, Nanos, NodeId, Outcome, Pages, ProcessSeen, Standing, Step, TaskId, Why,
};
use serde::{Deserialize, Serialize};

use super::arrange::{Given, Home};
use super::plan::Sight;
use super::pressure::Pressure;
use super::terms::{Terms, ThreadTerms, remoteness, share_on};
use super::{Known, Settings, users};

/// Where remoteness or contention slow a process down by less, and it hardly waits, it is well placed.
const SLOWDOWN_MIN: f64 = 0.02;
const CONTENTION_MIN: f64 = 0.05;
const WAITING_MIN: f64 = 0.1;
/// Pages are moved if more than this part of them are elsewhere.
const PAGES_ELSEWHERE_MIN: f64 = 1.0 / 32.0;
/// Where tasks wait for memory for more than this part of the time no pages are moved.
const SCARCE_FROM: f64 = 0.1;
/// What has not passed is not asked again for so long.
const SOON: Nanos = Nanos(5_000_000_000);
const PAGE: u64 = 4096;

/// How much of what a process could do it does: its work, and its instructions if they are counted, for
/// each unit of time that it could run; and its work for each that it did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Efficiency {
    work: f64,
    /// `None`: it did not run, or a log's of before this was asked.
    #[serde(default)]
    work_running: Option<f64>,
    instructions: Option<f64>,
}

/// A move of which it is not known yet whether it helped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    before: Efficiency,
    /// Where its threads were held.
    threads: Vec<(TaskId, Option<NodeId>)>,
    /// `None`: the move is not done yet.
    done: Option<Nanos>,
}

/// What a process would gain, and what is to be done for it.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub speedup: f64,
    pub step: Step,
}

/// What others cost a process on the memory that it uses; `None`: where that is is unknown.
pub fn contention(process: &Terms<'_>, pressure: &Pressure) -> Option<f64> {
    process.pages.as_ref().map(|pages| pressure.contention(pages))
}

/// The work of a thread in CPUs' worth, running so much on CPUs so powerful with its pages so far away. What is not waiting for
/// memory takes longer on a weaker CPU.
fn work(running: f64, power: f64, intensity: f64, remoteness: f64, contention: f64) -> f64 {
    let weaker = (1.0 - intensity) * (1.0 / power - 1.0);
    running / (1.0 + intensity * (remoteness + contention) + weaker)
}

/// The work that a process does; `None`: where its memory is is unknown.
fn work_now(sight: &Sight<'_>, process: &Terms<'_>) -> Option<f64> {
    let of = |thread: &ThreadTerms<'_>| {
        let pages = process.pages_of(thread)?;
        let far = thread.remoteness(sight.machine, pages);
        let (power, crowded) = (sight.power.at(&thread.at), sight.pressure.contention(pages));
        Some(work(thread.running, power, process.intensity.value(), far, crowded))
    };
    process.threads.iter().map(of).sum()
}

/// As of now; `None`: it does not run, or where its memory is is unknown.
pub fn efficiency(sight: &Sight<'_>, process: &Terms<'_>) -> Option<Efficiency> {
    let demand = process.running() + process.waiting();
    let work = work_now(sight, process)?;
    let instructions = process.threads.iter().map(|thread| thread.seen.instructions).sum();
    let instructions = Option::map(instructions, |sum: u64| sum as f64 / demand);
    let work_running = (process.running() > 0.0).then(|| work / process.running());
    (demand > 0.0).then(|| Efficiency { work: work / demand, work_running, instructions })
}

/// Why a process is not to be moved at all now.
pub fn is_left(sight: &Sight<'_>, process: &Terms<'_>, known: &Known) -> Option<Why> {
    let at = sight.snapshot.at;
    if process.seen.standing != Standing::Free {
        return Some(Why::Standing(process.seen.standing));
    }
    if process.seen.pin.is_some() {
        return (!process.is_off_its_pin()).then_some(Why::WellPlaced);
    }
    if known.failed_until > at {
        return Some(Why::DidNotHelp { until: known.failed_until });
    }
    if known.is_resting(at) {
        return Some(Why::Rests { until: known.rests_until });
    }
    if process.to_place().next().is_none() {
        return Some(Why::Idle);
    }
    let Some(far) = process.remoteness(sight.machine) else { return Some(Why::MemoryUnknown) };
    let crowded = contention(process, &sight.pressure).unwrap_or(0.0);
    let intensity = process.intensity.value();
    // Who waits for a CPU without being held is the kernel's to help.
    let waits = process.to_place().any(waits_where_held);
    let is_well = intensity * far < SLOWDOWN_MIN && intensity * crowded < CONTENTION_MIN && !waits;
    let is_well = is_well && !sight.power.has_idle_for(sight.machine, sight.snapshot, process);
    is_well.then_some(Why::WellPlaced)
}

fn waits_where_held(thread: &ThreadTerms<'_>) -> bool {
    thread.seen.held_on.is_some() && thread.waiting > WAITING_MIN * thread.demand()
}

/// More threads of a process run than did when it was moved, and those that are held on a node are more than it has CPUs for,
/// and would have to wait less anywhere else. Nobody knows yet where they are to be, but not there.
pub fn is_outgrown(sight: &Sight<'_>, process: &Terms<'_>, known: &Known) -> bool {
    // As many as were placed may be too many for their node by intent: the others have even less room.
    let has_grown = process.to_place().count() > known.nr_placed;
    if !has_grown || process.seen.pin.is_some() || !process.to_place().any(waits_where_held) {
        return false;
    }
    let cpus = || {
        sight.machine.cpus().iter().filter(|cpu| sight.snapshot.may_use(process.seen, cpu.os_id))
    };
    let cpus_of = |node| cpus().filter(|cpu| cpu.node == Some(node)).count();
    let all_cpus = cpus().filter(|cpu| cpu.node.is_some()).count();
    let for_each_cpu = process.to_place().count().div_ceil(all_cpus.max(1));
    sight.machine.node_ids().any(|node| {
        let held = process.to_place().filter(|thread| thread.seen.held_on == Some(node)).count();
        held > cpus_of(node) * for_each_cpu
    })
}

/// When a reason to leave a process where it is may have passed; `None`: when something changes.
pub fn passes(why: Why, process: &Terms<'_>, sight: &Sight<'_>) -> Option<Nanos> {
    let at = sight.snapshot.at;
    match why {
        Why::PaysTooLate { after } if after <= sight.settings().payback => {
            Some(at + (after - process.seen.age))
        }
        Why::Rests { until } | Why::DidNotHelp { until } => Some(until.max(at + SOON)),
        Why::OthersMove => Some(at + SOON),
        Why::MemoryScarce | Why::NoRoom => Some(at + SOON + SOON),
        _ => None,
    }
}

impl Judgement {
    /// Of what a process was given, `then` being the pressure that there will be. Its pages come along if that pays for itself,
    /// beside what threads alone would gain. If it would, but others' pages move at the moment, threads do not go ahead: that would
    /// take them from their memory.
    pub fn of(
        sight: &Sight<'_>,
        process: &Terms<'_>,
        known: &Known,
        given: &Given,
        then: &Pressure,
    ) -> Self {
        let bytes = match &given.home {
            Home::One(node) => process.bytes_off(*node),
            Home::Each { blocks, .. } => users::bytes_of(process, blocks),
        };
        let bytes = if process.resident > sight.settings().resident_max {
            Bytes(0)
        } else {
            bytes - known.stays_at(sight.snapshot.at)
        };
        let moves = bytes.0 as f64 > process.resident.0 as f64 * PAGES_ELSEWHERE_MIN;
        let without = Self::moving(sight, process, given, then, None);
        if !moves {
            return without;
        }
        let with_pages = Self::moving(sight, process, given, then, Some(bytes));
        let by_pages = with_pages.step.gain - without.step.gain;
        let is_pinned = process.seen.pin.is_some();
        let pays_itself = is_pinned
            || by_pages >= sight.settings().gain_min
                && with_pages.pays_after(by_pages) <= sight.settings().payback;
        match (without.verdict(sight, process), with_pages.verdict(sight, process)) {
            (Ok(()), Ok(())) if !pays_itself => without,
            (Ok(()), Err(Why::OthersMove)) if pays_itself => with_pages,
            (Ok(()), Err(_)) => without,
            _ => with_pages,
        }
    }

    /// After so long a gain has paid for the pages.
    fn pays_after(&self, gain: f64) -> Nanos {
        Nanos((self.step.cost.0 as f64 / gain) as u64)
    }

    /// The same if so much of its memory moves with it.
    fn moving(
        sight: &Sight<'_>,
        process: &Terms<'_>,
        given: &Given,
        then: &Pressure,
        bytes: Option<Bytes>,
    ) -> Self {
        let machine = sight.machine;
        let before = work_now(sight, process).unwrap_or_else(|| process.running());
        let intensity = process.intensity.value();
        let home_of =
            |thread: &ThreadTerms<'_>| given.home.of(thread.seen.id).filter(|_| thread.is_free);
        let work_then = |thread: &ThreadTerms<'_>| {
            let home = home_of(thread);
            let pages = match (&given.home, home) {
                // They leave those threads, too, that stay where somebody put them.
                (Home::One(node), _) if bytes.is_some() => Some(vec![(*node, 1.0)]),
                (Home::Each { blocks, .. }, _) if bytes.is_some() => {
                    users::pages_then(process, thread, blocks)
                }
                _ => process.pages_of(thread).cloned(),
            };
            // Where its pages are is only unknown of whoever is pinned: nothing is gained then.
            let Some(pages) = pages else { return thread.running };
            let crowded = then.contention(&pages);
            match home {
                Some(node) => {
                    let (running, far) =
                        (thread.demand() * given.runs, remoteness(machine, node, &pages));
                    work(running, sight.power.on(node), intensity, far, crowded)
                }
                None => {
                    let far = thread.remoteness(machine, &pages);
                    work(thread.running, sight.power.at(&thread.at), intensity, far, crowded)
                }
            }
        };
        let after: f64 = process.threads.iter().map(work_then).sum();
        let pages = bytes.map_or(Pages::Stay, |bytes| match &given.home {
            Home::One(node) => Pages::To { node: *node, bytes },
            Home::Each { blocks, .. } => Pages::ToUsers { bytes, blocks: blocks.clone() },
        });
        let nr_pages = bytes.map_or(0, |bytes| bytes.0.div_ceil(PAGE));
        let threads = process.threads.iter();
        let threads = threads.filter_map(|thread| Some((thread.seen.id, Some(home_of(thread)?))));
        Self {
            speedup: if before > 0.0 { after / before } else { 1.0 },
            step: Step {
                process: process.id(),
                kind: given.home.kind(process, then),
                threads: threads.collect(),
                others: given.home.one(),
                pages,
                gain: after - before,
                cost: Nanos(nr_pages.saturating_mul(sight.settings().page_cost.0)),
            },
        }
    }

    /// Whether each thread is where it would be, and nowhere else now and then, with its pages.
    pub fn changes_nothing(&self, process: &Terms<'_>) -> bool {
        let is_there = |(id, node): &(TaskId, Option<NodeId>)| {
            let thread = process.threads.iter().find(|thread| thread.seen.id == *id);
            thread.is_some_and(|thread| node.is_some_and(|node| share_on(&thread.at, node) == 1.0))
        };
        self.step.kind != Kind::Pin
            && self.step.pages == Pages::Stay
            && self.step.threads.iter().all(is_there)
    }

    /// Whether it is worth doing.
    pub fn verdict(&self, sight: &Sight<'_>, process: &Terms<'_>) -> Result<(), Why> {
        let settings = sight.settings();
        if process.seen.pin.is_some() {
            return Ok(());
        }
        if self.speedup < settings.speedup_min || self.step.gain < settings.gain_min {
            return Err(Why::GainsLittle { speedup: self.speedup });
        }
        if self.step.pages != Pages::Stay && sight.is_disturbed {
            return Err(Why::OthersMove);
        }
        let after = self.pays_after(self.step.gain);
        let pressure = sight.snapshot.kernel.and_then(|kernel| kernel.memory_pressure());
        if self.step.pages != Pages::Stay && pressure.is_some_and(|part| part > SCARCE_FROM) {
            return Err(Why::MemoryScarce);
        }
        // Nobody knows how long it will run; that it will for as long again as it has is the best guess.
        let within = settings.payback.min(process.seen.age);
        if after > within { Err(Why::PaysTooLate { after }) } else { Ok(()) }
    }
}

impl Home {
    fn of(&self, thread: TaskId) -> Option<NodeId> {
        match self {
            Self::One(node) => Some(*node),
            Self::Each { homes, .. } => {
                homes.iter().find(|(id, _)| *id == thread).map(|(_, node)| *node)
            }
        }
    }

    fn one(&self) -> Option<NodeId> {
        match self {
            Self::One(node) => Some(*node),
            Self::Each { .. } => None,
        }
    }

    fn kind(&self, process: &Terms<'_>, then: &Pressure) -> Kind {
        let leaves_home = process.home().is_some_and(|home| {
            self.one() != Some(home) && then.is_too_much(home, process, then.fair())
        });
        match self {
            _ if process.seen.pin.is_some() => Kind::Pin,
            Self::Each { .. } => Kind::Split,
            Self::One(_) if leaves_home => Kind::Scatter,
            Self::One(_) => Kind::Gather,
        }
    }
}

impl Known {
    /// A step begins.
    pub fn try_out(
        &mut self,
        process: &Terms<'_>,
        before: Option<Efficiency>,
        at: Nanos,
        settings: &Settings,
    ) {
        let held = |thread: &ThreadTerms<'_>| (thread.seen.id, thread.seen.held_on);
        let threads = process.threads.iter().filter(|thread| thread.is_free).map(held).collect();
        self.trial = before.filter(|_| process.seen.pin.is_none()).map(|before| Trial {
            before,
            threads,
            done: None,
        });
        self.nr_placed = process.to_place().count();
        self.rests_until = at + self.rest;
        self.rest = (self.rest + self.rest).min(settings.rest_max);
    }

    /// It is done, or not.
    pub fn outcome(&mut self, outcome: &Outcome, settings: &Settings) {
        if outcome.refusal.is_none() && (outcome.moved > Bytes(0) || outcome.stayed > Bytes(0)) {
            let stays = outcome.stayed > Bytes(0);
            self.stayed = stays.then_some((outcome.stayed, outcome.at + settings.remember));
        }
        let nothing_done = outcome.threads_held == 0 && outcome.moved == Bytes(0);
        match &mut self.trial {
            Some(_) if nothing_done => self.trial = None,
            Some(running) => running.done = Some(outcome.at),
            None => {}
        }
    }

    /// A trial whose time has come: a step, if it did not help.
    pub fn judge(
        &mut self,
        process: TaskId,
        at: Nanos,
        now: Efficiency,
        settings: &Settings,
    ) -> Option<Step> {
        let trial = self.trial.take()?;
        if now.is_better_than(&trial.before) {
            return None;
        }
        self.failed_until = at + settings.remember;
        Some(Step {
            process,
            kind: Kind::TakeBack,
            threads: trial.threads,
            others: None,
            pages: Pages::Back,
            gain: trial.before.work - now.work,
            cost: Nanos(0),
        })
    }

    /// It has outgrown its node: how well it does now says nothing about the move that brought it there.
    pub fn let_go(&mut self, process: &Terms<'_>) -> Step {
        self.trial = None;
        let held = process.seen.free_threads().filter(|thread| thread.held_on.is_some());
        Step {
            process: process.id(),
            kind: Kind::LetGo,
            threads: held.map(|thread| (thread.id, None)).collect(),
            others: None,
            pages: Pages::Stay,
            gain: process.waiting(),
            cost: Nanos(0),
        }
    }

    /// How much of its memory is known not to move.
    fn stays_at(&self, at: Nanos) -> Bytes {
        self.stayed.filter(|(_, until)| at < *until).map_or(Bytes(0), |(bytes, _)| bytes)
    }

    /// Whether it is left where it is for a while.
    pub fn is_resting(&self, at: Nanos) -> bool {
        self.rests_until > at || self.trial.is_some()
    }

    /// Whether its own move is not done yet.
    pub fn is_under_way(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.done.is_none())
    }

    /// Whether it can be judged if a move helped: it has had its time, and where the pages are has been asked since.
    pub fn is_due(&self, process: &ProcessSeen, at: Nanos, settings: &Settings) -> bool {
        self.trial.as_ref().and_then(|trial| trial.done).is_some_and(|done| {
            done + settings.trial <= at && process.sampled_at.is_some_and(|sampled| sampled > done)
        })
    }
}

impl Efficiency {
    /// By what is measured best. One hundredth more is no difference. Where instructions are not counted, a move helped as
    /// well if it did what it was for while the process ran: that it waits more for a CPU may be anybody's doing, and is mended by
    /// another CPU rather than by bringing all its pages back.
    fn is_better_than(&self, before: &Self) -> bool {
        const DIFFERENCE: f64 = 1.01;
        match (self.instructions, before.instructions) {
            (Some(now), Some(before)) => now > before * DIFFERENCE,
            _ => {
                let ran = self.work_running.zip(before.work_running);
                self.work > before.work * DIFFERENCE
                    || ran.is_some_and(|(now, before)| now > before * DIFFERENCE)
            }
        }
    }
}
