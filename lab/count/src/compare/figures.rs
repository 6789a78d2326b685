//! The numbers of a run that are compared, and over all runs of a policy.

use quartier_memmodel::{Class, Kind};
use serde::{Deserialize, Serialize};

use super::Spread;
use crate::numbers::share;
use crate::report::{Report, Tally};

/// Numbers of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFigures {
    /// Q of thesis 5.3.4, MiB.
    pub q_mib: f64,
    /// Of it, what accesses of the program itself moved.
    pub q_user_mib: f64,
    /// Of it, what the kernel's moved, copies of pages among them.
    pub q_kernel_mib: f64,
    /// Of it, what walks of page tables moved.
    pub q_walk_mib: f64,
    /// Q of the rest of the guest meanwhile, such as pages that numad moves; in no other number.
    pub q_rest_mib: f64,
    /// Of commands that leave their node, loads of the program itself (RD, user), percent; absent if none
    /// leaves.
    pub user_read_percent: Option<f64>,
    /// Whether RD that leave their node are spread evenly: each node is asked for between half and twice
    /// the mean share, by all together and by each node that asks, and at least two ask. Absent if none
    /// leaves.
    pub are_reads_even: Option<bool>,
    /// Commands that leave their node, percent; absent without commands.
    pub remote_percent: Option<f64>,
    /// Hops of the mean command; absent without commands.
    pub mean_hops: Option<f64>,
    /// Modelled time of the phase, which is the busiest CPU's, milliseconds; absent if no CPU executed anything.
    pub modelled_phase_ms: Option<f64>,
    /// Modelled time of the mean CPU of those that executed anything, milliseconds.
    pub modelled_mean_cpu_ms: Option<f64>,
}

/// Numbers over all runs of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Q of thesis 5.3.4, MiB.
    pub q_mib: Spread,
    /// Of it, what accesses of the program itself moved.
    pub q_user_mib: Spread,
    /// Of it, what the kernel's moved, copies of pages among them.
    pub q_kernel_mib: Spread,
    /// Of it, what walks of page tables moved.
    pub q_walk_mib: Spread,
    /// Q of the rest of the guest meanwhile, such as pages that numad moves; in no other number.
    pub q_rest_mib: Spread,
    /// Of commands that leave their node, loads of the program itself (RD, user), percent; absent if none
    /// left in a run.
    pub user_read_percent: Option<Spread>,
    /// Commands that leave their node, percent; absent if a run had none.
    pub remote_percent: Option<Spread>,
    /// Hops of the mean command; absent if a run had none.
    pub mean_hops: Option<Spread>,
    /// Modelled time of the phase, milliseconds; absent if a run had none.
    pub modelled_phase_ms: Option<Spread>,
    /// Modelled time of the mean CPU, milliseconds; absent if a run had none.
    pub modelled_mean_cpu_ms: Option<Spread>,
    /// Q divided by first touch's; absent where that is 0 or unknown.
    pub q_to_first_touch: Option<Spread>,
    /// Q divided by that of the best placement by hand.
    pub q_to_hand: Option<Spread>,
    /// Modelled time divided by first touch's.
    pub modelled_time_to_first_touch: Option<Spread>,
    /// Modelled time divided by that of the best placement by hand.
    pub modelled_time_to_hand: Option<Spread>,
}

impl RunFigures {
    pub(super) fn new(report: &Report) -> Self {
        let program = &report.program;
        Self {
            q_mib: program.q_mib,
            q_user_mib: program.q_user_mib,
            q_kernel_mib: program.q_kernel_mib,
            q_walk_mib: program.q_walk_mib,
            q_rest_mib: report.rest.q_mib,
            user_read_percent: share(remote_user_reads(program), program.commands.remote),
            are_reads_even: are_reads_even(program),
            remote_percent: program.remote_percent,
            mean_hops: program.mean_hops,
            modelled_phase_ms: report.modelled.phase_ms,
            modelled_mean_cpu_ms: report.mean_cpu_ms(),
        }
    }
}

