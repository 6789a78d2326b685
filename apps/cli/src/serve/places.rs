//! Where copies run: domains (nodes, or last-level caches) and which copy is in which.

use anyhow::bail;
use quartier_decide::steer::Shape;
use quartier_model::{Bytes, CpuList, Machine, NodeId, NodeOsId};
use quartier_steer::Binding;
use serde::{Deserialize, Serialize};

/// `--per`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// NUMA nodes
    #[default]
    Node,
    /// Last-level caches
    Llc,
}

impl Per {
    /// What receives connections together, in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Llc => "last-level cache",
        }
    }
}

/// CPUs that receive connections together, and may have a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The node that it is, or is in.
    pub node: NodeId,
    /// The same by the kernel's number.
    pub node_os_id: NodeOsId,
    /// All of its CPUs: connections arrive there.
    pub cpus: CpuList,
    /// Those where copies may run.
    pub allowed: CpuList,
    has_memory: bool,
}

/// Domains, and where each copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// What they are.
    pub per: Per,
    /// All with CPUs.
    pub domains: Vec<Domain>,
    /// The domain of each copy.
    pub homes: Vec<usize>,
}

impl Places {
    /// Spreads copies over the domains in which they may run, nodes in turn; one for each if no number is asked for.
    pub fn new(
        machine: &Machine,
        allowed: &CpuList,
        per: Per,
        copies: Option<usize>,
    ) -> anyhow::Result<Self> {
        let domains = match per {
            Per::Node => {
                machine.node_ids().map(|node| domain(machine, allowed, node, |_| true)).collect()
            }
            Per::Llc => caches(machine, allowed)?,
        };
        let domains: Vec<Domain> =
            domains.into_iter().filter(|domain| !domain.cpus.is_empty()).collect();
        let usable = usable(&domains);
        let nr_cpus: usize = domains.iter().map(|domain| domain.allowed.len()).sum();
        let nr_copies = copies.unwrap_or(usable.len());
        if usable.is_empty() || nr_copies > nr_cpus {
            bail!(
                "--copies {nr_copies}: there are {nr_cpus} CPUs that may be used, and a copy needs one; give a \
                 smaller number"
            );
        }
        let homes = (0..nr_copies).map(|copy| usable[copy % usable.len()]).collect();
        Ok(Self { per, domains, homes })
    }

    /// CPUs that one of so many receive queues may be for: each domain's, or where the caches are more than that each node's.
    pub fn receivers(&self, nr_queues: usize) -> Vec<CpuList> {
        if nr_queues >= self.domains.len() {
            return self.domains.iter().map(|domain| domain.cpus.clone()).collect();
        }
        let mut nodes: Vec<(NodeId, Vec<u32>)> = Vec::new();
        for domain in &self.domains {
            match nodes.last_mut().filter(|(node, _)| *node == domain.node) {
                Some((_, cpus)) => cpus.extend(domain.cpus.iter()),
                None => nodes.push((domain.node, domain.cpus.iter().collect())),
            }
        }
        nodes.into_iter().map(|(_, cpus)| cpus.into_iter().collect()).collect()
    }

    /// How a copy is bound.
    pub fn binding(&self, copy: usize) -> Binding {
        let domain = &self.domains[self.homes[copy]];
        let node = domain.has_memory.then_some(domain.node_os_id);
        Binding { cpus: domain.allowed.clone(), node }
    }

    /// The domain of a CPU.
    pub fn domain_of(&self, cpu: u32) -> Option<usize> {
        self.domains.iter().position(|domain| domain.cpus.contains(cpu))
    }

    /// What the loop knows of it.
    pub fn shape(&self, machine: &Machine) -> Shape {
        let distance =
            |from: &Domain, to: &Domain| f64::from(machine.distance(from.node, to.node).0);
        let row = |from| self.domains.iter().map(|to| distance(from, to)).collect();
        Shape {
            homes: self.homes.clone(),
            cpus: (0..self.homes.len()).map(|copy| self.nr_cpus_of(copy)).collect(),
            distances: self.domains.iter().map(row).collect(),
        }
    }

