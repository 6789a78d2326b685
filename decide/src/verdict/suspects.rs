//! Whose a cost is: each piece of time belongs to one suspect.

use std::collections::{BTreeMap, BTreeSet};

use quartier_model::Frame;
use serde::{Deserialize, Serialize};

use super::names::{
    NUMA_BALANCING, Waits, is_interrupt, is_kernel_lock, is_lock, is_numa_balancing, is_own,
    is_plumbing, kernel_entry,
};
use super::study::{Cost, Point, Sharing, Spent, Study};

/// Who may be the culprit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspect {
    /// A lock with a name: waiting for it, and the work of taking and releasing it.
    Lock(String),
    /// A lock without a name, by who takes it.
    LockIn(String),
    /// Running code: a function, and what it accesses.
    Code(String, Option<String>),
    /// A function that waits for memory, and what lies there.
    Memory(String, Option<String>),
    /// The kernel: what it was entered for, and by which function; twice the same: by whichever.
    Kernel(String, String),
    /// Code that runs while others have nothing to do, and never beside others.
    Serial(String),
    /// Code whose last part runs while others have nothing to do.
    Uneven(String),
    /// Nothing runs, and this is waited for.
    Waits(Waits),
    /// A guest's modelled time that no place is known of.
    Spent(Spent),
}

impl Suspect {
    /// What the kernel was entered for, by whichever function.
    pub fn in_all(&self) -> Option<Self> {
        match self {
            Self::Kernel(entry, by) if entry != by => {
                Some(Self::Kernel(entry.clone(), entry.clone()))
            }
            _ => None,
        }
    }

    /// Whether another is this one, or a part of it.
    pub fn has(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel(all, by), Self::Kernel(entry, _)) if all == by => all == entry,
            _ => self == other,
        }
    }
}

/// A context counts as serial when so much of it runs beside idle CPUs,
const SERIAL_MIN: f64 = 0.9;
/// and in guests so much: their CPUs take long to fall asleep, and meanwhile nobody is alone.
const SERIAL_MODELLED_MIN: f64 = 0.7;
/// Looks at a context before it may be called serial.
const SERIAL_LOOKS_MIN: u64 = 5;

/// Whose costs are whose, as learnt from the runs on the most CPUs.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Variables that threads wait for as for a lock.
    locks: BTreeSet<String>,
    /// Functions that wait for locks.
    lock_sites: BTreeSet<String>,
    /// The lock that a function takes most, for looks that do not show which.
    lock_of: BTreeMap<String, String>,
    /// The contexts that are serial: functions from the outermost.
    serial: Vec<Vec<String>>,
    /// Of programs whose uneven parts are mostly one function's, that function.
    uneven: BTreeMap<String, String>,
}

impl Suspects {
    /// Learns from a point's profiles.
    #[must_use]
    pub fn of(study: &Study, point: &Point) -> Self {
        let profiles = || point.runs.iter().filter_map(|run| run.profile.as_ref());
        let costs = || profiles().flat_map(|profile| &profile.costs);
        let waits = || costs().filter(|cost| cost.waits == Some(Waits::Lock));
        let serial = serial(study, costs());
        let uneven = uneven(study, costs(), &serial);
        let locks = waits().filter_map(|cost| study.objects.get(cost.object? as usize)).cloned();
        Self {
            locks: locks.collect(),
            lock_sites: waits().map(|cost| site(study.stack(cost))).collect(),
            lock_of: locks_by_site(study, costs()),
            serial,
            uneven,
        }
    }

    /// A cost's parts, in seconds.
    #[must_use]
    pub fn parts(&self, study: &Study, cost: &Cost) -> Vec<(Suspect, f64)> {
        if let Some(spent) = cost.spent {
            return vec![(Suspect::Spent(spent), cost.ran_s + cost.idle_s)];
        }
        // It comes whatever the program does, and who has nothing to do meanwhile waits for it.
        // What is outside of the program's own code has been left.
        let mut kernels = study.stack(cost).rev().take_while(|frame| frame.is_kernel());
        if cost.waits.is_none() && kernels.any(is_numa_balancing) {
            let balancing = NUMA_BALANCING.to_owned();
            return vec![(Suspect::Kernel(balancing.clone(), balancing), cost.ran_s + cost.idle_s)];
        }
        if cost.memory.is_some() {
            return vec![(self.stalled(study, cost), cost.ran_s)];
        }
        if let Some(waits) = cost.waits {
            let suspect = match waits {
                Waits::Lock => self.running(study, cost),
                waits => Suspect::Waits(waits),
            };
            return vec![(suspect, cost.idle_s)];
        }
        vec![(self.running(study, cost), cost.ran_s), (self.beside_idle(study, cost), cost.idle_s)]
    }

