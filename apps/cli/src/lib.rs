//! The `quartier` command: the place where observe, decide and act meet.
//!
//! A library too, so that `xtask` makes man pages and completions from the one [`Cli`].
#![forbid(unsafe_code)]

mod busy;
mod cli;
mod daemon_client;
mod degrade;
mod explain;
mod explain_decision;
#[cfg(test)]
#[path = "../tests/fake_daemon/mod.rs"]
mod fake_daemon;
mod gather;
mod installed;
mod interrupts;
mod lab;
#[cfg(test)]
#[path = "../tests/made_up/mod.rs"]
mod made_up;
mod markup;
mod numbers;
mod output;
mod refusal;
mod replay;
mod run;
mod say;
mod scale;
mod serve;
mod strategy;
mod top;
mod topo;
mod tree;
mod undo;

pub use cli::{Cli, STATUS_REFUSED};
pub use refusal::one_sentence;
pub use say::sentence as say_sentence;
