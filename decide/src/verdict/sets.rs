//! Which CPUs a program runs on when it gets N of them.

use std::collections::BTreeMap;

use quartier_model::{Cpu, CpuList, Machine};
use serde::{Deserialize, Serialize};

/// The order in which CPUs are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// A core, a cache, a node is full before the next one is begun.
    Pack,
    /// Of what is least used each time: package, node, cache, core.
    Spread,
}

/// The CPUs in the order in which they are added: those that are online and allowed; of a core's hardware threads the
/// first one only, or with `smt` all.
#[must_use]
pub fn cpu_order(machine: &Machine, allowed: &CpuList, order: Order, smt: bool) -> Vec<u32> {
    let is_usable = |cpu: &&Cpu| cpu.online && allowed.contains(cpu.os_id.0);
    let mut cpus: Vec<&Cpu> = machine.cpus().iter().filter(is_usable).collect();
    cpus.sort_by_key(|cpu| (place(cpu), cpu.os_id));
    if !smt {
        // Where the kernel does not say which core it is, it is one of its own.
        cpus.dedup_by(|later, first| first.core.is_some() && place(later) == place(first));
    }
    match order {
        Order::Pack => cpus.iter().map(|cpu| cpu.os_id.0).collect(),
        Order::Spread => spread(cpus),
    }
}

/// Where a CPU is, from the largest part of the machine to the smallest.
fn place(cpu: &Cpu) -> [Option<u32>; 4] {
    [cpu.package.map(|id| id.0), cpu.node.map(|id| id.0), cpu.llc.map(|id| id.0), cpu.core]
}

fn spread(mut cpus: Vec<&Cpu>) -> Vec<u32> {
    let mut used: BTreeMap<Vec<Option<u32>>, usize> = BTreeMap::new();
    let mut order = Vec::new();
    let parts = |cpu: &Cpu| (1..=4).map(|nr| place(cpu)[..nr].to_vec()).collect::<Vec<_>>();
    while !cpus.is_empty() {
        let uses = |cpu: &Cpu| -> Vec<usize> {
            parts(cpu).iter().map(|part| used.get(part).copied().unwrap_or_default()).collect()
        };
        let best = (0..cpus.len()).min_by_key(|at| (uses(cpus[*at]), *at)).unwrap_or_default();
        let cpu = cpus.remove(best);
        parts(cpu).into_iter().for_each(|part| *used.entry(part).or_default() += 1);
        order.push(cpu.os_id.0);
    }
    order
}

/// 1, 2, 4, … and all of them.
#[must_use]
pub fn default_counts(nr_cpus: u32) -> Vec<u32> {
    let mut counts: Vec<_> =
        (0..u32::BITS).map(|power| 1 << power).take_while(|count| *count < nr_cpus).collect();
    counts.extend((nr_cpus > 0).then_some(nr_cpus));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartier_model::SyntheticSpec;

    #[test]
    fn nodes_are_filled_or_taken_in_turn() {
        let machine = SyntheticSpec::uniform(2, 3).machine().unwrap();
        let all: CpuList = "0-5".parse().unwrap();
        assert_eq!(cpu_order(&machine, &all, Order::Pack, true), [0, 1, 2, 3, 4, 5]);
        assert_eq!(cpu_order(&machine, &all, Order::Spread, true), [0, 3, 1, 4, 2, 5]);
        let some: CpuList = "1,4-5".parse().unwrap();
        assert_eq!(cpu_order(&machine, &some, Order::Spread, true), [1, 4, 5]);
    }

    #[test]
    fn counts_double_up_to_all() {
        assert_eq!(default_counts(1), [1]);
        assert_eq!(default_counts(2), [1, 2]);
        assert_eq!(default_counts(12), [1, 2, 4, 8, 12]);
    }
}
