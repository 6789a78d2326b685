//! Commands: by kind, class and node.

use quartier_memmodel::geometry::Geometry;
use quartier_memmodel::{Class, Counts, Kind, Pair, Snapshot};
use serde::{Deserialize, Serialize};

use super::sum;
use crate::numbers::share;

const MIB: f64 = (1 << 20) as f64;

/// Commands that stayed on their node, and that left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// To the initiator's own node.
    pub local: u64,
    /// To another.
    pub remote: u64,
}

/// Commands of an owner in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// All of them.
    pub commands: Commands,
    /// Of them, those that left their node, percent; absent without commands.
    pub remote_percent: Option<f64>,
    /// Q of thesis 5.3.4: MiB that commands moved between nodes.
    pub q_mib: f64,
    /// Of it, what accesses of the program itself moved. How many commands of a class moved a word and no
    /// line is not counted: a pair of nodes has them in its classes as it has stores and atomics.
    pub q_user_mib: f64,
    /// What the kernel's moved, copies of pages among them; classed as `q_user_mib`.
    pub q_kernel_mib: f64,
    /// What walks of page tables moved.
    pub q_walk_mib: f64,
    /// Hops of the mean command, local ones counting 0; absent without commands.
    pub mean_hops: Option<f64>,
    /// Energy of transport as the thesis estimates it, bytes × hops, here in MiB × hops.
    pub energy_mib_hops: f64,
    /// By kind, in the order of [`Kind::ALL`].
    pub kinds: Vec<KindCommands>,
    /// By class, in the order of [`Class::ALL`].
    pub classes: Vec<ClassCommands>,
    /// What each node was asked for, by node.
    pub asked: Vec<Asked>,
    /// Commands from each node (row) to each node.
    pub matrix: Vec<Vec<u64>>,
    /// The same by kind: each pair of nodes with any command, in order.
    pub pairs: Vec<PairCommands>,
}

/// Commands from a node's CPUs to a node; to itself too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairCommands {
    /// The node of the CPUs.
    pub from: u16,
    /// The node that serves them.
    pub to: u16,
    /// Hops between the two; 0: local.
    pub hops: u16,
    /// By kind.
    pub kinds: KindCounts,
}

/// Commands of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCommands {
    /// The kind.
    pub kind: Kind,
    /// Stayed.
    pub local: u64,
    /// Left.
    pub remote: u64,
    /// Of both, by class.
    pub classes: Vec<ClassCommands>,
}

/// Commands of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassCommands {
    /// The class.
    pub class: Class,
    /// Stayed.
    pub local: u64,
    /// Left.
    pub remote: u64,
}

/// What a node was asked for (thesis figure 5.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The node.
    pub node: u16,
    /// By its own CPUs.
    pub local: KindCounts,
    /// By CPUs of other nodes.
    pub remote: KindCounts,
}

/// A number for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCounts {
    /// RD.
    #[serde(rename = "RD")]
    pub read: u64,
    /// INST.
    #[serde(rename = "INST")]
    pub instruction: u64,
    /// DTLB.
    #[serde(rename = "DTLB")]
    pub data_tlb: u64,
    /// ITLB.
    #[serde(rename = "ITLB")]
    pub instruction_tlb: u64,
    /// WR.
    #[serde(rename = "WR")]
    pub write: u64,
    /// LL/SC.
    #[serde(rename = "LL/SC")]
    pub atomic: u64,
}

impl KindCounts {
    /// In the order of [`Kind::ALL`].
    #[must_use]
    pub fn as_array(&self) -> [u64; 6] {
        let Self { read, instruction, data_tlb, instruction_tlb, write, atomic } = *self;
        [read, instruction, data_tlb, instruction_tlb, write, atomic]
    }

    /// From the order of [`Kind::ALL`].
    #[must_use]
    pub fn from_array(array: [u64; 6]) -> Self {
        let [read, instruction, data_tlb, instruction_tlb, write, atomic] = array;
        Self { read, instruction, data_tlb, instruction_tlb, write, atomic }
    }

    /// Of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        sum(self.as_array().into_iter())
    }

    /// Of two nodes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let (this, other) = (self.as_array(), other.as_array());
        Self::from_array(std::array::from_fn(|kind| this[kind].saturating_add(other[kind])))
    }
}

impl Asked {
    /// In the order of what other nodes asked them for; among equals the smaller number first.
    #[must_use]
    pub fn most_first(asked: &[Self]) -> Vec<Self> {
        let mut sorted = asked.to_vec();
        sorted.sort_by_key(|asked| {
            (std::cmp::Reverse((asked.remote.total(), asked.local.total())), asked.node)
        });
        sorted
    }
}

impl Commands {
    /// Both.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.local.saturating_add(self.remote)
    }
}

impl Tally {
    pub(super) fn new(counts: &Counts, snapshot: &Snapshot) -> Self {
        let commands = split(counts, |pair| sum(pair.commands.iter().flatten().copied()));
        let of_class = |class| bytes_of_class(counts, &snapshot.geometry, class) / MIB;
        Self {
            commands,
            remote_percent: share(commands.remote, commands.total()),
            q_mib: bytes(counts, &snapshot.geometry, |_| 1) / MIB,
            q_user_mib: of_class(Class::User),
            q_kernel_mib: of_class(Class::Kernel),
            q_walk_mib: of_class(Class::Walk),
            mean_hops: mean_hops(counts, commands),
            energy_mib_hops: bytes(counts, &snapshot.geometry, |pair| pair.hops.into()) / MIB,
            kinds: Kind::ALL.into_iter().map(|kind| by_kind(counts, kind)).collect(),
            classes: by_class(counts, &Kind::ALL),
            asked: asked(counts, snapshot.nr_nodes),
            matrix: matrix(counts, snapshot.nr_nodes),
            pairs: counts.pairs.iter().map(by_pair).filter(|of| of.kinds.total() > 0).collect(),
        }
    }

