//! Decisions about pages.

use quartier_decide::dqdt::{BLOCK_ORDERS, ClusterId, FreeMemory};
use quartier_decide::policy::Event;
use quartier_decide::policy::memory::{AllowedNodes, Request, explain};
use quartier_model::{CpuId, NodeId};

use super::account::{Attempt, LoadSeen, PartName, PartSeen};
use super::options::RequestOptions;
use super::placement::count_of;
use super::report::{Outcome, Report, Start};
use super::scene::{Lookup, Scene};
use super::state::State;
use super::teller::Teller;
use crate::topo::names::nodes_text;

/// Fills the report.
pub fn replay(
    report: &mut Report,
    options: &RequestOptions,
    scene: &Scene<'_>,
    lookup: &Lookup<'_>,
    state: &State,
    from: Option<CpuId>,
) -> anyhow::Result<()> {
    let tree = scene.names.tree;
    let allowed = match &options.nodes {
        Some(list) => {
            let nodes = list.iter().map(|os_id| lookup.node(os_id));
            AllowedNodes::new(tree, nodes.collect::<anyhow::Result<Vec<_>>>()?)
        }
        None => AllowedNodes::all(tree),
    };
    let request = Request {
        from: scene.node_of(from),
        allowed: &allowed,
        nr_pages: options.pages.unwrap_or(1),
        block_order: options.order.map(usize::from),
    };
    report.request = sentence(options, scene, &request, from);
    let replay = Replay { scene, request: &request };
    report.start = Some(replay.start());
    let mut events: Vec<Event> = Vec::new();
    let found = explain(&scene.estimates, &request, &mut events);
    report.attempts = replay.teller().tell(&events);
    replay.complete(&mut report.attempts);
    report.outcome = found.map(|found| Outcome {
        node: Some(tree.node_os_id(found.node).0),
        distance: request.from.map(|_| found.distance.0),
        visited: found.visited,
        ..Outcome::default()
    });
    if found.is_none() {
        report.reason = Some(replay.reason(state));
    }
    if options.order.is_some_and(|order| order > 0) && state.blocks_assumed {
        let note = "free blocks of a node are not given: its free pages count as single pages";
        report.notes.push(note.to_owned());
    }
    Ok(())
}

fn sentence(
    options: &RequestOptions,
    scene: &Scene<'_>,
    request: &Request<'_>,
    from: Option<CpuId>,
) -> String {
    let mut text = count_of(request.nr_pages, "free page");
    if let Some(order) = request.block_order {
        text += &format!(", a block of 2^{order} among them");
    }
    text += &match from {
        Some(cpu) => format!(", for {}", scene.cpu_and_node(cpu)),
        None => ", for nobody in particular".to_owned(),
    };
    match &options.nodes {
        Some(list) => text + &format!("; allowed: {}", nodes_text(list)),
        None => text + "; every node allowed",
    }
}

struct Replay<'a> {
    scene: &'a Scene<'a>,
    request: &'a Request<'a>,
}

impl Replay<'_> {
    fn teller(&self) -> Teller<'_> {
        Teller { scene: *self.scene, from: self.request.from, is_about_memory: true }
    }

    fn start(&self) -> Start {
        let tree = self.scene.names.tree;
        match self.request.from {
            Some(node) => Start {
                cluster: self.teller().name(tree.cluster_of_node(node)),
                because: "the requester's node",
            },
            None => Start {
                cluster: self.teller().name(ClusterId::ROOT),
                because: "the root, since no node is known to ask",
            },
        }
    }

    /// Says more exactly why clusters were rejected, and adds the node that no event names: the
    /// requester's own, where it has enough, and the only one of a machine.
    fn complete(&self, attempts: &mut Vec<Attempt>) {
        if attempts.is_empty() {
            attempts.push(Attempt { attempt: 1, ..Attempt::default() });
        }
        for step in attempts.iter_mut().flat_map(|each| &mut each.way_down) {
            step.load = self.load(ClusterId(step.cluster.id));
            for part in &mut step.parts {
                let PartName::Cluster(name) = &part.name else { continue };
                if part.rejected_by.is_some() {
                    part.rejected_by = self.hindrance(ClusterId(name.id));
                }
            }
        }
        let tree = self.scene.names.tree;
        let own = self.request.from.or((tree.nr_nodes() == 1).then_some(NodeId(0)));
        let Some(own) = own.map(|node| tree.cluster_of_node(node)) else { return };
        let Some(step) = attempts.first_mut().map(|attempt| &mut attempt.way_down) else { return };
        let hindrance = self.hindrance(own);
        let has_enough = hindrance.is_none();
        let seen =
            PartSeen { rank: has_enough.then_some(1), rejected_by: hindrance, ..self.seen(own) };
        match step.first_mut() {
            // It is read at its parent, and nothing else is looked at.
            Some(step) if step.parts.is_empty() && has_enough => step.parts.push(seen),
            None => {
                let mut step = self.teller().step_down_at(own, self.load(own));
                step.parts.push(seen);
                attempts[0].way_down.push(step);
            }
            Some(_) => {}
        }
    }

    fn seen(&self, id: ClusterId) -> PartSeen {
        let teller = self.teller();
        PartSeen {
            name: PartName::Cluster(teller.name(id)),
            load: self.load(id),
            distance: teller.distance(id),
            rank: None,
            rejected_by: None,
        }
    }

    fn load(&self, id: ClusterId) -> LoadSeen {
        LoadSeen::of_memory(self.memory(id).map(|memory| memory.pages))
    }

    fn memory(&self, id: ClusterId) -> Option<FreeMemory> {
        self.scene.estimates.free_memory(id)
    }

    /// What keeps pages from coming from a cluster.
    fn hindrance(&self, id: ClusterId) -> Option<String> {
        let Request { allowed, nr_pages, block_order, .. } = *self.request;
        let names = &self.scene.names;
        let nodes = names.nodes(id);
        let is_allowed = |os_id: u32| {
            let node = names.tree.node_by_os_id(quartier_model::NodeOsId(os_id));
            node.is_some_and(|node| allowed.contains(node))
        };
        if !nodes.iter().any(is_allowed) {
            return Some("an allowed node".to_owned());
        }
        let Some(memory) = self.memory(id) else {
            return Some("a known M".to_owned());
        };
        if memory.pages < nr_pages {
            return Some(format!("M ≥ {nr_pages}"));
        }
        let order = block_order?;
        let has_block = memory.has_block(order.min(BLOCK_ORDERS - 1));
        (!has_block).then(|| format!("a free block of 2^{order} pages"))
    }

    fn reason(&self, state: &State) -> String {
        let tree = self.scene.names.tree;
        let nodes = (0..tree.nr_nodes() as u32).map(NodeId);
        let has_enough = |node: NodeId| self.hindrance(tree.cluster_of_node(node)).is_none();
        if state.memory.is_empty() {
            "M of no node is known".to_owned()
        } else if nodes.into_iter().any(has_enough) {
            // A sum above it is unknown, or the bound was reached first.
            "a node has enough, and the search did not reach it".to_owned()
        } else {
            "no allowed node is known to have enough".to_owned()
        }
    }
}