    /// A copy's part of the CPUs that it may use, which copies of one domain share.
    pub fn nr_cpus_of(&self, copy: usize) -> usize {
        let home = self.homes[copy];
        let here = self.homes.iter().filter(|other| **other == home).count();
        self.domains[home].allowed.len().div_ceil(here)
    }
}

/// Those where copies may run: of each node the first, then of each the second. So few copies are on different nodes.
fn usable(domains: &[Domain]) -> Vec<usize> {
    let may_run = |at: &usize| !domains[*at].allowed.is_empty();
    let mut usable: Vec<usize> = (0..domains.len()).filter(may_run).collect();
    let nth_of_node = |at: &usize| {
        let is_before = |other: &usize| domains[*other].node == domains[*at].node;
        (0..*at).filter(may_run).filter(is_before).count()
    };
    usable.sort_by_key(nth_of_node);
    usable
}

fn domain(
    machine: &Machine,
    allowed: &CpuList,
    node: NodeId,
    is_in: impl Fn(quartier_model::CpuId) -> bool,
) -> Domain {
    let here = machine.node_cpus(node).iter().filter(|cpu| is_in(**cpu));
    let cpus: CpuList = here.map(|cpu| machine.cpus()[cpu.index()].os_id.0).collect();
    let allowed = cpus.iter().filter(|cpu| allowed.contains(*cpu)).collect();
    let the_node = &machine.nodes()[node.index()];
    let has_memory = the_node.memory != Some(Bytes(0));
    Domain { node, node_os_id: the_node.os_id, cpus, allowed, has_memory }
}

