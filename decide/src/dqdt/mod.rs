//! The distributed quaternary decision tree (DQDT) of ALMOS, thesis 4.3.1.
//!
//! The leaves are clusters of at most four CPUs; every other cluster groups at most four clusters
//! that are near each other. The topology of a [`Tree`] never changes; what changes are the
//! [`Estimates`] of its clusters, which live in memory the caller provides.
//!
//! Where real machines differ from the thesis's mesh of four-CPU nodes:
//! - A node with more CPUs, or several last-level caches, has levels inside it.
//! - Nodes are grouped by their distances, not by coordinates, so depths may differ.
//! - A node without CPUs is a leaf with N = 0; a node without memory is a leaf with M = 0.
//!
//! Who writes what: T is changed by whoever places a thread ([`Estimates::add_thread`], or
//! [`Ledger`] where a killed process must not leave its threads counted). U and M of a cluster have
//! one writer, a [`Refresher`].

mod allowed;
mod build;
mod compact;
mod encode;
mod estimates;
mod grouping;
mod layout;
mod ledger;
mod refresh;
mod tree;

pub use allowed::Allowed;
pub use encode::DecodeError;
pub use estimates::{Estimates, EstimatesError};
pub(crate) use layout::SUM;
pub use layout::{BLOCK_ORDERS, ENTRIES, FreeMemory, Resources, Threads, USAGE_PER_PERCENT, Usage};
pub use ledger::{
    Ledger, Life, Owner, Placed, Process, ProcessEntry, Record, RecordId, Sweeper, Swept,
};
pub use refresh::{EMA_TICKS, Refresher};
pub use tree::{Cluster, ClusterId, FANOUT_MAX, LEVELS_MAX, SLOTS_PER_GROUP, Tree};
