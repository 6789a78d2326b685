//! The decision tree as data.

use quartier_decide::dqdt::ClusterId;
use quartier_model::Origin;
use serde::Serialize;

use super::super::names::Names;

/// The version of the form; raised when a reader of the old one would go wrong.
const TREE_FORMAT: u32 = 1;

#[derive(Serialize)]
struct TreeJson<'a> {
    format: u32,
    origin: &'a Origin,
    height: u8,
    clusters: Vec<ClusterJson>,
}

#[derive(Serialize)]
struct ClusterJson {
    id: u32,
    level: u8,
    parent: Option<u32>,
    children: Vec<u32>,
    node: Option<u32>,
    llc: Option<u32>,
    cpus: Vec<u32>,
    home: Option<u32>,
    updater: Option<u32>,
}

/// The whole text.
pub fn print(names: &Names<'_>) -> serde_json::Result<String> {
    let tree = names.tree;
    let text = serde_json::to_string_pretty(&TreeJson {
        format: TREE_FORMAT,
        origin: names.machine.origin(),
        height: tree.height(),
        clusters: tree.cluster_ids().map(|id| cluster(names, id)).collect(),
    })?;
    Ok(text + "\n")
}

fn cluster(names: &Names<'_>, id: ClusterId) -> ClusterJson {
    let cluster = names.tree.cluster(id);
    ClusterJson {
        id: id.0,
        level: cluster.level(),
        parent: cluster.parent().map(|parent| parent.0),
        children: cluster.children().map(|child| child.0).collect(),
        node: cluster.node().map(|node| names.tree.node_os_id(node).0),
        llc: cluster.llc().map(|llc| llc.0),
        cpus: names.tree.cluster_cpus(id).map(|cpu| names.cpu(cpu)).collect(),
        home: names.home(id),
        updater: names.updater(id),
    }
}