fn caches(machine: &Machine, allowed: &CpuList) -> anyhow::Result<Vec<Domain>> {
    let mut domains = Vec::new();
    for node in machine.node_ids() {
        let llc = |cpu: &quartier_model::CpuId| machine.cpus()[cpu.index()].llc;
        let mut llcs: Vec<_> = machine.node_cpus(node).iter().map(llc).collect();
        if llcs.contains(&None) {
            bail!(
                "--per llc: this kernel does not say which CPUs share a cache; use --per node, which needs \
                 no such thing"
            );
        }
        llcs.sort();
        llcs.dedup();
        domains
            .extend(llcs.iter().map(|one| domain(machine, allowed, node, |cpu| llc(&cpu) == *one)));
    }
    Ok(domains)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_decide::steer::{CopySeen, State, Steering};
    use quartier_model::SyntheticSpec;

    fn places(allowed: &str, copies: Option<usize>) -> anyhow::Result<Places> {
        let machine = SyntheticSpec::uniform(4, 2).machine()?;
        Places::new(&machine, &allowed.parse()?, Per::Node, copies)
    }

    #[test]
    fn there_is_a_copy_for_each_node_unless_another_number_is_asked_for() {
        assert_eq!(places("0-7", None).unwrap().homes, [0, 1, 2, 3]);
        assert_eq!(places("0-7", Some(2)).unwrap().homes, [0, 1]);
        assert_eq!(places("0-7", Some(6)).unwrap().homes, [0, 1, 2, 3, 0, 1]);
        let refused = places("0-7", Some(9)).unwrap_err().to_string();
        assert!(refused.starts_with("--copies 9: there are 8 CPUs"), "{refused}");
    }

    #[test]
    fn copies_stay_where_they_may_run_and_connections_arrive_everywhere() {
        let places = places("3-4", None).unwrap();
        assert_eq!((places.homes.as_slice(), places.domains.len()), (&[1, 2][..], 4));
        assert_eq!(places.binding(0).cpus.to_string(), "3");
        assert_eq!((places.domain_of(2), places.domain_of(0)), (Some(1), Some(0)));
    }

    /// Two sockets of four nodes with two caches each, of four cores that are two CPUs each.
    fn chiplets() -> Machine {
        let text = include_str!("../../../../observe/machines/chiplets-2s-8n.json");
        quartier_observe::machine_from_json(text, "chiplets").unwrap()
    }

    fn per_cache(allowed: &str, copies: Option<usize>) -> Places {
        Places::new(&chiplets(), &allowed.parse().unwrap(), Per::Llc, copies).unwrap()
    }

    fn nodes_of(places: &Places) -> Vec<u32> {
        places.homes.iter().map(|home| places.domains[*home].node_os_id.0).collect()
    }

    #[test]
    fn each_cache_has_a_copy_and_few_copies_are_on_different_nodes() {
        let all = per_cache("0-127", None);
        assert_eq!((all.homes.len(), all.domains.len()), (16, 16));
        assert_eq!(nodes_of(&all), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        let cpus = |copy| all.binding(copy).cpus.to_string();
        assert_eq!([cpus(0), cpus(8), cpus(7)], ["0-3,64-67", "4-7,68-71", "56-59,120-123"]);
        assert_eq!(all.binding(8).node, Some(NodeOsId(0)), "memory is the node's");
        assert_eq!(nodes_of(&per_cache("0-127", Some(3))), [0, 1, 2]);
        // Of node 0 the second cache alone, and of node 1 one CPU of each.
        let some = per_cache("5,9,13", Some(3));
        assert_eq!(nodes_of(&some), [0, 1, 1]);
        assert_eq!(some.binding(2).cpus.to_string(), "13");
        assert_eq!(
            (some.domain_of(0), some.domain_of(64)),
            (Some(0), Some(0)),
            "they arrive there"
        );
    }

    #[test]
    fn what_a_cache_gives_away_goes_to_the_other_one_of_its_node_first() {
        let machine = chiplets();
        let places = per_cache("0-127", None);
        let shape = places.shape(&machine);
        assert_eq!(shape.distances[0][..4], [10.0, 10.0, 12.0, 12.0], "by domain, node by node");
        let mut steering = Steering::new(shape);
        let seen = |copy| CopySeen {
            state: if copy == 0 { State::Gone } else { State::Listens },
            waiting: Some(0),
            open: Some(1),
            arrived: Some(10),
            worked_s: Some(0.01),
            busy: Some(0.2),
            usage: None,
            others: None,
        };
        let seen: Vec<_> = (0..16).map(seen).collect();
        let decision = (0..100).map(|_| steering.look(0.1, &seen)).last().unwrap();
        let row = &decision.shares[0];
        let others: Vec<f64> = (1..16).filter(|copy| *copy != 8).map(|copy| row[copy]).collect();
        assert!(row[0] == 0.0 && others.iter().all(|share| *share < row[8]), "{row:?}");
        assert!(row[1] > row[7], "and to its socket before the other one: {row:?}");
        let own = &decision.shares[1];
        assert!(own[8] > 0.99, "the others keep theirs: {own:?}");
    }

    #[test]
    fn queues_are_for_caches_where_there_are_enough_and_else_for_nodes() {
        let places = per_cache("0-127", None);
        let receivers = |nr_queues| places.receivers(nr_queues);
        let texts: Vec<_> = receivers(16)[..2].iter().map(CpuList::to_string).collect();
        assert_eq!(
            (receivers(16).len(), &texts[..]),
            (16, &["0-3,64-67", "4-7,68-71"].map(String::from)[..])
        );
        for nr_queues in [8, 15] {
            let nodes = receivers(nr_queues);
            assert_eq!((nodes.len(), nodes[1].to_string().as_str()), (8, "8-15,72-79"));
        }
        let nodes = Places::new(&chiplets(), &"0-127".parse().unwrap(), Per::Node, None).unwrap();
        assert_eq!([nodes.receivers(2).len(), nodes.receivers(64).len()], [8, 8]);
    }

    #[test]
    fn copies_of_a_node_share_its_cpus() {
        let machine = SyntheticSpec::uniform(1, 4).machine().unwrap();
        let places = Places::new(&machine, &"0-3".parse().unwrap(), Per::Node, Some(2)).unwrap();
        assert_eq!(places.shape(&machine).cpus, [2, 2]);
        assert_eq!(places.binding(0), places.binding(1));
    }
}
