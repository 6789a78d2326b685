//! The whole machine.

use quartier_model::{MACHINE_FORMAT, Machine, MachineParts};

use crate::{Host, Result, cpus, nodes};

impl Host {
    /// Reads the machine. Logical ids follow the kernel's numbers, without their gaps.
    ///
    /// # Errors
    /// When a file cannot be read, or files contradict each other (a CPU came or went meanwhile).
    pub fn machine(&self) -> Result<Machine> {
        let origin = self.origin()?;
        let present = cpus::present(self)?;
        let nodes = nodes::read(self, &present)?;
        let cpus = cpus::read(self, &present, &nodes.node_of_cpu)?;
        let parts = MachineParts {
            format: MACHINE_FORMAT,
            origin,
            nodes: nodes.nodes,
            cpus: cpus.cpus,
            llcs: cpus.llcs,
            packages: cpus.packages,
            distances: nodes.distances,
        };
        Machine::try_from(parts).map_err(|error| self.no_machine(error))
    }
}
