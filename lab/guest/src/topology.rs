//! The machine asked for, and what QEMU is told to make it.

use std::str::FromStr;

use quartier_model::{Bytes, Distance, Machine, NodeId, SyntheticSpec};

use crate::error::{Error, Result};

/// QEMU's `MAX_NODES`.
pub const NODES_MAX: usize = 128;
/// Without interrupt remapping an x86 machine addresses 255 interrupt controllers.
pub const CPUS_MAX: usize = 255;
/// The least memory a stock kernel starts with, besides what its CPUs need.
const MEMORY_MIN: Bytes = Bytes::from_mib(256);
/// Per-CPU areas, stacks and caches of one more CPU.
const MEMORY_MIN_PER_CPU: Bytes = Bytes::from_mib(8);
/// The kernel ignores nodes that are much smaller.
const NODE_MEMORY_MIN: Bytes = Bytes::from_mib(32);
/// Memory of each node where nothing is said.
const NODE_MEMORY_DEFAULT: Bytes = Bytes::from_mib(512);
const MIB: u64 = 1 << 20;

/// CPUs per node: one number for all nodes, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpusPerNode {
    /// The same for all.
    Same(u32),
    /// One for each.
    Each(Vec<u32>),
}

/// Memory: in all, or one size for each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In all, split evenly.
    Total(Bytes),
    /// One for each.
    Each(Vec<Bytes>),
}

/// Distances between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distances {
    /// The same between any two.
    Same(Distance),
    /// Nodes in a ring: ten more for each step around it.
    Ring,
    /// Row by row.
    Matrix(Vec<Vec<Distance>>),
}

impl FromStr for CpusPerNode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| {
            text.trim().parse::<u32>().map_err(|_| {
                format!("`{text}` is not a number of CPUs: write one (2), or one a node (2,0,4)")
            })
        };
        if text.contains(',') {
            Ok(Self::Each(text.split(',').map(number).collect::<std::result::Result<_, _>>()?))
        } else {
            number(text).map(Self::Same)
        }
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let size = |text: &str| text.parse::<Bytes>().map_err(|error| error.to_string());
        if text.contains(',') {
            Ok(Self::Each(text.split(',').map(size).collect::<std::result::Result<_, _>>()?))
        } else {
            size(text).map(Self::Total)
        }
    }
}

impl FromStr for Distances {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let distance = |text: &str| {
            let digits = text.trim();
            digits.parse::<u8>().map(Distance).map_err(|_| {
                format!(
                    "`{digits}` is not a distance: write one (21), `ring`, or rows (10,21;21,10)"
                )
            })
        };
        match text.trim() {
            "ring" => Ok(Self::Ring),
            rows if rows.contains([',', ';']) => rows
                .split(';')
                .map(|row| row.split(',').map(distance).collect())
                .collect::<std::result::Result<_, _>>()
                .map(Self::Matrix),
            one => distance(one).map(Self::Same),
        }
    }
}

/// A processor package of a node.
#[derive(Clone, Copy, Debug)]
struct Package {
    node: usize,
    populated: bool,
}

/// A machine that QEMU can make and a stock kernel can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    machine: Machine,
    /// Whether distances were asked for; if not, the kernel assumes its own.
    distances_given: bool,
}

