//! From what a sample counted to the whole: by the sets of caches and the windows of time left out.
//!
//! Accesses and translations are seen in every set, so only time is missing of them; misses of caches,
//! commands and what they cost were seen in the modelled sets. Instructions are always counted.

use quartier_memmodel::{Counts, CpuCounts, Pair, Snapshot, Totals};

use crate::slices::Slice;

/// What counts are multiplied by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    /// What is seen in every set.
    time: f64,
    /// What is seen in the modelled sets.
    sets: f64,
}

impl Factors {
    /// Of an owner's counts; absent if it ran and nothing of that was measured.
    pub(super) fn of(counts: &Counts, snapshot: &Snapshot) -> Option<Self> {
        let of = |field: fn(&Totals) -> u64| {
            super::sum(counts.cpus.iter().map(|cpu| field(&cpu.totals)))
        };
        let (all, measured) =
            (of(|totals| totals.instructions), of(|totals| totals.sampled_instructions));
        let time = match (all, measured) {
            (0, _) => 1.0,
            (_, 0) => return None,
            _ => all as f64 / measured as f64,
        };
        Some(Self { time, sets: time * f64::from(snapshot.sets_one_in) })
    }

    pub(super) fn counts(&self, counts: &Counts, second_tlb_cycles: u32) -> Counts {
        let cpu = |cpu: &CpuCounts| self.cpu(cpu, second_tlb_cycles);
        Counts {
            cpus: counts.cpus.iter().map(cpu).collect(),
            pairs: counts.pairs.iter().map(|pair| self.pair(pair)).collect(),
        }
    }

    pub(super) fn slice(&self, slice: &Slice) -> Slice {
        let scaled = |by_kind: [u64; 6]| by_kind.map(|nr| times(nr, self.sets));
        let (local, remote) = (scaled(slice.local), scaled(slice.remote));
        Slice { instructions: slice.instructions, local, remote }
    }

    fn pair(&self, pair: &Pair) -> Pair {
        Pair {
            commands: pair.commands.map(|by_class| by_class.map(|nr| times(nr, self.sets))),
            words: times(pair.words, self.sets),
            ..*pair
        }
    }

    fn cpu(&self, cpu: &CpuCounts, second_tlb_cycles: u32) -> CpuCounts {
        let totals = cpu.totals;
        let in_time = |nr: u64| times(nr, self.time);
        let in_sets = |nr: u64| times(nr, self.sets);
        let of_tlb = totals.second_tlb_hits.saturating_mul(u64::from(second_tlb_cycles) * 1000);
        let of_tlb = of_tlb.min(totals.stall_millicycles);
        let stall_millicycles =
            in_time(of_tlb).saturating_add(in_sets(totals.stall_millicycles - of_tlb));
        let of_instructions = cpu.modelled_cycles.saturating_sub(totals.stall_millicycles / 1000);
        let totals = Totals {
            fetches: in_time(totals.fetches),
            data_accesses: in_time(totals.data_accesses),
            l1i_misses: in_sets(totals.l1i_misses),
            l1d_read_misses: in_sets(totals.l1d_read_misses),
            l1d_write_misses: in_sets(totals.l1d_write_misses),
            itlb_misses: in_time(totals.itlb_misses),
            dtlb_misses: in_time(totals.dtlb_misses),
            second_tlb_hits: in_time(totals.second_tlb_hits),
            itlb_walks: in_time(totals.itlb_walks),
            dtlb_walks: in_time(totals.dtlb_walks),
            table_reads: in_time(totals.table_reads),
            device_accesses: in_sets(totals.device_accesses),
            l2_hits: in_sets(totals.l2_hits),
            last_level_hits: in_sets(totals.last_level_hits),
            peer_hits: in_sets(totals.peer_hits),
            owner_hits: in_sets(totals.owner_hits),
            memory_reads: in_sets(totals.memory_reads),
            stall_millicycles,
            // No report speaks of the others.
            ..totals
        };
        let modelled_cycles = of_instructions.saturating_add(stall_millicycles / 1000);
        CpuCounts { node: cpu.node, totals, modelled_cycles }
    }
}

/// Exact where nothing was left out.
fn times(nr: u64, factor: f64) -> u64 {
    if factor == 1.0 { nr } else { (nr as f64 * factor).round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_left_out_is_nothing_changed() {
        assert_eq!(times(u64::MAX - 1, 1.0), u64::MAX - 1);
        assert_eq!(times(3, 2.5), 8);
        assert_eq!(times(u64::MAX, 64.0), u64::MAX);
    }
}
