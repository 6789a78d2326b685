//! Counting threads that run: each in a group of its own, as far as there are descriptors.

use quartier_model::{Counting, Nanos};

use super::process::Process;
use crate::events::{Events, Extent, Refused};

/// With fewer descriptors left only what is needed is counted.
const PLENTY: usize = 1024;
/// Where a machine has no counters, or there are no descriptors, it is tried again after so long.
const AGAIN: Nanos = Nanos(60_000_000_000);

/// What is known of counting on this machine.
#[derive(Debug, Default)]
pub struct Counter {
    pub state: Counting,
    next: Nanos,
}

impl Counter {
    /// Begins to count those threads of a process that run and were not tried yet; `left` descriptors may be opened. Says whether
    /// others can be counted.
    pub fn look(
        &mut self,
        events: &dyn Events,
        process: &mut Process,
        at: Nanos,
        left: &mut usize,
    ) -> bool {
        if at < self.next {
            return false;
        }
        for (tid, busy) in process.busy_threads() {
            // Its times come first.
            if busy.counters.is_some() || !busy.is_open() {
                continue;
            }
            let extent = if *left < PLENTY { Extent::Needed } else { Extent::All };
            if *left < extent.descriptors() {
                self.give_up(Refused::NoDescriptors, at);
                return false;
            }
            let counters = events.counters(tid, extent);
            match &counters {
                Ok(counters) => {
                    *left = left.saturating_sub(counters.nr_open());
                    self.state = match counters.counts_misses() {
                        false => Counting::WithoutMisses,
                        true => Counting::Counts,
                    };
                }
                Err(Refused::Ended) => continue,
                Err(Refused::NotPermitted) if self.state == Counting::NotAsked => {
                    self.state = Counting::NotPermitted;
                }
                // Others may be counted.
                Err(Refused::NotPermitted) => {}
                Err(refused) => {
                    self.give_up(*refused, at);
                    break;
                }
            }
            busy.counters = Some(counters);
        }
        let has_given_up = self.next > at;
        if has_given_up {
            // Whatever else has to be opened needs some, too.
            process.busy_threads().for_each(|(_, busy)| busy.counters = None);
        }
        !has_given_up
    }

    fn give_up(&mut self, refused: Refused, at: Nanos) {
        self.next = at + AGAIN;
        self.state = match refused {
            Refused::NoDescriptors => Counting::NoDescriptors,
            _ => Counting::Unsupported,
        };
    }
}
