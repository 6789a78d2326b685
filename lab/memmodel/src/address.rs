//! Addresses: which node a physical one belongs to, and how a virtual one is translated.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::geometry::{CPUS_MAX, NODES_MAX};

/// Table entries that the longest walk reads: five levels.
pub const TABLE_READS_MAX: usize = 5;

/// A page's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
    /// 1 GiB; TLBs hold it as pages of 2 MiB.
    Giant,
}

impl PageSize {
    /// Bits of an address within the page.
    #[must_use]
    pub fn shift(self) -> u32 {
        match self {
            Self::Small => 12,
            Self::Huge => 21,
            Self::Giant => 30,
        }
    }
}

/// What a walk of the page tables found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Physical address of the page's first byte.
    pub page: u64,
    /// The page's size.
    pub size: PageSize,
    /// Valid in every address space (the kernel's pages): kept when spaces are switched.
    pub global: bool,
    reads: [u64; TABLE_READS_MAX],
    nr_reads: u8,
}

impl Translation {
    /// A translation that no table was read for.
    #[must_use]
    pub fn new(page: u64, size: PageSize) -> Self {
        Self { page, size, global: false, reads: [0; TABLE_READS_MAX], nr_reads: 0 }
    }

    /// The same, valid in every address space.
    #[must_use]
    pub fn global(self) -> Self {
        Self { global: true, ..self }
    }

    /// Notes the physical address of a table entry that was read; the root's first. Beyond
    /// [`TABLE_READS_MAX`] they are dropped.
    #[must_use]
    pub fn reading(mut self, entry: u64) -> Self {
        if let Some(read) = self.reads.get_mut(usize::from(self.nr_reads)) {
            *read = entry;
            self.nr_reads += 1;
        }
        self
    }

    /// Physical addresses of the entries read, in order.
    #[must_use]
    pub fn reads(&self) -> &[u64] {
        &self.reads[..usize::from(self.nr_reads)]
    }
}

/// Who walks the page tables, on a TLB miss only.
pub trait Walk {
    /// Translates an address; `None` where nothing is mapped (the access is dropped and counted as
    /// untranslated).
    fn walk(&mut self, vaddr: u64) -> Option<Translation>;
}

impl<F: FnMut(u64) -> Option<Translation>> Walk for F {
    fn walk(&mut self, vaddr: u64) -> Option<Translation> {
        self(vaddr)
    }
}

/// Physical memory of a node; the end is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRange {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// The node it belongs to.
    pub node: u16,
}

/// How many nodes and CPUs a machine has, and which memory is whose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Nodes; memory-less and CPU-less ones count.
    pub nr_nodes: usize,
    /// The node of each CPU.
    pub node_of_cpu: Vec<u16>,
    /// Memory of the nodes. What is in none is a device.
    pub memory: Vec<MemoryRange>,
}

/// Why a layout was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// Too many or too few.
    #[error(
        "a machine of {nodes} nodes and {cpus} CPUs cannot be modelled: 1 to {NODES_MAX} nodes and 1 to \
         {CPUS_MAX} CPUs can"
    )]
    Size {
        /// Nodes asked for.
        nodes: usize,
        /// CPUs asked for.
        cpus: usize,
    },
    /// A CPU or a range names a node that is not there.
    #[error("{what} is on node {node}, but there are {nodes}: number nodes from 0")]
    Node {
        /// CPU or range.
        what: String,
        /// The node named.
        node: u16,
        /// How many there are.
        nodes: usize,
    },
    /// A range is empty or overlaps another.
    #[error(
        "memory {start:#x} to {end:#x} is empty or overlaps another range: give each address once"
    )]
    Range {
        /// First address.
        start: u64,
        /// Address after the last.
        end: u64,
    },
    /// The topology has another number of nodes.
    #[error(
        "the topology has {topology} nodes and the machine {nodes}: use a geometry made for it"
    )]
    Topology {
        /// Nodes of the matrix.
        topology: usize,
        /// Nodes of the layout.
        nodes: usize,
    },
}

impl Layout {
    /// Nodes of as many CPUs and bytes each, memory one after the other from 0.
    #[must_use]
    pub fn uniform(nr_nodes: u16, cpus_per_node: usize, node_bytes: u64) -> Self {
        let range = |node: u16| {
            let start = u64::from(node) * node_bytes;
            MemoryRange { start, end: start + node_bytes, node }
        };
        Self {
            nr_nodes: usize::from(nr_nodes),
            node_of_cpu: (0..nr_nodes).flat_map(|node| vec![node; cpus_per_node]).collect(),
            memory: (0..nr_nodes).map(range).collect(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        let (nodes, cpus) = (self.nr_nodes, self.node_of_cpu.len());
        if !(1..=NODES_MAX).contains(&nodes) || !(1..=CPUS_MAX).contains(&cpus) {
            return Err(LayoutError::Size { nodes, cpus });
        }
        let on_node = |what: String, node: u16| {
            if usize::from(node) < nodes {
                Ok(())
            } else {
                Err(LayoutError::Node { what, node, nodes })
            }
        };
        for (cpu, &node) in self.node_of_cpu.iter().enumerate() {
            on_node(format!("CPU {cpu}"), node)?;
        }
        for range in &self.memory {
            on_node(format!("memory at {:#x}", range.start), range.node)?;
        }
        NodeMap::new(&self.memory).map(|_| ())
    }
}

/// Physical addresses to nodes.
#[derive(Debug)]
pub(crate) struct NodeMap {
    /// By start; no two overlap.
    ranges: Vec<MemoryRange>,
}

impl NodeMap {
    pub(crate) fn new(ranges: &[MemoryRange]) -> Result<Self, LayoutError> {
        let mut ranges = ranges.to_vec();
        ranges.sort_by_key(|range| range.start);
        for (at, &MemoryRange { start, end, .. }) in ranges.iter().enumerate() {
            let overlaps = ranges.get(at + 1).is_some_and(|next| next.start < end);
            if start >= end || overlaps {
                return Err(LayoutError::Range { start, end });
            }
        }
        Ok(Self { ranges })
    }

    /// The node of an address; `None` for a device.
    pub(crate) fn node(&self, paddr: u64) -> Option<u16> {
        let after = self.ranges.partition_point(|range| range.start <= paddr);
        let range = &self.ranges[after.checked_sub(1)?];
        (paddr < range.end).then_some(range.node)
    }
}
