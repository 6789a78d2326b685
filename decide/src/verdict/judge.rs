//! The verdict: what was lost between the fewest CPUs and the most, and to whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cause::Class;
use super::growth::{Growth, growth};
use super::names::{Waits, is_kernel_lock, is_plumbing};
use super::study::{Cost, Counted, Memory, Point, Profile, Run, Sharing, Spent, Study};
use super::suspects::{Suspect, Suspects, site};

/// Scaling lost below this part of the CPU time is none that anybody should act on.
const LOST_MIN: f64 = 0.05;
/// What explains less of the lost scaling is not named.
const SHARE_MIN: f64 = 0.1;
/// Chance that a suspect is named, or scaling is called lost, for nothing.
const CHANCE_MAX: f64 = 0.05;
/// Of a suspect's time, where its cache line is seen to be shared.
const SHARED_MIN: f64 = 0.25;
/// Of the CPU time that others took at a point: beyond, it is said.
const STOLEN_NOTED: f64 = 0.05;
/// In the mean of a run: memory or links that are so busy have others wait.
const SATURATED_PERCENT: f64 = 70.0;
/// Of commands or of stalls: from here on they are mostly for what is far.
const REMOTE_PERCENT: f64 = 50.0;
const FRAMES_SHOWN: usize = 12;

/// In a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A unit of work costs the same on many CPUs as on few.
    Scales,
    /// It costs more, beyond the noise.
    Loses,
    /// The runs do not tell.
    Unknown,
}

/// CPU time lost for each unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// CPUs of the runs compared with.
    pub from_cpus: u32,
    /// CPUs of the runs judged.
    pub to_cpus: u32,
    /// CPU seconds for each unit: used or idle, but for what others on the machine took.
    pub per_unit_s: Growth,
    /// Part of the CPU time on the most CPUs that is lost, percent.
    pub percent: f64,
}

/// Who it was lost to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Culprit {
    /// Absent: what would tell is missing, so it is no culprit but a place to look at.
    pub class: Option<Class>,
    /// Function.
    pub function: String,
    /// Where in the source, as far as the program says.
    pub line: Option<String>,
    /// Variable; absent where there is none, or none with a name.
    pub object: Option<String>,
    /// The stack that costs most, from the outermost.
    pub context: Vec<String>,
    /// Seconds of CPU time for each unit.
    pub per_unit_s: Growth,
    /// Part of the lost scaling that it explains, percent.
    pub share_percent: f64,
    /// And how far that may be off, with 95 %.
    pub share_error_percent: f64,
}

