//! Profiles of a program and all that it starts: where its threads ran and waited, and when, with stacks.
//!
//! By perf_event_open(2): one clock and one counter of switches for each CPU, inherited by whatever the calling thread starts. The
//! clock is the processor's counter of cycles or else the kernel's own, so that it works on any machine (`clock.rs`). Stacks of user
//! code are found by unwind tables after the run; the program is held up only for the copying of a few KiB.
//!
//! What a hot instruction touched is known without a hardware counter: a sample comes right behind the instruction that
//! took long, and its registers say where that went.

mod arch;
mod asleep;
mod clock;
mod elf;
mod kernel;
mod modules;
mod names;
mod operand;
mod records;
mod rings;
mod sites;
mod space;
mod stacks;
mod wakeups;

pub use clock::{Clock, NoCycles};
pub use names::Names;
pub use rings::{Profiler, STACK_BYTES, Unprofiled};
pub use sites::Sites;
