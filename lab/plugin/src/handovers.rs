//! Which instructions take lines from other CPUs, and where.

use quartier_count::{Handed, Handovers};
use quartier_memmodel::Access;

use crate::allocations::{Allocations, Site};
use crate::calls::{self, Callers};
use crate::heavy::{Entry, Heavy, Key};

/// What takes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The process whose memory it is; 0: the kernel's.
    pub process: u32,
    /// Whose access it was: a process's
    pub by_process: u32,
    /// thread.
    pub thread: u32,
    pub address: u64,
    /// Which call gave that memory.
    pub site: Site,
    pub instruction: u64,
    pub access: Access,
    /// Who called it.
    pub callers: Callers,
}

impl Key for Taking {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn number(&self) -> u64 {
        let own = self.instruction ^ u64::from(self.process) << 20 ^ u64::from(self.site) << 32;
        self.address.rotate_left(7) ^ own ^ calls::number(&self.callers)
    }
}

/// What a CPU took.
#[derive(Debug, Default)]
pub struct Takings {
    /// By the program that is measured,
    most: Heavy<Taking>,
    /// and by anybody else; by what is not kept.
    of_the_rest: u64,
}

impl Takings {
    /// Notes one of the program's, which stalled the CPU for so long.
    pub fn note(&mut self, taking: Taking, stall_millicycles: u64) {
        self.most.note(taking, stall_millicycles);
    }

    /// Notes one of somebody else's.
    pub fn note_others(&mut self) {
        self.of_the_rest += 1;
    }

    /// What `cpu` took, and of what it took more than once by which instruction.
    pub fn handovers(&self, cpu: u16, allocations: &Allocations) -> Handovers {
        let handed = |&Entry { key, count, stall_millicycles }: &Entry<Taking>| Handed {
            process: (key.process != 0).then_some(key.process),
            by_process: key.by_process,
            thread: key.thread,
            address: key.address,
            allocated: allocations.site(key.site).cloned(),
            instruction: key.instruction,
            cpu,
            access: key.access,
            callers: calls::told(&key.callers),
            count,
            modelled_stall_millicycles: stall_millicycles,
        };
        Handovers {
            total: self.most.total,
            of_the_rest: self.of_the_rest,
            modelled_stall_millicycles: self.most.stall_millicycles,
            most: self.most.often().map(handed).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quartier_count::Allocation;

    use super::*;
    use crate::calls::CALLERS_MAX;

    const ONE: Taking = Taking {
        process: 7,
        by_process: 7,
        thread: 8,
        address: 8,
        site: 0,
        instruction: 0x40_1000,
        access: Access::Atomic,
        callers: [0; CALLERS_MAX],
    };

    #[test]
    fn what_differs_in_anything_is_another() {
        let mut takings = Takings::default();
        let mut called = ONE.callers;
        called[0] = 0x40_2000;
        let others = [
            ONE,
            Taking { process: 0, ..ONE },
            Taking { address: 16, ..ONE },
            Taking { site: 1, ..ONE },
            Taking { instruction: 1, ..ONE },
            Taking { access: Access::Load, ..ONE },
            Taking { thread: 9, ..ONE },
            Taking { callers: called, ..ONE },
        ];
        for other in others.into_iter().chain(others) {
            takings.note(other, 1_000);
        }
        let mut allocations = Allocations::default();
        let by = Allocation { returns_to: 0x40_3000, stack: Vec::new() };
        allocations.note((7, 0), (8, 8), by.clone());
        assert_eq!(allocations.find((7, 0), 8), 1);
        let found = takings.handovers(3, &allocations);
        assert_eq!(found.most.iter().map(|handed| handed.count).collect::<Vec<_>>(), [2; 8]);
        assert_eq!(
            found.most.iter().filter(|handed| handed.allocated.as_ref() == Some(&by)).count(),
            1
        );
        assert!(found.most.iter().any(|handed| handed.callers == [0x40_2000]));
        assert!(
            found.most.iter().any(|handed| handed.process.is_none()),
            "the kernel is no process"
        );
        assert!(found.most.iter().all(|handed| handed.cpu == 3));
        assert_eq!((found.total, found.modelled_stall_millicycles), (16, 16_000));
    }

    #[test]
    fn what_was_taken_once_or_by_others_is_not_told() {
        let mut takings = Takings::default();
        takings.note(ONE, 1_000);
        (0..3).for_each(|_| takings.note_others());
        let found = takings.handovers(0, &Allocations::default());
        assert_eq!((found.total, found.of_the_rest, found.most.len()), (1, 3, 0));
    }
}
