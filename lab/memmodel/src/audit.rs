//! What must be true of a machine whenever no CPU is in the middle of an access.

use crate::directory::Holder;
use crate::geometry::{Fill, Side};
use crate::shared::Shard;
use crate::system::System;
use crate::tags::State;

impl System {
    /// Checks inclusion, ownership and the directory; everything found wrong, a sentence each.
    ///
    /// For tests: it reads every cache, and what it says holds while nobody feeds a CPU.
    #[must_use]
    pub fn audit(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for cpu in 0..self.private.len() as u16 {
            self.audit_cpu(cpu, &mut wrong);
        }
        self.shared.each(|shard| self.audit_shard(shard, &mut wrong));
        wrong
    }

    /// The lines of a CPU, each with the most that one of its caches may do with it.
    fn lines_of(&self, cpu: u16) -> impl Iterator<Item = (u64, State)> + '_ {
        let tags = &self.private[usize::from(cpu)];
        let l2 = tags.l2.iter().flat_map(|l2| l2.lines());
        tags.l1i.lines().chain(tags.l1d.lines()).chain(l2)
    }

    fn holds(&self, cpu: u16, line: u64) -> bool {
        let tags = &self.private[usize::from(cpu)];
        let mut caches = [&tags.l1i, &tags.l1d].into_iter().chain(&tags.l2);
        caches.any(|cache| cache.find(line).is_some())
    }

    fn audit_cpu(&self, cpu: u16, wrong: &mut Vec<String>) {
        let mut require = |holds: bool, what: String| {
            if !holds {
                wrong.push(what);
            }
        };
        for (line, state) in self.lines_of(cpu) {
            let shard = self.shared.lock(line);
            let is_holder = shard.directory.holders(line).any(|holder| holder == Holder::cpu(cpu));
            require(is_holder, format!("CPU {cpu} has line {line:#x} and is no holder"));
            if state != State::Shared {
                let owner = shard.directory.owner(line);
                require(
                    owner == Some(cpu),
                    format!("CPU {cpu} may write line {line:#x} of owner {owner:?}"),
                );
            }
            if let Some(l2) = &self.private[usize::from(cpu)].l2 {
                require(
                    l2.find(line).is_some(),
                    format!("CPU {cpu}: L2 lacks line {line:#x} of L1"),
                );
            }
            let Some(home) = self.home_of_line(line) else {
                require(false, format!("CPU {cpu} has line {line:#x} of a device"));
                continue;
            };
            let cache = self.last_level_for(cpu, home);
            let is_included =
                self.shared.fill != Fill::Inclusive || shard.peek(cache, line).is_some();
            require(is_included, format!("last level {cache} lacks line {line:#x} of CPU {cpu}"));
        }
    }

    fn audit_shard(&self, shard: &Shard, wrong: &mut Vec<String>) {
        for line in shard.directory.lines() {
            let (mut cpus, mut nr_last_levels, mut nr_dirty) = (Vec::new(), 0, 0);
            for holder in shard.directory.holders(line) {
                let has_it = match holder.which() {
                    Ok(cpu) => {
                        cpus.push(cpu);
                        self.holds(cpu, line)
                    }
                    Err(cache) => {
                        nr_last_levels += 1;
                        nr_dirty += usize::from(shard.peek(cache, line) == Some(true));
                        shard.peek(cache, line).is_some()
                    }
                };
                if !has_it {
                    wrong.push(format!("{holder:?} lacks line {line:#x}"));
                }
            }
            if shard.directory.owner(line).is_some() && (cpus.len() > 1 || nr_last_levels > 1) {
                wrong.push(format!("line {line:#x} is owned and has other holders: {cpus:?}"));
            }
            if nr_dirty > 1 {
                wrong.push(format!("{nr_dirty} last levels would write line {line:#x} back"));
            }
        }
        for cache in 0..self.node_of_last_level.len() as u16 {
            for (line, _) in shard.lines(cache) {
                let is_right = match self.geometry.last_level.side {
                    Side::Home => self.home_of_line(line) == Some(cache),
                    Side::Requester => shard
                        .directory
                        .holders(line)
                        .any(|holder| holder == Holder::last_level(cache)),
                };
                if !is_right {
                    wrong.push(format!("last level {cache} has line {line:#x}, not its own"));
                }
            }
        }
    }
}
