//! A run cut into slices, few enough to draw however long it is.

use quartier_memmodel::{Counts, Kind};
use serde::{Deserialize, Serialize};

/// Slices of a recording: enough for a curve as wide as a page.
pub const SLICES_MAX: usize = 200;

/// What the program asked for between two moments; arrays in the order of [`Kind::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Instructions of the program up to the slice's end.
    pub instructions: u64,
    /// Commands by kind that stayed on their node, since the slice before.
    pub local: [u64; 6],
    /// Commands by kind that left it.
    pub remote: [u64; 6],
    /// Modelled cycles of each node's CPUs, since the slice before; empty: nobody noted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modelled_cycles: Vec<u64>,
}

/// Slices as they are written. When [`SLICES_MAX`] are there, every two become one and the period
/// doubles: a writer never knows how long a program will run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices {
    period: u64,
    slices: Vec<Slice>,
    /// All that was handed to [`note`](Self::note) so far.
    noted: Slice,
}

impl Slices {
    /// None yet; the first is due after `period` instructions of the program (at least one).
    #[must_use]
    pub fn new(period: u64) -> Self {
        Self { period: period.max(1), slices: Vec::new(), noted: Slice::default() }
    }

    /// Instructions of the program at which the next slice is due.
    #[must_use]
    pub fn due_at(&self) -> u64 {
        self.slices.last().map_or(0, |last| last.instructions).saturating_add(self.period)
    }

    /// Instructions between two slices now.
    #[must_use]
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Adds a slice. One that ends where the last one does is added to it.
    pub fn push(&mut self, slice: Slice) {
        if let Some(last) = self.slices.last_mut()
            && slice.instructions <= last.instructions
        {
            last.add(&slice);
            return;
        }
        if self.slices.len() == SLICES_MAX {
            self.halve();
        }
        self.slices.push(slice);
    }

    /// Adds what was counted since this was called last, from the program's counts so far.
    pub fn note(&mut self, instructions: u64, counts: &Counts) {
        let mut total = Slice { instructions, ..Slice::default() };
        for kind in Kind::ALL {
            let split = counts.commands(kind, None);
            total.local[kind as usize] = split.local;
            total.remote[kind as usize] = split.remote;
        }
        let since = |now: &[u64; 6], then: &[u64; 6]| -> [u64; 6] {
            std::array::from_fn(|kind| now[kind].saturating_sub(then[kind]))
        };
        for cpu in &counts.cpus {
            let node = usize::from(cpu.node);
            if total.modelled_cycles.len() <= node {
                total.modelled_cycles.resize(node + 1, 0);
            }
            total.modelled_cycles[node] += cpu.modelled_cycles;
        }
        let cycles = total.modelled_cycles.iter().enumerate().map(|(node, now)| {
            now.saturating_sub(self.noted.modelled_cycles.get(node).copied().unwrap_or(0))
        });
        let modelled_cycles = cycles.collect();
        let local = since(&total.local, &self.noted.local);
        let remote = since(&total.remote, &self.noted.remote);
        self.push(Slice { instructions, local, remote, modelled_cycles });
        self.noted = total;
    }

    /// Those so far, the oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Slice] {
        &self.slices
    }

    /// For the recording.
    #[must_use]
    pub fn into_vec(self) -> Vec<Slice> {
        self.slices
    }

    fn halve(&mut self) {
        let merge = |two: &[Slice]| {
            let mut merged = two[0].clone();
            if let Some(second) = two.get(1) {
                merged.add(second);
                merged.instructions = second.instructions;
            }
            merged
        };
        self.slices = self.slices.chunks(2).map(merge).collect();
        self.period = self.period.saturating_mul(2);
    }
}

impl Slice {
    fn add(&mut self, other: &Self) {
        for (sum, nr) in self.local.iter_mut().zip(other.local) {
            *sum = sum.saturating_add(nr);
        }
        for (sum, nr) in self.remote.iter_mut().zip(other.remote) {
            *sum = sum.saturating_add(nr);
        }
        let nr_nodes = self.modelled_cycles.len().max(other.modelled_cycles.len());
        self.modelled_cycles.resize(nr_nodes, 0);
        for (sum, nr) in self.modelled_cycles.iter_mut().zip(&other.modelled_cycles) {
            *sum = sum.saturating_add(*nr);
        }
    }
}

