//! Counts at a moment, their differences, and what they say.

use serde::{Deserialize, Serialize};

use crate::cost::{PeakUtilisation, millicycles};
use crate::geometry::Geometry;
use crate::kinds::{Class, Kind, Owner, Totals};
use crate::meter::{Meter, Row};
use crate::system::System;

const MIB: f64 = (1 << 20) as f64;

/// Everything that was counted up to a moment. [`since`](Self::since) gives a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The machine, with the parameters of everything that is called modelled.
    pub geometry: Geometry,
    /// Its nodes.
    pub nr_nodes: usize,
    /// What the measured program did.
    pub program: Counts,
    /// What everything else did.
    pub rest: Counts,
    /// One in so many sets of the caches was modelled; all counts are estimates of the whole, then.
    pub sets_one_in: u32,
    /// The highest modelled utilisation of a window since the machine began.
    pub modelled_peak_utilisation: PeakUtilisation,
}

/// What was counted on one owner's account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// By CPU.
    pub cpus: Vec<CpuCounts>,
    /// Commands, by initiator and target; pairs without any are left out.
    pub pairs: Vec<Pair>,
    /// Bytes that commands moved between nodes, by set of the caches, in the modelled ones; without
    /// commands that count as they are where sets are sampled.
    #[serde(default)]
    pub remote_bytes_by_set: Vec<u64>,
}

/// What a CPU did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCounts {
    /// Its node.
    pub node: u16,
    /// Events.
    pub totals: Totals,
    /// Modelled cycles: instructions and stalls. Modelled: see
    /// [`Cost`](crate::geometry::Cost), which is printed with it.
    pub modelled_cycles: u64,
}

/// Commands from a node's CPUs to a node; to itself too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The node of the CPU.
    pub initiator: u16,
    /// The node that serves.
    pub target: u16,
    /// Hops between them; 0: local.
    pub hops: u16,
    /// Commands by kind (in the order of [`Kind::ALL`]) and class (of [`Class::ALL`]).
    pub commands: [[u64; 3]; 6],
    /// Of WR and LL/SC, those that moved a word and no line.
    pub words: u64,
}

/// Commands that stayed on their node, and that left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// To the initiator's own node.
    pub local: u64,
    /// To another.
    pub remote: u64,
}

impl System {
    /// What was counted so far. CPUs may run meanwhile; what they count is then in it or not, event by
    /// event.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            geometry: self.geometry().clone(),
            nr_nodes: self.layout().nr_nodes,
            program: self.counts(Owner::Program),
            rest: self.counts(Owner::Rest),
            sets_one_in: self.sets.one_in,
            modelled_peak_utilisation: self.queues.peak(),
        }
    }

    fn counts(&self, owner: Owner) -> Counts {
        let mut counts =
            Counts { remote_bytes_by_set: vec![0; self.sets.number()], ..Counts::default() };
        let mut matrix = std::collections::BTreeMap::new();
        for (meter, &node) in self.meters.iter().zip(&self.layout().node_of_cpu) {
            counts.cpus.push(self.cpu_counts(meter, node, owner));
            let sums = counts.remote_bytes_by_set.iter_mut();
            sums.zip(meter.remote_bytes(owner)).for_each(|(sum, bytes)| *sum += bytes);
            for (target, row) in meter.rows() {
                let pair = matrix
                    .entry((node, target))
                    .or_insert_with(|| Pair::new(node, target, self.hops(node, target)));
                pair.add(row, owner);
            }
        }
        counts.pairs = matrix.into_values().filter(|pair| pair.nr_commands() > 0).collect();
        counts
    }

    fn cpu_counts(&self, meter: &Meter, node: u16, owner: Owner) -> CpuCounts {
        let totals = meter.totals(owner);
        let per_instruction = millicycles(self.geometry().cost.cycles_per_instruction);
        let modelled = totals.instructions * per_instruction + totals.modelled_stall_millicycles;
        CpuCounts { node, totals, modelled_cycles: modelled / 1000 }
    }
}

impl Pair {
    fn new(initiator: u16, target: u16, hops: u16) -> Self {
        Self { initiator, target, hops, commands: [[0; 3]; 6], words: 0 }
    }

    fn add(&mut self, row: &Row, owner: Owner) {
        let load = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        for (sum, kind) in self.commands.iter_mut().zip(&row.commands[owner as usize]) {
            for (sum, counter) in sum.iter_mut().zip(kind) {
                *sum += load(counter);
            }
        }
        self.words += load(&row.words[owner as usize]);
    }

    /// Commands of all kinds and classes.
    #[must_use]
    pub fn nr_commands(&self) -> u64 {
        self.commands.iter().flatten().sum()
    }

    /// Bytes that the commands moved: a line each, but for those that moved a word.
    #[must_use]
    pub fn bytes(&self, geometry: &Geometry) -> u64 {
        let lines = self.nr_commands().saturating_sub(self.words);
        lines * u64::from(geometry.line_bytes) + self.words * u64::from(geometry.word_bytes)
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut pair = *self;
        for (kind, earlier) in pair.commands.iter_mut().zip(&earlier.commands) {
            for (count, earlier) in kind.iter_mut().zip(earlier) {
                *count = count.checked_sub(*earlier)?;
            }
        }
        pair.words = pair.words.checked_sub(earlier.words)?;
        Some(pair)
    }
}

