//! How tasks and their memory are placed, in the terms that decisions are made of, for people to look at.

use quartier_model::{Factors, NodeId};
use serde::{Deserialize, Serialize};

use super::judge;
use super::plan::Sight;
use super::terms::{Shares, Terms, most};

/// A machine over the window of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// By [`NodeId`].
    pub nodes: Vec<NodeOverview>,
    /// CPUs' worth that run on one node and have their memory on another: by the first, then the second. What has its
    /// memory nobody knows where is left out.
    pub flows_cpus: Vec<Vec<f64>>,
    /// In the snapshot's order.
    pub processes: Vec<Placed>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOverview {
    /// Threads that ran or waited there.
    pub threads: u32,
    /// CPUs' worth.
    pub running_cpus: f64,
    /// Likewise, of threads that waited for a CPU.
    pub waiting_cpus: f64,
    /// CPUs' worth of waiting for its memory, by CPUs per node.
    pub pressure: f64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// But for what it would gain elsewhere.
    pub factors: Factors,
    /// Where it ran, in parts of 1.
    pub ran_on: Vec<(NodeId, f64)>,
    /// Where its pages lie, in parts of 1.
    pub pages_on: Option<Vec<(NodeId, f64)>>,
    /// How much of its running had memory on its own node, as far as pages are used alike: 0 to 1.
    pub local: Option<f64>,
}

/// The part of running that has its memory on its own node, of such flows; `None`: nothing runs, or it is not known.
#[must_use]
pub fn local_part(flows_cpus: &[Vec<f64>]) -> Option<f64> {
    let local: f64 = (0..).zip(flows_cpus).filter_map(|(at, row): (usize, _)| row.get(at)).sum();
    let all: f64 = flows_cpus.iter().flatten().sum();
    (all > 0.0).then(|| local / all)
}

impl Overview {
    pub(super) fn of(sight: &Sight<'_>) -> Self {
        let nr_nodes = sight.machine.nodes().len();
        let mut overview = Self {
            nodes: vec![NodeOverview::default(); nr_nodes],
            flows_cpus: vec![vec![0.0; nr_nodes]; nr_nodes],
            processes: Vec::with_capacity(sight.all.len()),
        };
        for process in &sight.all {
            overview.add(process);
            overview.processes.push(placed(sight, process));
        }
        for (node, seen) in (0..).map(NodeId).zip(&mut overview.nodes) {
            seen.pressure = sight.pressure.on(node);
        }
        overview
    }

    fn add(&mut self, process: &Terms<'_>) {
        for thread in &process.threads {
            if let Some(node) = most(&thread.at).and_then(|node| self.nodes.get_mut(node.index())) {
                node.threads += 1;
            }
            for (node, share) in &thread.at {
                let seen = &mut self.nodes[node.index()];
                seen.running_cpus += share * thread.running;
                seen.waiting_cpus += share * thread.waiting;
                for (to, part) in process.pages_of(thread).into_iter().flatten() {
                    self.flows_cpus[node.index()][to.index()] += share * thread.running * part;
                }
            }
        }
    }
}

fn placed(sight: &Sight<'_>, process: &Terms<'_>) -> Placed {
    let contention = judge::contention(process, &sight.pressure);
    Placed {
        factors: process.factors(sight.machine, contention),
        ran_on: ran_on(process),
        pages_on: process.pages.clone(),
        local: process.local(),
    }
}

fn ran_on(process: &Terms<'_>) -> Shares {
    let demand: f64 = process.threads.iter().map(|thread| thread.demand()).sum();
    let mut shares = Shares::new();
    for thread in process.threads.iter().filter(|_| demand > 0.0) {
        for (node, share) in &thread.at {
            let more = share * thread.demand() / demand;
            match shares.iter_mut().find(|(other, _)| other == node) {
                Some((_, sum)) => *sum += more,
                None => shares.push((*node, more)),
            }
        }
    }
    shares.sort_by_key(|(node, _)| *node);
    shares
}
