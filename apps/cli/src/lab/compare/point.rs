//! How many of the guest's CPUs the program has: nodes are filled one after the other, as whole clusters
//! are added in the thesis (5.3.5).

use std::ffi::OsString;

use anyhow::bail;
use quartier_lab::Topology;
use quartier_model::CpuList;

use crate::scale::measure::told;

/// A number of CPUs, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub nr_cpus: u32,
    pub cpus: CpuList,
    /// They are all that the guest has.
    pub is_all: bool,
    /// The first node that has some of them, and memory: its number, and its CPUs of these.
    pub one_node: Option<(u32, CpuList)>,
}

/// All CPUs first, then those of `sweep`, downwards: whoever cannot wait has the table already.
pub fn points(topology: &Topology, sweep: &[u32]) -> anyhow::Result<Vec<Point>> {
    let all = topology.nr_cpus() as u32;
    for (at, nr_cpus) in sweep.iter().enumerate() {
        if *nr_cpus > all {
            bail!(
                "--sweep {nr_cpus} cannot be: the guest has {all} CPUs; give smaller numbers, or more \
                 --nodes or --cpus-per-node"
            );
        }
        if sweep[..at].contains(nr_cpus) {
            bail!("--sweep has {nr_cpus} twice: give each number of CPUs once");
        }
    }
    if sweep == [all] {
        bail!(
            "--sweep {all} is all that the guest has, which is counted anyway: give smaller numbers"
        );
    }
    let mut numbers: Vec<_> = sweep.iter().copied().chain([all]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers.into_iter().rev().map(|nr_cpus| Point::new(topology, nr_cpus)).collect())
}

impl Point {
    fn new(topology: &Topology, nr_cpus: u32) -> Self {
        let machine = topology.machine();
        let of_nodes = machine
            .node_ids()
            .flat_map(|node| machine.node_cpu_list(node).iter().collect::<Vec<_>>());
        let cpus: CpuList = of_nodes.take(nr_cpus as usize).collect();
        let one_node = machine.node_ids().find_map(|node| {
            let part = &machine.nodes()[node.index()];
            let here: CpuList =
                machine.node_cpu_list(node).iter().filter(|cpu| cpus.contains(*cpu)).collect();
            let has_memory = part.memory.is_some_and(|memory| memory.0 > 0);
            (has_memory && !here.is_empty()).then_some((part.os_id.0, here))
        });
        Self { nr_cpus, is_all: nr_cpus as usize == topology.nr_cpus(), cpus, one_node }
    }

    /// The command, told how many CPUs it has.
    pub fn told(&self, command: Vec<OsString>) -> Vec<OsString> {
        told(&command, self.nr_cpus as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(cpus: &str, memory: &str) -> Topology {
        let memory = memory.parse().unwrap();
        Topology::new(None, &cpus.parse().unwrap(), Some(&memory), None).unwrap()
    }

    #[test]
    fn nodes_are_filled_one_after_the_other() {
        let points = points(&topology("2,2,2", "512M,512M,512M"), &[1, 3]).unwrap();
        let lists: Vec<_> = points.iter().map(|point| point.cpus.to_string()).collect();
        assert_eq!(lists, ["0-5", "0-2", "0"]);
        assert_eq!(
            points.iter().map(|point| point.is_all).collect::<Vec<_>>(),
            [true, false, false]
        );
        let of_one: Vec<_> = points.iter().map(|point| point.one_node.clone().unwrap()).collect();
        assert_eq!(of_one[1], (0, "0-1".parse().unwrap()));
        assert_eq!(of_one[2], (0, "0".parse().unwrap()));
    }

    #[test]
    fn one_node_has_memory_and_cpus() {
        let topology = topology("2,0,2", "0,512M,512M");
        let of_one = |nr_cpus| Point::new(&topology, nr_cpus).one_node;
        assert_eq!(of_one(4), Some((2, "2-3".parse().unwrap())));
        assert_eq!(of_one(2), None);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        let topology = topology("2,2", "1G,1G");
        for (sweep, part) in [
            (&[1, 5][..], "the guest has 4 CPUs"),
            (&[2, 1, 2], "2 twice"),
            (&[4], "counted anyway"),
        ] {
            let refused = points(&topology, sweep).unwrap_err().to_string();
            assert!(refused.contains(part) && !refused.contains('\n'), "{refused}");
        }
        assert_eq!(points(&topology, &[]).unwrap().len(), 1);
        assert_eq!(points(&topology, &[4, 1]).unwrap().len(), 2);
    }

    #[test]
    fn the_command_is_told_its_cpus() {
        let point = Point::new(&topology("2,2", "1G,1G"), 3);
        let command = ["p", "-t{cpus}", "{cpus},{cpus}", "{cpu}"].map(OsString::from).to_vec();
        assert_eq!(point.told(command), ["p", "-t3", "3,3", "{cpu}"].map(OsString::from));
    }
}
