//! What the Monitor has the kernel count and sample of threads.

use quartier_model::{Nanos, Unseen};

use super::process::{Look, Process};
use super::thread::{PERIODS, window};
use super::touches::WANTED;
use super::{Kernel, Monitor};
use crate::own_cpu_time;

/// Processes whose touches are looked at at the same time, and threads of all of them.
const TOUCHING_MAX: usize = 4;
const TOUCHERS_MAX: usize = 512;

impl Monitor {
    /// Who touches which page, of processes that are too big for a node.
    /// `left` descriptors may be opened.
    pub(super) fn look_at_touches(&mut self, at: Nanos, kernel: &dyn Kernel, left: &mut usize) {
        let (touchers, turn) = (&mut 0, self.turn);
        let Self {
            files, machine, rules, processes, around, looked, events, pages, cpusets, ..
        } = self;
        let touches = &mut pages.budgets.touches;
        let (online, may_open, for_counters) = (&around.online, 0, 0);
        let mut look = Look {
            files,
            machine,
            rules,
            kernel,
            cpusets,
            online,
            at,
            turn,
            window: Nanos(0),
            may_open,
            for_counters,
        };
        touches.fill(at);
        let mut wanted = Vec::new();
        let is_asked =
            |process: &&mut Process| process.is_busy() || !process.touching.is_at_rest(at);
        // Those that are stay wanted for longer than from one of these looks to the next.
        let asks_all = turn % PERIODS == 0 || window(looked) >= WANTED;
        for process in processes.values_mut().filter(is_asked) {
            if asks_all && process.is_too_big(look.machine, &around.placeable, looked) {
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
                look.may_open = (*left).min(TOUCHERS_MAX.saturating_sub(*touchers));
                process.look_at_touches(&mut look, &**events, looked);
                let after = process.touching.nr_open();
                *left = (*left + before).saturating_sub(after);
                *touchers = *touchers + after - before;
                touches.spend(own_cpu_time().saturating_sub(began));
            }
        }
    }

    /// Counts threads that run, where that can be done; `left` descriptors may be opened.
    pub(super) fn count(&mut self, at: Nanos, left: &mut usize) {
        for process in self.processes.values_mut().filter(|process| process.is_busy()) {
            if !self.counter.look(&*self.events, process, at, left) {
                break;
            }
        }
    }
}
