//! Machines as kernels describe them, odd ones included.

mod fake_sys;

use fake_sys::FakeSys;
use quartier_model::{
    Bytes, CpuId, CpuOsId, Distance, LlcId, NodeId, NodeOsId, Origin, PackageOsId, Provenance,
};

#[test]
fn two_nodes() {
    let machine = FakeSys::with_nodes(&[(0, "0-1"), (1, "2-3")]).machine();
    assert_eq!(machine.node_cpu_list(NodeId(1)).to_string(), "2-3");
    assert_eq!(machine.distance(NodeId(0), NodeId(1)), Distance(20));
    assert_eq!(machine.distances().provenance, Provenance::FromOs);
    assert_eq!(machine.memory(), Some(Bytes::from_mib(2048)));
    assert_eq!(machine.origin(), &Origin::Gathered { name: "fake".to_owned() });
}

#[test]
fn holes_in_the_numbers_of_nodes_and_cpus() {
    let machine = FakeSys::with_nodes(&[(0, "0,4"), (8, "16-17"), (252, "")]).machine();
    assert_eq!(machine.nodes()[2].os_id, NodeOsId(252));
    assert_eq!(machine.cpus()[2].os_id, CpuOsId(16));
    assert_eq!(machine.cpu_by_os_id(CpuOsId(17)), Some(CpuId(3)));
    assert_eq!(machine.cpu_by_os_id(CpuOsId(5)), None);
}

#[test]
fn memory_less_and_cpu_less_nodes() {
    let fake = FakeSys::with_nodes(&[(0, "0-1"), (1, ""), (2, "2")]);
    fake.write("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:  0 kB\n");
    let machine = fake.machine();
    assert!(machine.node_cpus(NodeId(1)).is_empty());
    assert_eq!(machine.nodes()[2].memory, Some(Bytes(0)));
}

#[test]
fn memory_nobody_tells_is_not_zero() {
    let fake = FakeSys::with_nodes(&[(0, "0"), (1, "1")]);
    fake.remove("sys/devices/system/node/node1/meminfo");
    fake.write("sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 5 kB\n");
    let machine = fake.machine();
    assert_eq!((machine.nodes()[0].memory, machine.nodes()[1].memory), (None, None));
    assert_eq!(machine.memory(), None);
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let fake = FakeSys::new();
    fake.cpus("0-3", "0-3");
    fake.write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\n");
    let machine = fake.machine();
    assert_eq!(machine.nodes().len(), 1);
    assert_eq!(machine.nodes()[0].memory, Some(Bytes(2 << 20)));
    assert_eq!(machine.node_cpus(NodeId(0)).len(), 4);
    assert_eq!(machine.distances().provenance, Provenance::Assumed);
}

#[test]
fn offline_cpus_keep_their_place() {
    let fake = FakeSys::with_nodes(&[(0, "0-1"), (1, "3")]);
    fake.cpus("0-3", "0-1,3");
    let machine = fake.machine();
    assert_eq!(machine.cpus().len(), 4);
    assert!(!machine.cpus()[2].online);
    assert_eq!(machine.cpus()[2].node, None);
}

#[test]
fn a_cpu_of_no_node() {
    let fake = FakeSys::with_nodes(&[(0, "0-1")]);
    fake.cpus("0-2", "0-2");
    let machine = fake.machine();
    assert!(machine.cpus()[2].online);
    assert_eq!(machine.cpus()[2].node, None);
}

#[test]
fn packages_and_cores_as_far_as_they_are_known() {
    let fake = FakeSys::with_nodes(&[(0, "0-2")]);
    for (cpu, package, core) in [(0, "36\n", "4\n"), (1, "36\n", "-1\n"), (2, "-1\n", "0\n")] {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        fake.write(&format!("{dir}/physical_package_id"), package);
        fake.write(&format!("{dir}/core_id"), core);
    }
    let machine = fake.machine();
    assert_eq!(machine.packages().len(), 1);
    assert_eq!(machine.packages()[0].os_id, PackageOsId(36));
    assert_eq!(machine.cpus()[0].core, Some(4));
    assert_eq!((machine.cpus()[1].core, machine.cpus()[2].package), (None, None));
}

#[test]
fn the_last_level_cache_is_the_highest_with_data() {
    let fake = FakeSys::with_nodes(&[(0, "0-3")]);
    for cpu in 0..4 {
        let pair = if cpu < 2 { "0-1" } else { "2-3" };
        let private = cpu.to_string();
        let l1 = [("level", "1"), ("type", "Data"), ("shared_cpu_list", private.as_str())];
        fake.cache(cpu, 0, &l1);
        let l2 = [("level", "2"), ("type", "Unified"), ("size", "512K"), ("shared_cpu_list", pair)];
        fake.cache(cpu, 1, &l2);
        fake.cache(cpu, 2, &[("level", "3"), ("type", "Instruction")]);
    }
    let machine = fake.machine();
    assert_eq!(machine.llcs().len(), 2);
    assert_eq!(machine.llcs()[0].level, 2);
    assert_eq!(machine.llcs()[0].size, Some(Bytes(512 << 10)));
    assert_eq!(machine.cpus()[3].llc, Some(LlcId(1)));
}

#[test]
fn a_cache_that_spans_nodes() {
    let fake = FakeSys::with_nodes(&[(0, "0"), (1, "1")]);
    for cpu in 0..2 {
        fake.cache(cpu, 0, &[("level", "3"), ("shared_cpu_list", "0-1")]);
    }
    let machine = fake.machine();
    assert_eq!(machine.llcs().len(), 1);
    assert_eq!((machine.cpus()[0].llc, machine.llcs()[0].size), (machine.cpus()[1].llc, None));
}

#[test]
fn four_thousand_cpus() {
    let lists: Vec<_> = (0..64).map(|node| format!("{}-{}", node * 64, node * 64 + 63)).collect();
    let nodes: Vec<_> = (0..).zip(lists.iter().map(String::as_str)).collect();
    let machine = FakeSys::with_nodes(&nodes).machine();
    assert_eq!((machine.nodes().len(), machine.cpus().len()), (64, 4096));
}

#[test]
fn distances_nobody_tells_are_assumed() {
    let fake = FakeSys::with_nodes(&[(0, "0"), (1, "1")]);
    fake.remove("sys/devices/system/node/node0/distance");
    assert!(fake.error().contains("node0/distance is missing"), "{}", fake.error());
    fake.remove("sys/devices/system/node/node1/distance");
    assert_eq!(fake.machine().distances().provenance, Provenance::Assumed);
}

#[test]
fn this_machine_can_be_read() {
    let host = quartier_observe::Host::live();
    let machine = host.machine().unwrap();
    assert!(matches!(machine.origin(), Origin::Live { .. }));
    let limits = host.process_limits(quartier_observe::Pid::Own).unwrap();
    assert!(!limits.cpus.is_empty());
    assert!(host.free_memory(machine.nodes()[0].os_id).is_ok());
}
