//! A machine: what its CPUs share, and who is where.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::address::{Layout, LayoutError, NodeMap};
use crate::contended::Contended;
use crate::cost::Queues;
use crate::cpu::{Cpu, Sample};
use crate::distance::Distances;
use crate::geometry::{Geometry, GeometryError, Side, Topology};
use crate::kinds::{Event, Owner};
use crate::meter::Meter;
use crate::sample::modelled_sets;
use crate::shared::Shared;
use crate::tags::Tags;

/// A machine's memory hierarchy, shared by its [`Cpu`]s and read by whoever prints counts.
#[derive(Debug)]
pub struct System {
    pub(crate) geometry: Geometry,
    pub(crate) layout: Layout,
    pub(crate) memory: NodeMap,
    pub(crate) distances: Distances,
    pub(crate) shared: Shared,
    /// The last level of each CPU (requester side) or of each node (home side), by CPU.
    pub(crate) last_level_of_cpu: Vec<u16>,
    /// The node of each last level.
    pub(crate) node_of_last_level: Vec<u16>,
    pub(crate) private: Vec<PrivateTags>,
    pub(crate) meters: Vec<Arc<Meter>>,
    pub(crate) queues: Queues,
    pub(crate) sets: Sets,
    pub(crate) contended: Contended,
    taken: Vec<AtomicBool>,
}

/// Sets of which a sample is at least: its error is told by how they differ.
const SETS_MIN: u32 = 4;

/// Which sets of the caches are modelled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    pub(crate) one_in: u32,
    /// A bit for each line modulo the number of lines that all caches tell apart.
    modelled: u64,
    mask: u64,
}

impl Sets {
    /// Which of them a line is of.
    pub(crate) fn of(self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    /// What an access to a line stands for, which may be modelled in every set.
    #[inline]
    pub(crate) fn sample(self, line: u64, is_everywhere: bool) -> Sample {
        let weight = if self.are_modelled(line) { self.one_in } else { 0 };
        Sample { of_set: weight, weight, is_everywhere }
    }

    pub(crate) fn number(self) -> usize {
        self.mask as usize + 1
    }

    #[inline]
    pub(crate) fn are_modelled(self, line: u64) -> bool {
        self.modelled >> (line & self.mask) & 1 != 0
    }
}

/// Pieces of 16 bytes of a page at which an access may begin that reaches a modelled line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near([u64; 4]);

impl Near {
    pub(crate) fn new(sets: Sets, line_shift: u32) -> Self {
        let mut near = [0; 4];
        for piece in 0..256_u64 {
            let reaches = |at: u64| sets.are_modelled((piece * 16 + at) >> line_shift);
            if reaches(0) || reaches(30) {
                near[piece as usize / 64] |= 1 << (piece % 64);
            }
        }
        Self(near)
    }

    #[inline]
    pub(crate) fn has(&self, vaddr: u64) -> bool {
        self.0[(vaddr >> 10) as usize % 4] >> (vaddr >> 4 & 63) & 1 != 0
    }
}

/// The lines in a CPU's own caches, as other CPUs take them away.
#[derive(Clone, Debug)]
pub(crate) struct PrivateTags {
    pub(crate) l1i: Tags,
    pub(crate) l1d: Tags,
    pub(crate) l2: Option<Tags>,
}

/// Why a machine cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The geometry is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The layout is impossible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Sets cannot be sampled like that.
    #[error(
        "1 in {one_in} sets cannot be modelled: of the {nr_sets} that all caches tell apart {SETS_MIN} or more \
         have to be, or nobody knows how far off it is; use a power of two up to {}",
        (.nr_sets / SETS_MIN).max(1)
    )]
    Sets {
        /// What was asked for.
        one_in: u32,
        /// What there is.
        nr_sets: u32,
    },
}

impl System {
    /// A machine with nothing in its caches.
    ///
    /// # Errors
    /// The geometry or the layout is impossible, or they do not fit.
    pub fn new(geometry: Geometry, layout: Layout) -> Result<Arc<Self>, SystemError> {
        Self::new_sampled(geometry, layout, 1)
    }

    /// The same, of which one in so many sets of every cache is modelled; TLBs are whole. Counts are
    /// estimates: [`Snapshot::q_standard_error`](crate::Snapshot::q_standard_error) says how good.
    ///
    /// # Errors
    /// As [`new`](Self::new), or the caches have too few sets.
    pub fn new_sampled(
        geometry: Geometry,
        layout: Layout,
        sets_one_in: u32,
    ) -> Result<Arc<Self>, SystemError> {
        geometry.check()?;
        let sets = sets(&geometry, sets_one_in)?;
        layout.check()?;
        if let Topology::Matrix { hops } = &geometry.topology
            && hops.len() != layout.nr_nodes
        {
            let (topology, nodes) = (hops.len(), layout.nr_nodes);
            return Err(LayoutError::Topology { topology, nodes }.into());
        }
        let (last_level_of_cpu, node_of_last_level) = last_levels(&geometry, &layout);
        let distances = Distances::new(&geometry.topology, layout.nr_nodes);
        let nr_cpus = layout.node_of_cpu.len();
        Ok(Arc::new(Self {
            memory: NodeMap::new(&layout.memory)?,
            shared: Shared::new(&geometry, node_of_last_level.len()),
            private: (0..nr_cpus).map(|_| PrivateTags::new(&geometry)).collect(),
            meters: (0..nr_cpus).map(|_| Arc::new(Meter::new(layout.nr_nodes))).collect(),
            queues: Queues::new(&geometry, &layout, &distances, node_of_last_level.len()),
            taken: (0..nr_cpus).map(|_| AtomicBool::new(false)).collect(),
            sets,
            contended: Contended::new(),
            distances,
            last_level_of_cpu,
            node_of_last_level,
            geometry,
            layout,
        }))
    }

