//! Copies of a server on their nodes, and which of them gets a connection.
//!
//! A [`Group`] is the sockets that listen on one address and port. The kernel asks our program
//! (`program`) which of them a connection goes to; the program looks the answer up in a table that
//! the control loop writes. So the kernel decides nothing, and what it does takes some forty instructions.

mod bpf;
mod group;
mod insn;
mod listener;
mod program;
pub mod receive;
mod start;

pub use bpf::Error;
pub use group::{Chosen, Group, Tables};
pub use listener::{Listener, ListenerError, Queue};
pub use program::SLOTS;
pub use start::{Binding, bound, signal, signal_all, start};
