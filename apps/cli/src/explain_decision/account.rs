//! What happened during a decision, in the order in which it is told.

use serde::Serialize;

/// One way up and one way down, as far as there were any.
#[derive(Debug, Default, Serialize)]
pub struct Attempt {
    /// From 1.
    pub attempt: u8,
    /// Clusters on the way up, the lowest first.
    pub way_up: Vec<StepUp>,
    /// Clusters on the way down, in the order in which they were read.
    pub way_down: Vec<StepDown>,
}

/// A cluster on the way up.
#[derive(Debug, Serialize)]
pub struct StepUp {
    pub cluster: ClusterName,
    pub load: LoadSeen,
    /// Where the way up ends.
    pub condition: &'static str,
    pub holds: bool,
}

/// A cluster on the way down.
#[derive(Debug, Serialize)]
pub struct StepDown {
    pub cluster: ClusterName,
    pub load: LoadSeen,
    /// Its clusters or CPUs, as they lie.
    pub parts: Vec<PartSeen>,
    /// By what the eligible ones were sorted; absent where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<&'static str>,
    /// Whether nothing in it would do.
    pub failed: bool,
}

/// A cluster or CPU that was considered.
#[derive(Debug, Serialize)]
pub struct PartSeen {
    #[serde(flatten)]
    pub name: PartName,
    pub load: LoadSeen,
    /// From the requester's node; absent where either is unknown, and of CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<u8>,
    /// 1 goes first; absent where it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u8>,
    /// What did not hold where it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
}

/// A cluster, by its id, its name in `topo --tree`, and its level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterName {
    pub id: u32,
    pub name: String,
    pub level: u8,
}

impl std::fmt::Display for ClusterName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (level {})", self.name, self.level)
    }
}

/// What a cluster is made of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    Cluster(ClusterName),
    Cpu(u32),
}

/// N, T, U and M, as far as a decision asked for them and they are known.
#[derive(Debug, Serialize)]
pub struct LoadSeen {
    #[serde(flatten)]
    pub counts: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_pages: Option<u64>,
}

impl LoadSeen {
    /// M alone.
    pub fn of_memory(free_pages: Option<u64>) -> Self {
        Self { counts: None, usage_percent: None, free_pages }
    }
}

/// What decisions about memory do not look at.
#[derive(Debug, Serialize)]
pub struct Counts {
    /// T.
    pub threads: u32,
    /// Of a CPU that is not alone on its core: T of all of the core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads_of_core: Option<u32>,
    /// N, in CPUs.
    pub cpus: u32,
    /// N, in cores.
    pub cores: u32,
}
