//! The file that the instrument writes when a guest ends: counts at four moments, and slices between.
//!
//! JSON, so that it outlives this version and can be read by anything. Nothing in it is derived: a
//! [`Report`](crate::Report) is.

use quartier_memmodel::geometry::{CPUS_MAX, NODES_MAX};
use quartier_memmodel::{Counts, Snapshot};
use serde::{Deserialize, Serialize};

use crate::lines::Lines;
use crate::looks::Executed;
use crate::slices::{SLICES_MAX, Slice};
use crate::stalls::MemoryStalls;
use crate::words::{clean, shortened};

/// The format that this version writes and reads.
pub const FORMAT: u32 = 3;

/// Commands of an owner, all together, that are believed: at one a nanosecond they take 292 years.
/// Sums need no more than 64 bits then.
const COMMANDS_MAX: u128 = i64::MAX as u128;

/// What remains of a parser's message that is longer than this, letters.
const MESSAGE_LENGTH_MAX: usize = 160;

/// Everything that was counted in one guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// [`FORMAT`].
    pub format: u32,
    /// The command that was measured, with its arguments.
    pub command: Vec<String>,
    /// Release of the guest's kernel.
    pub kernel: String,
    /// Version of QEMU.
    pub qemu: String,
    /// The guest's nodes.
    pub machine: Machine,
    /// How accesses were counted.
    pub mode: CountMode,
    /// Whether it is a server's, from the begin of its load to its end.
    #[serde(default)]
    pub under_load: bool,
    /// Counts at moments, in order of time.
    pub marks: Vec<Mark>,
    /// The run over time, the program's commands only; see [`Slices`](crate::Slices).
    pub slices: Vec<Slice>,
    /// Which lines CPUs took from each other, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// And where CPUs waited for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<MemoryStalls>,
    /// Who takes lines from other CPUs, by place alone, however seldom each line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<MemoryStalls>,
    /// And which code is executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
    /// All of these while the program had several threads; times between with one are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Places>,
    /// How much work was done, by what was printed; absent: nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<f64>,
    /// What a reader has to know about this run: one sentence each.
    pub notes: Vec<String>,
}

/// Where a program's CPUs lost time to each other and to memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Lines that CPUs took from each other.
    pub lines: Lines,
    /// What they waited for.
    pub stalls: MemoryStalls,
    /// Who takes lines from other CPUs, by place alone; absent: not known, in old recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<MemoryStalls>,
    /// Which code is executed; absent: not known, in old recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed: Option<Executed>,
}

/// How large the guest was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// CPUs of each node, by node; 0 for a node of memory only.
    pub cpus_per_node: Vec<u32>,
}

/// How accesses were counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CountMode {
    /// Every access, CPUs at the same time: two runs differ a little.
    Parallel,
    /// Every access, CPUs one after the other by instruction count: two runs give identical counts.
    Deterministic,
    /// Some accesses. All counts are estimates of the whole.
    Sampled {
        /// One of about so many was counted.
        one_in: u32,
        /// How far Q may be off, percent.
        error_percent: f64,
    },
}

impl CountMode {
    /// Whether counts of both ways may be set side by side: samples of one size may, whatever they err.
    pub(crate) fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Sampled { one_in: one, .. }, Self::Sampled { one_in: two, .. }) => one == two,
            _ => self == other,
        }
    }

    /// Of two samples the one that may be off farther.
    pub(crate) fn less_certain(self, other: Self) -> Self {
        if other.error_percent() > self.error_percent() { other } else { self }
    }

    /// How far Q may be off because not every access was counted.
    pub(crate) fn error_percent(self) -> f64 {
        match self {
            Self::Sampled { error_percent, .. } => error_percent,
            Self::Parallel | Self::Deterministic => 0.0,
        }
    }
}

/// Counts at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Which moment.
    pub at: Moment,
    /// Instructions of the program so far, on all CPUs.
    pub instructions: u64,
    /// Seconds since the guest began, by a clock; absent where its own time is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_seconds: Option<f64>,
    /// All counts so far.
    pub snapshot: Snapshot,
}

/// A moment in a program's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// It begins.
    Start,
    /// Its second thread is about to begin.
    FirstThread,
    /// Its last other thread has ended.
    LastThreadEnded,
    /// It has ended.
    End,
}

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// No JSON, or not of this shape.
    #[error(
        "this is no recording of `quartier lab count`, or a damaged one ({0}): count again with `-- CMD`"
    )]
    Damaged(String),
    /// Another version's.
    #[error(
        "this recording has format {found}, and this quartier reads format {FORMAT}: read it with the \
         quartier that wrote it, or count again"
    )]
    Format {
        /// What it says.
        found: u64,
    },
    /// Well-formed, but no machine counts like that.
    #[error("this recording is damaged: {0}; count again")]
    Impossible(String),
}

/// What every format has.
#[derive(Deserialize)]
struct Head {
    format: u64,
}

impl Machine {
    /// Nodes; those without CPUs too.
    #[must_use]
    pub fn nr_nodes(&self) -> usize {
        self.cpus_per_node.len()
    }

    /// CPUs of all nodes.
    #[must_use]
    pub fn nr_cpus(&self) -> u64 {
        self.cpus_per_node.iter().copied().map(u64::from).sum()
    }
}

