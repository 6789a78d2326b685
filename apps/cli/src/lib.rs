//! The `quartier` command: the place where observe, decide and act meet.
//!
//! A library too, so that `xtask` makes man pages and completions from the one [`Cli`].
#![forbid(unsafe_code)]

mod busy;
mod cli;
mod daemon_client;
mod explain;
mod explain_decision;
mod gather;
mod installed;
mod lab;
mod numbers;
mod output;
mod refusal;
mod replay;
mod run;
mod say;
mod strategy;
mod top;
mod topo;
mod tree;
mod undo;

pub use cli::{Cli, STATUS_REFUSED};
pub use refusal::one_sentence;
pub use say::sentence as say_sentence;
