//! The words of a count: kinds of command, classes of access, events of a CPU.

use serde::{Deserialize, Serialize};

/// What a command is for (thesis 5.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A line read for a load.
    #[serde(rename = "RD")]
    Read,
    /// A line read for an instruction.
    #[serde(rename = "INST")]
    Instruction,
    /// A line read by a walk for data.
    #[serde(rename = "DTLB")]
    DataTlb,
    /// A line read by a walk for an instruction.
    #[serde(rename = "ITLB")]
    InstructionTlb,
    /// A store that leaves: written through, a line fetched or owned for it, or a line written back.
    #[serde(rename = "WR")]
    Write,
    /// An atomic operation that leaves: LL and SC are two where stores are written through, one line
    /// fetched or owned where they are written back.
    #[serde(rename = "LL/SC")]
    Atomic,
}

impl Kind {
    /// All of them, in the order of every array.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Instruction,
        Self::DataTlb,
        Self::InstructionTlb,
        Self::Write,
        Self::Atomic,
    ];

    /// As the thesis writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["RD", "INST", "DTLB", "ITLB", "WR", "LL/SC"][self as usize]
    }

    /// Whether it always moves a line (the others move one in a machine that writes back).
    pub(crate) fn is_read(self) -> bool {
        !matches!(self, Self::Write | Self::Atomic)
    }
}

/// Whose access it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A program's.
    User,
    /// The kernel's.
    Kernel,
    /// A read of a table walk, for either.
    Walk,
}

impl Class {
    /// All of them, in the order of every array.
    pub const ALL: [Self; 3] = [Self::User, Self::Kernel, Self::Walk];
}

/// Who an instruction is executed for, as commands of walks are classed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A program.
    User,
    /// The kernel.
    Kernel,
}

impl Mode {
    pub(crate) fn class(self) -> Class {
        match self {
            Self::User => Class::User,
            Self::Kernel => Class::Kernel,
        }
    }
}

/// What a data access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes at once, or LL and SC.
    Atomic,
}

/// On whose account counts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The program that is measured.
    Program,
    /// Everything else.
    Rest,
}

impl Owner {
    /// Both, in the order of every array.
    pub const ALL: [Self; 2] = [Self::Program, Self::Rest];
}

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident $field:ident,)*) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Event { $($event),* }

        pub(crate) const NR_EVENTS: usize = [$(Event::$event),*].len();

        /// What a CPU did. Accesses are counted per line: one that crosses a line's end is two.
        ///
        /// Every miss is served once: `l1i_misses + l1d_read_misses + l1d_write_misses +
        /// table_misses` is what [`served`](Self::served) gives.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Totals { $($(#[$doc])* pub $field: u64),* }

        impl Totals {
            pub(crate) fn from_array(array: [u64; NR_EVENTS]) -> Self {
                Self { $($field: array[Event::$event as usize]),* }
            }

            pub(crate) fn combine(&self, other: &Self, f: impl Fn(u64, u64) -> Option<u64>) -> Option<Self> {
                Some(Self { $($field: f(self.$field, other.$field)?),* })
            }
        }
    };
}

events! {
    /// Instructions retired.
    Instructions instructions,
    /// Instruction lines fetched.
    Fetches fetches,
    /// Data lines accessed.
    DataAccesses data_accesses,
    /// Fetches that missed in the first level.
    L1iMisses l1i_misses,
    /// Loads that missed in the first level.
    L1dReadMisses l1d_read_misses,
    /// Stores and atomics that missed in the first level, where they are written back.
    L1dWriteMisses l1d_write_misses,
    /// Translations of fetches that missed in the first-level TLB.
    ItlbMisses itlb_misses,
    /// Translations of data that missed in the first-level TLB.
    DtlbMisses dtlb_misses,
    /// Of both: those found in the second-level TLB.
    SecondTlbHits second_tlb_hits,
    /// Walks for fetches.
    ItlbWalks itlb_walks,
    /// Walks for data.
    DtlbWalks dtlb_walks,
    /// Table entries read by walks.
    TableReads table_reads,
    /// Of them, those that missed in the private cache that they enter.
    TableMisses table_misses,
    /// Accesses of addresses that nothing is mapped to; they are dropped.
    Untranslated untranslated,
    /// Accesses of device memory; neither misses nor commands.
    DeviceAccesses device_accesses,
    /// Misses of the first level served by the second.
    L2Hits l2_hits,
    /// Requests served by a last level.
    LastLevelHits last_level_hits,
    /// Requests served by another CPU of the same last level.
    PeerHits peer_hits,
    /// Requests served by a cache elsewhere that had written the line.
    OwnerHits owner_hits,
    /// Requests served by memory.
    MemoryReads memory_reads,
    /// Stores and atomics (LL and SC once) written through.
    StoresThrough stores_through,
    /// Stores and atomics that had the line and asked to own it.
    Upgrades upgrades,
    /// Lines written back to their home by this CPU's evictions or its last level's.
    WriteBacks write_backs,
    /// Copies in other caches that this CPU's writes took away.
    Invalidations invalidations,
    /// Modelled stalls, thousandths of a cycle.
    ModelledStallMillicycles modelled_stall_millicycles,
}

impl Totals {
    /// Misses of the first level by what served them, summed up. Stores written through and upgrades
    /// are none: nothing is brought to the CPU.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.l2_hits + self.last_level_hits + self.peer_hits + self.owner_hits + self.memory_reads
    }

    /// Accesses that hit in the first-level data cache.
    #[must_use]
    pub fn l1d_hits(&self) -> u64 {
        let missed = self.l1d_read_misses + self.l1d_write_misses;
        self.data_accesses.saturating_sub(missed + self.device_accesses)
    }
}
