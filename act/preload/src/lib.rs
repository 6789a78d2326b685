//! The runtime inside a program that `quartier run` started: it places each thread before the thread
//! exists, and pulls pages to the thread that touches them (Auto-Next-Touch, thesis 4.4.3).
//!
//! This crate is the mechanism. `apps/runtime` joins it with the decision tree, in the library
//! that `LD_PRELOAD` names, and is the only place that does.
//!
//! # States of a process
//! *inert* (no session: every interposed function passes straight on) → *sequential* (one thread;
//! nothing of ours runs) → *parallel* (a second thread was asked for: data is marked, a helper
//! serves touches) → *sequential* again when the last other thread ends. `fork` starts the child at
//! *sequential*; `exec` starts over.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod affinity;
mod arena;
mod attributes;
mod children;
mod cores;
mod create;
mod device;
mod fork;
mod helper;
pub mod hooks;
mod maps;
mod own;
mod ranges;
mod real;
mod resident;
mod runtime;
mod seats;
mod share;
mod signals;
mod text;
mod threads;

pub use arena::Arena;
pub use device::from_launcher;
pub use runtime::{end, start};

use quartier_kernel::{mappings, pagemap, sys, uffd};
use quartier_session::{CpuBits, Session};

/// Where a thread is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// OS id of the CPU.
    pub cpu_os_id: u32,
    /// Logical id of its node.
    pub node_index: u32,
    /// OS id of its node.
    pub node_os_id: u32,
    /// The thread as the tree counts it there, if it does.
    pub count: Option<Count>,
    /// Whether a core there had nothing else to do.
    pub has_idle_core: bool,
}

/// A thread that the tree counts: a number of the tree's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u32);

/// Who decides: the decision tree, as far as the runtime needs it. All CPUs and nodes by OS id
/// unless said otherwise.
pub trait Decide: Send + Sync + std::fmt::Debug {
    /// Chooses a CPU for a new thread of the thread on `creator`, and counts the thread there.
    fn place(&self, creator: u32, allowed: &CpuBits) -> Option<Place>;
    /// Counts a thread that is on `cpu` already; `None` if the tree does not know the CPU, or has no
    /// room.
    fn count(&self, cpu: u32) -> Option<Count>;
    /// A counted thread is gone.
    fn uncount(&self, count: Count);
    /// This is a child after a fork: what its parent counted is not its own.
    fn forked(&self);
    /// The process ends: nothing of it is counted any more, and nothing will be.
    fn leave(&self);
    /// Where a CPU is: its node.
    fn locate(&self, cpu: u32) -> Option<Place>;
    /// The online CPUs of the node with this logical id.
    fn node_cpus(&self, node_index: u32) -> CpuBits;
    /// OS ids of the nodes with memory, nearest to the node of `cpu` first.
    fn nodes_by_distance(&self, cpu: u32) -> Vec<u32>;
    /// The logical id of the node with this OS id.
    fn node_index(&self, node_os_id: u32) -> Option<u32>;
}

/// Makes the decider of a session; called once, when the program is about to get a second thread.
pub type Factory = fn(&'static Session) -> Option<Box<dyn Decide>>;
