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

mod allowed;
mod build;
mod estimates;
mod grouping;
mod tree;

pub use allowed::Allowed;
pub use estimates::{Estimates, EstimatesError, Load};
pub use tree::{Cluster, ClusterId, FANOUT_MAX, LEVELS_MAX, Tree};
