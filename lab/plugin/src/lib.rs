//! The instrument of counted runs: a plugin of QEMU that turns what a guest's processors do into calls
//! of a model of caches, TLBs and nodes (`quartier-memmodel`).
//!
//! Off while the guest boots: code is translated as ever and only searched for the marker that begins
//! counting, and those by which a program tells who asked for its memory (`quartier-marker`). The first empties QEMU's translations,
//! and whatever is translated afterwards calls the model. Everything that can be known without QEMU is plain safe code with tests;
//! `unsafe` is in `ffi/` alone.
#![deny(unsafe_code)]

mod allocations;
mod arguments;
mod calls;
mod check;
mod code;
mod decode;
mod ffi;
mod handovers;
mod heavy;
mod layout;
mod looks;
mod machine;
mod report;
mod stalls;
mod steps;
mod tally;
mod tasks;
mod walk;
