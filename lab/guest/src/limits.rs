//! Resource limits that the command inherits, in an order both sides know.

use rustix::process::{Resource, getrlimit};

/// The limits that travel. Not the number of processes: it counts a whole machine's.
pub const RESOURCES: [Resource; 9] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Msgqueue,
];

/// This process's limits: number, soft, hard.
#[must_use]
pub fn current() -> Vec<(u32, Option<u64>, Option<u64>)> {
    RESOURCES
        .into_iter()
        .enumerate()
        .map(|(number, resource)| {
            let limit = getrlimit(resource);
            (number as u32, limit.current, limit.maximum)
        })
        .collect()
}
