//! A machine: its nodes, CPUs, last-level caches, packages and distances.
//!
//! A [`Machine`] can only be made through [`MachineParts`], which checks it, so whoever holds one
//! may rely on its invariants: lists are dense by logical id and no longer than [`NODES_MAX`] and
//! [`CPUS_MAX`], every reference points at something, OS ids are unique and such as a kernel gives, the
//! distance matrix is square with 10 on its diagonal and nothing below it, and a name can be printed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    Bytes, Capacity, CpuId, CpuList, CpuOsId, Distance, LlcId, NodeId, NodeOsId, PackageId,
    PackageOsId,
};

/// The version of the serialised form; raised when a reader of the old form would go wrong.
pub const MACHINE_FORMAT: u32 = 1;

/// The most nodes a machine may have: the largest `MAX_NUMNODES` a kernel can be built with.
pub const NODES_MAX: usize = 1024;

/// The most CPUs a machine may have: x86-64's largest `NR_CPUS`.
pub const CPUS_MAX: usize = 8192;

/// Where a machine's description comes from. Only a `Live` machine may be acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Read from the running kernel.
    Live {
        /// `uname -r` of that kernel.
        kernel: String,
    },
    /// Read from a saved copy of some machine's /sys.
    Gathered {
        /// What the person who gathered it called it.
        name: String,
    },
    /// Made up from a specification.
    Synthetic {
        /// The specification's text.
        spec: String,
    },
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The operating system said it.
    FromOs,
    /// The user gave it.
    User,
    /// Nobody said it; the kernel's own default was assumed.
    Assumed,
}

/// A NUMA node. Nodes without CPUs and nodes without memory are normal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The kernel's number.
    pub os_id: NodeOsId,
    /// Installed memory; 0 for a memory-less node, `None` where it is unknown.
    pub memory: Option<Bytes>,
}

/// A CPU (hardware thread).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The kernel's number.
    pub os_id: CpuOsId,
    /// An offline CPU keeps its place here but takes no threads.
    pub online: bool,
    /// Its node; `None` where the kernel does not say (an offline CPU, say).
    pub node: Option<NodeId>,
    /// Its last-level cache, where known.
    pub llc: Option<LlcId>,
    /// Its package, where known.
    pub package: Option<PackageId>,
    /// The kernel's `core_id` within the package, where known: equal for SMT siblings.
    pub core: Option<u32>,
    /// How powerful it is, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// A last-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llc {
    /// Its level (2, 3, …).
    pub level: u8,
    /// Its size, where known.
    pub size: Option<Bytes>,
}

/// A processor package (socket).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The kernel's `physical_package_id`.
    pub os_id: PackageOsId,
}

/// Distances between nodes: row `from`, column `to`, by logical id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DistanceMatrix {
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// One row per node.
    #[serde(deserialize_with = "crate::distances::read_rows")]
    pub rows: Vec<Vec<Distance>>,
}

impl DistanceMatrix {
    /// 10 to itself, `remote` to every other of `nr_nodes` nodes.
    #[must_use]
    pub fn uniform(nr_nodes: usize, remote: Distance, provenance: Provenance) -> Self {
        let row = |from| {
            (0..nr_nodes).map(|to| if from == to { Distance::LOCAL } else { remote }).collect()
        };
        Self { provenance, rows: (0..nr_nodes).map(row).collect() }
    }
}

/// The unchecked, serialised form of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineParts {
    /// [`MACHINE_FORMAT`].
    pub format: u32,
    /// Where the description comes from.
    pub origin: Origin,
    /// Nodes by [`NodeId`].
    pub nodes: Vec<Node>,
    /// CPUs by [`CpuId`].
    pub cpus: Vec<Cpu>,
    /// Last-level caches by [`LlcId`].
    pub llcs: Vec<Llc>,
    /// Packages by [`PackageId`].
    pub packages: Vec<Package>,
    /// Distances between the nodes.
    pub distances: DistanceMatrix,
}

/// A checked machine; see the module documentation for what holds of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "MachineParts", into = "MachineParts")]
pub struct Machine {
    parts: MachineParts,
    node_cpus: Vec<Vec<CpuId>>,
}