    /// The kernel's memory without a name is a part of what the kernel was entered for, like what is executed there.
    fn stalled(&self, study: &Study, cost: &Cost) -> Suspect {
        let is_in_kernel = study.stack(cost).next_back().is_some_and(Frame::is_kernel);
        if is_in_kernel && cost.object.is_none() {
            return self.running(study, cost);
        }
        let function = site_or_leaf(study, cost, site(study.stack(cost)));
        let object = cost.object.and_then(|at| study.objects.get(at as usize)).cloned();
        Suspect::Memory(function, object)
    }

    fn running(&self, study: &Study, cost: &Cost) -> Suspect {
        let site = site(study.stack(cost));
        let object = cost.object.and_then(|at| study.objects.get(at as usize));
        if self.is_of_lock(study, cost, &site, object) {
            let lock = object.or_else(|| self.lock_of.get(&site));
            return lock.map_or(Suspect::LockIn(site), |lock| Suspect::Lock(lock.clone()));
        }
        if let (Some(word), Some(_)) = (object, cost.sharing)
            && let Some(leaf) = study.stack(cost).next_back().filter(|leaf| leaf.is_kernel())
        {
            // A word of the kernel's with a name: its lock, or what it counts in.
            return match is_kernel_lock(leaf) {
                true => Suspect::Lock(word.clone()),
                false => Suspect::Code(leaf.function.clone(), Some(word.clone())),
            };
        }
        match kernel_entry(study.stack(cost)) {
            Some(entry) if is_interrupt(&entry) => Suspect::Kernel(entry.clone(), entry),
            Some(entry) => Suspect::Kernel(entry, site),
            None => Suspect::Code(site_or_leaf(study, cost, site), object.cloned()),
        }
    }

    /// Whether it is spent on taking, waiting for or releasing a lock of the program's.
    fn is_of_lock(&self, study: &Study, cost: &Cost, site: &str, object: Option<&String>) -> bool {
        let stack = || study.stack(cost);
        if cost.waits.is_some() {
            return !stack().any(is_kernel_lock);
        }
        if stack().rev().take_while(|frame| is_plumbing(frame)).any(is_lock) {
            return true;
        }
        // Of functions without names the word tells; and of a word without a name, that who comes here waits for
        // locks too.
        let is_in_library =
            cost.sharing == Some(Sharing::Word) && stack().next_back().is_some_and(is_plumbing);
        let is_in_futex = || kernel_entry(stack()).is_some_and(|entry| entry.contains("futex"));
        object.is_some_and(|object| self.locks.contains(object))
            || self.lock_sites.contains(site) && (is_in_library || is_in_futex())
    }

    fn beside_idle(&self, study: &Study, cost: &Cost) -> Suspect {
        let path = path(study.stack(cost));
        let serial = self.serial.iter().find(|serial| path.starts_with(&serial[..]));
        if let Some(function) = serial.and_then(|serial| serial.last()) {
            return Suspect::Serial(function.clone());
        }
        let outermost = study.stack(cost).next();
        if let Some(program) = outermost.filter(|frame| frame.is_program()) {
            let program = &program.function;
            return Suspect::Uneven(self.uneven.get(program).unwrap_or(program).clone());
        }
        Suspect::Uneven(body(study, cost).unwrap_or_else(|| site(study.stack(cost))))
    }
}

/// The innermost function of the program's own.
#[must_use]
pub fn site<'a>(stack: impl DoubleEndedIterator<Item = &'a Frame>) -> String {
    let mut leaf = None;
    for frame in stack.rev() {
        if is_own(frame) {
            return frame.function.clone();
        }
        leaf = leaf.or(Some(frame));
    }
    leaf.map_or_else(|| "unknown".to_owned(), |frame| frame.function.clone())
}

/// Code of a library that is slow in itself (memcpy) is named with who calls it.
fn site_or_leaf(study: &Study, cost: &Cost, site: String) -> String {
    match study.stack(cost).next_back() {
        Some(leaf) if is_plumbing(leaf) && leaf.function != site => {
            format!("{} in {site}", leaf.function)
        }
        _ => site,
    }
}

