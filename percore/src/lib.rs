//! Parts for programs that must go on scaling: what the study "An Analysis of Linux Scalability to Many Cores"
//! (OSDI 2010) put in the place of one contended cache line, and what ALMOS does instead of
//! touching another node's memory.
//!
//! | instead of | use | from |
//! |---|---|---|
//! | one atomic counter | [`SloppyCounter`] | the study's sloppy counters |
//! | a table behind a lock | [`PerCpuTable`] | the study's per-core mount table |
//! | one free list | [`FreeList`], or [`ShardedList`] where all that rests must be found | magazines |
//! | a spinlock | [`lock`]: ticket, MCS, and CNA, which stays within a node | |
//! | touching another node's memory | [`events`]: run a function there | the thesis's events (4.2.3) |
//!
//! Each says its bounds, its memory, and when it loses. `docs/percore.md` compares them with what others
//! offer; `include/quartier_percore.h` has them for C.

#[cfg(not(loom))]
mod capi;
mod counter;
pub mod cpu;
pub mod events;
mod free_list;
pub mod lock;
mod per_cpu;
#[cfg(all(test, not(loom)))]
mod property;
mod sharded_list;
mod sync;
mod table;

pub use counter::SloppyCounter;
pub use free_list::FreeList;
pub use sharded_list::ShardedList;
pub use table::PerCpuTable;
