//! The words every stage of Quartier shares: ids, units and machines.
//!
//! No I/O and no `unsafe`: `observe` fills these types, `decide` reads them, `act` obeys them.
#![forbid(unsafe_code)]

mod cpulist;
mod ids;
mod machine;
mod synthetic;
mod units;

pub use cpulist::{CpuList, CpuListError};
pub use ids::{CpuId, CpuOsId, LlcId, NodeId, NodeOsId, PackageId, PackageOsId};
pub use machine::{
    Cpu, DistanceMatrix, Llc, MACHINE_FORMAT, Machine, MachineError, MachineParts, Node, Origin,
    Package, Provenance,
};
pub use synthetic::{CPUS_MAX, NODES_MAX, SyntheticError, SyntheticSpec};
pub use units::{Bytes, Distance, Nanos, ParseBytesError};
