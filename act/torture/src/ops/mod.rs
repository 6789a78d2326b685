//! The operations, and how often each is done.

mod children;
mod kernel;
mod mapping;
mod threads;
mod touch;

use crate::log::Op;
use crate::worker::Worker;

pub use children::{fork_under, raw_fork};

type Operation = fn(&mut Worker);

/// What is done how often, against each other. Children come on top (`--fork-every`).
const MENU: &[(usize, Op, Operation)] = &[
    (220, Op::Read, touch::read),
    (200, Op::Write, touch::write),
    (50, Op::SweepRead, touch::sweep_read),
    (40, Op::SweepWrite, touch::sweep_write),
    (60, Op::Zones, touch::other_zones),
    (34, Op::PipeOut, kernel::pipe_out),
    (34, Op::PipeIn, kernel::pipe_in),
    (23, Op::FileOut, kernel::file_out),
    (23, Op::FileIn, kernel::file_in),
    (12, Op::VectorOut, kernel::vector_out),
    (12, Op::VectorIn, kernel::vector_in),
    (12, Op::PeekSelf, kernel::peek_self),
    (12, Op::PokeSelf, kernel::poke_self),
    (12, Op::Random, kernel::random),
    (12, Op::Stat, kernel::stat),
    (24, Op::FutexWord, kernel::futex_word),
    (12, Op::ZeroDevice, kernel::zero_device),
    (12, Op::BadAddress, kernel::bad_address),
    (24, Op::DontNeed, mapping::dont_need),
    (16, Op::Free, mapping::free),
    (24, Op::Protect, mapping::protect),
    (32, Op::Unprotect, mapping::unprotect),
    (24, Op::Move, mapping::move_pages),
    (8, Op::MoveKeep, mapping::move_keeping),
    (8, Op::Unmap, mapping::unmap),
    (8, Op::MapFixed, mapping::map_fixed),
    (24, Op::Refill, mapping::refill),
    (8, Op::Lock, mapping::lock),
    (8, Op::Populate, mapping::populate),
    (8, Op::Advise, mapping::advise),
    (7, Op::Mark, mapping::mark),
    (3, Op::Thread, threads::short_lived),
];

const CHILDREN: &[(usize, Op, Operation)] = &[
    (4, Op::Fork, children::fork),
    (1, Op::BottomFork, children::bottom_fork),
    (3, Op::ForkUnseen, children::unseen_fork),
    (1, Op::ForkExec, children::fork_exec),
    (1, Op::Spawn, children::spawn),
    (2, Op::VforkExec, children::vfork_exec),
];

/// Does one random operation in the worker's own part.
pub fn step(worker: &mut Worker) {
    let fork_every = worker.world.fork_every;
    let menu = if worker.rng.once_in(fork_every) { CHILDREN } else { MENU };
    let mut drawn = worker.rng.below(menu.iter().map(|(weight, ..)| weight).sum());
    for (weight, op, operation) in menu {
        if drawn < *weight {
            if worker.world.allows(*op) {
                operation(worker);
            }
            return;
        }
        drawn -= weight;
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
