//! What a machine's memory hierarchy is made of, as read from a file.
//!
//! A file is TOML, so that the source of each value can stand beside it; a [`Geometry`] is serialised
//! with every report, as the modelled cycles mean nothing without it. Two files are built in, see
//! [`Preset`]; what makes no machine is refused by [`Geometry::check`].

mod check;
mod preset;

use serde::{Deserialize, Serialize};

pub use check::{CPUS_MAX, GeometryError, NODES_MAX};
pub use preset::Preset;

/// A machine's memory hierarchy, without how many nodes and CPUs there are: see
/// [`Layout`](crate::Layout).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// What the machine is called in outputs.
    pub name: String,
    /// Bytes of a cache line: what RD, INST, DTLB and ITLB commands move.
    pub line_bytes: u32,
    /// Bytes that a command moves which moves no line: a store written through, LL, SC (thesis 5.3.4:
    /// 4), and a request for ownership of a line that the writer already has.
    pub word_bytes: u32,
    /// First-level instruction cache of each CPU.
    pub l1i: Cache,
    /// First-level data cache of each CPU.
    pub l1d: DataCache,
    /// Second-level cache of each CPU, for code and data; it includes both first levels.
    pub l2: Option<Cache>,
    /// Instruction TLB of each CPU.
    pub itlb: Tlb,
    /// Data TLB of each CPU.
    pub dtlb: Tlb,
    /// Second-level TLB of each CPU, for code and data and both page sizes. An entry found there is
    /// no walk and no command.
    pub second_tlb: Option<TlbEntries>,
    /// Where the reads of a table walk enter the caches.
    pub walks_enter: WalksEnter,
    /// The last level, which CPUs share.
    pub last_level: LastLevel,
    /// How far nodes are from each other.
    pub topology: Topology,
    /// What the modelled cycles are made of.
    pub cost: Cost,
}

/// A cache's size; sets = bytes / (ways × line).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Bytes of data that fit in.
    pub bytes: u64,
    /// Lines per set, replaced least recently used first.
    pub ways: u32,
}

/// A data cache's size and what it does with stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCache {
    /// Bytes of data that fit in.
    pub bytes: u64,
    /// Lines per set, replaced least recently used first.
    pub ways: u32,
    /// What a store does.
    pub write: WritePolicy,
}

/// What a store does in the first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// Every store is a WR command of one word; a line is never fetched for a store.
    Through,
    /// A store needs the line as its only holder (MESI) and stays; the line leaves when it is evicted.
    Back,
}

/// A first-level TLB. Pages of 1 GiB take an entry of 2 MiB for each 2 MiB that are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries for pages of 4 KiB.
    pub entries: u32,
    /// Entries per set; as many as entries: fully associative.
    pub ways: u32,
    /// Entries for pages of 2 MiB; absent: they share those for 4 KiB.
    pub huge: Option<TlbEntries>,
}

/// A number of TLB entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbEntries {
    /// Entries.
    pub entries: u32,
    /// Entries per set.
    pub ways: u32,
}

/// Where the reads of a table walk enter the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalksEnter {
    /// Through the first-level data cache.
    L1d,
    /// Through the second level, past the first.
    L2,
    /// At the shared level: every read of a walk leaves the CPU.
    LastLevel,
}

/// The shared level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastLevel {
    /// Bytes of data that fit in each.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Whose memory it caches.
    pub side: Side,
    /// How lines come and go.
    pub fill: Fill,
    /// CPUs that share one, at most (requester side only); absent: all of a node.
    pub cpus: Option<u32>,
}

/// Whose memory a last level caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The memory of its own node, for everybody (TSAR's memory cache): whatever misses in a CPU's
    /// caches is a command to the home of the address.
    Home,
    /// Whatever its own CPUs use, from any node (a server's L3): a command only where it misses.
    Requester,
}

/// How lines come into the last level and leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Filled on a miss; what leaves it leaves the CPUs' caches too.
    Inclusive,
    /// Filled on a miss; what leaves it may stay with the CPUs.
    NonInclusive,
    /// Filled with what CPUs evict (requester side only); a hit leaves the line where it is.
    Victim,
}