    /// A CPU, to be fed by one thread at a time; `None` if there is no such CPU or it was given out
    /// before (its caches are one thread's).
    #[must_use]
    pub fn cpu(self: &Arc<Self>, cpu: usize) -> Option<Cpu> {
        let is_taken = self.taken.get(cpu)?.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| Cpu::new(self, cpu))
    }

    /// Whether the set of an address is modelled.
    #[must_use]
    pub fn models(&self, address: u64) -> bool {
        self.sets.are_modelled(address >> self.geometry.line_shift())
    }

    /// What was asked for.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What was asked for.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Hops between two nodes.
    #[must_use]
    pub fn hops(&self, from: u16, to: u16) -> u16 {
        self.distances.hops(from, to)
    }

    /// Instructions executed so far on an owner's account, by all CPUs.
    #[must_use]
    pub fn instructions(&self, owner: Owner) -> u64 {
        self.meters.iter().map(|meter| meter.event(owner as usize, Event::Instructions)).sum()
    }

    /// Bytes of host memory that last levels, directory and counters take now; the directory and the
    /// counters grow as they are used. [`Cpu::nr_bytes`] adds what each CPU takes.
    #[must_use]
    pub fn nr_bytes(&self) -> usize {
        let meters: usize = self.meters.iter().map(|meter| meter.nr_bytes()).sum();
        self.shared.nr_bytes() + meters + self.contended.nr_bytes()
    }

    pub(crate) fn node_of_cpu(&self, cpu: u16) -> u16 {
        self.layout.node_of_cpu[usize::from(cpu)]
    }

    pub(crate) fn home_of_line(&self, line: u64) -> Option<u16> {
        self.memory.node(line << self.geometry.line_shift())
    }

    /// The last level that a CPU asks for a line of a home.
    pub(crate) fn last_level_for(&self, cpu: u16, home: u16) -> u16 {
        match self.geometry.last_level.side {
            Side::Home => home,
            Side::Requester => self.last_level_of_cpu[usize::from(cpu)],
        }
    }
}

impl PrivateTags {
    fn new(geometry: &Geometry) -> Self {
        let tags = |bytes, ways| Tags::new(geometry.sets(bytes, ways), ways);
        Self {
            l1i: tags(geometry.l1i.bytes, geometry.l1i.ways),
            l1d: tags(geometry.l1d.bytes, geometry.l1d.ways),
            l2: geometry.l2.map(|l2| tags(l2.bytes, l2.ways)),
        }
    }
}

fn sets(geometry: &Geometry, one_in: u32) -> Result<Sets, SystemError> {
    let first = [(geometry.l1i.bytes, geometry.l1i.ways), (geometry.l1d.bytes, geometry.l1d.ways)];
    let l2 = geometry.l2.map(|l2| (l2.bytes, l2.ways));
    let last = (geometry.last_level.bytes, geometry.last_level.ways);
    let bits = first.into_iter().chain(l2).chain([last]);
    // A set of a cache is modelled or is not: what counts is the power of two in the number of sets.
    let bits = bits.map(|(bytes, ways)| geometry.sets(bytes, ways).trailing_zeros()).min();
    // Which set an address is of has to be known before it is translated.
    let within_page = 12_u32.saturating_sub(geometry.line_shift());
    let nr_sets = 1_u32 << bits.unwrap_or(0).min(u64::BITS.trailing_zeros()).min(within_page);
    let is_known = one_in == 1 || nr_sets / one_in.max(1) >= SETS_MIN;
    if !one_in.is_power_of_two() || !is_known {
        return Err(SystemError::Sets { one_in, nr_sets });
    }
    let modelled = modelled_sets(nr_sets, one_in);
    Ok(Sets { one_in, modelled, mask: u64::from(nr_sets) - 1 })
}

/// The last level of each CPU and the node of each last level.
fn last_levels(geometry: &Geometry, layout: &Layout) -> (Vec<u16>, Vec<u16>) {
    if geometry.last_level.side == Side::Home {
        let nodes = (0..layout.nr_nodes as u16).collect();
        return (layout.node_of_cpu.clone(), nodes);
    }
    let cpus = geometry.last_level.cpus.map_or(usize::MAX, |cpus| cpus as usize);
    let mut node_of_last_level: Vec<u16> = Vec::new();
    // The last level that each node is filling, and how many CPUs it has.
    let mut filling: Vec<Option<(u16, usize)>> = vec![None; layout.nr_nodes];
    let mut last_level_of = |node: u16| {
        let filling = &mut filling[usize::from(node)];
        let (cache, nr_cpus) = match *filling {
            Some((cache, nr_cpus)) if nr_cpus < cpus => (cache, nr_cpus),
            _ => {
                node_of_last_level.push(node);
                (node_of_last_level.len() as u16 - 1, 0)
            }
        };
        *filling = Some((cache, nr_cpus + 1));
        cache
    };
    let of_cpu = layout.node_of_cpu.iter().map(|&node| last_level_of(node)).collect();
    (of_cpu, node_of_last_level)
}
