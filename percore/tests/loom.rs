//! Every interleaving of two or three threads: `make loom`.
#![cfg(loom)]

#[path = "loom/counter.rs"]
mod counter;
#[path = "loom/events.rs"]
mod events;
#[path = "loom/free_list.rs"]
mod free_list;
#[path = "loom/lock.rs"]
mod lock;
#[path = "loom/sharded_list.rs"]
mod sharded_list;
#[path = "loom/table.rs"]
mod table;

use loom::thread;
use quartier_percore::cpu;

/// Explores a test.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

/// A thread of the model, on a CPU.
fn on_cpu<R: 'static>(number: usize, run: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
    thread::spawn(move || {
        cpu::pretend_to_run_on(number);
        run()
    })
}