/// The outermost function of the program's own.
fn body(study: &Study, cost: &Cost) -> Option<String> {
    study.stack(cost).find(|frame| is_own(frame)).map(|frame| frame.function.clone())
}

/// Of what idles beside a program, so much is beside the function that is named instead of it.
const UNEVEN_MIN: f64 = 0.8;

/// Where threads have a function of their own, that says more than what their program is called; `main` does not, nor does an address.
fn uneven<'a>(
    study: &Study,
    costs: impl Iterator<Item = &'a Cost>,
    serial: &[Vec<String>],
) -> BTreeMap<String, String> {
    let mut idle: BTreeMap<String, BTreeMap<Option<String>, f64>> = BTreeMap::new();
    for cost in costs.filter(|cost| cost.idle_s > 0.0) {
        let path = path(study.stack(cost));
        let program = study.stack(cost).next().filter(|frame| frame.is_program());
        if let Some(program) = program.filter(|_| !serial.iter().any(|of| path.starts_with(of))) {
            let bodies = idle.entry(program.function.clone()).or_default();
            *bodies.entry(body(study, cost)).or_default() += cost.idle_s;
        }
    }
    let named = |(program, bodies): (String, BTreeMap<Option<String>, f64>)| {
        let all: f64 = bodies.values().sum();
        let largest = bodies.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (body, idle_s) = largest.and_then(|(body, idle_s)| Some((body?, idle_s)))?;
        let says_more = body != "main" && !body.contains("+0x");
        (says_more && idle_s >= UNEVEN_MIN * all).then_some((program, body))
    };
    idle.into_iter().filter_map(named).collect()
}

/// Functions of user code from the outermost, as contexts are told apart.
fn path<'a>(stack: impl Iterator<Item = &'a Frame>) -> Vec<String> {
    stack.take_while(|frame| !frame.is_kernel()).map(|frame| frame.function.clone()).collect()
}

fn locks_by_site<'a>(
    study: &Study,
    costs: impl Iterator<Item = &'a Cost>,
) -> BTreeMap<String, String> {
    let mut seconds: BTreeMap<(String, String), f64> = BTreeMap::new();
    for cost in costs {
        let Some(object) = cost.object.and_then(|at| study.objects.get(at as usize)) else {
            continue;
        };
        if cost.waits == Some(Waits::Lock) || study.stack(cost).any(is_lock) {
            let key = (site(study.stack(cost)), object.clone());
            *seconds.entry(key).or_default() += cost.ran_s + cost.idle_s;
        }
    }
    let mut most: BTreeMap<String, (f64, String)> = BTreeMap::new();
    for ((site, object), seconds) in seconds {
        let known = most.entry(site).or_default();
        if seconds > known.0 {
            *known = (seconds, object);
        }
    }
    most.into_iter().map(|(site, (_, object))| (site, object)).collect()
}

/// The outermost contexts of the program's own that run only while CPUs are idle.
fn serial<'a>(study: &Study, costs: impl Iterator<Item = &'a Cost>) -> Vec<Vec<String>> {
    let mut contexts: BTreeMap<Vec<String>, (u64, f64, f64)> = BTreeMap::new();
    let mut own: BTreeMap<Vec<String>, bool> = BTreeMap::new();
    for cost in costs.filter(|cost| cost.waits.is_none()) {
        let path = path(study.stack(cost));
        for (depth, frame) in (1..=path.len()).zip(study.stack(cost)) {
            let (nr, ran_s, beside_s) = contexts.entry(path[..depth].to_vec()).or_default();
            *nr += cost.nr_samples;
            *ran_s += cost.ran_s;
            *beside_s += cost.ran_beside_idle_s;
            own.entry(path[..depth].to_vec()).or_insert_with(|| !is_plumbing(frame));
        }
    }
    let least = if study.is_modelled { SERIAL_MODELLED_MIN } else { SERIAL_MIN };
    let mut found: Vec<Vec<String>> = Vec::new();
    // Outer contexts come before inner ones.
    for (context, (nr, ran_s, beside_s)) in contexts {
        let is_serial = nr >= SERIAL_LOOKS_MIN && own[&context] && beside_s >= least * ran_s;
        if is_serial && !found.iter().any(|outer| context.starts_with(outer)) {
            found.push(context);
        }
    }
    found
}
