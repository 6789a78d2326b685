//! Ids. A *logical* id is an index into the lists of one [`Machine`](crate::Machine), dense from 0;
//! an *OS* id is the number the kernel uses, which may have gaps. The types keep the two apart.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as a list index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// Logical id of a CPU (hardware thread); printed `L#3`, as hwloc does.
    CpuId, "L#"
);
id!(
    /// The kernel's number of a CPU; printed `P#3`.
    CpuOsId, "P#"
);
id!(
    /// Logical id of a NUMA node; printed `L#1`.
    NodeId, "L#"
);
id!(
    /// The kernel's number of a NUMA node; printed `P#1`.
    NodeOsId, "P#"
);
id!(
    /// Logical id of a last-level cache.
    LlcId, "L#"
);
id!(
    /// Logical id of a processor package (socket).
    PackageId, "L#"
);
id!(
    /// The kernel's `physical_package_id`.
    PackageOsId, "P#"
);