/// The verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// Absent: the runs do not tell.
    pub lost: Option<Lost>,
    /// Whoever explains most of it first.
    pub culprits: Vec<Culprit>,
    /// Places that cost more, without a cause that could be seen.
    pub undetermined: Vec<Culprit>,
    /// In sentences.
    pub sentences: Vec<String>,
    /// What limits what is said.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Judges a study.
    #[must_use]
    pub fn of(study: &Study) -> Self {
        let mut verdict = Self {
            outcome: Outcome::Unknown,
            lost: None,
            culprits: Vec::new(),
            undetermined: Vec::new(),
            sentences: Vec::new(),
            notes: notes(study),
        };
        match lost(study) {
            Err(why) => verdict.sentences.push(why),
            Ok((lost, from, to)) => {
                verdict.lost = Some(lost);
                verdict.outcome = outcome(&lost);
                let is_excused =
                    verdict.outcome == Outcome::Loses && is_excused(study, &lost, from, to);
                if is_excused {
                    verdict.outcome = Outcome::Unknown;
                    verdict.sentences.push(excuse(&lost));
                } else {
                    verdict.sentences.push(headline(&lost, verdict.outcome, study));
                }
                if verdict.outcome == Outcome::Loses {
                    verdict.name(study, &lost, from, to);
                }
            }
        }
        verdict
    }

    fn name(&mut self, study: &Study, lost: &Lost, from: &Point, to: &Point) {
        let is_profiled = |point: &Point| point.runs.iter().all(|run| run.profile.is_some());
        if !is_profiled(from) || !is_profiled(to) {
            self.sentences.push("Nothing is named, because runs were not profiled.".to_owned());
            return;
        }
        let suspects = Suspects::of(study, to);
        for culprit in grown(study, &suspects, lost, from, to) {
            if culprit.class.is_some() {
                self.culprits.push(culprit);
            } else {
                self.undetermined.push(culprit);
            }
        }
        self.sentences.extend(self.culprits.iter().take(2).map(Culprit::sentence));
        if let Some(first) = self.culprits.first().and_then(|culprit| culprit.class) {
            let busy = load_busy_percent(to).filter(|_| first == Class::ClientLimited);
            let busy = busy.map_or_else(String::new, |percent| {
                format!(" (the CPUs that loaded it were busy for {percent:.0} % of the time)")
            });
            self.sentences.push(format!("Known cure: {}{busy}.", first.cure()));
        } else {
            self.sentences.push(self.nothing_named(study));
        }
    }

    fn nothing_named(&self, study: &Study) -> String {
        match self.undetermined.first() {
            Some(place) if is_spent(&place.function) => format!(
                "Nothing is named: {:.0} % of what is lost is {}, and which code or variable that is of was not counted.",
                place.share_percent, place.function
            ),
            Some(place) if study.is_modelled => format!(
                "Nothing is named: `{}` waits longer for memory{} ({:.0} % of what is lost), but most of that is its own node's, and \
                 that is not busy: caches hold less of what each unit uses.",
                place.function,
                place.object.as_ref().map_or_else(String::new, |object| format!(", that of `{object}`")),
                place.share_percent
            ),
            Some(place) => format!(
                "Nothing is named: `{}` costs more for each unit ({:.0} % of what is lost), but neither waiting nor a \
                 shared variable was seen there, and whether caches, memory bandwidth, remote memory or the clock of \
                 the CPUs slow it down takes hardware counters.",
                place.function, place.share_percent
            ),
            None => "Nothing is named: no place's cost grew beyond the noise of the runs. More of them (--repeat), or \
                     longer ones, tell more."
                .to_owned(),
        }
    }
}

/// Whether that is no function, but what time went into in all.
fn is_spent(function: &str) -> bool {
    [Spent::Instructions, Spent::Stalls, Spent::Nothing].iter().any(|of| of.words() == function)
}