impl Recording {
    /// Reads a file's bytes and checks them.
    ///
    /// # Errors
    /// They are no recording, another format's, or contradict themselves.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let head: Head = serde_json::from_slice(bytes).map_err(damaged)?;
        if head.format != u64::from(FORMAT) {
            return Err(RecordingError::Format { found: head.format });
        }
        let recording: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        recording.check()?;
        Ok(recording)
    }

    /// The file's bytes.
    ///
    /// # Panics
    /// Never: there is nothing in a recording that JSON lacks.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a recording has text keys and finite numbers only")
    }

    /// The counts at a moment; the first, or for [`Moment::LastThreadEnded`] the last, where a program
    /// had several phases.
    #[must_use]
    pub fn mark(&self, at: Moment) -> Option<&Mark> {
        let is_wanted = |mark: &&Mark| mark.at == at;
        match at {
            Moment::LastThreadEnded | Moment::End => self.marks.iter().rev().find(is_wanted),
            Moment::Start | Moment::FirstThread => self.marks.iter().find(is_wanted),
        }
    }

    /// Refuses what contradicts itself, so that nobody else has to look.
    ///
    /// # Errors
    /// One sentence for the first thing found.
    pub fn check(&self) -> Result<(), RecordingError> {
        let impossible = |what: String| Err(RecordingError::Impossible(what));
        let (nodes, cpus) = (self.machine.nr_nodes(), self.machine.nr_cpus());
        if !(1..=NODES_MAX).contains(&nodes) || !(1..=CPUS_MAX as u64).contains(&cpus) {
            return impossible(format!("it has {nodes} nodes and {cpus} CPUs"));
        }
        if let CountMode::Sampled { one_in, error_percent } = self.mode
            && (one_in == 0 || !(0.0..=100.0).contains(&error_percent))
        {
            return impossible(format!("one access in {one_in} ± {error_percent} % is no sample"));
        }
        if self.slices.len() > SLICES_MAX {
            return impossible(format!("{} slices, {SLICES_MAX} are the most", self.slices.len()));
        }
        if !self.slices.is_sorted_by(|a, b| a.instructions < b.instructions) {
            return impossible("its slices are not in order of time".to_owned());
        }
        if self.slices.iter().any(|slice| slice.modelled_cycles.len() > nodes) {
            return impossible("its slices have nodes that its machine lacks".to_owned());
        }
        let is_time =
            |mark: &Mark| mark.guest_seconds.is_none_or(|seconds| (0.0..1e9).contains(&seconds));
        if !self.marks.iter().all(is_time) {
            return impossible("its clock shows no time".to_owned());
        }
        self.marks.iter().try_for_each(|mark| self.check_snapshot(&mark.snapshot))
    }

    fn check_snapshot(&self, snapshot: &Snapshot) -> Result<(), RecordingError> {
        let impossible = |what: String| Err(RecordingError::Impossible(what));
        if snapshot.nr_nodes != self.machine.nr_nodes() {
            let (said, counted) = (self.machine.nr_nodes(), snapshot.nr_nodes);
            return impossible(format!("it says {said} nodes, but {counted} were counted"));
        }
        if let Err(error) = snapshot.geometry.check() {
            return impossible(format!("its machine cannot be: {error}"));
        }
        if snapshot.sets_one_in == 0 {
            return impossible("it has one in 0 sets counted".to_owned());
        }
        for counts in [&snapshot.program, &snapshot.rest] {
            check_cpus(counts, &self.machine)?;
            check_pairs(counts, snapshot.nr_nodes)?;
        }
        Ok(())
    }
}

/// What a parser says may have names from the file in it.
fn damaged(error: serde_json::Error) -> RecordingError {
    RecordingError::Damaged(shortened(&clean(&error.to_string()), MESSAGE_LENGTH_MAX))
}

fn check_cpus(counts: &Counts, machine: &Machine) -> Result<(), RecordingError> {
    let mut cpus_per_node = vec![0; machine.nr_nodes()];
    for cpu in &counts.cpus {
        if let Some(nr) = cpus_per_node.get_mut(usize::from(cpu.node)) {
            *nr += 1;
        }
    }
    if cpus_per_node == machine.cpus_per_node && counts.cpus.len() as u64 == machine.nr_cpus() {
        return Ok(());
    }
    Err(RecordingError::Impossible("its counts are of CPUs that its machine lacks".to_owned()))
}

fn check_pairs(counts: &Counts, nr_nodes: usize) -> Result<(), RecordingError> {
    let impossible = |what: &str| Err(RecordingError::Impossible(what.to_owned()));
    // Differences are found by bisection.
    if !counts.pairs.is_sorted_by(|a, b| (a.initiator, a.target) < (b.initiator, b.target)) {
        return impossible("its node pairs are not in order");
    }
    let mut total = 0_u128;
    for pair in &counts.pairs {
        if usize::from(pair.initiator.max(pair.target)) >= nr_nodes {
            return impossible("it has commands of nodes that are not there");
        }
        if (pair.hops == 0) != (pair.initiator == pair.target) {
            return impossible("a node is not 0 hops from itself, or is from another");
        }
        let commands = pair.commands.iter().flatten().map(|&nr| u128::from(nr)).sum::<u128>();
        if u128::from(pair.words) > commands {
            return impossible("it has more words moved than commands");
        }
        total += commands;
    }
    if total > COMMANDS_MAX {
        return impossible("it has more commands than a machine has time for (2^63)");
    }
    Ok(())
}