/// What is wrong with a machine's description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum MachineError {
    #[error("machine format {found} is not {MACHINE_FORMAT}: gather the machine again")]
    Format { found: u64 },
    #[error("a machine has at least one node")]
    NoNodes,
    #[error("a machine has at least one online CPU")]
    NoCpus,
    #[error("{count} {what}: a machine has at most {max}")]
    TooMany { what: &'static str, count: usize, max: usize },
    #[error("{what} {os_id}: Linux numbers them from 0 to {max}")]
    OsIdTooLarge { what: &'static str, os_id: u32, max: usize },
    #[error(
        "the machine's name `{printable}` has a line break or control character: give it another"
    )]
    Name { printable: String },
    #[error("two {what} have the OS id {os_id}")]
    DuplicateOsId { what: &'static str, os_id: u32 },
    #[error("CPU {cpu} names {what} {id}, and there are only {count}")]
    Dangling { cpu: CpuOsId, what: &'static str, id: u32, count: usize },
    #[error("the distance matrix is {rows} × {columns}, and there are {nodes} nodes")]
    DistanceShape { rows: usize, columns: usize, nodes: usize },
    #[error("the distance from node {from} to node {to} is {distance}: {reason}")]
    Distance { from: NodeOsId, to: NodeOsId, distance: u8, reason: &'static str },
}

impl Machine {
    /// Where the description comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.parts.origin
    }

    /// The same as it was saved under a name: of a machine that ran once nothing can be changed any more.
    #[must_use]
    pub fn saved_as(mut self, name: &str) -> Self {
        self.parts.origin = Origin::Gathered { name: name.to_owned() };
        self
    }

    /// Nodes by logical id.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// CPUs by logical id, offline ones included.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.parts.cpus
    }

    /// Last-level caches by logical id.
    #[must_use]
    pub fn llcs(&self) -> &[Llc] {
        &self.parts.llcs
    }

    /// Packages by logical id.
    #[must_use]
    pub fn packages(&self) -> &[Package] {
        &self.parts.packages
    }

    /// Distances between nodes.
    #[must_use]
    pub fn distances(&self) -> &DistanceMatrix {
        &self.parts.distances
    }

    /// The distance from one node to another.
    ///
    /// # Panics
    /// If an id is not of this machine.
    #[must_use]
    pub fn distance(&self, from: NodeId, to: NodeId) -> Distance {
        self.parts.distances.rows[from.index()][to.index()]
    }

    /// The online CPUs of a node, in logical order.
    ///
    /// # Panics
    /// If the id is not of this machine.
    #[must_use]
    pub fn node_cpus(&self, node: NodeId) -> &[CpuId] {
        &self.node_cpus[node.index()]
    }

    /// The same as OS ids in the kernel's list format.
    #[must_use]
    pub fn node_cpu_list(&self, node: NodeId) -> CpuList {
        let os_id = |cpu: &CpuId| self.parts.cpus[cpu.index()].os_id.0;
        self.node_cpus(node).iter().map(os_id).collect()
    }

    /// All logical node ids.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.parts.nodes.len() as u32).map(NodeId)
    }

    /// All logical CPU ids.
    pub fn cpu_ids(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.parts.cpus.len() as u32).map(CpuId)
    }

    /// The node with this OS id.
    #[must_use]
    pub fn node_by_os_id(&self, os_id: NodeOsId) -> Option<NodeId> {
        let at = self.parts.nodes.iter().position(|node| node.os_id == os_id)?;
        Some(NodeId(at as u32))
    }

    /// The CPU with this OS id.
    #[must_use]
    pub fn cpu_by_os_id(&self, os_id: CpuOsId) -> Option<CpuId> {
        let at = self.parts.cpus.iter().position(|cpu| cpu.os_id == os_id)?;
        Some(CpuId(at as u32))
    }

    /// Memory of all nodes together; `None` when one node's is unknown.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        self.parts.nodes.iter().map(|node| node.memory).sum()
    }
}

impl TryFrom<MachineParts> for Machine {
    type Error = MachineError;