/// How far nodes are from each other, in hops, and which links are between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Nodes in rows; commands go along the row first, then along the column (X-first).
    Mesh {
        /// Nodes per row; absent: the smallest square that holds all.
        columns: Option<u32>,
    },
    /// Sockets that are all linked with each other.
    Sockets {
        /// Nodes per socket.
        nodes_per_socket: u32,
        /// Hops between nodes of one socket; they use no link.
        hops_within: u16,
        /// Hops between nodes of different sockets.
        hops_between: u16,
    },
    /// Hops for each pair; each pair has a link of its own.
    Matrix {
        /// From each node (row) to each node.
        hops: Vec<Vec<u16>>,
    },
}

/// What modelled cycles are made of. Cycles are the CPU's; latencies are without queueing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// MHz, to turn cycles into seconds.
    pub frequency_mhz: u32,
    /// Cycles of an instruction whose accesses all hit in the first level.
    pub cycles_per_instruction: f64,
    /// Cycles of a hit in the second-level TLB.
    pub second_tlb_cycles: u32,
    /// Cycles of a hit in the second-level cache.
    pub l2_cycles: u32,
    /// Cycles of a hit in a last level of the same node.
    pub last_level_cycles: u32,
    /// Cycles that memory adds to a miss in the last level.
    pub memory_cycles: u32,
    /// Cycles that each hop adds, there and back.
    pub hop_cycles: u32,
    /// Reads that a CPU waits for at once: a read stalls it for the latency divided by this.
    pub reads_in_flight: u32,
    /// Stores and write-backs that a CPU has under way before it waits.
    pub writes_in_flight: u32,
    /// Cycles that a last level is busy with one command.
    pub last_level_service_cycles: f64,
    /// Bytes that the memory of a node delivers in a cycle.
    pub memory_bytes_per_cycle: f64,
    /// Bytes that a link carries in a cycle, in each direction.
    pub link_bytes_per_cycle: f64,
    /// Length of the windows in which utilisation is measured, cycles.
    pub window_cycles: u64,
    /// Utilisation that queues are computed up to; a resource asked for more slows its users down to
    /// this.
    pub utilisation_max: f64,
}

impl Geometry {
    /// Reads a geometry and checks it.
    ///
    /// # Errors
    /// The text is no TOML, has fields missing or unknown, or describes no possible machine.
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        let geometry: Self =
            toml::from_str(text).map_err(|error| GeometryError::Format(Box::new(error)))?;
        geometry.check()?;
        Ok(geometry)
    }

    /// The same from the bytes of a file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or the bytes are no UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GeometryError> {
        Self::parse(std::str::from_utf8(bytes).map_err(|_| GeometryError::NoText)?)
    }

    /// As [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers, words and tables, which TOML has")
    }

    /// The same machine with as many CPUs to a node, each with its share of what a node's CPUs share: the
    /// last level, and what it, the memory and the links carry in a cycle.
    ///
    /// A guest has few CPUs per node and a program's data are small to match; in the last level of a
    /// whole socket they would all fit, and its memory would never be busy. So the guest's CPUs stand for a
    /// socket whose CPUs all do as they do. Only where `last_level.cpus` says how many share it, and as far
    /// as sets are whole.
    #[must_use]
    pub fn scaled_to(mut self, cpus_per_node: u32) -> Self {
        let last = &mut self.last_level;
        let cpus_left = cpus_per_node.max(1);
        if let Some(cpus) = last.cpus.filter(|&cpus| cpus > cpus_left) {
            let way_bytes = u64::from(last.ways) * u64::from(self.line_bytes);
            let share_bytes = last.bytes / u64::from(cpus) * u64::from(cpus_left);
            last.bytes = (share_bytes / way_bytes).max(1) * way_bytes;
            last.cpus = Some(cpus_left);
            let share = f64::from(cpus_left) / f64::from(cpus);
            self.cost.last_level_service_cycles /= share;
            self.cost.memory_bytes_per_cycle *= share;
            self.cost.link_bytes_per_cycle *= share;
        }
        self
    }

    /// The number of bits that a line's number leaves out of an address.
    pub(crate) fn line_shift(&self) -> u32 {
        self.line_bytes.trailing_zeros()
    }

    /// Sets of a cache of this line size.
    pub(crate) fn sets(&self, bytes: u64, ways: u32) -> usize {
        (bytes / (u64::from(ways) * u64::from(self.line_bytes))) as usize
    }
}
