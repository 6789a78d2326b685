//! `R_max` (thesis 4.4.3): a process with one thread fills at most a share of a node's memory, so that
//! the threads to come find room there. The rest goes to the nearest node with room; when there is
//! none, the limit is dropped.
//!
//! The thesis checks at each page fault. Here a helper (see `helper`) looks every [`TICK_MS`] and gives
//! the program's mappings another preferred node once the share is used up: what is over the limit
//! is what the program touches in one tick. Mappings with a policy of their own are left alone, and
//! ours are taken back when the program gets its second thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use quartier_kernel::sys;

use crate::maps;
use crate::text::{kib_of, read_file};
use crate::threads::Thread;

/// How often the share is looked at.
const TICK_MS: u64 = 2;

/// Ticks between two looks whether the program still has this memory (`exec`).
const TICKS_PER_CHECK: u32 = 50;

/// Mappings steered at one time; more stay with the kernel's default.
const STEERED_MAX: usize = 2048;

/// Nodes that are looked at for room.
const NODES_MAX: usize = 1024;

/// What the watch works with. All of it lies in our arena.
#[derive(Debug)]
pub struct Watch {
    /// The program's process id.
    pub program: i32,
    /// Share in percent, 1 to 100.
    pub share_percent: u32,
    /// OS ids of the nodes with memory, the program's own first, then by distance.
    pub nodes: Vec<u32>,
}

static WATCH: OnceLock<Watch> = OnceLock::new();
static STOP: AtomicU32 = AtomicU32::new(0);

/// Notes what to watch; the helper is started afterwards.
pub fn prepare(watch: Watch) -> bool {
    STOP.store(0, Ordering::Relaxed);
    WATCH.set(watch).is_ok()
}

/// Tells the watch to take its policies back and end.
pub fn stop() {
    STOP.store(1, Ordering::Release);
    sys::futex_wake(&STOP);
}

/// The helper's work: runs until it is told to stop, or the program is gone.
pub fn watch() {
    let Some(watch) = WATCH.get() else { return };
    let Ok(pidfd) = sys::pidfd(watch.program) else { return };
    let mut steering = Steering { ranges: [(0, 0); STEERED_MAX], len: 0, target: None };
    let mut ticks = 0u32;
    while STOP.load(Ordering::Acquire) == 0 && !sys::has_ended(pidfd) {
        ticks = ticks.wrapping_add(1);
        let check = ticks.is_multiple_of(TICKS_PER_CHECK);
        if check && sys::same_memory(watch.program, sys::pid()) == Some(false) {
            return;
        }
        steering.look(watch);
        sys::futex_wait(&STOP, 0, TICK_MS);
    }
    steering.take_back();
}

/// Which mappings prefer another node because of us.
struct Steering {
    ranges: [(usize, usize); STEERED_MAX],
    len: usize,
    target: Option<u32>,
}

impl Steering {
    fn look(&mut self, watch: &Watch) {
        let home = Thread::find(watch.program).and_then(Thread::node_by_rseq);
        let Some(home) = home.or(watch.nodes.first().copied()) else { return };
        if self.target.is_none() && has_room(home, watch.share_percent) {
            return;
        }
        let target = match self.target {
            Some(target) if has_room(target, watch.share_percent) => Some(target),
            _ => watch
                .nodes
                .iter()
                .take(NODES_MAX)
                .copied()
                .find(|node| *node != home && has_room(*node, watch.share_percent)),
        };
        if target != self.target {
            self.turn(target);
        }
        if target.is_some() {
            self.steer_new();
        }
    }

    /// Another node from now on, or none (the limit is dropped).
    fn turn(&mut self, target: Option<u32>) {
        self.target = target;
        for (start, end) in &self.ranges[..self.len] {
            let _ = sys::prefer_for_range(*start, end - start, target);
        }
        if target.is_none() {
            self.len = 0;
        }
    }

    /// Steers the mappings that have no policy yet.
    fn steer_new(&mut self) {
        let _ = maps::for_each_private(|range| {
            let ours = crate::ranges::overlapping(range.start, range.end).is_some();
            if !ours && sys::range_policy_is_default(range.start) && self.len < STEERED_MAX {
                let len = range.end - range.start;
                if sys::prefer_for_range(range.start, len, self.target).is_ok() {
                    self.ranges[self.len] = (range.start, range.end);
                    self.len += 1;
                }
            }
            self.len < STEERED_MAX
        });
    }

    fn take_back(&mut self) {
        if self.target.is_some() {
            self.turn(None);
        }
    }
}

/// Whether a node has more than `100 - share` percent of its memory free.
fn has_room(node: u32, share_percent: u32) -> bool {
    let mut path = [0u8; 64];
    let Some(path) = meminfo_path(&mut path, node) else { return false };
    let mut text = [0u8; 512];
    let Some(text) = read_file(path, &mut text) else { return false };
    match (kib_of(text, b"MemTotal:"), kib_of(text, b"MemFree:")) {
        (Some(total), Some(free)) => free * 100 >= total * u64::from(100 - share_percent.min(100)),
        _ => false,
    }
}

fn meminfo_path(buffer: &mut [u8; 64], node: u32) -> Option<&std::ffi::CStr> {
    let mut writer = crate::text::Writer::new(buffer);
    writer.put(b"/sys/devices/system/node/node")?;
    writer.put_number(node)?;
    writer.put(b"/meminfo\0")?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_there_has_no_room() {
        assert!(!has_room(4000, 100));
    }
}