impl Topology {
    /// Checks a topology. `nr_nodes` may be left out where a list says it.
    ///
    /// # Errors
    /// When QEMU or a stock kernel does not take it, or its parts contradict each other.
    pub fn new(
        nr_nodes: Option<usize>,
        cpus: &CpusPerNode,
        memory: Option<&Memory>,
        distances: Option<&Distances>,
    ) -> Result<Self> {
        let nr_nodes = number_of_nodes(nr_nodes, cpus, memory, distances)?;
        if nr_nodes == 0 {
            return Err(Error::refused("a machine of 0 nodes cannot run: give --nodes 1 or more"));
        }
        if nr_nodes > NODES_MAX {
            return Err(Error::refused(format!(
                "{nr_nodes} nodes are more than QEMU's {NODES_MAX}: give fewer --nodes"
            )));
        }
        let cpus = match cpus {
            CpusPerNode::Same(count) => vec![*count; nr_nodes],
            CpusPerNode::Each(list) => list.clone(),
        };
        let nr_cpus: usize = cpus.iter().map(|&count| count as usize).sum();
        if nr_cpus == 0 {
            return Err(Error::refused(
                "a machine without CPUs cannot run: give --cpus-per-node 1 or more",
            ));
        }
        if nr_cpus > CPUS_MAX {
            return Err(Error::refused(format!(
                "{nr_cpus} CPUs are more than the {CPUS_MAX} that this machine type addresses: \
                 give fewer --nodes or --cpus-per-node"
            )));
        }
        let memory = node_memory(nr_nodes, nr_cpus, memory)?;
        check_nodes(&cpus, &memory)?;
        let rows = distances.map(|distances| distance_rows(nr_nodes, distances)).transpose()?;
        let spec = SyntheticSpec { cpus, memory, distances: rows.clone().unwrap_or_default() };
        let machine = spec.machine().map_err(|error| Error::refused(error.to_string()))?;
        Ok(Self { machine, distances_given: rows.is_some() })
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether distances were asked for.
    #[must_use]
    pub fn has_distances(&self) -> bool {
        self.distances_given
    }

    /// CPUs in all.
    #[must_use]
    pub fn nr_cpus(&self) -> usize {
        self.machine.cpus().len()
    }

    /// Memory in all.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        self.machine.nodes().iter().filter_map(|node| node.memory).sum()
    }

    fn cpus_of(&self, node: usize) -> usize {
        self.machine.node_cpus(NodeId(node as u32)).len()
    }

