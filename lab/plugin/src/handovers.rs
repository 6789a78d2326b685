//! Which instructions take lines from other CPUs, and where: the ones that take most, for each CPU in a table of one size.

use quartier_count::Handed;
use quartier_memmodel::Access;

/// Of each CPU.
const NR_ENTRIES: usize = 1 << 13;
/// An entry is one of so many that follow its first place.
const NR_PLACES: usize = 8;

/// What takes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The process whose memory it is; 0: the kernel's.
    pub process: u32,
    /// Whose access it was.
    pub thread: u32,
    pub address: u64,
    pub instruction: u64,
    pub access: Access,
    pub is_measured: bool,
}

/// How often, and what it cost.
#[derive(Clone, Copy, Debug)]
struct Entry {
    taking: Taking,
    count: u64,
    stall_millicycles: u64,
}

/// What a CPU took.
#[derive(Debug)]
pub struct Takings {
    entries: Box<[Option<Entry>]>,
    /// By the program that is measured,
    pub total: u64,
    /// and what that stalled the CPU for;
    pub stall_millicycles: u64,
    /// and by anybody else; by what is not kept.
    pub of_the_rest: u64,
}

impl Default for Takings {
    fn default() -> Self {
        let entries = vec![None; NR_ENTRIES].into_boxed_slice();
        Self { entries, total: 0, stall_millicycles: 0, of_the_rest: 0 }
    }
}

impl Takings {
    /// Notes one, which stalled the CPU for so long. Where all of its places are others', each of those counts one less (Misra and Gries, 1982): whoever takes
    /// often stays, and is counted too low by what was seldom at most.
    pub fn note(&mut self, taking: Taking, stall_millicycles: u64) {
        if !taking.is_measured {
            self.of_the_rest += 1;
            return;
        }
        self.total += 1;
        self.stall_millicycles += stall_millicycles;
        let first = place_of(&taking);
        let places = || (0..NR_PLACES).map(|nr| (first + nr) % NR_ENTRIES);
        for at in places() {
            match &mut self.entries[at] {
                Some(entry) if entry.taking == taking => {
                    entry.count += 1;
                    entry.stall_millicycles += stall_millicycles;
                    return;
                }
                Some(_) => {}
                entry @ None => {
                    *entry = Some(Entry { taking, count: 1, stall_millicycles });
                    return;
                }
            }
        }
        for at in places() {
            if let Some(entry) = &mut self.entries[at] {
                entry.stall_millicycles -= entry.stall_millicycles / entry.count;
                entry.count -= 1;
                if entry.count == 0 {
                    self.entries[at] = None;
                }
            }
        }
    }

    /// What `cpu` took more than once.
    pub fn handed(&self, cpu: u16) -> impl Iterator<Item = Handed> + '_ {
        self.entries.iter().flatten().filter(|entry| entry.count > 1).map(
            move |&Entry { taking, count, stall_millicycles }| Handed {
                process: (taking.process != 0).then_some(taking.process),
                thread: taking.thread,
                address: taking.address,
                instruction: taking.instruction,
                cpu,
                access: taking.access,
                count,
                modelled_stall_millicycles: stall_millicycles,
            },
        )
    }
}

fn place_of(taking: &Taking) -> usize {
    let mixed =
        taking.address.rotate_left(7) ^ taking.instruction ^ u64::from(taking.process) << 20;
    // The high bits are the well-mixed ones.
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % NR_ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(address: u64) -> Taking {
        Taking {
            process: 7,
            thread: 8,
            address,
            instruction: 0x40_1000,
            access: Access::Atomic,
            is_measured: true,
        }
    }

    #[test]
    fn what_is_taken_often_is_known_beside_many_that_are_taken_once() {
        let mut takings = Takings::default();
        for nr in 0..200_000_u64 {
            takings.note(taking(0x1000 + 64 * nr), 7_000);
            takings.note(taking(8), 300_000);
        }
        assert_eq!(takings.total, 400_000);
        let most = takings.handed(3).max_by_key(|handed| handed.count).unwrap();
        assert_eq!((most.address, most.cpu, most.process), (8, 3, Some(7)));
        // Eight thousand entries for two hundred thousand words: at most one of 25 beside it is charged to it.
        assert!((150_000..=200_000).contains(&most.count), "{most:?}");
        // And what it costs is still what each costs.
        let each = most.modelled_stall_millicycles / most.count;
        assert!((290_000..=310_000).contains(&each), "{most:?}");
        assert_eq!(takings.stall_millicycles, 200_000 * 307_000);
    }

    #[test]
    fn what_differs_in_anything_is_another() {
        let mut takings = Takings::default();
        let one = taking(8);
        let others = [
            one,
            Taking { process: 0, ..one },
            Taking { address: 16, ..one },
            Taking { instruction: 1, ..one },
            Taking { access: Access::Load, ..one },
            Taking { thread: 9, ..one },
        ];
        for other in others.into_iter().chain(others) {
            takings.note(other, 1_000);
        }
        assert_eq!(takings.handed(0).map(|handed| handed.count).collect::<Vec<_>>(), [2; 6]);
        assert!(
            takings.handed(0).any(|handed| handed.process.is_none()),
            "the kernel is no process"
        );
    }

    #[test]
    fn what_was_taken_once_or_by_others_is_not_told() {
        let mut takings = Takings::default();
        takings.note(taking(8), 1_000);
        assert_eq!((takings.total, takings.handed(0).count()), (1, 0));
        (0..3).for_each(|_| takings.note(Taking { is_measured: false, ..taking(16) }, 9));
        assert_eq!((takings.total, takings.of_the_rest, takings.handed(0).count()), (1, 3, 0));
    }
}
