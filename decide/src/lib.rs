//! Decisions: a [`Machine`](quartier_model::Machine) and estimates of its load in, a CPU out.
//!
//! Pure: no I/O, no clock, no ambient randomness, no `unsafe`. Everything is allocated when a
//! [`Tree`](dqdt::Tree) or an [`Allowed`](dqdt::Allowed) is built; a decision allocates nothing and
//! takes no lock, so it may run inside another program's `pthread_create`.
//!
//! ```
//! use quartier_decide::dqdt::{Allowed, Estimates, Tree};
//! use quartier_decide::policy::{Thread, decide_and_count};
//! use quartier_model::{CpuId, SyntheticSpec};
//!
//! let machine = SyntheticSpec::uniform(4, 2).machine()?;
//! let tree = Tree::build(&machine);
//! let threads = tree.new_threads(); // or a list in a shared mapping
//! let estimates = Estimates::new(&tree, &threads)?;
//! estimates.add_thread(CpuId(0)); // the thread that is about to create another
//!
//! let allowed = Allowed::all(&tree);
//! let request = Thread::new(Some(CpuId(0)), &allowed);
//! let decision = decide_and_count(&estimates, &request).expect("every CPU is allowed");
//! assert_eq!(decision.cpu, CpuId(1)); // idle, and on the creator's node
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod balancer;
pub mod dqdt;
pub mod policy;
pub mod reporter;
pub mod steer;
mod sync;
pub mod verdict;

pub use balancer::{Balancer, Seen, Wish};
