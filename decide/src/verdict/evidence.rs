//! What is seen of a suspect: why it costs more, what it is called and where it is.

use std::collections::BTreeMap;

use super::cause::Class;
use super::names::{NUMA_BALANCING, Waits, is_interrupt, is_kernel_lock, is_own};
use super::study::{Cost, Counted, Memory, Point, Sharing, Spent, Study};
use super::suspects::{Suspect, Suspects, site};

/// Of a suspect's time, where its cache line is seen to be shared.
const SHARED_MIN: f64 = 0.25;
/// In the mean of a run: memory or links that are so busy have others wait.
const SATURATED_PERCENT: f64 = 70.0;
/// Of commands or of stalls: from here on they are mostly for what is far.
const REMOTE_PERCENT: f64 = 50.0;
const FRAMES_SHOWN: usize = 12;

/// What a suspect is called, and where it is: see [`Culprit`](super::Culprit).
pub struct Place {
    pub class: Option<Class>,
    pub function: String,
    pub line: Option<String>,
    pub object: Option<String>,
    pub context: Vec<String>,
}

/// A cost's calling context, from the outermost function of the program's own; all of it where none is known.
pub fn context(study: &Study, cost: &Cost) -> Vec<String> {
    let nr_others = study.stack(cost).take_while(|frame| !is_own(frame)).count();
    let skipped = if nr_others < cost.stack.len() { nr_others } else { 0 };
    let own = study.stack(cost).skip(skipped);
    own.map(|frame| frame.function.clone()).take(FRAMES_SHOWN).collect()
}

/// What is seen of a suspect in the runs on the most CPUs.
pub struct Evidence<'a> {
    study: &'a Study,
    point: &'a Point,
    seconds: f64,
    by_sharing: BTreeMap<Option<Sharing>, f64>,
    by_memory: BTreeMap<Memory, f64>,
    /// The cost that is the largest of its.
    largest: Option<(&'a Cost, f64)>,
}

impl<'a> Evidence<'a> {
    /// In a point's runs.
    pub fn of(study: &'a Study, suspects: &Suspects, suspect: &Suspect, point: &'a Point) -> Self {
        let (by_sharing, by_memory) = (BTreeMap::new(), BTreeMap::new());
        let mut evidence =
            Self { study, point, seconds: 0.0, by_sharing, by_memory, largest: None };
        let profiles = point.runs.iter().filter_map(|run| run.profile.as_ref());
        for cost in profiles.flat_map(|profile| &profile.costs) {
            let parts = suspects.parts(study, cost);
            let seconds: f64 = parts
                .iter()
                .filter(|(whose, _)| suspect.has(whose))
                .map(|(_, seconds)| seconds)
                .sum();
            if seconds > 0.0 {
                evidence.seconds += seconds;
                *evidence.by_sharing.entry(cost.sharing).or_default() += seconds;
                if let Some(memory) = cost.memory {
                    *evidence.by_memory.entry(memory).or_default() += seconds;
                }
                // Of threads that were only looked at it is not known which function of the program's own waits.
                let key = |cost: &Cost, seconds| (study.stack(cost).any(is_own), seconds);
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
            // They come whatever the program does: none of its calls is to be blamed.
            Suspect::Kernel(entry, _) if is_interrupt(entry) => None,
            Suspect::Kernel(entry, _) if entry == NUMA_BALANCING => Some(Class::NumaBalancing),
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

    /// Its name, and where it is.
    pub fn place(&self, suspect: &Suspect) -> Place {
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
        let context = largest.map(|cost| context(self.study, cost)).unwrap_or_default();
        Place { class: self.class(suspect), function, line, object, context }
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
