//! Small machines, on which counts can be told on paper, and walkers for them.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use quartier_memmodel::geometry::{
    Cache, Cost, DataCache, Fill, Geometry, LastLevel, Side, Tlb, Topology, WalksEnter, WritePolicy,
};
use quartier_memmodel::{Access, Counts, Cpu, Layout, Mode, Owner, PageSize, System, Translation};

pub const LINE: u64 = 64;
pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
/// Memory of each node.
pub const NODE: u64 = 64 * MIB;

/// 1 KiB first levels (16 lines, 4 sets), last levels of 16 KiB (256 lines), TLBs of 16 entries; home
/// side, written through, a mesh: TSAR in small.
pub fn small_home() -> Geometry {
    let tlb = Tlb { entries: 16, ways: 16, huge: None };
    Geometry {
        name: "small".to_owned(),
        line_bytes: 64,
        word_bytes: 4,
        l1i: Cache { bytes: KIB, ways: 4 },
        l1d: DataCache { bytes: KIB, ways: 4, write: WritePolicy::Through },
        l2: None,
        itlb: tlb,
        dtlb: tlb,
        second_tlb: None,
        walks_enter: WalksEnter::L1d,
        last_level: LastLevel {
            bytes: 16 * KIB,
            ways: 16,
            side: Side::Home,
            fill: Fill::Inclusive,
            cpus: None,
        },
        topology: Topology::Mesh { columns: None },
        cost: cost(),
    }
}

/// The same, written back, with last levels on the requester side.
pub fn small_requester() -> Geometry {
    let mut geometry = small_home();
    geometry.l1d.write = WritePolicy::Back;
    geometry.last_level.side = Side::Requester;
    geometry
}

/// The same with an L2 of 4 KiB (64 lines).
pub fn small_with_l2() -> Geometry {
    Geometry { l2: Some(Cache { bytes: 4 * KIB, ways: 4 }), ..small_requester() }
}

pub fn cost() -> Cost {
    Cost {
        frequency_mhz: 1000,
        cycles_per_instruction: 1.0,
        second_tlb_cycles: 5,
        l2_cycles: 10,
        last_level_cycles: 20,
        memory_cycles: 100,
        hop_cycles: 10,
        reads_in_flight: 1,
        writes_in_flight: 1,
        last_level_service_cycles: 1.0,
        memory_bytes_per_cycle: 64.0,
        link_bytes_per_cycle: 64.0,
        // Longer than any test that does not ask for queues.
        window_cycles: 1 << 40,
        utilisation_max: 0.95,
    }
}

/// CPUs on nodes, `NODE` bytes each, one after the other; all on the program's account.
pub fn machine(geometry: Geometry, nodes: u16, cpus_per_node: usize) -> (Arc<System>, Vec<Cpu>) {
    let system = System::new(geometry, Layout::uniform(nodes, cpus_per_node, NODE)).unwrap();
    let nr_cpus = usize::from(nodes) * cpus_per_node;
    let cpu = |index| {
        let mut cpu = system.cpu(index).unwrap();
        cpu.attribute(Some(Owner::Program));
        cpu
    };
    let cpus = (0..nr_cpus).map(cpu).collect();
    (system, cpus)
}

/// Virtual is physical, in pages of 2 MiB, and no table is read.
pub fn flat(vaddr: u64) -> Option<Translation> {
    Some(Translation::new(vaddr & !(2 * MIB - 1), PageSize::Huge))
}

/// Virtual is physical, in pages of 4 KiB, and no table is read.
pub fn flat_small(vaddr: u64) -> Option<Translation> {
    Some(Translation::new(vaddr & !(4 * KIB - 1), PageSize::Small))
}

pub fn load(cpu: &mut Cpu, address: u64) {
    cpu.data(address, 8, Access::Load, Mode::User, &mut flat);
}

pub fn store(cpu: &mut Cpu, address: u64) {
    cpu.data(address, 8, Access::Store, Mode::User, &mut flat);
}

pub fn atomic(cpu: &mut Cpu, address: u64) {
    cpu.data(address, 8, Access::Atomic, Mode::User, &mut flat);
}

pub fn program(system: &System) -> Counts {
    system.snapshot().program
}
