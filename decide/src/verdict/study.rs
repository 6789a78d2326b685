//! What was measured: runs of one program at several CPU counts.

use std::collections::BTreeMap;

use quartier_model::{Frame, Recording};
use serde::{Deserialize, Serialize};

use super::names::Waits;

/// Of saved studies.
pub const STUDY_FORMAT: u32 = 2;

/// Runs of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What a unit of work is, in words.
    pub unit: String,
    /// Its times are modelled from what was counted in guests, not measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_modelled: bool,
    /// By CPU count, ascending.
    pub points: Vec<Point>,
    /// Places in code that profiles name.
    pub frames: Vec<Frame>,
    /// Variables that profiles name.
    pub objects: Vec<String>,
}

/// Runs on so many CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// CPUs.
    pub nr_cpus: u32,
    /// Which ones, in the kernel's list format.
    pub cpus: String,
    /// Those that succeeded.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Work done.
    pub units: f64,
    /// How long it took.
    pub wall_s: f64,
    /// CPU time in user code; absent: not counted, as in guests.
    pub user_s: Option<f64>,
    /// CPU time in the kernel; absent: not counted.
    pub kernel_s: Option<f64>,
    /// Times that a thread gave its CPU up to wait; absent: not counted.
    pub nr_waits: Option<u64>,
    /// Times that others took its CPU; absent: not counted.
    pub nr_preemptions: Option<u64>,
    /// Page faults, those included that read from a disk; absent: not counted.
    pub nr_faults: Option<u64>,
    /// Page faults that read from a disk; absent: not counted.
    pub nr_disk_faults: Option<u64>,
    /// For how long the host of this virtual machine ran something else on each of the CPUs; empty: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_stolen_s: Vec<f64>,
    /// How busy the CPUs were that loaded the server; absent: it is no server, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_busy_percent: Option<f64>,
    /// Absent: it was not profiled.
    pub profile: Option<Profile>,
    /// What a guest's instrument counted; absent: it ran on this machine's CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// What was counted of a run in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Instructions of the program, on all CPUs.
    pub nr_instructions: u64,
    /// Time that these take by themselves, modelled.
    pub instructions_s: f64,
    /// Stalls, modelled.
    pub stalls_s: f64,
    /// Memory commands that stayed on their node.
    pub nr_local: u64,
    /// And those that left it.
    pub nr_remote: u64,
    /// Lines that CPUs took from each other.
    pub nr_taken: u64,
    /// How busy the memory of a node or a link between two was in the mean, that which was busiest; modelled.
    pub busiest_percent: f64,
    /// How busy the memories of all those nodes were, in the mean, whose CPUs ran the program; modelled. Absent: not known, in old reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memories_busy_percent: Option<f64>,
}

/// Whose memory a CPU waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// Its own node's.
    Near,
    /// Another node's.
    Far,
}

/// Where the time of a run went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// On CPUs, from switch to switch.
    pub ran_s: f64,
    /// Threads that could have run, while others of the machine had their CPU.
    pub stolen_s: f64,
    /// CPUs that did not run the program, and were not taken by others.
    pub idle_s: f64,
    /// Threads could run and had no CPU yet: they were woken, or others had theirs. Absent: when threads are woken was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_s: Option<f64>,
    /// Looks at running code.
    pub nr_samples: u64,
    /// Records that were lost; what is missing in them is unknown.
    pub nr_lost: u64,
    /// What said when running code was looked at. Absent: nothing did, as in guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// By stack and variable.
    pub costs: Vec<Cost>,
}

/// What says when running code is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The processor's counter of cycles.
    Cycles,
    /// The kernel's software clock.
    Software,
}

impl Clock {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Cycles => "the processor's counter of cycles",
            Self::Software => "the kernel's software clock",
        }
    }
}

/// What a place costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// From the outermost to the innermost, in [`Study::frames`].
    pub stack: Vec<u32>,
    /// What it accesses, in [`Study::objects`]; absent: nothing, or nothing with a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<u32>,
    /// How the cache line that it accesses is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// Threads wait here, for this; absent: they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// It waits for memory here, in a guest; absent: that is not known, or it does something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What time in a guest went into that no place is known of; absent: it is this place's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// Looks that found it running.
    pub nr_samples: u64,
    /// It ran.
    pub ran_s: f64,
    /// Of that, while a CPU was idle.
    pub ran_beside_idle_s: f64,
    /// Idle CPUs, charged to it.
    pub idle_s: f64,
    /// Threads waited here; until they were woken, where that was seen.
    pub waited_s: f64,
}

/// What modelled time goes into, all places together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spent {
    /// Executing instructions.
    Instructions,
    /// Waiting for caches and memory, where no place is known of.
    Stalls,
    /// Nothing, on CPUs that have less to do than the one that has most.
    Nothing,
}

/// How threads use a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One thread, as far as was seen, or nobody writes.
    None,
    /// Several threads use the same word, and write.
    Word,
    /// Several threads use words of their own, and write.
    Line,
}