/// Of a server's load, in the mean.
fn load_busy_percent(point: &Point) -> Option<f64> {
    let known: Vec<_> = point.runs.iter().filter_map(|run| run.load_busy_percent).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// What was lost, and the points that say so.
fn lost(study: &Study) -> Result<(Lost, &Point, &Point), String> {
    let mut points = study.points.iter().filter(|point| !point.runs.is_empty());
    let (from, to) = (points.next(), points.next_back());
    let (Some(from), Some(to)) = (from, to) else {
        return Err("There are no runs at two CPU counts, so nothing can be compared: give --cpus two that the \
                    command succeeds on."
            .to_owned());
    };
    let capacities = |point: &Point| -> Vec<f64> {
        point.runs.iter().filter_map(|run| run.capacity_per_unit(point.nr_cpus)).collect()
    };
    let Some(per_unit_s) = growth(&capacities(from), &capacities(to), 0.0) else {
        return Err("One run at each CPU count says nothing about the noise, so nothing is concluded: --repeat 3 or \
                    more."
            .to_owned());
    };
    let percent = 100.0 * per_unit_s.by() / per_unit_s.to;
    Ok((Lost { from_cpus: from.nr_cpus, to_cpus: to.nr_cpus, per_unit_s, percent }, from, to))
}

fn outcome(lost: &Lost) -> Outcome {
    let by = lost.per_unit_s.by();
    let least = (by - lost.per_unit_s.error) / lost.per_unit_s.to;
    let greatest = (by + lost.per_unit_s.error) / lost.per_unit_s.to;
    if lost.per_unit_s.p < CHANCE_MAX && least > 0.0 && by / lost.per_unit_s.to >= LOST_MIN {
        Outcome::Loses
    } else if greatest < 2.0 * LOST_MIN {
        Outcome::Scales
    } else {
        Outcome::Unknown
    }
}

/// Whether what was lost is CPUs that waited for threads which others may have held up.
fn is_excused(study: &Study, lost: &Lost, from: &Point, to: &Point) -> bool {
    let suspects = Suspects::of(study, to);
    let uneven = |point: &Point| -> f64 {
        let table = table(study, &suspects, point);
        let uneven = table.iter().filter(|(suspect, _)| matches!(suspect, Suspect::Uneven(_)));
        uneven.flat_map(|(_, costs)| costs).sum::<f64>() / point.runs.len() as f64
    };
    let excused = (uneven(to) - uneven(from)).min(stolen_per_unit(to));
    lost.per_unit_s.by() - excused < LOST_MIN * lost.per_unit_s.to
}

fn excuse(lost: &Lost) -> String {
    format!(
        "On {} CPUs {:.0} % of the CPU time passed while CPUs waited for threads that others on this machine may have \
         held up: a quieter machine tells whether it is lost.",
        lost.to_cpus, lost.percent
    )
}

fn headline(lost: &Lost, outcome: Outcome, study: &Study) -> String {
    let Lost { from_cpus, to_cpus, per_unit_s, percent } = lost;
    let error = 100.0 * per_unit_s.error / per_unit_s.to;
    let (unit, modelled) = (&study.unit, if study.is_modelled { "modelled " } else { "" });
    match outcome {
        Outcome::Loses => format!(
            "On {to_cpus} CPUs each {unit} takes {:.2} times the {modelled}CPU time that it takes on {from_cpus}: {percent:.0} % \
             (±{error:.0}) of the {to_cpus} CPUs' time is lost.",
            per_unit_s.to / per_unit_s.from
        ),
        Outcome::Scales => format!(
            "It scales: on {to_cpus} CPUs each {unit} takes {:.2} times the {modelled}CPU time that it takes on {from_cpus} \
             (±{:.2}).",
            per_unit_s.to / per_unit_s.from,
            per_unit_s.error / per_unit_s.from
        ),
        Outcome::Unknown => format!(
            "The runs differ too much to tell: on {to_cpus} CPUs {percent:.0} % (±{error:.0}) of the CPU time may be \
             lost. More runs (--repeat), longer ones, or a quieter machine tell more."
        ),
    }
}

/// Everybody whose cost grew beyond the noise, whoever explains most first.
fn grown(
    study: &Study,
    suspects: &Suspects,
    lost: &Lost,
    from: &Point,
    to: &Point,
) -> Vec<Culprit> {
    let (before, after) = (table(study, suspects, from), table(study, suspects, to));
    let look = |point: &Point| {
        let looks = point.runs.iter().filter_map(look_per_unit);
        looks.fold(0.0, f64::max)
    };
    let look = look(from).max(look(to));
    let stolen = stolen_per_unit(to);
    let nothing = vec![0.0; from.runs.len()];
    let mut tested: Vec<(&Suspect, Growth)> = after
        .iter()
        // Nobody runs, and threads wait for each other: they take long to wake up, and no code is to be blamed.
        .filter(|(suspect, _)| !matches!(suspect, Suspect::Waits(Waits::Others | Waits::Lock)))
        .filter_map(|(suspect, costs)| {
            let grown = growth(before.get(suspect).unwrap_or(&nothing), costs, look)?;
            // Who costs less than that in all explains nothing, however it grew.
            (grown.to >= SHARE_MIN * lost.per_unit_s.by()).then_some((suspect, grown))
        })
        .collect();
    // Holm: the least probable of n must be n times as improbable, the next n − 1 times, and so on.
    tested.sort_by(|a, b| a.1.p.total_cmp(&b.1.p));
    let nr = tested.len();
    let certain = tested
        .iter()
        .enumerate()
        .take_while(|(at, (_, grown))| grown.p * (nr - at) as f64 <= CHANCE_MAX);
    let counts = certain.filter(|(_, (suspect, grown))| {
        // A thread that others hold up comes last though its part is no larger.
        let by_chance = if let Suspect::Uneven(_) = suspect { stolen } else { 0.0 };
        grown.by() >= (SHARE_MIN * lost.per_unit_s.by()).max(by_chance)
    });
    let mut culprits: Vec<_> = counts
        .map(|(_, (suspect, grown))| {
            Evidence::of(study, suspects, suspect, to).culprit(suspect, *grown, lost)
        })
        .collect();
    culprits.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
    culprits
}

/// What others took, by unit of work.
fn stolen_per_unit(point: &Point) -> f64 {
    let stolen =
        point.runs.iter().filter_map(|run| Some(run.profile.as_ref()?.stolen_s / run.units));
    stolen.sum::<f64>() / point.runs.len().max(1) as f64
}

/// Seconds that one look of the clock stands for, by unit of work.
fn look_per_unit(run: &Run) -> Option<f64> {
    let profile = run.profile.as_ref().filter(|profile| profile.nr_samples > 0)?;
    Some(profile.ran_s / profile.nr_samples as f64 / run.units)
}

/// Each suspect's cost for a unit of work, by run.
fn table(study: &Study, suspects: &Suspects, point: &Point) -> BTreeMap<Suspect, Vec<f64>> {
    let mut table: BTreeMap<Suspect, Vec<f64>> = BTreeMap::new();
    for (at, run) in point.runs.iter().enumerate() {
        for cost in run.profile.iter().flat_map(|profile: &Profile| &profile.costs) {
            for (suspect, seconds) in suspects.parts(study, cost) {
                let costs = table.entry(suspect).or_insert_with(|| vec![0.0; point.runs.len()]);
                costs[at] += seconds / run.units;
            }
        }
    }
    table
}

/// What is seen of a suspect in the runs on the most CPUs.
struct Evidence<'a> {
    study: &'a Study,
    point: &'a Point,
    seconds: f64,
    by_sharing: BTreeMap<Option<Sharing>, f64>,
    by_memory: BTreeMap<Memory, f64>,
    /// The cost that is the largest of its.
    largest: Option<(&'a Cost, f64)>,
}

impl<'a> Evidence<'a> {
    fn of(study: &'a Study, suspects: &Suspects, suspect: &Suspect, point: &'a Point) -> Self {
        let (by_sharing, by_memory) = (BTreeMap::new(), BTreeMap::new());
        let mut evidence =
            Self { study, point, seconds: 0.0, by_sharing, by_memory, largest: None };
        let profiles = point.runs.iter().filter_map(|run| run.profile.as_ref());
        for cost in profiles.flat_map(|profile| &profile.costs) {
            let parts = suspects.parts(study, cost);
            let seconds: f64 = parts
                .iter()
                .filter(|(whose, _)| whose == suspect)
                .map(|(_, seconds)| seconds)
                .sum();
            if seconds > 0.0 {
                evidence.seconds += seconds;
                *evidence.by_sharing.entry(cost.sharing).or_default() += seconds;
                if let Some(memory) = cost.memory {
                    *evidence.by_memory.entry(memory).or_default() += seconds;
                }
                // Of threads that were only looked at it is not known which function of the program's own waits.
                let key = |cost: &Cost, seconds| {
                    (study.stack(cost).any(|frame| !is_plumbing(frame)), seconds)
                };
                let is_larger = |(known, most)| key(cost, seconds) > key(known, most);
                if evidence.largest.is_none_or(is_larger) {
                    evidence.largest = Some((cost, seconds));
                }
            }
        }
        evidence
    }

    fn class(&self, suspect: &Suspect) -> Option<Class> {
        match suspect {
            Suspect::Lock(_) | Suspect::LockIn(_) => Some(Class::Lock),
            Suspect::Kernel(..) => Some(Class::KernelPath),
            Suspect::Serial(_) => Some(Class::SerialPart),
            Suspect::Uneven(_) => Some(Class::Imbalance),
            Suspect::Waits(Waits::Disk) => Some(Class::Disk),
            Suspect::Waits(Waits::Peer) => Some(Class::ClientLimited),
            Suspect::Waits(Waits::Time) => Some(Class::Sleep),
            Suspect::Waits(_) => None,
            Suspect::Memory(..) => {
                let far = self.by_memory.get(&Memory::Far).copied().unwrap_or_default();
                self.stalls(100.0 * far / self.seconds)
            }
            Suspect::Spent(Spent::Stalls) => self.stalls(self.remote_percent()),
            Suspect::Spent(_) => None,
            Suspect::Code(..) => {
                let of = |sharing| self.by_sharing.get(&Some(sharing)).copied().unwrap_or_default();
                let (word, line) = (of(Sharing::Word), of(Sharing::Line));
                if word.max(line) < SHARED_MIN * self.seconds {
                    None
                } else if word >= line {
                    Some(Class::BouncingLine)
                } else {
                    Some(Class::FalseSharing)
                }
            }
        }
    }

    /// Why CPUs wait for memory, so much of it for other nodes', if there is one reason. Where one node's memory is busy and the others
    /// have time, and most is far from who uses it, it lies in the wrong place; where all are busy, no place is better.
    fn stalls(&self, far_percent: f64) -> Option<Class> {
        let is_far = far_percent >= REMOTE_PERCENT;
        let is_saturated = self.mean(|of| Some(of.busiest_percent)) >= Some(SATURATED_PERCENT);
        let all = self.mean(|of| of.memories_busy_percent);
        let are_all = all.is_none_or(|percent| percent >= SATURATED_PERCENT);
        if is_saturated && (are_all || !is_far) {
            Some(Class::MemoryBandwidth)
        } else {
            is_far.then_some(Class::RemoteMemory)
        }
    }

    /// Of commands, in the mean. Lines that others had are left out, all of them as if they had come from another node: at least so
    /// much is far.
    fn remote_percent(&self) -> f64 {
        let percent = |counted: &Counted| {
            let far = counted.nr_remote.saturating_sub(counted.nr_taken);
            Some(100.0 * far as f64 / (far + counted.nr_local).max(1) as f64)
        };
        self.mean(percent).unwrap_or_default()
    }

    /// Of what was counted in the runs, where that is known.
    fn mean(&self, of: impl Fn(&Counted) -> Option<f64>) -> Option<f64> {
        let counted = self.point.runs.iter().filter_map(|run| run.counted.as_ref());
        let known: Vec<f64> = counted.filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    fn culprit(&self, suspect: &Suspect, per_unit_s: Growth, lost: &Lost) -> Culprit {
        let largest = self.largest.map(|(cost, _)| cost);
        let frames = || largest.into_iter().flat_map(|cost| self.study.stack(cost));
        let place =
            || largest.map_or_else(|| "unknown".to_owned(), |cost| site(self.study.stack(cost)));
        let (function, object) = match suspect {
            Suspect::Lock(lock) => (place(), Some(lock.clone())),
            Suspect::Code(function, object) | Suspect::Memory(function, object) => {
                (function.clone(), object.clone())
            }
            // The stack has nobody else.
            Suspect::Kernel(entry, function) if entry == function => (function.clone(), None),
            Suspect::Kernel(entry, function) => {
                (format!("{} of {function}", self.kernel(entry)), None)
            }
            Suspect::LockIn(function) | Suspect::Serial(function) | Suspect::Uneven(function) => {
                (function.clone(), None)
            }
            Suspect::Waits(waits) => (format!("{}, waiting for {}", place(), waits.words()), None),
            Suspect::Spent(spent) => (spent.words().to_owned(), None),
        };
        let own = if object.is_some() { place() } else { function.clone() };
        let lines = frames().filter(|frame| frame.function == own);
        let line = lines.filter_map(|frame| frame.line.clone()).next_back();
        let all = lost.per_unit_s.by();
        Culprit {
            class: self.class(suspect),
            line,
            function,
            object,
            context: frames()
                .skip_while(|frame| is_plumbing(frame))
                .map(|frame| frame.function.clone())
                .take(FRAMES_SHOWN)
                .collect(),
            share_percent: 100.0 * per_unit_s.by() / all,
            share_error_percent: 100.0 * per_unit_s.error / all,
            per_unit_s,
        }
    }

    /// The kernel's function that counts: who takes the lock that is waited for.
    fn kernel(&self, entry: &str) -> String {
        let frames: Vec<_> =
            self.largest.iter().flat_map(|(cost, _)| self.study.stack(cost)).collect();
        let lock = frames.iter().position(|frame| is_kernel_lock(frame));
        match lock.and_then(|at| frames.get(at.checked_sub(1)?)) {
            Some(taker) => format!("{entry} (a lock in {})", taker.function),
            None => entry.to_owned(),
        }
    }
}

impl Culprit {
    /// A lock without a name: in what the function calls.
    fn nameless_lock(&self) -> String {
        let at = self.context.iter().position(|name| *name == self.function);
        match at.and_then(|at| self.context.get(at + 1)) {
            Some(callee) => format!("a lock without a name in `{callee}`"),
            None => "a lock without a name".to_owned(),
        }
    }

    /// Who, why and how much.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { function, share_percent, share_error_percent, .. } = self;
        let at = self.line.as_ref().map_or_else(String::new, |line| format!(" ({line})"));
        let object = |before: &str, otherwise: &str| {
            self.object
                .as_ref()
                .map_or_else(|| otherwise.to_owned(), |object| format!("{before}`{object}`"))
        };
        let what = match self.class {
            Some(Class::Lock) => {
                let lock = object("the lock ", &self.nameless_lock());
                format!("`{function}`{at} waits for and hands over {lock}")
            }
            Some(Class::BouncingLine) => {
                format!(
                    "`{function}`{at}: threads write the same word, {}",
                    object("", "in memory without a name")
                )
            }
            Some(Class::FalseSharing) => format!(
                "`{function}`{at}: threads write words of their own in one cache line, {}",
                object("that of ", "in memory without a name")
            ),
            Some(Class::SerialPart) => {
                format!("`{function}`{at} runs while the other CPUs have nothing to do")
            }
            Some(Class::Imbalance) => format!(
                "the parts that threads get in `{function}`{at} are uneven: CPUs wait for the last"
            ),
            Some(Class::KernelPath) => format!("the kernel takes longer for {function}{at}"),
            Some(Class::RemoteMemory) if is_spent(function) => {
                "CPUs wait longer for memory, and most of it is on other nodes".to_owned()
            }
            Some(Class::MemoryBandwidth) if is_spent(function) => {
                "CPUs wait longer for memory, as a node's or a link is busy all the time".to_owned()
            }
            Some(Class::RemoteMemory) => format!(
                "`{function}`{at} waits for memory of other nodes{}",
                object(", that of ", "")
            ),
            Some(Class::MemoryBandwidth) => format!(
                "`{function}`{at} waits for memory that is busy all the time{}",
                object(", that of ", "")
            ),
            Some(Class::ClientLimited | Class::Disk | Class::Sleep) | None => {
                format!("{function}{at}")
            }
        };
        format!("{share_percent:.0} % of that (±{share_error_percent:.0}): {what}.")
    }
}

fn notes(study: &Study) -> Vec<String> {
    let mut notes = Vec::new();
    if study.is_modelled {
        notes.push(
            "Times are modelled from what was counted in guests, not measured. A run takes as long as the CPU that has \
             most to do; what threads sleep for is not in it."
                .to_owned(),
        );
    }
    for point in &study.points {
        let stolen: f64 =
            point.runs.iter().filter_map(|run| run.profile.as_ref()).map(|of| of.stolen_s).sum();
        let all: f64 = point.runs.iter().map(|run| run.wall_s * f64::from(point.nr_cpus)).sum();
        if stolen > STOLEN_NOTED * all {
            notes.push(format!(
                "Others on this machine took {:.0} % of the CPU time on {} CPUs; it is left out of account, but a \
                 quieter machine tells more.",
                100.0 * stolen / all,
                point.nr_cpus
            ));
        }
    }
    let profiles =
        || study.points.iter().flat_map(|point| &point.runs).filter_map(|run| run.profile.as_ref());
    let nr_lost: u64 = profiles().map(|profile| profile.nr_lost).sum();
    if nr_lost > 0 {
        notes.push(format!(
            "{nr_lost} records were lost because nobody could take them in time: shares may be off; --frequency 99 \
             takes fewer."
        ));
    }
    notes
}