impl Figures {
    /// Without ratios. Absent without runs.
    pub(super) fn new(runs: &[RunFigures]) -> Option<Self> {
        let of = |f: fn(&RunFigures) -> Option<f64>| Spread::of(runs.iter().map(f));
        Some(Self {
            q_mib: of(|run| Some(run.q_mib))?,
            q_user_mib: of(|run| Some(run.q_user_mib))?,
            q_kernel_mib: of(|run| Some(run.q_kernel_mib))?,
            q_walk_mib: of(|run| Some(run.q_walk_mib))?,
            q_rest_mib: of(|run| Some(run.q_rest_mib))?,
            user_read_percent: of(|run| run.user_read_percent),
            remote_percent: of(|run| run.remote_percent),
            mean_hops: of(|run| run.mean_hops),
            modelled_phase_ms: of(|run| run.modelled_phase_ms),
            modelled_mean_cpu_ms: of(|run| run.modelled_mean_cpu_ms),
            q_to_first_touch: None,
            q_to_hand: None,
            modelled_time_to_first_touch: None,
            modelled_time_to_hand: None,
        })
    }
}

fn remote_user_reads(tally: &Tally) -> u64 {
    let reads = tally.kinds.iter().filter(|of| of.kind == Kind::Read).flat_map(|of| &of.classes);
    let remote = reads.filter(|of| of.class == Class::User).map(|of| of.remote);
    remote.fold(0, u64::saturating_add)
}

/// [`RunFigures::are_reads_even`].
fn are_reads_even(tally: &Tally) -> Option<bool> {
    let nr_nodes = tally.matrix.len();
    let mut asked = vec![0; nr_nodes];
    // What each node asks every other for, a node that it does not ask too.
    let mut asks = vec![vec![0; nr_nodes.saturating_sub(1)]; nr_nodes];
    for pair in tally.pairs.iter().filter(|pair| pair.hops > 0) {
        let (from, to, reads) = (usize::from(pair.from), usize::from(pair.to), pair.kinds.read);
        asked[to] = reads.saturating_add(asked[to]);
        asks[from][if to > from { to - 1 } else { to }] = reads;
    }
    asks.retain(|asks| asks.iter().any(|&reads| reads > 0));
    (!asks.is_empty())
        .then(|| asks.len() > 1 && is_even(&asked) && asks.iter().all(|asks| is_even(asks)))
}

fn is_even(counts: &[u64]) -> bool {
    let mean = counts.iter().map(|&nr| nr as f64).sum::<f64>() / counts.len() as f64;
    counts.iter().all(|&nr| (0.5 * mean..=2.0 * mean).contains(&(nr as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{KindCounts, PairCommands};

    /// Reads from each node (row) to each.
    fn tally<const N: usize>(reads: [[u64; N]; N]) -> Tally {
        let matrix = reads.map(|row| row.to_vec()).to_vec();
        let pair = |from: usize, to: usize| PairCommands {
            from: from as u16,
            to: to as u16,
            hops: u16::from(from != to),
            kinds: KindCounts { read: reads[from][to], ..KindCounts::default() },
        };
        let pairs = (0..N).flat_map(|from| (0..N).map(move |to| pair(from, to)));
        Tally { matrix, pairs: pairs.collect(), ..Tally::default() }
    }

    #[test]
    fn what_all_ask_all_for_is_even() {
        let even = |reads| are_reads_even(&tally(reads));
        assert_eq!(even([[9, 5, 4], [5, 9, 5], [6, 5, 0]]), Some(true));
        assert_eq!(even([[9, 0, 0], [0, 9, 0], [0, 0, 9]]), None);
        // All ask node 1.
        assert_eq!(even([[0, 9, 1], [1, 0, 1], [1, 9, 0]]), Some(false));
        // Each asks the next: every node is asked for the same, and yet nothing is read by all.
        assert_eq!(even([[0, 9, 0], [0, 0, 9], [9, 0, 0]]), Some(false));
        // One asks alone: its data could be with it.
        assert_eq!(even([[0, 9, 9], [0, 9, 0], [0, 0, 9]]), Some(false));
        // Half of the mean share and twice as much are even still.
        assert_eq!(even([[0, 4, 2], [4, 0, 2], [4, 4, 0]]), Some(true));
        assert_eq!(
            (is_even(&[1, 2, 3]), is_even(&[2, 5, 5]), is_even(&[1, 5, 5])),
            (true, true, false)
        );
        assert_eq!((is_even(&[10, 10, 40]), is_even(&[10, 10, 41])), (true, false));
    }
}