impl Counts {
    /// Commands of a kind, of one class or (`None`) of all.
    #[must_use]
    pub fn commands(&self, kind: Kind, class: Option<Class>) -> Split {
        let mut split = Split::default();
        for pair in &self.pairs {
            let by_class = &pair.commands[kind as usize];
            let nr = class.map_or(by_class.iter().sum(), |class| by_class[class as usize]);
            if pair.hops == 0 { split.local += nr } else { split.remote += nr }
        }
        split
    }

    /// Commands of every kind and class.
    #[must_use]
    pub fn all_commands(&self) -> Split {
        Kind::ALL.iter().map(|&kind| self.commands(kind, None)).fold(
            Split::default(),
            |sum, split| Split {
                local: sum.local + split.local,
                remote: sum.remote + split.remote,
            },
        )
    }

    /// Commands that reach each node from elsewhere, by kind: the thesis's histogram (figure 5.12).
    #[must_use]
    pub fn received_from_elsewhere(&self, nr_nodes: usize) -> Vec<[u64; 6]> {
        let mut received = vec![[0; 6]; nr_nodes];
        for pair in self.pairs.iter().filter(|pair| pair.hops > 0) {
            let Some(node) = received.get_mut(usize::from(pair.target)) else { continue };
            for (sum, by_class) in node.iter_mut().zip(&pair.commands) {
                *sum += by_class.iter().sum::<u64>();
            }
        }
        received
    }

    /// Bytes that commands moved between nodes.
    pub(crate) fn remote_bytes(&self, geometry: &Geometry) -> u64 {
        let remote = self.pairs.iter().filter(|pair| pair.hops > 0);
        remote.map(|pair| pair.bytes(geometry)).sum()
    }

    /// Q of thesis 5.3.4 in MiB: bytes that commands moved between nodes.
    #[must_use]
    pub fn q_mib(&self, geometry: &Geometry) -> f64 {
        self.remote_bytes(geometry) as f64 / MIB
    }

    /// Hops of the mean command, local ones counting 0; `None` without commands.
    #[must_use]
    pub fn mean_distance(&self) -> Option<f64> {
        let nr: u64 = self.pairs.iter().map(Pair::nr_commands).sum();
        let hops = |pair: &Pair| pair.nr_commands() * u64::from(pair.hops);
        (nr > 0).then(|| self.pairs.iter().map(hops).sum::<u64>() as f64 / nr as f64)
    }

    /// Energy of transport as bytes × hops.
    #[must_use]
    pub fn byte_hops(&self, geometry: &Geometry) -> u64 {
        self.pairs.iter().map(|pair| pair.bytes(geometry) * u64::from(pair.hops)).sum()
    }

    /// The modelled time of a phase: cycles of the CPU that has most.
    #[must_use]
    pub fn modelled_phase_cycles(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.modelled_cycles).max().unwrap_or(0)
    }

    /// How many times faster this phase is than `base`, modelled; `None` if either has no cycles.
    #[must_use]
    pub fn modelled_speedup(&self, base: &Self) -> Option<f64> {
        let (this, base) = (self.modelled_phase_cycles(), base.modelled_phase_cycles());
        (this > 0 && base > 0).then(|| base as f64 / this as f64)
    }

    /// Events of all CPUs.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let add = |sum: Totals, cpu: &CpuCounts| {
            sum.combine(&cpu.totals, |a, b| Some(a.wrapping_add(b))).unwrap_or(sum)
        };
        self.cpus.iter().fold(Totals::default(), add)
    }

    fn since(&self, earlier: &Self) -> Option<Self> {
        if self.cpus.len() != earlier.cpus.len() {
            return None;
        }
        let cpu = |(now, then): (&CpuCounts, &CpuCounts)| {
            let totals = now.totals.combine(&then.totals, u64::checked_sub)?;
            let modelled_cycles = now.modelled_cycles.checked_sub(then.modelled_cycles)?;
            Some(CpuCounts { node: now.node, totals, modelled_cycles })
        };
        let pair = |now: &Pair| {
            let nodes = |pair: &Pair| (pair.initiator, pair.target);
            match earlier.pairs.binary_search_by_key(&nodes(now), nodes) {
                Ok(at) => now.since(&earlier.pairs[at]),
                Err(_) => Some(*now),
            }
        };
        let cpus = self.cpus.iter().zip(&earlier.cpus).map(cpu).collect::<Option<_>>()?;
        let pairs = self.pairs.iter().map(pair).collect::<Option<Vec<_>>>()?;
        let pairs = pairs.into_iter().filter(|pair| pair.nr_commands() > 0).collect();
        let of_sets = |counts: &Self| counts.remote_bytes_by_set.clone();
        let bytes = of_sets(self).into_iter().zip(of_sets(earlier));
        let bytes = bytes.map(|(now, then)| now.checked_sub(then)).collect::<Option<_>>()?;
        Some(Self { cpus, pairs, remote_bytes_by_set: bytes })
    }
}

impl Snapshot {
    /// What was counted since an earlier snapshot of the same machine; `None` if it is none, or later.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let machine = |snapshot: &Self| (snapshot.nr_nodes, snapshot.sets_one_in);
        if self.geometry != earlier.geometry || machine(self) != machine(earlier) {
            return None;
        }
        Some(Self {
            program: self.program.since(&earlier.program)?,
            rest: self.rest.since(&earlier.rest)?,
            ..self.clone()
        })
    }

    /// The counts of an owner.
    #[must_use]
    pub fn of(&self, owner: Owner) -> &Counts {
        match owner {
            Owner::Program => &self.program,
            Owner::Rest => &self.rest,
        }
    }
}
