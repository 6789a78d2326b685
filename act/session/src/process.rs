//! A process's slot: who it is and what happened to it, in atomics that outlive it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{CpuBits, NR_CPU_WORDS, Reason, Rung};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a process slot counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $name,)+ }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

counters! {
    /// Threads created.
    ThreadsCreated,
    /// Of those, threads started on a CPU that the decision tree chose.
    ThreadsPlaced,
    /// Threads that began where no core was idle, and were held later.
    ThreadsSettled,
    /// Times that a thread was held on another node, because it waited for a CPU.
    ThreadMoves,
    /// Times that resident data was marked.
    Marks,
    /// Blocks marked.
    BlocksMarked,
    /// Blocks of which at least a page was moved to another node.
    BlocksMoved,
    /// Blocks touched from the node where they were already.
    BlocksKept,
    /// Blocks given back untouched (before a fork, or because marking was turned off).
    BlocksGivenBack,
    /// Borders between two nodes' parts of a huge page that were kept from being joined.
    Fences,
    /// Pages marked.
    PagesMarked,
    /// Pages moved to another node.
    PagesMoved,
    /// Pages that the kernel would not hand over (pinned, locked, shared).
    PagesBusy,
    /// Touches served.
    Faults,
    /// Time that marking took, in nanoseconds.
    MarkNanos,
    /// Time the helper spent serving touches, in nanoseconds.
    ServeNanos,
}

/// The counters of a slot.
pub type Counters = [AtomicU64; Counter::ALL.len()];

/// The life of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    /// Nobody's.
    Free = 0,
    /// The process runs (or was killed: see whether its pid still lives).
    Running = 1,
    /// The process ended through its exit handlers; its resident pages are counted.
    Ended = 2,
}

/// One process of the run. Two arrays of `nr_nodes` [`AtomicU64`] follow it in memory: threads
/// placed per node, and resident pages per node at the end.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessSlot {
    pid: AtomicU32,
    state: AtomicU32,
    rung: AtomicU32,
    flags: AtomicU32,
    name: [AtomicU64; 2],
    reasons: AtomicU64,
    /// The process as the decision tree's ledger knows it, plus one; 0: not entered.
    ledger_process: AtomicU64,
    /// The low 32 bits of its PID namespace's inode; 0: unknown.
    pid_namespace: AtomicU32,
    reserved: AtomicU32,
    /// The CPUs that its user allows it: its affinity before any of its threads was held.
    base: [AtomicU64; NR_CPU_WORDS],
    counters: Counters,
}

const FLAG_USER_AFFINITY: u32 = 1;
const FLAG_RESIDENT_KNOWN: u32 = 2;

impl ProcessSlot {
    /// Takes a free slot for `pid`; `false` if somebody was faster.
    pub fn claim(&self, pid: u32, pid_namespace: u32) -> bool {
        let free = SlotState::Free as u32;
        let running = SlotState::Running as u32;
        let won =
            self.state.compare_exchange(free, running, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if won {
            self.pid_namespace.store(pid_namespace, Ordering::Relaxed);
            self.pid.store(pid, Ordering::Release);
        }
        won
    }

    /// The process's id; 0 while the slot is being claimed.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Where the slot is in its life.
    pub fn state(&self) -> SlotState {
        match self.state.load(Ordering::Acquire) {
            1 => SlotState::Running,
            2 => SlotState::Ended,
            _ => SlotState::Free,
        }
    }

    /// Sets the state of a slot that is one's own.
    pub fn set_state(&self, state: SlotState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// The program's name (at most 15 bytes), as the kernel has it in `comm`.
    pub fn name(&self) -> String {
        let bytes: Vec<u8> = self
            .name
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sets the program's name; more than 15 bytes are cut.
    pub fn set_name(&self, name: &[u8]) {
        let mut bytes = [0u8; 16];
        let len = name.len().min(15);
        bytes[..len].copy_from_slice(&name[..len]);
        let (first, second) = bytes.split_at(8);
        for (word, half) in self.name.iter().zip([first, second]) {
            let mut eight = [0u8; 8];
            eight.copy_from_slice(half);
            word.store(u64::from_ne_bytes(eight), Ordering::Relaxed);
        }
    }

    /// Adds to a counter.
    pub fn add(&self, counter: Counter, amount: u64) {
        self.counters[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// Some of what was counted as one thing is another. For the only one who counts either.
    pub fn recount(&self, from: Counter, to: Counter, amount: u64) {
        let amount = amount.min(self.get(from));
        self.counters[from as usize].fetch_sub(amount, Ordering::Relaxed);
        self.add(to, amount);
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// Notes that something was not done.
    pub fn note(&self, reason: Reason) {
        self.reasons.fetch_or(1 << (reason as u8), Ordering::Relaxed);
    }

    /// What was not done.
    pub fn reasons(&self) -> impl Iterator<Item = Reason> + use<> {
        let bits = self.reasons.load(Ordering::Relaxed);
        Reason::ALL.iter().copied().filter(move |reason| bits >> (*reason as u8) & 1 == 1)
    }

    /// The rung in use, once marking has begun.
    pub fn rung(&self) -> Rung {
        Rung::from_wire(self.rung.load(Ordering::Relaxed)).unwrap_or(Rung::None)
    }

    /// Sets the rung in use.
    pub fn set_rung(&self, rung: Rung) {
        self.rung.store(rung as u32, Ordering::Relaxed);
    }

    /// Whether the process set an affinity of its own, which a program it executes must keep.
    pub fn user_affinity(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_USER_AFFINITY != 0
    }

    /// Notes that the process set an affinity of its own.
    pub fn set_user_affinity(&self) {
        self.flags.fetch_or(FLAG_USER_AFFINITY, Ordering::Relaxed);
    }

    /// The process as the decision tree's ledger knows it; `None` while it counts no thread.
    pub fn ledger_process(&self) -> Option<u64> {
        self.ledger_process.load(Ordering::Acquire).checked_sub(1)
    }

    /// Notes that.
    pub fn set_ledger_process(&self, word: Option<u64>) {
        self.ledger_process.store(word.map_or(0, |word| word.wrapping_add(1)), Ordering::Release);
    }

    /// The low 32 bits of its PID namespace's inode; 0: unknown.
    pub fn pid_namespace(&self) -> u32 {
        self.pid_namespace.load(Ordering::Acquire)
    }

    /// Whether this is a running process's slot, and the process that one.
    pub fn is_of(&self, pid: u32, pid_namespace: u32) -> bool {
        self.state() == SlotState::Running
            && self.pid() == pid
            && self.pid_namespace() == pid_namespace
    }

    /// Which CPUs its user allows it.
    pub fn base(&self) -> CpuBits {
        let mut bits = CpuBits::EMPTY;
        for (word, stored) in bits.words.iter_mut().zip(&self.base) {
            *word = stored.load(Ordering::Relaxed);
        }
        bits
    }

    /// Notes that.
    pub fn set_base(&self, bits: &CpuBits) {
        for (stored, word) in self.base.iter().zip(bits.words) {
            stored.store(word, Ordering::Relaxed);
        }
    }

    /// Whether resident pages were counted: a process that was killed had no chance to.
    pub fn resident_known(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FLAG_RESIDENT_KNOWN != 0
    }

    /// Notes that resident pages were counted.
    pub fn set_resident_known(&self) {
        self.flags.fetch_or(FLAG_RESIDENT_KNOWN, Ordering::Relaxed);
    }
}
