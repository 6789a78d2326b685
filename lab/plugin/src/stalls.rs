//! Which instructions wait for memory, of which node, and for what lies there.

use std::hash::{Hash, Hasher};

use quartier_count::{Stalled, Stalls};

use crate::allocations::{Allocations, Site};
use crate::calls::{self, Callers};
use crate::tally::Tally;

/// What one instruction uses within so many bytes counts as one: data that is worth a name is larger, and of a large table all
/// regions fit into the entries.
const REGION_SHIFT: u32 = 16;

/// What waits.
#[derive(Clone, Copy, Debug)]
pub struct Stalling {
    /// The process whose memory it is; 0: the kernel's.
    pub process: u32,
    /// Of a region the first that was seen.
    pub address: u64,
    /// Which call gave the memory there.
    pub site: Site,
    pub instruction: u64,
    /// Whose access it was.
    pub by_process: u32,
    /// Whether the node that was asked is another than the CPU's.
    pub is_remote: bool,
    /// Who called it.
    pub callers: Callers,
}

impl Stalling {
    /// All but where in its region it is, and who asked for that part of it.
    fn whose(&self) -> (u32, u32, u64, u64, bool, Callers) {
        let Self { process, by_process, address, instruction, is_remote, callers, .. } = *self;
        (process, by_process, address >> REGION_SHIFT, instruction, is_remote, callers)
    }
}

impl PartialEq for Stalling {
    fn eq(&self, other: &Self) -> bool {
        self.whose() == other.whose()
    }
}

impl Eq for Stalling {}

impl Hash for Stalling {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.whose().hash(state);
    }
}

/// What a CPU waited for.
#[derive(Debug)]
pub struct Stallings(Tally<Stalling>);

impl Stallings {
    /// Of so many at most.
    pub fn new(nr_max: usize) -> Self {
        Self(Tally::new(nr_max))
    }

    /// Notes one of the program's, which stalled the CPU for so long.
    pub fn note(&mut self, stalling: Stalling, stall_millicycles: u64) {
        self.0.note(stalling, 1, stall_millicycles);
    }

    /// All of it, and by which instruction.
    pub fn stalls(&self, allocations: &Allocations) -> Stalls {
        let stalled = self.0.all().map(|(key, entry)| Stalled {
            process: (key.process != 0).then_some(key.process),
            address: key.address,
            allocated: allocations.site(key.site).cloned(),
            instruction: key.instruction,
            by_process: key.by_process,
            is_remote: key.is_remote,
            callers: calls::told(&key.callers),
            count: entry.count,
            modelled_stall_millicycles: entry.stall_millicycles,
        });
        Stalls {
            total: self.0.total,
            modelled_stall_millicycles: self.0.stall_millicycles,
            most: stalled.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::CALLERS_MAX;

    const ONE: Stalling = Stalling {
        process: 7,
        by_process: 7,
        address: 0x7f00_0000_1230,
        site: 0,
        instruction: 0x40_1000,
        is_remote: true,
        callers: [0; CALLERS_MAX],
    };

    #[test]
    fn what_lies_in_one_region_is_one_and_anything_else_another() {
        let mut stallings = Stallings::new(2000);
        let others = [
            ONE,
            Stalling { process: 0, ..ONE },
            Stalling { address: ONE.address + (1 << REGION_SHIFT), ..ONE },
            Stalling { instruction: 1, ..ONE },
            Stalling { is_remote: false, ..ONE },
        ];
        others.into_iter().for_each(|other| stallings.note(other, 1_000));
        others.into_iter().for_each(|other| {
            stallings.note(Stalling { address: other.address + 64, site: 1, ..other }, 3_000);
        });
        let found = stallings.stalls(&Allocations::default());
        assert_eq!(found.most.iter().map(|of| of.count).collect::<Vec<_>>(), [2; 5]);
        let each: Vec<_> = found.most.iter().map(|of| of.modelled_stall_millicycles).collect();
        assert_eq!(each, [4_000; 5]);
        assert!(found.most.iter().any(|of| of.address == ONE.address), "an address that was used");
        assert_eq!(found.most.iter().filter(|of| of.process.is_none()).count(), 1);
        assert_eq!((found.total, found.modelled_stall_millicycles), (10, 20_000));
    }

    #[test]
    fn an_array_that_is_read_through_is_known_whole() {
        let mut stallings = Stallings::new(2000);
        // 64 MiB, twice, in lines.
        for nr in 0..2 << 20_u64 {
            let address = 0x7f00_0000_0000 + (nr % (1 << 20)) * 64;
            stallings.note(Stalling { address, ..ONE }, 100);
        }
        let found = stallings.stalls(&Allocations::default());
        assert_eq!(found.most.len(), 1024);
        let told: u64 = found.most.iter().map(|of| of.count).sum();
        assert_eq!(told, found.total);
    }
}
