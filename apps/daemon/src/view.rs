//! What is shown of the machine.

use std::time::SystemTime;

use quartier_decide::reporter::view::{NodeView, ProcessView, VIEW_FORMAT, View};
use quartier_decide::reporter::{NodeOverview, Overview, Placed, Reporter};
use quartier_model::{Counting, Machine, NodeId, ProcessSeen, Snapshot};

use crate::told::Told;

/// As of a snapshot.
pub fn of(
    reporter: &Reporter,
    told: &Told,
    applies: bool,
    counting: Counting,
    snapshot: &Snapshot,
) -> View {
    let machine = reporter.machine();
    let Overview { nodes, flows_cpus, processes } = reporter.overview(snapshot);
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let processes = snapshot.processes.iter().zip(processes);
    View {
        format: VIEW_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: unix.as_millis().try_into().unwrap_or(u64::MAX),
        at: snapshot.at,
        window: snapshot.window,
        applies,
        counting,
        nodes: (0..)
            .map(NodeId)
            .zip(nodes)
            .map(|(id, seen)| node(machine, snapshot, id, seen))
            .collect(),
        distances: machine.distances().rows.clone(),
        flows_cpus,
        processes: processes.map(|(seen, placed)| process(told, seen, placed)).collect(),
        events: told.events().cloned().collect(),
        counts: told.counts,
    }
}

fn node(machine: &Machine, snapshot: &Snapshot, id: NodeId, seen: NodeOverview) -> NodeView {
    let node = &machine.nodes()[id.index()];
    let cpus = machine.node_cpus(id).iter();
    let is_used =
        |cpu: &&quartier_model::CpuId| snapshot.cpus.contains(machine.cpus()[cpu.index()].os_id.0);
    NodeView {
        os_id: node.os_id,
        cpus: cpus.filter(is_used).count() as u32,
        memory: node.memory,
        free: snapshot.nodes.get(id.index()).and_then(|seen| seen.free),
        seen,
    }
}

fn process(told: &Told, seen: &ProcessSeen, placed: Placed) -> ProcessView {
    let held = seen.threads.iter().filter(|thread| thread.held_on.is_some());
    ProcessView {
        name: seen.name.clone(),
        age: seen.age,
        standing: seen.standing,
        resident: seen.resident,
        threads: seen.threads.len() as u32,
        held: held.count() as u32,
        placed,
        decided: told.decided(seen),
    }
}
