//! Effects on this machine: finding the program, running it with the runtime inside, and the account
//! of what happened.

mod affinity;
mod desk;
mod launch;
mod memory_policy;
mod on_cpus;
mod program;
mod report;
mod rung;
pub mod scheduler;
mod seats;

pub use affinity::{affinity_of, is_gone, widen_own_affinity};
pub use launch::{LaunchError, Launched, Meanwhile, Request, Start, TreeFiles, launch, replace};
pub use memory_policy::MemoryPolicy;
pub use on_cpus::start_on;
pub use program::{Obstacle, Program, ProgramError};
pub use report::{NodeReport, Note, ProcessReport, Report};
pub use rung::{RungProbe, probe};
pub use seats::Hold;