    /// Nodes in the order of what other nodes asked them for, the most asked first.
    #[must_use]
    pub fn most_asked(&self) -> Vec<Asked> {
        Asked::most_first(&self.asked)
    }

    /// Whether anything was counted at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.total() == 0
    }
}

fn split(counts: &Counts, nr: impl Fn(&Pair) -> u64) -> Commands {
    let mut commands = Commands::default();
    for pair in &counts.pairs {
        let sum = if pair.hops == 0 { &mut commands.local } else { &mut commands.remote };
        *sum = sum.saturating_add(nr(pair));
    }
    commands
}

/// Bytes that commands moved between nodes, each taken `times`.
fn bytes(counts: &Counts, geometry: &Geometry, times: impl Fn(&Pair) -> u128) -> f64 {
    let remote = counts.pairs.iter().filter(|pair| pair.hops > 0);
    let moved = remote.map(|pair| {
        let commands: u128 = pair.commands.iter().flatten().map(|&nr| u128::from(nr)).sum();
        let words = u128::from(pair.words);
        let lines = commands.saturating_sub(words);
        let line_bytes = lines * u128::from(geometry.line_bytes);
        (line_bytes + words * u128::from(geometry.word_bytes)) * times(pair)
    });
    moved.sum::<u128>() as f64
}

/// Bytes that commands of a class moved between nodes.
fn bytes_of_class(counts: &Counts, geometry: &Geometry, class: Class) -> f64 {
    let (line_bytes, word_bytes) = (f64::from(geometry.line_bytes), f64::from(geometry.word_bytes));
    let of_pair = |pair: &Pair| {
        let all = |kinds: &[Kind]| sum(kinds.iter().flat_map(|&kind| pair.commands[kind as usize]));
        let of_class = |kinds: &[Kind]| {
            sum(kinds.iter().map(|&kind| pair.commands[kind as usize][class as usize]))
        };
        // Only stores and atomics move words; more words than those are in damaged files only.
        let stores = [Kind::Write, Kind::Atomic];
        let may_be_words = if all(&stores) >= pair.words { &stores[..] } else { &Kind::ALL[..] };
        let part = share(of_class(may_be_words), all(may_be_words)).unwrap_or(0.0) / 100.0;
        let words = pair.words as f64 * part;
        (of_class(&Kind::ALL) as f64 - words) * line_bytes + words * word_bytes
    };
    counts.pairs.iter().filter(|pair| pair.hops > 0).map(of_pair).sum()
}

fn mean_hops(counts: &Counts, commands: Commands) -> Option<f64> {
    let hops = counts.pairs.iter().map(|pair| {
        u128::from(pair.hops) * u128::from(sum(pair.commands.iter().flatten().copied()))
    });
    (commands.total() > 0).then(|| hops.sum::<u128>() as f64 / commands.total() as f64)
}

fn by_kind(counts: &Counts, kind: Kind) -> KindCommands {
    let Commands { local, remote } =
        split(counts, |pair| sum(pair.commands[kind as usize].into_iter()));
    KindCommands { kind, local, remote, classes: by_class(counts, &[kind]) }
}

fn by_class(counts: &Counts, kinds: &[Kind]) -> Vec<ClassCommands> {
    let of = |class: Class| {
        let Commands { local, remote } = split(counts, |pair| {
            sum(kinds.iter().map(|&kind| pair.commands[kind as usize][class as usize]))
        });
        ClassCommands { class, local, remote }
    };
    Class::ALL.into_iter().map(of).collect()
}

fn asked(counts: &Counts, nr_nodes: usize) -> Vec<Asked> {
    let mut nodes: Vec<_> =
        (0..nr_nodes).map(|node| Asked { node: node as u16, ..Asked::default() }).collect();
    for pair in &counts.pairs {
        let Some(node) = nodes.get_mut(usize::from(pair.target)) else { continue };
        let sums = if pair.hops == 0 { &mut node.local } else { &mut node.remote };
        *sums = sums.plus(&by_pair(pair).kinds);
    }
    nodes
}

fn by_pair(pair: &Pair) -> PairCommands {
    let kinds = KindCounts::from_array(pair.commands.map(|by_class| sum(by_class.into_iter())));
    PairCommands { from: pair.initiator, to: pair.target, hops: pair.hops, kinds }
}

fn matrix(counts: &Counts, nr_nodes: usize) -> Vec<Vec<u64>> {
    let mut rows = vec![vec![0; nr_nodes]; nr_nodes];
    for pair in &counts.pairs {
        let cell = rows
            .get_mut(usize::from(pair.initiator))
            .and_then(|row: &mut Vec<u64>| row.get_mut(usize::from(pair.target)));
        if let Some(cell) = cell {
            *cell = sum(pair.commands.iter().flatten().copied());
        }
    }
    rows
}
