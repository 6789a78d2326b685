//! Machines made up from a specification: "4x2" is four nodes of two CPUs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{
    Bytes, CPUS_MAX, Cpu, CpuId, CpuOsId, Distance, DistanceMatrix, Llc, LlcId, MACHINE_FORMAT,
    Machine, MachineError, MachineParts, NODES_MAX, Node, NodeId, NodeOsId, Origin, Package,
    PackageId, PackageOsId, Provenance,
};

/// A specification of a made-up machine. One package, and one LLC where there are CPUs, per node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticSpec {
    /// CPUs of each node; 0 for a CPU-less node.
    pub cpus: Vec<u32>,
    /// Memory of each node; 0 for a memory-less one. Empty: 1 GiB each.
    pub memory: Vec<Bytes>,
    /// Rows of the distance matrix. Empty: 20 between different nodes.
    pub distances: Vec<Vec<Distance>>,
}

/// Why a specification makes no machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum SyntheticError {
    #[error(
        "`{0}` is not a machine: write NODESxCPUS, such as 4x2, or CPUs by node, such as 2,2,0,4"
    )]
    Syntax(String),
    #[error("{0} nodes: a machine has between 1 and {NODES_MAX}")]
    Nodes(usize),
    #[error("{0} CPUs: a machine has between 1 and {CPUS_MAX}")]
    Cpus(usize),
    #[error("{given} memory sizes for {nodes} nodes: give one for each node")]
    Memory { given: usize, nodes: usize },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl SyntheticSpec {
    /// `nr_nodes` nodes of `cpus_per_node` CPUs.
    #[must_use]
    pub fn uniform(nr_nodes: usize, cpus_per_node: u32) -> Self {
        Self { cpus: vec![cpus_per_node; nr_nodes], memory: Vec::new(), distances: Vec::new() }
    }

    /// Makes the machine. OS ids run node by node, as QEMU numbers them.
    ///
    /// # Errors
    /// When there are no nodes or CPUs, too many, or sizes or distances do not match the nodes.
    pub fn machine(&self) -> Result<Machine, SyntheticError> {
        let nr_nodes = self.cpus.len();
        if !(1..=NODES_MAX).contains(&nr_nodes) {
            return Err(SyntheticError::Nodes(nr_nodes));
        }
        let nr_cpus = self.cpus.iter().map(|&cpus| cpus as usize).sum();
        if !(1..=CPUS_MAX).contains(&nr_cpus) {
            return Err(SyntheticError::Cpus(nr_cpus));
        }
        if !self.memory.is_empty() && self.memory.len() != nr_nodes {
            return Err(SyntheticError::Memory { given: self.memory.len(), nodes: nr_nodes });
        }
        let mut parts = MachineParts {
            format: MACHINE_FORMAT,
            origin: Origin::Synthetic { spec: self.to_string() },
            nodes: Vec::new(),
            cpus: Vec::new(),
            llcs: Vec::new(),
            packages: Vec::new(),
            distances: self.distance_matrix(),
        };
        for node in 0..nr_nodes {
            self.push_node(&mut parts, node);
        }
        Ok(Machine::try_from(parts)?)
    }

    fn distance_matrix(&self) -> DistanceMatrix {
        if self.distances.is_empty() {
            DistanceMatrix::uniform(self.cpus.len(), Distance::REMOTE, Provenance::Assumed)
        } else {
            DistanceMatrix { provenance: Provenance::User, rows: self.distances.clone() }
        }
    }

    fn push_node(&self, parts: &mut MachineParts, node: usize) {
        let memory = self.memory.get(node).copied().unwrap_or(Bytes(1 << 30));
        parts.nodes.push(Node { os_id: NodeOsId(node as u32), memory: Some(memory) });
        parts.packages.push(Package { os_id: PackageOsId(node as u32) });
        if self.cpus[node] > 0 {
            parts.llcs.push(Llc { level: 3, size: None });
        }
        for core in 0..self.cpus[node] {
            parts.cpus.push(Cpu {
                os_id: CpuOsId(CpuId(parts.cpus.len() as u32).0),
                online: true,
                node: Some(NodeId(node as u32)),
                llc: Some(LlcId(parts.llcs.len() as u32 - 1)),
                package: Some(PackageId(node as u32)),
                core: Some(core),
                capacity: None,
            });
        }
    }
}

impl FromStr for SyntheticSpec {
    type Err = SyntheticError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || SyntheticError::Syntax(text.chars().take(80).collect());
        let number = |digits: &str| digits.trim().parse::<u32>().map_err(|_| syntax());
        if let Some((nodes, cpus)) = text.split_once(['x', '×']) {
            let nodes = number(nodes)? as usize;
            if nodes > NODES_MAX {
                return Err(SyntheticError::Nodes(nodes));
            }
            return Ok(Self::uniform(nodes, number(cpus)?));
        }
        let cpus = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { cpus, memory: Vec::new(), distances: Vec::new() })
    }
}

impl fmt::Display for SyntheticSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpus.as_slice() {
            [first, rest @ ..] if rest.iter().all(|cpus| cpus == first) => {
                write!(f, "{}x{first}", self.cpus.len())
            }
            cpus => {
                let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
                f.write_str(&cpus.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn four_nodes_of_two_cpus() {
        let machine = "4x2".parse::<SyntheticSpec>().unwrap().machine().unwrap();
        assert_eq!((machine.nodes().len(), machine.cpus().len()), (4, 8));
        assert_eq!(machine.node_cpu_list(NodeId(3)).to_string(), "6-7");
        assert_eq!(machine.distance(NodeId(0), NodeId(3)), Distance::REMOTE);
    }

    #[test]
    fn a_thousand_nodes_and_a_node_without_cpus() {
        assert_eq!(SyntheticSpec::uniform(1024, 4).machine().unwrap().cpus().len(), 4096);
        let machine = "2,0,4".parse::<SyntheticSpec>().unwrap().machine().unwrap();
        assert!(machine.node_cpus(NodeId(1)).is_empty());
        assert_eq!(machine.node_cpu_list(NodeId(2)).to_string(), "2-5");
    }

    #[test]
    fn impossible_machines_are_refused() {
        for bad in ["0x2", "4x0", "1025x1", "4x", "x", "", "99999999x9", "1024x4294967295"] {
            let machine = bad.parse::<SyntheticSpec>().and_then(|spec| spec.machine());
            assert!(machine.is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_specification_survives_printing(cpus in prop::collection::vec(0u32..9, 1..20)) {
            let spec = SyntheticSpec { cpus, memory: Vec::new(), distances: Vec::new() };
            if spec.cpus.len() > 1 {
                prop_assert_eq!(spec.to_string().parse::<SyntheticSpec>().unwrap(), spec);
            }
        }
    }
}
