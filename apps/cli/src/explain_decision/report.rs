//! All that is told about a decision, as text or as data.

use quartier_decide::policy::visits_max;
use quartier_model::{CpuId, CpuList, NodeId, Origin};
use serde::Serialize;

use super::account::{Attempt, ClusterName};
use super::options::{Decision, RequestOptions};
use super::scene::{Lookup, Scene};
use super::state::State;
use super::{memory, placement};
use crate::topo::names::cpus_text;
use crate::topo::view::{View, count};

/// The version of the JSON form.
const REPORT_FORMAT: u32 = 1;

/// All that is told about a decision.
#[derive(Debug, Serialize)]
pub struct Report {
    pub format: u32,
    pub decision: Decision,
    pub origin: Origin,
    /// What the machine and its state are.
    #[serde(skip)]
    pub about: [String; 2],
    /// What is asked for.
    pub request: String,
    /// Where the search starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub should_balance: Option<ShouldBalance>,
    pub attempts: Vec<Attempt>,
    /// What the threads of a group go into, larger clusters first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// How many clusters a decision reads at most; of a group it depends on its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visits_max: Option<u32>,
    pub outcome: Option<Outcome>,
    /// Why there is no outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What else a reader has to know.
    pub notes: Vec<String>,
}

/// Where a search starts.
#[derive(Debug, Serialize)]
pub struct Start {
    pub cluster: ClusterName,
    /// Why there.
    pub because: &'static str,
}

/// Whether a CPU has too much to do.
#[derive(Debug, Serialize)]
pub struct ShouldBalance {
    pub cpu: u32,
    pub holds: bool,
    /// It may look again before its period is over.
    pub soon: bool,
    pub parts: Vec<ConditionPart>,
}

/// One part of a condition.
#[derive(Debug, Serialize)]
pub struct ConditionPart {
    pub condition: &'static str,
    pub holds: bool,
    /// What stands for the letter; absent where unknown.
    pub value: Option<u32>,
}

/// A cluster of which a group gets CPUs.
#[derive(Debug, Serialize)]
pub struct Share {
    pub cluster: ClusterName,
    pub threads: u32,
    /// Of a leaf: how many threads each CPU gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuShare>,
    /// How deep it lies below the smallest cluster that takes the whole group.
    #[serde(skip)]
    pub depth: usize,
}

/// A CPU that a group gets.
#[derive(Debug, Serialize)]
pub struct CpuShare {
    pub cpu: u32,
    pub threads: u32,
}

/// What was decided.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// From the requester's node, where both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u8>,
    /// Clusters that were read.
    pub visited: u32,
}

impl Report {
    /// Replays the decision.
    pub fn new(
        decision: Decision,
        options: &RequestOptions,
        scene: &Scene<'_>,
        lookup: &Lookup<'_>,
        state: &State,
    ) -> anyhow::Result<Self> {
        let mut report = Self {
            format: REPORT_FORMAT,
            decision,
            origin: scene.names.machine.origin().clone(),
            about: [about_machine(scene), about_state(scene, state)],
            request: String::new(),
            start: None,
            should_balance: None,
            attempts: Vec::new(),
            shares: Vec::new(),
            visits_max: Some(visits_max(scene.names.tree)),
            outcome: None,
            reason: None,
            notes: Vec::new(),
        };
        let from = options.from_cpu.map(|os_id| lookup.online_cpu(os_id)).transpose()?;
        match decision {
            Decision::Memory => memory::replay(&mut report, options, scene, lookup, state, from)?,
            _ => placement::replay(&mut report, options, scene, lookup, from)?,
        }
        Ok(report)
    }
}

impl Scene<'_> {
    /// The node of a CPU.
    pub fn node_of(&self, cpu: Option<CpuId>) -> Option<NodeId> {
        self.names.tree.node_of(cpu?)
    }
}

fn about_machine(scene: &Scene<'_>) -> String {
    let tree = scene.names.tree;
    format!(
        "{}: {}, {} online, decision tree of height {}",
        View::new(scene.names.machine).title(),
        count(tree.nr_nodes(), "node"),
        count(tree.nr_cpus(), "CPU"),
        tree.height()
    )
}

fn about_state(scene: &Scene<'_>, state: &State) -> String {
    let nr_threads: u32 = state.threads.values().sum();
    let with_threads = state.threads.iter().filter(|(_, threads)| **threads > 0);
    let cpus: CpuList = with_threads.map(|(&cpu, _)| scene.names.cpu(cpu)).collect();
    let threads = match nr_threads {
        0 => "no threads".to_owned(),
        _ => format!("{} on {}", count(nr_threads as usize, "thread"), cpus_text(&cpus)),
    };
    let tree = scene.names.tree;
    let usage = known(state.usage.len(), tree.nr_cpus(), "CPU");
    let memory = known(state.memory.len(), tree.nr_nodes(), "node");
    format!("{threads}; U {usage}; M {memory}")
}

fn known(nr_known: usize, of: usize, noun: &str) -> String {
    match nr_known {
        0 => "unknown".to_owned(),
        all if all == of => "known".to_owned(),
        some => format!("known of {some} of {}", count(of, noun)),
    }
}
