//! Holding a thread of the run on another node than before.

use quartier_session::{CpuBits, Seat, Sitting};

use crate::affinity;

/// Where a thread is held, and where it is to be.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a> {
    /// Who was seen in the seat.
    pub sitting: Sitting,
    /// The affinity that it has if nobody but us has set one.
    pub from: &'a CpuBits,
    /// That which it gets.
    pub to: &'a CpuBits,
    /// The node of those CPUs.
    pub node_os_id: u32,
}

impl Hold<'_> {
    /// Holds the thread of a seat there; says whether it is. It is not when the thread has ended, its program is
    /// just changing its affinity, somebody else has, or we may not. `by`: the calling thread. `recount` tells
    /// the decision tree: it gets how the thread was counted, and gives how it is now.
    pub fn apply(
        &self,
        seat: &Seat,
        by: u32,
        recount: impl FnOnce(Option<u32>) -> Option<u32>,
    ) -> bool {
        let Some(taken) = seat.take(by) else { return false };
        let tid = self.sitting.tid;
        let is_ours = taken.sitting() == self.sitting
            && affinity::get(tid).is_ok_and(|now| now == *self.from);
        if !is_ours || affinity::set(tid, self.to).is_err() {
            return false;
        }
        let before = taken.set_record(None);
        taken.set_record(recount(before));
        taken.put_back_on(Some(self.node_os_id))
    }
}
