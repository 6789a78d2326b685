//! The decision tree: as text, as data, and what the drawing shares with the text.

pub mod json;
pub mod text;

use quartier_decide::dqdt::ClusterId;
use quartier_model::CpuList;

use super::names::{Kind, Names, cpus_text, nodes_text};
use super::view::{View, count};

/// What the tree is of, and how large it is.
pub fn summary(names: &Names<'_>) -> String {
    let clusters = names.tree.clusters();
    let nr_leaves = clusters.iter().filter(|cluster| cluster.is_leaf()).count();
    let leaves = count(nr_leaves, "leaf").replace("leafs", "leaves");
    let height = names.tree.height();
    format!("height {height}, {}, {leaves}", count(clusters.len(), "cluster"))
}

/// What the machine is called.
pub fn title(names: &Names<'_>) -> String {
    View::new(names.machine).title()
}

/// What stands for several alike clusters: what all of them are, and who keeps them.
pub struct Folded {
    /// `nodes 1-3: CPUs 4-15`.
    pub members: String,
    /// Their home nodes.
    pub homes: String,
    /// The CPUs that update them.
    pub updaters: String,
}

impl Folded {
    /// One for these; one cluster stands for itself.
    pub fn new(names: &Names<'_>, ids: &[ClusterId]) -> Self {
        let cpus: CpuList =
            ids.iter().flat_map(|&id| names.cpus(id).iter().collect::<Vec<_>>()).collect();
        let nodes: CpuList =
            ids.iter().flat_map(|&id| names.nodes(id).iter().collect::<Vec<_>>()).collect();
        let homes: CpuList = ids.iter().filter_map(|&id| names.home(id)).collect();
        let updaters: CpuList = ids.iter().filter_map(|&id| names.updater(id)).collect();
        let members = match (ids, names.kind(ids[0])) {
            ([one], _) => format!("{}: {}", names.what(*one), cpus_text(&cpus)),
            (_, Kind::Node(_) | Kind::Nodes(_)) => {
                format!("{}: {}", nodes_text(&nodes), cpus_text(&cpus))
            }
            _ => cpus_text(&cpus),
        };
        let or_none =
            |list: &CpuList, text: String| if list.is_empty() { "—".into() } else { text };
        Self {
            members,
            homes: or_none(&homes, nodes_text(&homes)),
            updaters: or_none(&updaters, cpus_text(&updaters)),
        }
    }
}