    /// CPUs that share a package and its last-level cache: the most that divide every node.
    fn cpus_per_package(&self) -> usize {
        fn gcd(a: usize, b: usize) -> usize {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        (0..self.machine.nodes().len()).map(|node| self.cpus_of(node)).fold(0, gcd).max(1)
    }

    /// Packages of each node. A node without CPUs has one without processors in it: the kernel
    /// numbers nodes in the order in which firmware lists their CPUs, present or not.
    fn packages(&self) -> Vec<Package> {
        let cores = self.cpus_per_package();
        (0..self.machine.nodes().len())
            .flat_map(|node| {
                let populated = self.cpus_of(node) > 0;
                let count = (self.cpus_of(node) / cores).max(1);
                std::iter::repeat_n(Package { node, populated }, count)
            })
            .collect()
    }

    /// What the kernel must be told of the machine, besides what firmware says.
    #[must_use]
    pub fn kernel_args(&self) -> Option<String> {
        // Else every empty package would count as room for more CPUs.
        let has_empty = self.packages().iter().any(|package| !package.populated);
        has_empty.then(|| format!("possible_cpus={}", self.nr_cpus()))
    }

    /// Memory of each node, none being none.
    pub(crate) fn bytes_of_nodes(&self) -> impl Iterator<Item = u64> {
        self.machine.nodes().iter().map(|node| node.memory.unwrap_or_default().0)
    }

    /// The arguments that make QEMU this machine, of processors of type `cpu`. The memory of each node is in a file that QEMU has
    /// open under a number, the first node's under `first_memory`: virtio-fs needs it shareable, instruments and snapshots read it.
    #[must_use]
    pub fn qemu_args(&self, cpu: &str, first_memory: i32) -> Vec<String> {
        let mut args = vec!["-m".to_owned(), format!("{}M", self.memory().0 / MIB)];
        for (id, node) in self.machine.nodes().iter().enumerate() {
            let memory = node.memory.unwrap_or_default().0 / MIB;
            let mut numa = format!("node,nodeid={id}");
            if memory > 0 {
                args.push("-object".to_owned());
                let path = format!("/proc/self/fd/{}", first_memory + id as i32);
                args.push(format!(
                    "memory-backend-file,id=m{id},size={memory}M,share=on,mem-path={path}"
                ));
                numa.push_str(&format!(",memdev=m{id}"));
            }
            args.extend(["-numa".to_owned(), numa]);
        }
        self.push_cpus(cpu, &mut args);
        if self.distances_given {
            self.push_distances(&mut args);
        }
        args
    }

    fn push_cpus(&self, cpu: &str, args: &mut Vec<String>) {
        let (cores, packages) = (self.cpus_per_package(), self.packages());
        let possible = packages.len() * cores;
        let all_present = packages.iter().all(|package| package.populated);
        let present = if all_present { possible } else { 1 };
        args.push("-smp".to_owned());
        args.push(format!(
            "{present},maxcpus={possible},sockets={},cores={cores},threads=1",
            packages.len()
        ));
        for (socket, package) in packages.iter().enumerate() {
            args.push("-numa".to_owned());
            args.push(format!("cpu,node-id={},socket-id={socket}", package.node));
        }
        if all_present {
            return;
        }
        // QEMU populates the first places by itself; where some stay empty, each is named. What is said of `-cpu` after the
        // model holds for these too.
        let model = cpu.split(',').next().unwrap_or(cpu);
        for (socket, _) in packages.iter().enumerate().filter(|(_, package)| package.populated) {
            for core in (0..cores).filter(|core| (socket, *core) != (0, 0)) {
                args.push("-device".to_owned());
                args.push(format!(
                    "{model}-x86_64-cpu,socket-id={socket},core-id={core},thread-id=0"
                ));
            }
        }
    }

    fn push_distances(&self, args: &mut Vec<String>) {
        let nr_nodes = self.machine.nodes().len();
        for (from, to) in (0..nr_nodes).flat_map(|from| (0..nr_nodes).map(move |to| (from, to))) {
            if from != to {
                let value = self.machine.distance(NodeId(from as u32), NodeId(to as u32));
                args.extend(["-numa".to_owned(), format!("dist,src={from},dst={to},val={value}")]);
            }
        }
    }
}

fn number_of_nodes(
    given: Option<usize>,
    cpus: &CpusPerNode,
    memory: Option<&Memory>,
    distances: Option<&Distances>,
) -> Result<usize> {
    const DEFAULT: usize = 4;
    let mut claims = Vec::new();
    claims.extend(given.map(|count| ("--nodes", count)));
    if let CpusPerNode::Each(list) = cpus {
        claims.push(("--cpus-per-node", list.len()));
    }
    if let Some(Memory::Each(list)) = memory {
        claims.push(("--mem", list.len()));
    }
    if let Some(Distances::Matrix(rows)) = distances {
        claims.push(("--distance", rows.len()));
    }
    let Some(&(first, count)) = claims.first() else { return Ok(DEFAULT) };
    match claims.iter().find(|(_, other)| *other != count) {
        None => Ok(count),
        Some((other, different)) => Err(Error::refused(format!(
            "{first} says {count} nodes and {other} says {different}: make them agree"
        ))),
    }
}

fn node_memory(nr_nodes: usize, nr_cpus: usize, memory: Option<&Memory>) -> Result<Vec<Bytes>> {
    let per_node = match memory {
        None => vec![NODE_MEMORY_DEFAULT; nr_nodes],
        Some(Memory::Each(list)) => list.clone(),
        Some(Memory::Total(total)) => {
            let mib = total.0 / MIB;
            let (each, rest) = (mib / nr_nodes as u64, mib % nr_nodes as u64);
            let extra = |node: usize| u64::from((node as u64) < rest);
            (0..nr_nodes).map(|node| Bytes::from_mib(each + extra(node))).collect()
        }
    };
    let least = Bytes(MEMORY_MIN.0 + nr_cpus as u64 * MEMORY_MIN_PER_CPU.0);
    let total: Bytes = per_node.iter().copied().sum();
    if total < least {
        return Err(Error::refused(format!(
            "{total} of memory are too little for a stock kernel on {nr_cpus} CPUs: give --mem \
             {least} or more"
        )));
    }
    if let Some((node, size)) =
        per_node.iter().enumerate().find(|(_, size)| size.0 > 0 && **size < NODE_MEMORY_MIN)
    {
        return Err(Error::refused(format!(
            "node {node} has {size} of memory, and a kernel ignores nodes that small: give it 0 \
             or at least {NODE_MEMORY_MIN}"
        )));
    }
    if let Some((node, size)) = per_node.iter().enumerate().find(|(_, size)| size.0 % MIB != 0) {
        return Err(Error::refused(format!(
            "node {node} has {size} of memory: give whole mebibytes (M)"
        )));
    }
    Ok(per_node)
}

/// A node must have something for the kernel to find it by.
fn check_nodes(cpus: &[u32], memory: &[Bytes]) -> Result<()> {
    if let Some(node) =
        cpus.iter().zip(memory).position(|(cpus, memory)| *cpus == 0 && memory.0 == 0)
    {
        return Err(Error::refused(format!(
            "node {node} has neither CPUs nor memory, and a kernel does not see such a node: give \
             it one of them"
        )));
    }
    if cpus[0] == 0 {
        return Err(Error::refused(
            "node 0 has no CPUs, and the kernel gives the number 0 to the node it starts on: give \
             node 0 a CPU",
        ));
    }
    Ok(())
}

fn distance_rows(nr_nodes: usize, distances: &Distances) -> Result<Vec<Vec<Distance>>> {
    let rows: Vec<Vec<Distance>> = match distances {
        Distances::Matrix(rows) => rows.clone(),
        Distances::Same(distance) => uniform_rows(nr_nodes, |_, _| *distance),
        Distances::Ring => {
            let hops_max = (nr_nodes / 2).max(1);
            // 254 is the largest distance that still means "reachable".
            let step = ((254 - 10) / hops_max).min(10);
            uniform_rows(nr_nodes, |from, to| {
                let around = from.abs_diff(to);
                Distance((10 + step * around.min(nr_nodes - around)) as u8)
            })
        }
    };
    for (from, row) in rows.iter().enumerate() {
        if row.len() != nr_nodes {
            return Err(Error::refused(format!(
                "row {from} of --distance has {} numbers for {nr_nodes} nodes: give one for each",
                row.len()
            )));
        }
        for (to, distance) in row.iter().enumerate() {
            let fits = if from == to { distance.0 == 10 } else { distance.0 > 10 };
            if !fits {
                return Err(Error::refused(format!(
                    "the distance {distance} from node {from} to node {to} cannot be: it is 10 to \
                     a node itself and 11 to 255 to another"
                )));
            }
        }
    }
    Ok(rows)
}

fn uniform_rows(nr_nodes: usize, of: impl Fn(usize, usize) -> Distance) -> Vec<Vec<Distance>> {
    let entry = |from, to| if from == to { Distance::LOCAL } else { of(from, to) };
    (0..nr_nodes).map(|from| (0..nr_nodes).map(|to| entry(from, to)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(nodes: Option<usize>, cpus: &str, mem: &str, distance: &str) -> Result<Topology> {
        let parsed = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Topology::new(
            nodes,
            &cpus.parse().unwrap(),
            parsed(mem).map(|text| text.parse().unwrap()).as_ref(),
            parsed(distance).map(|text| text.parse().unwrap()).as_ref(),
        )
    }

    fn refusal(nodes: Option<usize>, cpus: &str, mem: &str, distance: &str) -> String {
        topology(nodes, cpus, mem, distance).unwrap_err().to_string()
    }

    #[test]
    fn two_by_two() {
        let topology = topology(Some(2), "2", "1G", "21").unwrap();
        assert_eq!(
            topology.qemu_args("max", 20).join(" "),
            "-m 1024M \
             -object memory-backend-file,id=m0,size=512M,share=on,mem-path=/proc/self/fd/20 -numa node,nodeid=0,memdev=m0 \
             -object memory-backend-file,id=m1,size=512M,share=on,mem-path=/proc/self/fd/21 -numa node,nodeid=1,memdev=m1 \
             -smp 4,maxcpus=4,sockets=2,cores=2,threads=1 \
             -numa cpu,node-id=0,socket-id=0 -numa cpu,node-id=1,socket-id=1 \
             -numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=21"
        );
        assert_eq!(topology.kernel_args(), None);
    }

    #[test]
    fn nodes_without_memory_or_cpus() {
        let topology = topology(None, "2,0,4", "512M,512M,0", "").unwrap();
        let args = topology.qemu_args("max,erms=off", 20).join(" ");
        for part in [
            "-smp 1,maxcpus=8,sockets=4,cores=2,threads=1",
            "-numa node,nodeid=2 ",
            "-numa cpu,node-id=1,socket-id=1 ",
            "-numa cpu,node-id=2,socket-id=3 ",
            "-device max-x86_64-cpu,socket-id=3,core-id=1,thread-id=0",
        ] {
            assert!(args.contains(part), "{part}: {args}");
        }
        assert_eq!(args.matches("-device").count(), 5, "{args}");
        assert!(!args.contains("-cpu,socket-id=1,") && !args.contains("dist,"), "{args}");
        assert_eq!(topology.kernel_args().as_deref(), Some("possible_cpus=6"));
    }

    #[test]
    fn memory_is_split_to_the_last_mebibyte() {
        let topology = topology(Some(3), "1", "1000M", "").unwrap();
        let sizes: Vec<_> =
            topology.machine().nodes().iter().map(|node| node.memory.unwrap().0 / MIB).collect();
        assert_eq!(sizes, [334, 333, 333]);
    }

    #[test]
    fn a_ring_has_the_shorter_way_around() {
        let rows = distance_rows(6, &Distances::Ring).unwrap();
        assert_eq!(
            rows[0].iter().map(|distance| distance.0).collect::<Vec<_>>(),
            [10, 20, 30, 40, 30, 20]
        );
        assert!(distance_rows(NODES_MAX, &Distances::Ring).is_ok());
    }

    #[test]
    fn the_largest_machine_is_possible() {
        assert!(topology(Some(128), "1", "8G", "").is_ok());
    }

    #[test]
    fn impossible_topologies_are_one_sentence() {
        for (refusal, word) in [
            (refusal(Some(0), "2", "", ""), "0 nodes"),
            (refusal(Some(129), "1", "", ""), "QEMU's 128"),
            (refusal(Some(2), "0", "", ""), "without CPUs"),
            (refusal(Some(4), "64", "", ""), "256 CPUs are more"),
            (refusal(Some(2), "4294967295", "", ""), "CPUs are more"),
            (refusal(Some(2), "2", "64M", ""), "too little"),
            (refusal(Some(2), "2", "512M,1M", ""), "ignores nodes that small"),
            (refusal(Some(2), "2", "512M,33555K", ""), "whole mebibytes"),
            (refusal(None, "2,0", "512M,0", ""), "neither CPUs nor memory"),
            (refusal(None, "0,2", "512M,512M", ""), "node 0 has no CPUs"),
            (refusal(Some(3), "2,2", "", ""), "make them agree"),
            (refusal(None, "2,2", "512M,512M,512M", ""), "make them agree"),
            (refusal(Some(2), "2", "", "10"), "cannot be"),
            (refusal(Some(2), "2", "", "10,21;21,9"), "cannot be"),
            (refusal(Some(2), "2", "", "10,21,21;21,10"), "row 0"),
        ] {
            assert!(refusal.contains(word), "{refusal}");
            assert!(!refusal.contains('\n'), "{refusal}");
        }
    }

    #[test]
    fn unreadable_arguments_say_what_to_write() {
        assert!("2,x".parse::<CpusPerNode>().unwrap_err().contains("number of CPUs"));
        assert!("-1".parse::<CpusPerNode>().is_err());
        assert!("1X".parse::<Memory>().is_err());
        assert!("10,21;21".parse::<Distances>().is_ok());
        assert!("300".parse::<Distances>().unwrap_err().contains("ring"));
        assert!("torus".parse::<Distances>().is_err());
    }
}