#[cfg(test)]
mod tests {
    use quartier_memmodel::CpuCounts;

    use super::*;

    /// A program of which each period has one RD in its node and two elsewhere.
    fn feed(slices: &mut Slices, nr: u64) {
        for _ in 0..nr {
            let mut slice = Slice { instructions: slices.due_at(), ..Slice::default() };
            slice.local[0] = 1;
            slice.remote[0] = 2;
            slice.modelled_cycles = vec![3, 4];
            slices.push(slice);
        }
    }

    #[test]
    fn however_long_it_takes_they_are_few_and_nothing_is_lost() {
        for nr in [0, 1, 199, 200, 201, 1000, 12_345] {
            let mut slices = Slices::new(1000);
            feed(&mut slices, nr);
            let all = slices.as_slice();
            assert!(all.len() <= SLICES_MAX, "{nr}");
            assert!(nr < 200 || all.len() > SLICES_MAX / 2, "{nr}");
            assert_eq!(all.iter().map(|slice| slice.local[0]).sum::<u64>(), nr);
            assert_eq!(all.iter().map(|slice| slice.remote[0]).sum::<u64>(), 2 * nr);
            assert_eq!(all.iter().map(|slice| slice.modelled_cycles[1]).sum::<u64>(), 4 * nr);
            assert!(all.windows(2).all(|two| two[0].instructions < two[1].instructions), "{nr}");
        }
    }

    #[test]
    fn the_period_doubles_when_they_are_full() {
        let mut slices = Slices::new(10);
        feed(&mut slices, 200);
        assert_eq!((slices.period(), slices.as_slice().len(), slices.due_at()), (10, 200, 2010));
        feed(&mut slices, 1);
        assert_eq!((slices.period(), slices.as_slice().len(), slices.due_at()), (20, 101, 2030));
        assert_eq!(slices.as_slice()[0].instructions, 20);
        assert_eq!(slices.as_slice()[0].local[0], 2);
    }

    #[test]
    fn a_slice_of_no_length_joins_the_last() {
        let mut slices = Slices::new(10);
        feed(&mut slices, 1);
        slices.push(Slice { instructions: 10, local: [1; 6], ..Slice::default() });
        assert_eq!(slices.as_slice().len(), 1);
        assert_eq!(slices.as_slice()[0].local[0], 2);
        assert_eq!(Slices::new(0).due_at(), 1);
    }

    #[test]
    fn counts_so_far_become_differences() {
        let pair = |target: u16, reads: u64| quartier_memmodel::Pair {
            initiator: 0,
            target,
            hops: target,
            commands: [[reads, 0, 0], [0; 3], [0; 3], [0; 3], [0; 3], [0; 3]],
            words: 0,
        };
        let cpu =
            |node, modelled_cycles| CpuCounts { node, modelled_cycles, ..CpuCounts::default() };
        let mut slices = Slices::new(10);
        for (instructions, local, remote) in [(10, 5, 1), (20, 5, 4)] {
            let pairs = vec![pair(0, local), pair(1, remote)];
            // Two CPUs of the first node, and one of the second.
            let cpus = vec![cpu(0, 100), cpu(0, 10 * instructions), cpu(1, instructions)];
            slices.note(instructions, &Counts { pairs, cpus, ..Counts::default() });
        }
        let slices = slices.into_vec();
        let reads: Vec<_> = slices.iter().map(|slice| (slice.local[0], slice.remote[0])).collect();
        assert_eq!(reads, [(5, 1), (0, 3)]);
        let cycles: Vec<_> = slices.iter().map(|slice| &slice.modelled_cycles[..]).collect();
        assert_eq!(cycles, [[200, 10], [100, 10]]);
    }
}