    fn try_from(parts: MachineParts) -> Result<Self, Self::Error> {
        if parts.format != MACHINE_FORMAT {
            return Err(MachineError::Format { found: parts.format.into() });
        }
        if parts.nodes.is_empty() {
            return Err(MachineError::NoNodes);
        }
        if !parts.cpus.iter().any(|cpu| cpu.online) {
            return Err(MachineError::NoCpus);
        }
        check_numbers(&parts)?;
        if let Origin::Gathered { name } | Origin::Synthetic { spec: name } = &parts.origin {
            check_name(name)?;
        }
        check_unique("nodes", parts.nodes.iter().map(|node| node.os_id.0))?;
        check_unique("CPUs", parts.cpus.iter().map(|cpu| cpu.os_id.0))?;
        check_unique("packages", parts.packages.iter().map(|package| package.os_id.0))?;
        check_references(&parts)?;
        check_distances(&parts)?;
        let mut node_cpus = vec![Vec::new(); parts.nodes.len()];
        for (at, cpu) in parts.cpus.iter().enumerate() {
            if let (true, Some(node)) = (cpu.online, cpu.node) {
                node_cpus[node.index()].push(CpuId(at as u32));
            }
        }
        Ok(Self { parts, node_cpus })
    }
}

impl From<Machine> for MachineParts {
    fn from(machine: Machine) -> Self {
        machine.parts
    }
}

/// Whether a machine may be called so: a name is printed as it is, on terminals and in drawings.
///
/// # Errors
/// When it has characters that are no text: they could break a line, or write elsewhere.
pub fn check_name(name: &str) -> Result<(), MachineError> {
    // Line and paragraph separators, and what changes the direction of the text after it.
    let is_format = |c| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_text = |c: char| !c.is_control() && !is_format(c);
    if name.chars().all(is_text) {
        return Ok(());
    }
    let printable =
        name.chars().take(80).map(|c| if is_text(c) { c } else { '\u{fffd}' }).collect();
    Err(MachineError::Name { printable })
}

/// Whoever counts nodes and CPUs, or makes lists by their OS ids, relies on these limits.
fn check_numbers(parts: &MachineParts) -> Result<(), MachineError> {
    for (what, count, max) in [
        ("nodes", parts.nodes.len(), NODES_MAX),
        ("CPUs", parts.cpus.len(), CPUS_MAX),
        ("last-level caches", parts.llcs.len(), CPUS_MAX),
        ("packages", parts.packages.len(), CPUS_MAX),
    ] {
        if count > max {
            return Err(MachineError::TooMany { what, count, max });
        }
    }
    let nodes = parts.nodes.iter().map(|node| ("node", node.os_id.0, NODES_MAX));
    let cpus = parts.cpus.iter().map(|cpu| ("CPU", cpu.os_id.0, CPUS_MAX));
    match nodes.chain(cpus).find(|(_, os_id, count)| *os_id as usize >= *count) {
        Some((what, os_id, count)) => {
            Err(MachineError::OsIdTooLarge { what, os_id, max: count - 1 })
        }
        None => Ok(()),
    }
}

fn check_unique(what: &'static str, ids: impl Iterator<Item = u32>) -> Result<(), MachineError> {
    let mut seen = BTreeSet::new();
    for os_id in ids {
        if !seen.insert(os_id) {
            return Err(MachineError::DuplicateOsId { what, os_id });
        }
    }
    Ok(())
}

fn check_references(parts: &MachineParts) -> Result<(), MachineError> {
    for cpu in &parts.cpus {
        let references = [
            ("node", cpu.node.map(|id| id.0), parts.nodes.len()),
            ("LLC", cpu.llc.map(|id| id.0), parts.llcs.len()),
            ("package", cpu.package.map(|id| id.0), parts.packages.len()),
        ];
        for (what, id, count) in references {
            if let Some(id) = id.filter(|id| *id as usize >= count) {
                return Err(MachineError::Dangling { cpu: cpu.os_id, what, id, count });
            }
        }
    }
    Ok(())
}

