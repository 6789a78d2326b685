//! Restartable sequences where there are none: never available.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicI64, AtomicU32};

/// Never made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rseq {}

/// See `rseq.rs`.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // Nobody is there to read them.
pub(crate) struct Slots<'a> {
    pub(crate) words: &'a [CachePadded<AtomicI64>],
    pub(crate) is_closed: &'a AtomicU32,
}

impl Rseq {
    #[cfg(not(loom))]
    pub(crate) fn area() -> Option<Self> {
        None
    }

    pub(crate) fn with_barrier() -> Option<Self> {
        None
    }

    #[cfg(not(loom))]
    pub(crate) fn cpu(self) -> Option<usize> {
        match self {}
    }

    #[cfg(not(loom))]
    pub(crate) fn node(self) -> Option<usize> {
        match self {}
    }

    pub(crate) fn add_within(self, _slots: Slots<'_>, _delta: i64, _max: i64) -> bool {
        match self {}
    }

    pub(crate) fn restart_all(self) {
        match self {}
    }
}
