//! The memory policy that a program inherits from its launcher.

use quartier_model::NodeOsId;
use rustix::io::Errno;

const MPOL_DEFAULT: i32 = 0;
const MPOL_BIND: i32 = 2;
const MPOL_INTERLEAVE: i32 = 3;

/// A mask of 1024 nodes.
const NODE_WORDS: usize = 16;

/// A policy of `set_mempolicy(2)`, inherited over `fork` and `exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Round robin over these nodes.
    Interleave(Vec<NodeOsId>),
    /// Only these nodes.
    Bind(Vec<NodeOsId>),
}

impl MemoryPolicy {
    /// Sets it for the calling thread and what it starts.
    ///
    /// # Errors
    /// What the kernel says: `EINVAL` for nodes that do not exist or have no memory.
    pub fn set(&self) -> Result<(), Errno> {
        let (mode, nodes) = match self {
            Self::Interleave(nodes) => (MPOL_INTERLEAVE, nodes),
            Self::Bind(nodes) => (MPOL_BIND, nodes),
        };
        let mut mask = [0u64; NODE_WORDS];
        for node in nodes {
            let word = mask.get_mut(node.index() / 64).ok_or(Errno::INVAL)?;
            *word |= 1 << (node.0 % 64);
        }
        set_mempolicy(mode, Some(&mask))
    }

    /// Puts the calling thread back to the default.
    pub fn unset() {
        let _ = set_mempolicy(MPOL_DEFAULT, None);
    }
}

fn set_mempolicy(mode: i32, mask: Option<&[u64; NODE_WORDS]>) -> Result<(), Errno> {
    let (pointer, bits) = match mask {
        Some(mask) => (mask.as_ptr(), NODE_WORDS * 64 + 1),
        None => (std::ptr::null(), 0),
    };
    // SAFETY: the mask has the number of bits given (the kernel reads one fewer).
    let status = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    if status == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error))
}
