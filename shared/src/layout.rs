//! The layout of both files, fixed: little-endian, offsets in bytes from the start of the file.
//!
//! `tree`: [`TreeHeader`] (a page); the topology as `Tree::encode` writes it; from the next page
//! on, for each group of 64 clusters that describe one node, 64 × 320 bytes of U and M
//! (`dqdt::Resources`).
//!
//! `threads`: [`ThreadsHeader`] (a page); for each group 64 × 64 bytes of T (`dqdt::Threads`), a page;
//! the processes (16 bytes each); the records (8 bytes each).
//!
//! A group of clusters lies in memory of the node that it describes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use quartier_decide::dqdt::{
    Ledger, ProcessEntry, Record, Resources, SLOTS_PER_GROUP, Sweeper, Threads, Tree,
};

/// Raised whenever a reader of the last one would go wrong.
pub const VERSION: u32 = 1;

/// The first bytes of `tree`.
pub const TREE_MAGIC: [u8; 8] = *b"qrtrtree";

/// The first bytes of `threads`.
pub const THREADS_MAGIC: [u8; 8] = *b"qrtrthrd";

/// Everything that is placed on a node starts at a multiple of this.
pub const PAGE_BYTES: usize = 4096;

/// Processes of a ledger.
pub const NR_PROCESSES: usize = 4096;

/// The start of both files.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// [`TREE_MAGIC`] or [`THREADS_MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Zero.
    pub reserved: u32,
    /// The same random number in both files of a pair.
    pub pair: u64,
    /// The kernel's boot id: a tree of another machine, or of this one before, says nothing.
    pub boot_id: [u8; 16],
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

/// The start of `tree`.
#[repr(C)]
#[derive(Debug)]
pub struct TreeHeader {
    /// Which file this is.
    pub mark: Mark,
    /// Where the topology starts.
    pub topology_offset: u64,
    /// Its length in bytes.
    pub topology_bytes: u64,
    /// Its checksum (FNV-1a, 64 bits): against damage, not against malice.
    pub topology_checksum: u64,
    /// Where U and M start.
    pub resources_offset: u64,
    /// Entries of U and M.
    pub nr_slots: u64,
    /// Free pages above which a cluster has room for a new program, plus one; 0: not asked for.
    pub free_pages_min: u64,
    /// When U and M were last renewed, in nanoseconds of `CLOCK_BOOTTIME`; 0: never.
    refreshed_boot_ns: AtomicU64,
}

impl TreeHeader {
    pub(crate) fn set_refreshed(&self, boot_time: Duration) {
        let nanos = u64::try_from(boot_time.as_nanos()).unwrap_or(u64::MAX);
        self.refreshed_boot_ns.store(nanos, Relaxed);
    }

    pub(crate) fn refreshed(&self) -> Option<Duration> {
        let nanos = self.refreshed_boot_ns.load(Relaxed);
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }
}

/// The start of `threads`.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadsHeader {
    /// Which file this is.
    pub mark: Mark,
    /// Where T starts.
    pub threads_offset: u64,
    /// Entries of T.
    pub nr_slots: u64,
    /// Where the processes start.
    pub processes_offset: u64,
    /// How many there are.
    pub nr_processes: u64,
    /// Where the records start.
    pub records_offset: u64,
    /// How many there are.
    pub nr_records: u64,
    /// Who sweeps.
    pub sweeper: Sweeper,
}

/// Where everything lies for a tree.
pub(crate) struct Plan {
    pub topology: Vec<u8>,
    pub resources_offset: usize,
    pub tree_bytes: usize,
    pub processes_offset: usize,
    pub records_offset: usize,
    pub nr_records: usize,
    pub threads_bytes: usize,
    pub nr_slots: usize,
}

/// Bytes of one group of U and M.
pub(crate) const RESOURCES_GROUP_BYTES: usize = SLOTS_PER_GROUP * size_of::<Resources>();

/// Bytes of one group of T.
pub(crate) const THREADS_GROUP_BYTES: usize = SLOTS_PER_GROUP * size_of::<Threads>();

impl Plan {
    pub fn new(tree: &Tree) -> Self {
        let page = |bytes: usize| bytes.next_multiple_of(PAGE_BYTES);
        let nr_groups = tree.slot_groups().len();
        let topology = tree.encode();
        let resources_offset = page(PAGE_BYTES + topology.len());
        let processes_offset = PAGE_BYTES + nr_groups * THREADS_GROUP_BYTES;
        let records_offset = page(processes_offset + NR_PROCESSES * size_of::<ProcessEntry>());
        let nr_records = Ledger::nr_records(tree);
        Self {
            topology,
            resources_offset,
            tree_bytes: resources_offset + nr_groups * RESOURCES_GROUP_BYTES,
            processes_offset,
            records_offset,
            nr_records,
            threads_bytes: page(records_offset + nr_records * size_of::<Record>()),
            nr_slots: tree.nr_slots(),
        }
    }
}

/// FNV-1a with 64 bits (public domain; Fowler, Noll, Vo).
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
