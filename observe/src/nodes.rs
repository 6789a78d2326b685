//! `sys/devices/system/node`: nodes, their memory, CPUs and distances.

use std::collections::BTreeMap;

use quartier_model::{
    Bytes, CpuList, Distance, DistanceMatrix, NODES_MAX, Node, NodeId, NodeOsId, Provenance,
};

use crate::cpus::CPU_LIST;
use crate::{Host, Result, parse};

const DIR: &str = "sys/devices/system/node";

/// What a list of nodes has to be.
const NODE_LIST: &str = "a list of nodes from 0 to 1023";
const _: () = assert!(NODES_MAX == 1024);

/// What is read about nodes.
pub(crate) struct Nodes {
    pub nodes: Vec<Node>,
    /// By OS id of the CPU.
    pub node_of_cpu: BTreeMap<u32, NodeId>,
    pub distances: DistanceMatrix,
}

/// Reads the nodes; `present` are the machine's CPUs.
pub(crate) fn read(host: &Host, present: &CpuList) -> Result<Nodes> {
    let online_path = format!("{DIR}/online");
    let Some(online) = host.parse(&online_path, NODE_LIST, node_list)? else {
        return without_numa(host, present);
    };
    if online.is_empty() {
        return Err(host.malformed(&online_path, "", "at least one node"));
    }
    let os_ids: Vec<_> = online.iter().map(NodeOsId).collect();
    let mut nodes = Vec::new();
    let mut node_of_cpu = BTreeMap::new();
    for (at, &os_id) in (0..).zip(&os_ids) {
        nodes.push(Node { os_id, memory: host.node_meminfo(os_id, "MemTotal")? });
        read_cpus(host, os_id, NodeId(at), present, &mut node_of_cpu)?;
    }
    Ok(Nodes { nodes, node_of_cpu, distances: read_distances(host, &os_ids)? })
}

impl Host {
    /// The nodes that may ever exist, offline ones included; `None` without `CONFIG_NUMA`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn possible_nodes(&self) -> Result<Option<CpuList>> {
        self.parse(&format!("{DIR}/possible"), NODE_LIST, node_list)
    }

    /// Free memory of a node, now, and page cache that nobody used lately; `None` where the kernel does not say.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn room_of(&self, node: NodeOsId) -> Result<(Option<Bytes>, Option<Bytes>)> {
        let path = meminfo_path(node);
        let both = |text: &str| {
            Some((parse::meminfo(text, "MemFree")?, parse::meminfo(text, "Inactive(file)")?))
        };
        Ok(self.parse(&path, "MemFree and Inactive(file) in kB", both)?.unwrap_or_default())
    }

    /// Free memory of a node, now; `None` where the kernel does not say.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn free_memory(&self, node: NodeOsId) -> Result<Option<Bytes>> {
        self.node_meminfo(node, "MemFree")
    }

    fn node_meminfo(&self, node: NodeOsId, key: &str) -> Result<Option<Bytes>> {
        let expected = format!("{key} in kB");
        Ok(self.parse(&meminfo_path(node), &expected, |text| parse::meminfo(text, key))?.flatten())
    }
}

fn meminfo_path(node: NodeOsId) -> String {
    format!("{DIR}/node{}/meminfo", node.0)
}

/// More nodes than any kernel has would be read for long before anybody counted them.
fn node_list(text: &str) -> Option<CpuList> {
    parse::list(text).filter(|nodes| nodes.iter().all(|node| (node as usize) < NODES_MAX))
}

/// A kernel without `CONFIG_NUMA`: one node has everything.
fn without_numa(host: &Host, present: &CpuList) -> Result<Nodes> {
    let total = |text: &str| parse::meminfo(text, "MemTotal");
    let memory = host.parse("proc/meminfo", "MemTotal in kB", total)?.flatten();
    Ok(Nodes {
        nodes: vec![Node { os_id: NodeOsId(0), memory }],
        node_of_cpu: present.iter().map(|cpu| (cpu, NodeId(0))).collect(),
        distances: DistanceMatrix::uniform(1, Distance::REMOTE, Provenance::Assumed),
    })
}

fn read_cpus(
    host: &Host,
    os_id: NodeOsId,
    node: NodeId,
    present: &CpuList,
    node_of_cpu: &mut BTreeMap<u32, NodeId>,
) -> Result<()> {
    let path = format!("{DIR}/node{}/cpulist", os_id.0);
    let Some(cpus) = host.parse(&path, CPU_LIST, parse::list)? else {
        return Err(host.missing(&path, "the node is online, so the copy of /sys is incomplete"));
    };
    for cpu in cpus.iter() {
        if !present.contains(cpu) {
            return Err(host.inconsistent(&path, format!("CPU {cpu} is not present")));
        }
        if node_of_cpu.insert(cpu, node).is_some() {
            return Err(host.inconsistent(&path, format!("CPU {cpu} is of another node too")));
        }
    }
    Ok(())
}

/// A node's row has one number per online node, in their order (`node_read_distance`, Linux
/// drivers/base/node.c).
fn read_distances(host: &Host, os_ids: &[NodeOsId]) -> Result<DistanceMatrix> {
    let path = |os_id: &NodeOsId| format!("{DIR}/node{}/distance", os_id.0);
    let expected = format!("{} distances of 10 to 255", os_ids.len());
    let mut rows = Vec::new();
    for os_id in os_ids {
        let row = host.parse(&path(os_id), &expected, |text| {
            parse::distances(text).filter(|row| row.len() == os_ids.len())
        })?;
        rows.extend(row);
    }
    if rows.is_empty() {
        return Ok(DistanceMatrix::uniform(os_ids.len(), Distance::REMOTE, Provenance::Assumed));
    }
    if rows.len() < os_ids.len() {
        let remedy = "other nodes have theirs, so the copy of /sys is incomplete";
        let is_missing = |os_id: &&NodeOsId| matches!(host.read(&path(os_id)), Ok(None));
        let missing = os_ids.iter().find(is_missing).unwrap_or(&os_ids[0]);
        return Err(host.missing(&path(missing), remedy));
    }
    Ok(DistanceMatrix { provenance: Provenance::FromOs, rows })
}
