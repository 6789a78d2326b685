//! A run that somebody starts whom `quartierd` holds on a node inherits its CPUs. Nobody meant that for the run.

use std::net::SocketAddr;
use std::path::Path;

use quartier_act::widen_own_affinity;
use quartier_model::{CpuList, Machine, NodeOsId};
use quartier_observe::tasks::{cpus_left_to, parent};

use crate::daemon_client::Daemon;

/// So many are asked about: who started this program, who started that, and so on.
const GENERATIONS_MAX: usize = 8;

/// Gives this program the CPUs back that `quartierd` has taken from whoever started it, `own` being those that it has.
/// Gives the node that it was held on; `None`: nobody was held, or no `quartierd` answers.
pub fn widen(machine: &Machine, own: &CpuList, at: SocketAddr) -> Option<NodeOsId> {
    let online = machine.cpus().iter().filter(|cpu| cpu.online).map(|cpu| cpu.os_id.0);
    let online: CpuList = online.collect();
    let pid = std::process::id();
    let whole = cpus_left_to(Path::new("/"), pid).unwrap_or_else(|| online.clone());
    let whole: CpuList = whole.iter().filter(|cpu| online.contains(*cpu)).collect();
    if is_all_of(own, &whole) {
        return None;
    }
    let daemon = Daemon::new(at);
    let ancestors =
        std::iter::successors(parent(Path::new("/"), pid), |pid| parent(Path::new("/"), *pid));
    let mut held_on = ancestors
        .take(GENERATIONS_MAX)
        .map_while(|pid| Some(daemon.explanation(pid).ok()?.held_on));
    let node = held_on.find(|held_on| !held_on.is_empty())?.into_iter().find(|os_id| {
        let node = machine.node_by_os_id(*os_id);
        node.is_some_and(|node| is_all_of(own, &left_on(&machine.node_cpu_list(node), &whole)))
    })?;
    widen_own_affinity(&whole).then_some(node)
}

/// What a cpuset leaves of a node: that, and nothing else, is what `quartierd` leaves to whom it holds there.
fn left_on(node: &CpuList, whole: &CpuList) -> CpuList {
    node.iter().filter(|cpu| whole.contains(*cpu)).collect()
}

fn is_all_of(own: &CpuList, cpus: &CpuList) -> bool {
    cpus.iter().all(|cpu| own.contains(cpu)) && own.iter().all(|cpu| cpus.contains(cpu))
}
