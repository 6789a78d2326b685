//! `libquartier`: the decision tree for C programs. `include/libquartier.h` documents every function;
//! here is only what it takes to get from C's types to the crate's and back.
//!
//! Nothing here panics on what a caller passes: a wrong pointer aside, bad values are refused.

mod handle;
mod place;
mod queries;

pub use handle::{quartier_tree_close, quartier_tree_is_shared, quartier_tree_open};
pub use place::{
    quartier_place_balance, quartier_place_exec, quartier_place_fork, quartier_place_pages,
    quartier_place_thread, quartier_release,
};
pub use queries::{
    quartier_free_pages_of_node, quartier_threads_on_cpu, quartier_threads_on_node,
    quartier_usage_of_cpu, quartier_usage_of_node,
};
