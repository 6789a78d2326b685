//! `sys/devices/system/cpu`: which CPUs there are, and their cores, packages and caches.

use std::collections::BTreeMap;

use quartier_model::{
    CPUS_MAX, Capacity, Cpu, CpuList, CpuOsId, Llc, LlcId, NodeId, Package, PackageId, PackageOsId,
};

use crate::{Host, Result, parse};

pub(crate) const DIR: &str = "sys/devices/system/cpu";

/// What a list of CPUs has to be; [`CpuList`] refuses larger numbers.
pub(crate) const CPU_LIST: &str = "a list of CPUs from 0 to 8191";
const _: () = assert!(CPUS_MAX == 8192);

/// More index directories than any CPU has; each is read until one is missing.
pub(crate) const CACHE_INDICES_MAX: u32 = 16;

/// What is read about CPUs.
#[derive(Default)]
pub(crate) struct Cpus {
    pub cpus: Vec<Cpu>,
    pub llcs: Vec<Llc>,
    pub packages: Vec<Package>,
    llc_ids: BTreeMap<LlcKey, LlcId>,
    package_ids: BTreeMap<u32, PackageId>,
}

/// Caches have no id of their own on every kernel, but which CPUs share them.
type LlcKey = (u8, String);

/// The CPUs that are there, online or not. (Possible ones that are not present are empty sockets.)
pub(crate) fn present(host: &Host) -> Result<CpuList> {
    let path = format!("{DIR}/present");
    let text = host.read_required(&path, "is /sys mounted there?")?;
    parse::list(&text)
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| host.malformed(&path, &text, CPU_LIST))
}

/// Reads all CPUs of `present`.
pub(crate) fn read(
    host: &Host,
    present: &CpuList,
    node_of_cpu: &BTreeMap<u32, NodeId>,
) -> Result<Cpus> {
    let online = host
        .parse(&format!("{DIR}/online"), CPU_LIST, parse::list)?
        // The file came with CPU hotplug; without that every CPU is online.
        .unwrap_or_else(|| present.clone());
    let mut cpus = Cpus::default();
    for os_id in present.iter() {
        let is_online = online.contains(os_id);
        let node = node_of_cpu.get(&os_id).copied();
        let cpu = cpus.read_cpu(host, os_id, is_online, node)?;
        cpus.cpus.push(cpu);
    }
    cpus.read_capacities(host)?;
    Ok(cpus)
}

impl Cpus {
    fn read_cpu(
        &mut self,
        host: &Host,
        os_id: u32,
        online: bool,
        node: Option<NodeId>,
    ) -> Result<Cpu> {
        let id = |file| {
            let path = format!("{DIR}/cpu{os_id}/topology/{file}");
            host.parse(&path, "a number", parse::id_or_unknown).map(Option::flatten)
        };
        let package = id("physical_package_id")?.map(|package| self.package_id(package));
        let core = id("core_id")?;
        let llc = self.read_llc(host, os_id)?;
        Ok(Cpu { os_id: CpuOsId(os_id), online, node, llc, package, core, capacity: None })
    }

    /// How powerful each is: as the kernel says it (Arm, RISC-V), else as its greatest frequency is beside that of all. A
    /// frequency that cannot be read is unknown, as it is on most virtual machines.
    fn read_capacities(&mut self, host: &Host) -> Result<()> {
        let read = |file: &str| -> Result<Vec<Option<u32>>> {
            let number = |cpu: &Cpu| {
                let text = host.read(&format!("{DIR}/cpu{}/{file}", cpu.os_id.0))?;
                let number = text.and_then(|text| text.trim().parse().ok());
                Ok(number.filter(|number| *number > 0))
            };
            self.cpus.iter().map(number).collect()
        };
        let mut capacities = read("cpu_capacity")?;
        if capacities.iter().all(Option::is_none) {
            capacities = read("cpufreq/cpuinfo_max_freq")?;
        }
        let Some(most) = capacities.iter().flatten().max().copied() else { return Ok(()) };
        let of_most = |number: u32| u64::from(number) * u64::from(Capacity::MOST.0);
        for (cpu, number) in self.cpus.iter_mut().zip(capacities) {
            cpu.capacity =
                number.map(|number| Capacity(of_most(number).div_ceil(most.into()) as u32));
        }
        Ok(())
    }

    fn package_id(&mut self, os_id: u32) -> PackageId {
        *self.package_ids.entry(os_id).or_insert_with(|| {
            self.packages.push(Package { os_id: PackageOsId(os_id) });
            PackageId(self.packages.len() as u32 - 1)
        })
    }

    /// The cache of the highest level that holds data. An offline CPU has no cache directory, and
    /// many virtual machines have none for any CPU.
    fn read_llc(&mut self, host: &Host, os_id: u32) -> Result<Option<LlcId>> {
        let mut last: Option<(u8, String)> = None;
        for index in 0..CACHE_INDICES_MAX {
            let dir = format!("{DIR}/cpu{os_id}/cache/index{index}");
            let level = host.parse(&format!("{dir}/level"), "a cache level", parse::cache_level)?;
            let Some(level) = level else { break };
            let holds_data = host.read(&format!("{dir}/type"))?;
            let holds_data = holds_data.is_none_or(|kind| kind.trim() != "Instruction");
            if holds_data && last.as_ref().is_none_or(|(highest, _)| level > *highest) {
                last = Some((level, dir));
            }
        }
        let Some((level, dir)) = last else { return Ok(None) };
        let shared = format!("{dir}/shared_cpu_list");
        let Some(sharers) = host.parse(&shared, CPU_LIST, parse::list)? else {
            return Ok(None);
        };
        if !sharers.contains(os_id) {
            return Err(host.inconsistent(&shared, format!("CPU {os_id} does not share it")));
        }
        let size = host.parse(&format!("{dir}/size"), "a size", parse::cache_size)?;
        Ok(Some(*self.llc_ids.entry((level, sharers.to_string())).or_insert_with(|| {
            self.llcs.push(Llc { level, size });
            LlcId(self.llcs.len() as u32 - 1)
        })))
    }
}
