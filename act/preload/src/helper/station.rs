//! Where the helper and its mates work: on the node to which they bring something, next to the thread
//! that waits for it there. So the copy is written where it stays, and only what is read crosses nodes.

use quartier_session::CpuBits;

use crate::{affinity, sys, threads};

/// Where one thread of the helper works now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Station {
    node: Option<u32>,
}

impl Station {
    /// Works on `node` from now on, and allocates there. Where the user allows no CPU of the node, any
    /// that he allows will do.
    pub(super) fn go_to(&mut self, node: u32) {
        if self.node == Some(node) || sys::prefer_node(Some(node)).is_err() {
            return;
        }
        self.node = Some(node);
        let Some(base) = affinity::base() else { return };
        let there: CpuBits =
            base.iter().filter(|cpu| threads::node_of_cpu(*cpu) == Some(node)).collect();
        let _ = affinity::set(0, if there.is_empty() { base } else { &there });
    }

    /// Works where it is, without a policy: the kernel takes the policy of who asks for that of every
    /// range that has none of its own.
    pub(super) fn leave(&mut self) {
        if self.node.take().is_some() {
            let _ = sys::prefer_node(None);
        }
    }
}
