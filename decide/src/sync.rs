//! Atomics: the machine's, or loom's where interleavings are explored (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};
pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, fence};
