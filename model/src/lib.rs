//! The words every stage of Quartier shares: ids, units and machines.
//!
//! No I/O and no `unsafe`: `observe` fills these types, `decide` reads them, `act` obeys them.
#![forbid(unsafe_code)]

mod counting;
mod cpulist;
mod cpuset;
mod distances;
mod ids;
mod kernel;
mod machine;
mod plan;
mod profile;
mod snapshot;
mod synthetic;
mod units;
mod users;
mod working_sets;

pub use counting::Counting;
pub use cpulist::{CpuList, CpuListError};
pub use cpuset::{ByCpuset, NoCpuset};
pub use ids::{CpuId, CpuOsId, LlcId, NodeId, NodeOsId, PackageId, PackageOsId};
pub use kernel::{Allocated, KernelSeen};
pub use machine::{
    CPUS_MAX, Cpu, DistanceMatrix, Llc, MACHINE_FORMAT, Machine, MachineError, MachineParts,
    NODES_MAX, Node, Origin, Package, Provenance, check_name,
};
pub use plan::{Factors, Intensity, Kind, Left, Outcome, Pages, Plan, Refusal, Step, Trigger, Why};
pub use profile::{Event, Frame, Happening, KERNEL_MODULE, PROGRAM_MODULE, Recording, Touch};
pub use snapshot::{
    FaultsSeen, NodeSeen, PerNode, ProcessSeen, SESSION_MEMORY, Snapshot, Standing,
    TREE_OF_MACHINE, Task, TaskId, ThreadSeen,
};
pub use synthetic::{SyntheticError, SyntheticSpec};
pub use units::{Bytes, Capacity, Distance, Nanos, ParseBytesError};
pub use users::{BLOCK, BlockSeen, Touches, Unseen, Users};
pub use working_sets::WorkingSets;