fn check_distances(parts: &MachineParts) -> Result<(), MachineError> {
    let rows = &parts.distances.rows;
    let nodes = parts.nodes.len();
    let shape = |columns| MachineError::DistanceShape { rows: rows.len(), columns, nodes };
    if rows.len() != nodes {
        return Err(shape(rows.first().map_or(0, Vec::len)));
    }
    for (from, row) in rows.iter().enumerate() {
        if row.len() != nodes {
            return Err(shape(row.len()));
        }
        for (to, &distance) in row.iter().enumerate() {
            let reason = match (from == to, distance) {
                (true, Distance::LOCAL) => continue,
                (true, _) => "a node is at distance 10 from itself",
                (false, distance) if distance < Distance::LOCAL => "nothing is nearer than 10",
                (false, _) => continue,
            };
            return Err(MachineError::Distance {
                from: parts.nodes[from].os_id,
                to: parts.nodes[to].os_id,
                distance: distance.0,
                reason,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SyntheticSpec;

    fn parts() -> MachineParts {
        SyntheticSpec::uniform(2, 2).machine().unwrap().into()
    }

    #[test]
    fn a_machine_survives_serialisation() {
        let machine = Machine::try_from(parts()).unwrap();
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
    }

    #[test]
    fn offline_cpus_take_no_threads() {
        let mut parts = parts();
        parts.cpus[3].online = false;
        let machine = Machine::try_from(parts).unwrap();
        assert_eq!(machine.node_cpu_list(NodeId(1)).to_string(), "2");
    }

    #[test]
    fn every_broken_description_is_refused_by_name() {
        type Breakage = fn(&mut MachineParts);
        let broken: [(&str, Breakage); 15] = [
            ("machine format 7", |parts| parts.format = 7),
            ("at least one node", |parts| parts.nodes.clear()),
            ("at least one online CPU", |parts| parts.cpus.clear()),
            ("two CPUs have the OS id 0", |parts| parts.cpus[1].os_id = CpuOsId(0)),
            ("two nodes have the OS id 1", |parts| parts.nodes[0].os_id = NodeOsId(1)),
            ("names node 9", |parts| parts.cpus[0].node = Some(NodeId(9))),
            ("CPU 8192: Linux numbers them from 0 to 8191", |parts| {
                parts.cpus[0].os_id = CpuOsId(8192);
            }),
            ("CPU 4294967295", |parts| parts.cpus[0].os_id = CpuOsId(u32::MAX)),
            ("node 1024: Linux numbers them from 0 to 1023", |parts| {
                parts.nodes[0].os_id = NodeOsId(1024);
            }),
            ("8193 last-level caches: a machine has at most 8192", |parts| {
                parts.llcs.resize(8193, Llc { level: 3, size: None });
            }),
            ("the machine's name `a\u{fffd}b` has a line break", |parts| {
                parts.origin = Origin::Gathered { name: "a\nb".to_owned() };
            }),
            ("the machine's name `\u{fffd}[2J`", |parts| {
                parts.origin = Origin::Synthetic { spec: "\u{1b}[2J".to_owned() };
            }),
            ("2 × 1", |parts| parts.distances.rows[0].truncate(1)),
            ("10 from itself", |parts| parts.distances.rows[0][0] = Distance(11)),
            ("nearer than 10", |parts| parts.distances.rows[0][1] = Distance(9)),
        ];
        for (message, break_it) in broken {
            let mut parts = parts();
            break_it(&mut parts);
            let error = Machine::try_from(parts).unwrap_err().to_string();
            assert!(error.contains(message), "{error} should contain {message}");
        }
    }

    #[test]
    fn machines_are_as_large_as_a_kernel_allows_and_no_larger() {
        let large = |nr_nodes: usize, nr_cpus: usize| {
            let mut parts = parts();
            let (node, cpu) = (parts.nodes[0].clone(), parts.cpus[0].clone());
            let node = |os_id| Node { os_id: NodeOsId(os_id), ..node.clone() };
            let cpu = |os_id| Cpu { os_id: CpuOsId(os_id), ..cpu.clone() };
            parts.nodes = (0..nr_nodes as u32).map(node).collect();
            parts.cpus = (0..nr_cpus as u32).map(cpu).collect();
            parts.distances =
                DistanceMatrix::uniform(nr_nodes, Distance::REMOTE, Provenance::Assumed);
            Machine::try_from(parts).map_err(|error| error.to_string())
        };
        assert!(large(NODES_MAX, CPUS_MAX).is_ok());
        assert_eq!(large(1500, 4).unwrap_err(), "1500 nodes: a machine has at most 1024");
        assert_eq!(large(2, 17_000).unwrap_err(), "17000 CPUs: a machine has at most 8192");
    }
}
