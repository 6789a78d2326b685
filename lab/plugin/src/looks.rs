//! Which code a CPU executes, and which stalls for what is near: looked at every so many instructions, and every so many cycles.

use std::collections::BTreeMap;

use quartier_count::{CYCLES_PER_LOOK, Doing, INSTRUCTIONS_PER_LOOK, Looked, Looks};

use crate::calls::{self, Callers};
use crate::tally::Tally;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Looking {
    pub doing: Doing,
    /// No other CPU runs what is measured.
    pub is_alone: bool,
    /// The process whose code it is; 0: the kernel's.
    pub process: u32,
    /// Who executes it.
    pub by_process: u32,
    pub instruction: u64,
    /// Who called it.
    pub callers: Callers,
}

/// What a CPU was found doing.
#[derive(Debug)]
pub struct Lookings(Tally<Looking>);

impl Lookings {
    /// Of so many at most.
    pub fn new(nr_max: usize) -> Self {
        Self(Tally::new(nr_max))
    }

    /// Notes so many looks.
    pub fn note(&mut self, looking: Looking, count: u64) {
        self.0.note(looking, count, 0);
    }

    /// All of them, which were CPU `cpu`'s, and the modelled cycles that it spent alone.
    pub fn looks(&self, cpu: u16, alone: u64) -> Looks {
        let looked = self.0.all().map(|(key, entry)| Looked {
            doing: key.doing,
            is_alone: key.is_alone,
            cpu,
            process: (key.process != 0).then_some(key.process),
            instruction: key.instruction,
            by_process: key.by_process,
            callers: calls::told(&key.callers),
            count: entry.count,
        });
        Looks { total: self.0.total, alone: BTreeMap::from([(cpu, alone)]), most: looked.collect() }
    }
}

/// Until a CPU is looked at again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    instructions: u64,
    stall_millicycles: u64,
}

impl Until {
    /// So many instructions more: how many looks are due.
    #[inline]
    pub fn executes(&mut self, instructions: u64) -> u64 {
        due(&mut self.instructions, instructions, INSTRUCTIONS_PER_LOOK)
    }

    /// So many thousandths of a cycle more: how many looks are due.
    #[inline]
    pub fn stalls(&mut self, millicycles: u64) -> u64 {
        due(&mut self.stall_millicycles, millicycles, 1000 * CYCLES_PER_LOOK)
    }
}

#[inline]
fn due(so_far: &mut u64, more: u64, each: u64) -> u64 {
    *so_far += more;
    if *so_far < each {
        return 0;
    }
    let due = *so_far / each;
    *so_far %= each;
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::CALLERS_MAX;

    #[test]
    fn a_look_is_due_for_each_so_many_whatever_the_pieces_are() {
        let mut until = Until::default();
        let nr: u64 = (0..10 * INSTRUCTIONS_PER_LOOK).map(|nr| until.executes(nr % 7)).sum();
        let all: u64 = (0..10 * INSTRUCTIONS_PER_LOOK).map(|nr| nr % 7).sum();
        assert_eq!(nr, all / INSTRUCTIONS_PER_LOOK);
        assert_eq!(until.stalls(5_000 * CYCLES_PER_LOOK + 1), 5);
        assert_eq!(until.stalls(1000 * CYCLES_PER_LOOK - 2), 0);
        assert_eq!(until.stalls(1), 1);
    }

    #[test]
    fn what_differs_in_anything_is_found_apart() {
        const ONE: Looking = Looking {
            doing: Doing::Executes,
            is_alone: false,
            process: 7,
            by_process: 7,
            instruction: 0x40_1000,
            callers: [0; CALLERS_MAX],
        };
        let others = [
            ONE,
            Looking { doing: Doing::Stalls, ..ONE },
            Looking { is_alone: true, ..ONE },
            Looking { process: 0, ..ONE },
            Looking { by_process: 8, ..ONE },
            Looking { instruction: 1, ..ONE },
            Looking { callers: [3; CALLERS_MAX], ..ONE },
        ];
        let mut lookings = Lookings::new(100);
        (0..2).for_each(|_| others.into_iter().for_each(|other| lookings.note(other, 1)));
        let looks = lookings.looks(3, 55);
        assert_eq!(looks.alone, BTreeMap::from([(3, 55)]));
        assert_eq!(looks.most.iter().map(|of| of.count).collect::<Vec<_>>(), [2; 7]);
        assert!(looks.most.iter().all(|of| of.cpu == 3));
        assert_eq!(looks.total, 14);
        assert_eq!(looks.most.iter().filter(|of| of.process.is_none()).count(), 1);
    }
}
