//! How busy CPUs are, which of them are reserved, and which blocks of memory are free: `proc/stat`,
//! `sys/devices/system/cpu/isolated`, `proc/buddyinfo`.

use std::collections::BTreeMap;

use quartier_model::{CpuList, CpuOsId, NodeOsId};

use crate::{Host, Result, parse};

/// What a CPU has done since the machine was started, in clock ticks (1/100 s on every architecture that
/// Debian has).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Everything but idling and waiting for input or output.
    pub busy_ticks: u64,
    /// Everything.
    pub total_ticks: u64,
    /// What the host of a virtual machine ran instead; 0 where the host does not tell.
    pub stolen_ticks: u64,
}

impl Host {
    /// The times of every online CPU; empty where there is no `proc/stat`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn cpu_times(&self) -> Result<BTreeMap<CpuOsId, CpuTimes>> {
        Ok(self.parse("proc/stat", "lines cpuN with their times", cpu_times)?.unwrap_or_default())
    }

    /// The same, and how many tasks have been made since the machine was started, where that is said.
    pub(crate) fn cpu_times_and_forks(&self) -> Result<(BTreeMap<CpuOsId, CpuTimes>, Option<u64>)> {
        let both = |text: &str| Some((cpu_times(text)?, forks(text)));
        Ok(self.parse("proc/stat", "lines cpuN with their times", both)?.unwrap_or_default())
    }

    /// CPUs that the scheduler balances no load to (`isolcpus`, isolated cpusets); empty where the kernel
    /// does not say.
    ///
    /// # Errors
    /// When the file is not a list.
    pub fn isolated_cpus(&self) -> Result<CpuList> {
        let path = "sys/devices/system/cpu/isolated";
        Ok(self.parse(path, "a list of CPUs", parse::list)?.unwrap_or_default())
    }

    /// How many free blocks of 2ⁿ pages each node has, all zones together, by n; empty where there is
    /// no `proc/buddyinfo`, or it may not be read.
    ///
    /// # Errors
    /// When the file is not what the kernel writes.
    pub fn free_blocks(&self) -> Result<BTreeMap<NodeOsId, Vec<u64>>> {
        let blocks = self.parse("proc/buddyinfo", "lines of free blocks", free_blocks)?;
        Ok(blocks.unwrap_or_default())
    }
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice` (Linux fs/proc/stat.c). Time
/// of guests is in `user` and `nice` already. Old kernels have fewer fields.
fn cpu_times(text: &str) -> Option<BTreeMap<CpuOsId, CpuTimes>> {
    let mut times = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("cpu")) {
        // The first line has no number: it is the sum.
        let Some((id, fields)) = line.split_once(' ').filter(|(id, _)| !id.is_empty()) else {
            continue;
        };
        let fields: Option<Vec<u64>> =
            fields.split_whitespace().take(8).map(|field| field.parse().ok()).collect();
        let fields = fields.filter(|fields| fields.len() >= 4)?;
        let total = fields.iter().fold(0u64, |sum, field| sum.saturating_add(*field));
        let waited = fields[3].saturating_add(fields.get(4).copied().unwrap_or(0));
        let busy_ticks = total.saturating_sub(waited);
        let stolen_ticks = fields.get(7).copied().unwrap_or(0);
        let of_cpu = CpuTimes { busy_ticks, total_ticks: total, stolen_ticks };
        times.insert(CpuOsId(id.parse().ok()?), of_cpu);
    }
    Some(times)
}

/// `processes 12345`: threads too.
fn forks(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("processes "))?.trim().parse().ok()
}

/// `Node 0, zone   Normal   216   55 …`: blocks of 2⁰, 2¹, … pages (Linux mm/vmstat.c).
fn free_blocks(text: &str) -> Option<BTreeMap<NodeOsId, Vec<u64>>> {
    let mut nodes: BTreeMap<NodeOsId, Vec<u64>> = BTreeMap::new();
    for line in text.lines() {
        let (node, zone) = line.strip_prefix("Node")?.split_once(',')?;
        let mut words = zone.split_whitespace();
        (words.next()? == "zone").then_some(())?;
        let _name = words.next()?;
        let blocks = nodes.entry(NodeOsId(node.trim().parse().ok()?)).or_default();
        for (order, count) in words.enumerate() {
            if order == blocks.len() {
                blocks.push(0);
            }
            blocks[order] = blocks[order].saturating_add(count.parse().ok()?);
        }
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waiting_is_not_being_busy_and_guests_count_once() {
        let text = "cpu  9 9 9 9\ncpu0 10 1 5 100 20 2 3 4 7 1\ncpu12 1 2 3 4\nintr 5 cpu\n";
        let times = cpu_times(text).unwrap();
        assert_eq!(
            times[&CpuOsId(0)],
            CpuTimes { busy_ticks: 25, total_ticks: 145, stolen_ticks: 4 }
        );
        assert_eq!(
            times[&CpuOsId(12)],
            CpuTimes { busy_ticks: 6, total_ticks: 10, stolen_ticks: 0 }
        );
        assert_eq!(times.len(), 2);
        for bad in ["cpu0 1 2 x 4\n", "cpu0 1 2\n", "cpux 1 2 3 4\n"] {
            assert_eq!(cpu_times(bad), None, "{bad}");
        }
    }

    #[test]
    fn zones_of_a_node_are_added_up() {
        let text = "Node 0, zone      DMA      0      1      2\n\
                    Node 0, zone   Normal     10     20     30      4\n\
                    Node 3, zone   Normal      7      0      0\n";
        let blocks = free_blocks(text).unwrap();
        assert_eq!(blocks[&NodeOsId(0)], [10, 21, 32, 4]);
        assert_eq!(blocks[&NodeOsId(3)], [7, 0, 0]);
        for bad in ["Node 0 zone DMA 1", "Node x, zone DMA 1", "Node 0, zone DMA y", "rubbish"] {
            assert_eq!(free_blocks(bad), None, "{bad}");
        }
        assert_eq!(free_blocks(""), Some(BTreeMap::new()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(cpu|Node|[ ,0-9a-z\\n])*") {
            let _ = (cpu_times(&text), free_blocks(&text));
        }
    }
}
