//! QEMU, as the plugin sees it; the only `unsafe` code.
//!
//! What all of it relies on is QEMU's plugin interface: handles are good in the callback that they are
//! for; a CPU's callbacks come one at a time, in that CPU's thread; callbacks may come until QEMU ends.
#![allow(unsafe_code)]

mod callbacks;
mod clock;
mod cpus;
mod declarations;
mod install;
mod ram;
mod registers;
mod scores;
mod translation;

pub use clock::GuestClock;
pub use cpus::Cpus;
pub use ram::Ram;
pub use registers::{Register, Registers};
pub use scores::Scores;
