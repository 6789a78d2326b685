//! What stops a program from scaling: from runs at several CPU counts to a named culprit, or to none.
//!
//! A run could have used its CPUs for all of its time. [`fold`] charges each moment of that to code: running code to
//! itself, idle CPUs to the locks that threads wait for, of a server to its peers, or to what runs meanwhile. [`Verdict::of`] compares what a unit
//! of work costs in each place on ever more CPUs, and names what grew beyond the noise of the runs.
//!
//! Everything here follows from the [`Study`], which can be saved and judged again.

mod cause;
mod compare;
mod culprit;
mod evidence;
mod fold;
mod grown;
mod growth;
mod judge;
mod names;
mod rest;
mod sets;
mod student;
mod study;
mod suspects;
mod usl;
mod waiting;

pub use cause::Class;
pub use compare::{Compared, Comparison};
pub use culprit::{Context, Culprit};
pub use fold::fold;
pub use growth::{Growth, Level, Trend, growth, trend};
pub use judge::{Lost, Outcome, Verdict};
pub use names::{Waits, waits_for};
pub use rest::{Part, Rest};
pub use sets::{Order, cpu_order, default_counts};
pub use study::{
    Clock, Cost, Counted, Memory, Point, Profile, Run, STUDY_FORMAT, Sharing, Spent, Study,
};
pub use suspects::{Suspect, Suspects, site};
pub use usl::{Scalability, Spread, scalability};
