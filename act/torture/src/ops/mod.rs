//! The operations, and how often each is done.

mod children;
mod kernel;
mod mapping;
mod threads;
mod touch;

use crate::worker::Worker;

pub use children::{fork_under, raw_fork};

/// Does one random operation in the worker's own part.
pub fn step(worker: &mut Worker) {
    let fork_every = worker.world.fork_every;
    if worker.rng.once_in(fork_every) {
        return children::any(worker);
    }
    match worker.rng.below(1000) {
        0..=219 => touch::read(worker),
        220..=419 => touch::write(worker),
        420..=469 => touch::sweep(worker, false),
        470..=509 => touch::sweep(worker, true),
        510..=569 => touch::other_zones(worker),
        570..=799 => kernel::any(worker),
        800..=989 => mapping::any(worker),
        990..=996 => mapping::mark(worker),
        _ => threads::short_lived(worker),
    }
}

/// Checks all of the worker's own part.
pub fn check_all(worker: &mut Worker) {
    touch::check_all(worker, "all");
}

/// Reads what all workers read at the same time, and writes what is there already.
pub fn race(worker: &mut Worker, steps: usize) {
    touch::race(worker, steps);
}
