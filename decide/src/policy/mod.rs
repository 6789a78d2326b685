//! Placement policies, one file each; what they share is the walk over the tree.

pub mod thread;
mod walk;