impl Spent {
    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Stalls => "other stalls",
            Self::Nothing => "unused",
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Instructions => "more instructions for each unit (work that grows, or spinning)",
            Self::Stalls => {
                "stalls that neither a line of another CPU's nor a place in memory explains"
            }
            Self::Nothing => {
                "CPUs that have less to do than others (a serial part, or uneven parts)"
            }
        }
    }
}

impl Run {
    /// CPU time that it could have used, each unit of work; absent without work.
    #[must_use]
    pub fn capacity_per_unit(&self, nr_cpus: u32) -> Option<f64> {
        // From its first instruction on where that is known: how long it took to start it is not its own.
        let profiled = self.profile.as_ref().filter(|profile| profile.nr_samples > 0);
        let capacity = profiled.map_or(f64::from(nr_cpus) * self.wall_s, |of| of.ran_s + of.idle_s);
        // To the guest's kernel it ran meanwhile, or was idle.
        let capacity = capacity - self.host_stolen_s.iter().sum::<f64>();
        (self.units > 0.0 && self.units.is_finite()).then(|| capacity / self.units)
    }

    /// CPUs that were neither used nor taken by others; never less than none, though clocks differ. Absent: what was used
    /// is not known.
    #[must_use]
    pub fn idle_s(&self, nr_cpus: u32) -> Option<f64> {
        // Of a server, what processes took with them that nobody waited for is not in the kernel's account.
        let profile = self.profile.as_ref();
        if self.load_busy_percent.is_some() && profile.is_some() {
            return profile.map(|profile| profile.idle_s);
        }
        let Some(used_s) =
            self.user_s.zip(self.kernel_s).map(|(user_s, kernel_s)| user_s + kernel_s)
        else {
            return self.profile.as_ref().map(|profile| profile.idle_s);
        };
        let stolen_s = self.stolen_s().unwrap_or_default();
        Some((f64::from(nr_cpus) * self.wall_s - stolen_s - used_s).max(0.0))
    }

    /// What others on this machine and on its host took of its CPUs; absent: neither is known.
    #[must_use]
    pub fn stolen_s(&self) -> Option<f64> {
        let by_others = self.profile.as_ref().map(|profile| profile.stolen_s);
        let is_known = by_others.is_some() || !self.host_stolen_s.is_empty();
        is_known.then(|| by_others.unwrap_or_default() + self.host_stolen_s.iter().sum::<f64>())
    }

    /// For how long CPUs may have waited for threads that were held up, by others or by the host, so that nobody's part need be larger.
    #[must_use]
    pub fn held_up_s(&self) -> f64 {
        let by_others = self.profile.as_ref().map_or(0.0, |profile| profile.stolen_s);
        // To the kernel a thread whose CPU the host took runs, and all others may have to wait for it.
        let by_host = self.host_stolen_s.iter().copied().fold(0.0, f64::max);
        by_others + by_host * self.host_stolen_s.len().saturating_sub(1) as f64
    }

    /// CPU time that it used, each unit of work; absent: not known, or no work was done.
    #[must_use]
    pub fn cpu_per_unit_s(&self) -> Option<f64> {
        let counted = self.counted.map(|of| of.instructions_s + of.stalls_s);
        let measured = || Some(self.user_s? + self.kernel_s?);
        let looked_at = || self.profile.as_ref().map(|profile| profile.ran_s);
        let used = counted.or_else(measured).or_else(looked_at)?;
        (self.units > 0.0 && self.units.is_finite()).then(|| used / self.units)
    }

    /// Units of work each second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.units / self.wall_s
    }
}

impl Study {
    /// Gives a profile's places and variables the numbers that they have in this study.
    pub fn adopt(&mut self, mut profile: Profile, recording: &Recording) -> Profile {
        let mut frames = numbers(&self.frames);
        let mut objects = numbers(&self.objects);
        for cost in &mut profile.costs {
            for at in &mut cost.stack {
                *at = number(&mut frames, &mut self.frames, &recording.frames[*at as usize]);
            }
            cost.object = cost
                .object
                .map(|at| number(&mut objects, &mut self.objects, &recording.objects[at as usize]));
        }
        profile
    }

    /// The frames of a stack.
    pub fn stack<'a>(&'a self, cost: &'a Cost) -> impl DoubleEndedIterator<Item = &'a Frame> {
        cost.stack.iter().filter_map(|at| self.frames.get(*at as usize))
    }
}

fn numbers<T: Clone + Ord>(known: &[T]) -> BTreeMap<T, u32> {
    known.iter().cloned().zip(0..).collect()
}

fn number<T: Clone + Ord>(numbers: &mut BTreeMap<T, u32>, list: &mut Vec<T>, new: &T) -> u32 {
    if let Some(number) = numbers.get(new) {
        return *number;
    }
    let number = list.len() as u32;
    numbers.insert(new.clone(), number);
    list.push(new.clone());
    number
}
