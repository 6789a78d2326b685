//! How powerful the CPUs of nodes are beside each other (UNAS: powerful cores).
//!
//! Of a thread's time the part that is not waiting for memory is as much shorter as its CPU is more powerful; see
//! `work` in `judge.rs`. Threads are held on nodes, so a node's CPUs count together: which CPU of a node a thread gets is the kernel's
//! to decide, which knows their capacities too. Where the capacity of one CPU is unknown all are taken to be alike.

use quartier_model::{Capacity, CpuId, Machine, NodeId, Snapshot};

use super::terms::{Shares, Terms};

/// A node is more powerful from so many times on: firmware says of like CPUs, too, that one may run a twentieth faster.
const STRONGER_MIN: f64 = 1.1;
/// A CPU that is busy for less than this part of the time is idle.
pub const IDLE_MIN: f64 = 0.5;

/// By node: the mean capacity of its CPUs beside that of the most powerful node, 0 to 1.
#[derive(Clone, Debug)]
pub struct Power(Vec<f64>);

impl Power {
    /// Of a machine's nodes.
    pub fn of(machine: &Machine) -> Self {
        let capacity = |cpu: &CpuId| machine.cpus()[cpu.index()].capacity;
        let mean = |node: NodeId| -> Option<f64> {
            let cpus = machine.node_cpus(node);
            let sum: Option<u64> =
                cpus.iter().map(|cpu| capacity(cpu).map(|Capacity(of)| u64::from(of))).sum();
            // One without CPUs runs nobody.
            Some(sum? as f64 / cpus.len().max(1) as f64)
        };
        let means: Option<Vec<f64>> = machine.node_ids().map(mean).collect();
        let most = means.iter().flatten().copied().fold(0.0, f64::max);
        match means {
            Some(means) if most > 0.0 => Self(means.into_iter().map(|mean| mean / most).collect()),
            _ => Self(vec![1.0; machine.nodes().len()]),
        }
    }

    /// Of a node.
    pub fn on(&self, node: NodeId) -> f64 {
        // One without CPUs: whoever is said to be there runs elsewhere.
        self.0.get(node.index()).copied().filter(|power| *power > 0.0).unwrap_or(1.0)
    }

    /// Where a thread was, the mean.
    pub fn at(&self, at: &Shares) -> f64 {
        at.iter().map(|(node, share)| share * self.on(*node)).sum()
    }

    /// Whether a node is so much more powerful than that, that it is worth a thought.
    pub fn is_stronger(&self, node: NodeId, than: f64) -> bool {
        self.on(node) > STRONGER_MIN * than
    }

    /// In eighths, how much longer computing takes there than on the most powerful node.
    pub fn eighths_longer(&self, node: NodeId) -> u64 {
        (8.0 * (1.0 / self.on(node) - 1.0)).round() as u64
    }

    /// How much a process would gain by powerful CPUs, in sixteenths of one: what of its time is not waiting for memory. 0 where all
    /// are alike.
    pub fn wish(&self, process: &Terms<'_>) -> u64 {
        let is_alike = self.0.iter().all(|power| *power == 1.0 || *power == 0.0);
        let demand: f64 = process.to_place().map(|thread| thread.demand()).sum();
        if is_alike { 0 } else { (16.0 * demand * (1.0 - process.intensity.value())) as u64 }
    }

    /// Whether a CPU is idle on a node that is more powerful than where a thread of this process was, and that its cpuset leaves
    /// to it.
    pub fn has_idle_for(
        &self,
        machine: &Machine,
        snapshot: &Snapshot,
        process: &Terms<'_>,
    ) -> bool {
        let window = snapshot.window.0 as f64;
        let is_idle = |at: usize| {
            let cpu = &machine.cpus()[at];
            let busy = snapshot.cpus_busy.get(at).copied().flatten();
            busy.is_some_and(|busy| (busy.0 as f64) < IDLE_MIN * window)
                && snapshot.may_use(process.seen, cpu.os_id)
        };
        let stronger =
            |than: f64| machine.node_ids().filter(move |node| self.is_stronger(*node, than));
        process.to_place().any(|thread| {
            stronger(self.at(&thread.at))
                .any(|node| machine.node_cpus(node).iter().any(|cpu| is_idle(cpu.index())))
        })
    }
}
