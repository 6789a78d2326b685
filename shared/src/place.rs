//! Estimates in memory of a node they describe (thesis 4.3.1).

use quartier_model::NodeOsId;

use crate::SharedTree;
use crate::layout::{PAGE_BYTES, RESOURCES_GROUP_BYTES, THREADS_GROUP_BYTES};
use crate::mapping::Mapping;

/// Asks the kernel to take the pages of each group from its node. It does as far as it can: a node
/// may be full, have no memory, or be forbidden, and then the pages lie elsewhere and work as well.
///
/// The policy of a shared file belongs to the file, so it holds for whoever touches a page first.
pub(crate) fn on_nodes(shared: &SharedTree) {
    let groups = shared.tree.slot_groups().len();
    for (group, node) in (0..groups).zip(shared.tree.slot_groups()) {
        let Some(node) = *node else { continue };
        let node = shared.tree.node_os_id(node);
        let threads = PAGE_BYTES + group * THREADS_GROUP_BYTES;
        prefer(&shared.threads, threads, THREADS_GROUP_BYTES, node);
        let first = shared.lists.resources_offset as usize;
        let resources = first + group * RESOURCES_GROUP_BYTES;
        prefer(&shared.resources, resources, RESOURCES_GROUP_BYTES, node);
    }
}

fn prefer(mapping: &Mapping, offset: usize, len: usize, node: NodeOsId) {
    const MPOL_PREFERRED: libc::c_int = 1;
    const WORD_BITS: u32 = u64::BITS;
    // 1024 nodes are the most that a kernel can have.
    let mut mask = [0u64; 1024 / WORD_BITS as usize];
    if let Some(word) = mask.get_mut((node.0 / WORD_BITS) as usize) {
        *word = 1 << (node.0 % WORD_BITS);
    }
    let address = mapping.address(offset);
    // SAFETY: the range is inside the mapping, and the mask as long as is said; a policy changes no
    // contents.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            address.as_ptr(),
            len,
            MPOL_PREFERRED,
            mask.as_ptr(),
            mask.len() * WORD_BITS as usize + 1,
            0,
        )
    };
}
