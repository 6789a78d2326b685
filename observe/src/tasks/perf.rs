//! What the Monitor has the kernel count and sample of threads.

use quartier_model::{Nanos, Unseen};

use super::process::Look;
use super::{Kernel, Monitor};
use crate::own_cpu_time;

/// Processes whose touches are looked at at the same time, and threads of all of them.
const TOUCHING_MAX: usize = 4;
const TOUCHERS_MAX: usize = 512;

impl Monitor {
    /// Who touches which page, of processes that are too big for a node.
    pub(super) fn look_at_touches(&mut self, at: Nanos, kernel: &dyn Kernel) {
        let (mut left, touchers) = (self.descriptors_left(), &mut 0);
        let Self { files, machine, rules, processes, around, looked, events, pages, .. } = self;
        let touches = &mut pages.budgets.touches;
        let (online, may_open, for_counters) = (&around.online, 0, 0);
        let (turn, window) = (0, Nanos(0));
        let mut look = Look {
            files,
            machine,
            rules,
            kernel,
            online,
            at,
            turn,
            window,
            may_open,
            for_counters,
        };
        touches.fill(at);
        let mut wanted = Vec::new();
        for process in processes.values_mut() {
            if process.is_too_big(look.machine, &around.placeable, looked) {
                process.touching.want(at);
            }
            match self.balancing {
                _ if !process.touching.is_wanted(at) => process.touching.stop(at, None),
                Err(unseen) => process.touching.stop(at, Some(unseen)),
                Ok(()) => {
                    *touchers += process.touching.nr_open();
                    wanted.push(process);
                }
            }
        }
        wanted.sort_by_key(|process| process.touching.turn());
        for (nth, process) in wanted.into_iter().enumerate() {
            if nth >= TOUCHING_MAX {
                process.touching.stop(at, Some(Unseen::NotWatched));
            } else if !touches.is_spent() {
                let began = own_cpu_time();
                let before = process.touching.nr_open();
                look.may_open = left.min(TOUCHERS_MAX.saturating_sub(*touchers));
                process.look_at_touches(&mut look, &**events, looked);
                let after = process.touching.nr_open();
                left = (left + before).saturating_sub(after);
                *touchers = *touchers + after - before;
                touches.spend(own_cpu_time().saturating_sub(began));
            }
        }
    }

    /// Counts threads that run, where that can be done.
    pub(super) fn count(&mut self, at: Nanos) {
        let mut left = self.descriptors_left();
        for process in self.processes.values_mut() {
            self.counter.look(&*self.events, process, at, &mut left);
        }
    }
}
