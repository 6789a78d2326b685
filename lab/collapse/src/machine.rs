//! Cores in simulated time over the memory model: an access takes as long as the model says, and of one line
//! they come one after the other.
//!
//! The model tells what each access costs a core alone; it has no common clock. What makes a lock
//! collapse is that a line goes to those who want it *in turn*: its home serves one request at a time. So
//! each line here is free again when the last request of it is done.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use quartier_memmodel::geometry::{Geometry, Preset};
use quartier_memmodel::{Access, Cpu, Layout, Mode, Owner, PageSize, System, Translation};

pub const CORES_PER_NODE: usize = 6;
/// The study's machine: eight sockets of six cores.
pub const CORES_MAX: usize = 48;
const NODE_BYTES: u64 = 64 << 20;
const LINE_BYTES: u64 = 64;
/// A hit in the first level, with the instructions around it.
const HIT_CYCLES: u64 = 4;

pub struct Machine {
    system: Arc<System>,
    cores: Vec<Cpu>,
    /// When each line's last request is done.
    free_at: HashMap<u64, u64>,
}

impl Machine {
    pub fn new() -> anyhow::Result<Self> {
        let nr_nodes = (CORES_MAX / CORES_PER_NODE) as u16;
        let layout = Layout::uniform(nr_nodes, CORES_PER_NODE, NODE_BYTES);
        let system = System::new(geometry(), layout)?;
        let cores = (0..CORES_MAX).map(|core| {
            let mut cpu = system.cpu(core).context("a core is taken once")?;
            cpu.attribute(Some(Owner::Program));
            Ok(cpu)
        });
        Ok(Self { cores: cores.collect::<anyhow::Result<_>>()?, system, free_at: HashMap::new() })
    }

    /// A core accesses an address at a time, cycles; when that is done.
    pub fn access(&mut self, core: usize, address: u64, access: Access, now: u64) -> u64 {
        let cpu = &mut self.cores[core];
        let before = cpu.modelled_stall_millicycles();
        let mut flat = |vaddr: u64| Some(Translation::new(vaddr & !0x1f_ffff, PageSize::Huge));
        cpu.data(address, 8, access, Mode::User, &mut flat);
        let stall_cycles = (cpu.modelled_stall_millicycles() - before) / 1000;
        if stall_cycles == 0 {
            return now + HIT_CYCLES;
        }
        let free_at = self.free_at.entry(address / LINE_BYTES).or_default();
        *free_at = now.max(*free_at) + stall_cycles;
        *free_at + HIT_CYCLES
    }

    /// Copies of lines that writes took from other cores so far.
    pub fn nr_taken(&self) -> u64 {
        self.system.snapshot().program.totals().invalidations
    }
}

/// The server's caches and latencies. A lock's accesses wait for each other, so nothing is in flight beside them;
/// queues at memories and links are left out, as nothing here is enough to fill one.
fn geometry() -> Geometry {
    let mut geometry = Preset::Server.geometry();
    geometry.cost.reads_in_flight = 1;
    geometry.cost.writes_in_flight = 1;
    // The longest that the model has: it does not end here.
    geometry.cost.window_cycles = 1 << 40;
    geometry
}

/// A line of a node's memory.
pub fn line(node: usize, number: u64) -> u64 {
    node as u64 * NODE_BYTES + number * LINE_BYTES
}

/// A line of the node of a core that only this core uses. Neighbours are two lines apart.
pub fn own_line(core: usize, number: u64) -> u64 {
    let within = (core % CORES_PER_NODE) as u64;
    line(core / CORES_PER_NODE, 1024 + within * 64 + number * 2)
}
