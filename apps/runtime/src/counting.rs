//! This process in the tree's ledger: entered when it first counts a thread.

use std::sync::atomic::{AtomicU64, Ordering};

use quartier_decide::dqdt::{Process, RecordId};
use quartier_decide::policy::{Decision, Placement};
use quartier_model::CpuId;
use quartier_preload::Count;
use quartier_session::{FirstThread, Session, own_pid_namespace};
use quartier_shared::SharedTree;

/// The process as a word, so that a child of a fork finds it whole.
#[derive(Debug)]
pub struct Counting {
    word: AtomicU64,
    /// Where the launcher finds it.
    session: &'static Session,
}

/// Not entered yet.
const NEW: u64 = 0;
/// Not to be counted: it has left, or the ledger has no room.
const NEVER: u64 = 1;

impl Counting {
    pub const fn new(session: &'static Session) -> Self {
        Self { word: AtomicU64::new(NEW), session }
    }

    /// A CPU for a thread, counted there if this process may count. Who may only read decides too.
    pub fn place(
        &self,
        shared: &SharedTree,
        request: &impl Placement,
    ) -> Option<(Decision, Option<Count>)> {
        let placed = shared.place(self.process(shared), request)?;
        Some((placed.decision, placed.record.map(|id| Count(id.0))))
    }

    pub fn count(&self, shared: &SharedTree, cpu: CpuId) -> Option<Count> {
        let record = shared.ledger()?.count(self.process(shared)?, cpu)?;
        Some(Count(record.0))
    }

    pub fn uncount(&self, shared: &SharedTree, count: Count) {
        if let (Some(process), Some(ledger)) = (self.known(), shared.ledger()) {
            ledger.release(process, RecordId(count.0));
        }
    }

    /// Takes off what the launcher counted for this process.
    pub fn release_for(&self, shared: &SharedTree, known: FirstThread) {
        let process = Process::from_word(u64::from(known.process));
        if let (Some(process), Some(ledger)) = (process, shared.ledger()) {
            ledger.release(process, RecordId(known.record));
        }
    }

    /// A child after a fork is another process.
    pub fn forget(&self) {
        self.word.store(NEW, Ordering::Relaxed);
    }

    /// Takes the process out.
    pub fn leave(&self, shared: &SharedTree) {
        let process = self.known();
        self.word.store(NEVER, Ordering::Relaxed);
        if let (Some(process), Some(ledger)) = (process, shared.ledger()) {
            ledger.leave(process);
        }
    }

    /// Tells the launcher, which may move threads of this process.
    fn tell(&self) {
        let mine = self.session.slot_of(std::process::id(), own_pid_namespace());
        if let Some((_, slot)) = mine {
            slot.set_ledger_process(self.known().map(Process::to_word));
        }
    }

    fn known(&self) -> Option<Process> {
        Process::from_word(self.word.load(Ordering::Acquire).checked_sub(2)?)
    }

    fn process(&self, shared: &SharedTree) -> Option<Process> {
        if self.word.load(Ordering::Acquire) == NEW {
            let entered = shared.enter().map_or(NEVER, |process| process.to_word() + 2);
            let before =
                self.word.compare_exchange(NEW, entered, Ordering::AcqRel, Ordering::Acquire);
            let twice = entered.checked_sub(2).and_then(Process::from_word);
            if before.is_err()
                && let (Some(twice), Some(ledger)) = (twice, shared.ledger())
            {
                // Another thread was faster.
                ledger.leave(twice);
            }
            self.tell();
        }
        self.known()
    }
}
