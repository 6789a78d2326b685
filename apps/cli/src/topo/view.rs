//! A machine arranged as it is drawn: nodes, in them caches, in them CPUs.

use std::collections::BTreeMap;

use quartier_model::{
    Bytes, Cpu, CpuList, DistanceMatrix, Llc, LlcId, Machine, NodeId, Origin, PackageId,
    PackageOsId, Provenance,
};

/// A machine arranged as it is drawn.
pub struct View<'a> {
    pub machine: &'a Machine,
    pub nodes: Vec<NodeView<'a>>,
    /// CPUs whose node the kernel does not tell: offline ones, as a rule.
    pub homeless: Vec<&'a Cpu>,
}

/// A node with what lies in it.
pub struct NodeView<'a> {
    pub os_id: u32,
    pub memory: Option<Bytes>,
    pub caches: Vec<CacheView<'a>>,
    pub packages: Vec<PackageOsId>,
}

/// A last-level cache with those of its CPUs that lie in one node.
pub struct CacheView<'a> {
    /// `None`: CPUs whose last-level cache is not known.
    pub llc: Option<&'a Llc>,
    /// By package and core, so that hardware threads of a core are neighbours.
    pub cpus: Vec<&'a Cpu>,
}

impl<'a> View<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let nodes = machine.node_ids().map(|node| NodeView::new(machine, node)).collect();
        let homeless = machine.cpus().iter().filter(|cpu| cpu.node.is_none()).collect();
        Self { machine, nodes, homeless }
    }

    /// What the machine is called, and where it comes from.
    pub fn title(&self) -> String {
        match self.machine.origin() {
            Origin::Live { kernel } => format!("This machine (Linux {kernel})"),
            Origin::Gathered { name } => format!("{name} (gathered)"),
            Origin::Synthetic { spec } => format!("{spec} (synthetic)"),
        }
    }

    /// How much of everything there is.
    pub fn summary(&self) -> String {
        let machine = self.machine;
        let nr_offline = machine.cpus().iter().filter(|cpu| !cpu.online).count();
        let mut summary =
            [count(self.nodes.len(), "node"), count(machine.cpus().len(), "CPU")].join(", ");
        if nr_offline > 0 {
            summary += &format!(" ({nr_offline} offline)");
        }
        if !machine.packages().is_empty() {
            summary += &format!(", {}", count(machine.packages().len(), "package"));
        }
        match machine.memory() {
            Some(memory) => summary + &format!(", {memory} of memory"),
            None => summary + ", memory unknown",
        }
    }
}

impl<'a> NodeView<'a> {
    fn new(machine: &'a Machine, node: NodeId) -> Self {
        let mut by_llc: BTreeMap<Option<LlcId>, Vec<&Cpu>> = BTreeMap::new();
        let mut packages: BTreeMap<PackageId, PackageOsId> = BTreeMap::new();
        for cpu in machine.cpus().iter().filter(|cpu| cpu.node == Some(node)) {
            by_llc.entry(cpu.llc).or_default().push(cpu);
            if let Some(id) = cpu.package {
                packages.insert(id, machine.packages()[id.index()].os_id);
            }
        }
        let caches = by_llc.into_iter().map(|(llc, mut cpus)| {
            cpus.sort_by_key(|cpu| (cpu.package, cpu.core, cpu.os_id));
            CacheView { llc: llc.map(|llc| &machine.llcs()[llc.index()]), cpus }
        });
        Self {
            os_id: machine.nodes()[node.index()].os_id.0,
            memory: machine.nodes()[node.index()].memory,
            caches: caches.collect(),
            packages: packages.into_values().collect(),
        }
    }

    /// All its CPUs.
    pub fn cpus(&self) -> impl Iterator<Item = &'a Cpu> + '_ {
        self.caches.iter().flat_map(|cache| cache.cpus.iter().copied())
    }

    /// `64G`, `no memory` or `memory unknown`.
    pub fn memory_text(&self) -> String {
        match self.memory {
            Some(Bytes(0)) => "no memory".to_owned(),
            Some(memory) => memory.to_string(),
            None => "memory unknown".to_owned(),
        }
    }

    /// `package 0`, or nothing where it is not known.
    pub fn package_text(&self) -> String {
        let ids: CpuList = self.packages.iter().map(|package| package.0).collect();
        match self.packages.len() {
            0 => String::new(),
            1 => format!("package {ids}"),
            _ => format!("packages {ids}"),
        }
    }
}

impl CacheView<'_> {
    /// `L3 32M`, or nothing where there is no known cache.
    pub fn text(&self) -> String {
        match self.llc {
            Some(Llc { level, size: Some(size) }) => format!("L{level} {size}"),
            Some(Llc { level, size: None }) => format!("L{level}"),
            None => String::new(),
        }
    }
}

/// CPUs in the kernel's list format.
pub fn cpu_list<'a>(cpus: impl IntoIterator<Item = &'a Cpu>) -> CpuList {
    cpus.into_iter().map(|cpu| cpu.os_id.0).collect()
}

/// `1 node`, `2 nodes`.
pub fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Who said how far nodes are from each other.
pub fn provenance(distances: &DistanceMatrix) -> &'static str {
    match distances.provenance {
        Provenance::FromOs => "from the operating system",
        Provenance::User => "as given",
        Provenance::Assumed => "assumed: nobody says",
    }
}

/// The least and the greatest distance between different nodes.
pub fn remote_range(distances: &DistanceMatrix) -> Option<(u8, u8)> {
    let rows = distances.rows.iter().enumerate();
    let remote = rows.flat_map(|(from, row)| {
        row.iter().enumerate().filter(move |(to, _)| *to != from).map(|(_, distance)| distance.0)
    });
    remote.fold(None, |range, distance| {
        let (least, greatest) = range.unwrap_or((distance, distance));
        Some((least.min(distance), greatest.max(distance)))
    })
}
