//! The memory hierarchy of a NUMA machine, fed with every memory access of every CPU, and every memory
//! command that leaves its node, counted (thesis 5.3.4).
//!
//! A [`System`] is a machine: a [`Geometry`](geometry::Geometry) (caches, TLBs, distances, costs) and a
//! [`Layout`] (nodes, CPUs, which memory is whose). Each [`Cpu`] of it is fed by one thread, all of them
//! at once if need be; [`System::snapshot`] may be taken meanwhile, and the difference of two is a phase.
//!
//! ```
//! use quartier_memmodel::geometry::Preset;
//! use quartier_memmodel::{Access, Kind, Layout, Mode, Owner, PageSize, System, Translation};
//!
//! // Four nodes of two CPUs and 1 GiB each.
//! let system = System::new(Preset::Tsar.geometry(), Layout::uniform(4, 2, 1 << 30))?;
//! let mut cpu = system.cpu(0).expect("CPU 0 is nobody's yet");
//! cpu.attribute(Some(Owner::Program));
//! // A page of node 2 whose table entry lies on node 1.
//! let mut walker = |vaddr: u64| {
//!     Some(Translation::new((2 << 30) + (vaddr & !0xfff), PageSize::Small).reading(1 << 30))
//! };
//! cpu.data(0x1234, 8, Access::Load, Mode::User, &mut walker);
//!
//! let counts = system.snapshot().program;
//! assert_eq!(counts.commands(Kind::Read, None).remote, 1);
//! assert_eq!(counts.commands(Kind::DataTlb, None).remote, 1);
//! assert_eq!(counts.q_mib(system.geometry()), 128.0 / 1048576.0);
//! # Ok::<(), quartier_memmodel::SystemError>(())
//! ```
//!
//! # Commands
//!
//! A command is a request that leaves a CPU's caches for a memory, or for a cache that had written the
//! line. With last levels on the *home* side (TSAR) that is every miss of the private caches; on the
//! *requester* side (servers), every miss of the last level, and every write for which copies
//! elsewhere have to go. Commands of a node to itself are counted too, apart.
//!
//! | kind | when | moves |
//! |---|---|---|
//! | RD, INST | a load or fetch misses | a line |
//! | DTLB, ITLB | a table entry that a walk reads misses | a line |
//! | WR, written through | every store | a word |
//! | WR, written back | a store that misses; a dirty line that goes home | a line |
//! | LL/SC, written through | every atomic, twice: LL, SC | a word each |
//! | LL/SC, written back | an atomic that misses | a line |
//! | WR, LL/SC, written back | the writer has the line and others have it too | a word |
//!
//! Q is the bytes of those that leave their node: thesis 5.3.4 with its 64 and 4, and in a machine that
//! writes back with the lines that writes move. The thesis counts a WR of one to four words as one
//! word; so does this, and an access of up to a line is one WR (TSAR would send 16 bytes each). A
//! write-back is of the class of the access that evicts.
//!
//! # Concurrency
//!
//! A hit takes no lock, allocates nothing, and writes only what its CPU alone writes. Whatever goes past
//! the private caches is one step under the lock of one shard of up to 1024 (by the line's low bits). A
//! writer takes lines out of other CPUs' caches itself, under that lock; so coherence is exact in
//! parallel runs too ([`System::audit`] says so), and what differs from run to run is the order in
//! which accesses come. From one thread, the same accesses give the same counts and modelled cycles.
//! A lock is never held while anything of the caller's runs.
//!
//! # Memory
//!
//! Per CPU, 8 bytes for each line of its caches and 8 for each set, 32 for each TLB entry, and 48 for each
//! node of the machine: 17 KiB and 48 per node for TSAR, 370 KiB for a server's CPU (2 MiB of L2);
//! counters, 16 bytes per node and 320 for each node that it has sent a command to. Per last level, 8 bytes
//! for each line and set. The directory, 16 to 48 bytes for each line that some private cache (requester
//! side: or last level) holds, and 2 to 4 for each holder beyond four: holders are exact, for
//! any number of CPUs. [`System::nr_bytes`] and [`Cpu::nr_bytes`] measure it.
//!
//! # What is not modelled
//!
//! Prefetching; speculation; write combining; paging-structure caches (upper table levels hit in the
//! cache that walks enter instead); the bits that a walk sets in table entries; TSAR's updates of up to
//! three copies (here every write invalidates, so sharing costs more RD); hardware coherence of TLBs
//! (flushes are the guest's own, as on x86); replacement other than least recently used; hashing of
//! addresses to sets.
#![forbid(unsafe_code)]

mod address;
mod audit;
mod contended;
mod cost;
mod cpu;
mod directory;
mod distance;
pub mod geometry;
mod kinds;
mod meter;
mod protocol;
mod sample;
mod shared;
mod snapshot;
mod system;
mod tags;
mod tlb;

pub use address::{Layout, LayoutError, MemoryRange, PageSize, TABLE_READS_MAX, Translation, Walk};
pub use cost::PeakUtilisation;
pub use cpu::{Asid, Cpu, Handover};
pub use kinds::{Access, Class, Kind, Mode, Owner, Totals};
pub use snapshot::{Counts, CpuCounts, Pair, Snapshot, Split};
pub use system::{System, SystemError};
