//! From a snapshot to what is shown of it.

use quartier_model::{
    Counting, CpuId, Machine, NodeId, NodeSeen, ProcessSeen, Snapshot, WorkingSets,
};

use super::told::Told;
use super::view::{Explanation, NodeView, ProcessView, VIEW_FORMAT, View};
use super::{NodeOverview, Overview, Placed, Reporter};

impl View {
    /// As of a snapshot. Which `quartierd` this is, what time it is, and what it counts, is for whoever knows to fill in.
    #[must_use]
    pub fn of(reporter: &Reporter, told: &Told, applies: bool, snapshot: &Snapshot) -> Self {
        let machine = reporter.machine();
        let Overview { nodes, flows_cpus, processes } = reporter.overview(snapshot);
        let nodes = (0..).map(NodeId).zip(nodes);
        let processes = snapshot.processes.iter().zip(processes);
        Self {
            format: VIEW_FORMAT,
            version: String::new(),
            unix_ms: 0,
            at: snapshot.at,
            window: snapshot.window,
            applies,
            counting: Counting::default(),
            working_sets: WorkingSets::default(),
            settings: Some(reporter.settings().clone()),
            nodes: nodes.map(|(id, seen)| node(machine, snapshot, id, seen)).collect(),
            kernel: snapshot.kernel,
            distances: machine.distances().rows.clone(),
            flows_cpus,
            history: Vec::new(),
            processes: processes.map(|(seen, placed)| process(told, seen, placed)).collect(),
            events: told.events().cloned().collect(),
            counts: told.counts,
        }
    }
}

impl Explanation {
    /// Of the process that has this number, or a thread that has it, among those that were seen.
    #[must_use]
    pub fn of(view: &View, snapshot: &Snapshot, number: u32) -> Self {
        let process = snapshot.processes.iter().find(|seen| seen.id.id == number);
        let has_thread =
            |seen: &&ProcessSeen| seen.threads.iter().any(|thread| thread.id.id == number);
        let seen = process.or_else(|| snapshot.processes.iter().find(has_thread));
        let pid = seen.map_or(number, |seen| seen.id.id);
        let is_it = |process: &&ProcessView| process.placed.factors.process.id == pid;
        let events = view.events.iter().filter(|event| event.process.id == pid);
        Self {
            format: VIEW_FORMAT,
            at: view.at,
            window: Some(view.window),
            applies: view.applies,
            settings: view.settings.clone(),
            nodes: view.nodes.iter().map(|node| node.os_id).collect(),
            process: view.processes.iter().find(is_it).cloned(),
            seen: seen.cloned(),
            absent: None,
            held_on: Vec::new(),
            starter_held_on: Vec::new(),
            events: events.cloned().collect(),
        }
    }
}

fn node(machine: &Machine, snapshot: &Snapshot, id: NodeId, seen: NodeOverview) -> NodeView {
    let node = &machine.nodes()[id.index()];
    let cpus = machine.node_cpus(id).iter();
    let is_used = |cpu: &&CpuId| snapshot.cpus.contains(machine.cpus()[cpu.index()].os_id.0);
    NodeView {
        os_id: node.os_id,
        cpus: cpus.filter(is_used).count() as u32,
        memory: node.memory,
        free: snapshot.nodes.get(id.index()).and_then(|seen| seen.free),
        free_huge: snapshot.nodes.get(id.index()).and_then(NodeSeen::free_huge),
        busy: busy(machine, snapshot, id),
        allocated: snapshot.nodes.get(id.index()).and_then(|seen| seen.allocated),
        seen,
    }
}

/// The mean of those of its CPUs of which it is known.
fn busy(machine: &Machine, snapshot: &Snapshot, id: NodeId) -> Option<f64> {
    let of = |cpu: &CpuId| snapshot.cpus_busy.get(cpu.index()).copied().flatten();
    let known: Vec<_> = machine.node_cpus(id).iter().filter_map(of).collect();
    let sum: f64 = known.iter().map(|busy| busy.0 as f64).sum();
    let time = snapshot.window.0 as f64 * known.len() as f64;
    (time > 0.0).then(|| (sum / time).min(1.0))
}

fn process(told: &Told, seen: &ProcessSeen, placed: Placed) -> ProcessView {
    let held = seen.threads.iter().filter(|thread| thread.held_on.is_some());
    ProcessView {
        name: seen.name.clone(),
        age: seen.age,
        standing: seen.standing,
        resident: seen.resident,
        working_set: seen.working_set,
        threads: seen.threads.len() as u32,
        held: held.count() as u32,
        placed,
        decided: told.decided(seen),
    }
}

#[cfg(test)]
mod tests {
    use quartier_model::{Nanos, NodeOsId};

    use super::super::world::{World, id, process, thread_id};
    use super::*;

    fn view_of(snapshot: &Snapshot, world: &World) -> View {
        View::of(&world.reporter(), &Told::keeping(8), false, snapshot)
    }

    #[test]
    fn a_nodes_utilisation_is_the_mean_of_the_cpus_that_are_known() {
        let world = World::new(2, 2, vec![process(&[(0, 300)], &[0])]);
        let mut snapshot = world.snapshot();
        let busy = |snapshot: &Snapshot| -> Vec<_> {
            view_of(snapshot, &world).nodes.iter().map(|node| node.busy).collect()
        };
        assert_eq!(busy(&snapshot), [Some(0.5), Some(0.0)]);
        snapshot.cpus_busy[1] = None;
        assert_eq!(busy(&snapshot), [Some(1.0), Some(0.0)]);
        snapshot.cpus_busy.truncate(2);
        assert_eq!(busy(&snapshot), [Some(1.0), None], "unknown is not idle");
        snapshot.window = Nanos(0);
        assert_eq!(busy(&snapshot), [None, None]);
    }

    #[test]
    fn a_number_is_a_processs_or_that_of_a_thread_of_it() {
        let world = World::new(2, 2, vec![process(&[(0, 300)], &[0, 1]), process(&[], &[2])]);
        let snapshot = world.snapshot();
        let view = view_of(&snapshot, &world);
        let pid_of = |number| {
            let Explanation { process, seen, .. } = Explanation::of(&view, &snapshot, number);
            let pid = process.map(|process| process.placed.factors.process);
            assert_eq!(seen.map(|seen| seen.id), pid);
            pid
        };
        assert_eq!(pid_of(id(1).id), Some(id(1)));
        assert_eq!(pid_of(thread_id(0, 1).id), Some(id(0)));
        assert_eq!(pid_of(7), None);
        let nodes = Explanation::of(&view, &snapshot, 7).nodes;
        assert_eq!(nodes, [NodeOsId(0), NodeOsId(1)]);
    }
}
