//! Where copies run: domains (nodes, or last-level caches) and which copy is in which.

use anyhow::bail;
use quartier_decide::steer::Shape;
use quartier_model::{Bytes, CpuList, Machine, NodeId, NodeOsId};
use quartier_steer::Binding;

/// `--per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Per {
    /// NUMA nodes
    Node,
    /// Last-level caches
    Llc,
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
    /// All with CPUs.
    pub domains: Vec<Domain>,
    /// The domain of each copy.
    pub homes: Vec<usize>,
}

impl Places {
    /// Spreads copies over the domains in which they may run; one for each if no number is asked for.
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
        let usable: Vec<usize> =
            (0..domains.len()).filter(|at| !domains[*at].allowed.is_empty()).collect();
        let nr_cpus: usize = domains.iter().map(|domain| domain.allowed.len()).sum();
        let nr_copies = copies.unwrap_or(usable.len());
        if usable.is_empty() || nr_copies > nr_cpus {
            bail!(
                "--copies {nr_copies}: there are {nr_cpus} CPUs that may be used, and a copy needs one; give a \
                 smaller number"
            );
        }
        let homes = (0..nr_copies).map(|copy| usable[copy % usable.len()]).collect();
        Ok(Self { domains, homes })
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

    #[test]
    fn copies_of_a_node_share_its_cpus() {
        let machine = SyntheticSpec::uniform(1, 4).machine().unwrap();
        let places = Places::new(&machine, &"0-3".parse().unwrap(), Per::Node, Some(2)).unwrap();
        assert_eq!(places.shape(&machine).cpus, [2, 2]);
        assert_eq!(places.binding(0), places.binding(1));
    }
}
