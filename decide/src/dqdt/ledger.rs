//! Who counted which thread, so that T can be put right after a process was killed.
//!
//! T itself is a number in shared memory; a process that dies does not take its threads off. So
//! each thread has a [`Record`]: the CPU it is counted on and the process it belongs to. Whoever
//! [sweeps](Ledger::sweep) finds the records of dead processes:
//!
//! - **settled** ones are taken off like any thread that ends;
//! - one **in flight** was cut off between its first addition and its last, and nobody can tell how
//!   far it got. It is put right at a moment when nothing else changes T: whatever T then has more
//!   or less than the records say is an error, and is undone.
//!
//! That a moment is quiet shows without stopping anybody. A change of T first says so in its record,
//! then counts itself in the root, then changes T, and last settles its record. If no living record
//! is in flight, and the count of changes is the same before the records are read and after T is
//! read, then what was read belongs together.
//!
//! Every step is one atomic operation on one word, so a process may be killed between any two, the
//! sweeper too. In a shared tree every change of T has to go through the ledger.

use quartier_model::CpuId;

use crate::dqdt::estimates::Estimates;
use crate::dqdt::tree::{ClusterId, FANOUT_MAX, Tree};
use crate::policy::{Decision, Placement, decide_and};
use crate::sync::{AcqRel, Acquire, AtomicU64, Relaxed, Release, fence};

/// A claim looks at so many records. One that finds all of them taken gives up: the ledger is too
/// small, and a thread that is not counted is better than a search through megabytes.
const PROBES_MAX: usize = 512;

/// Records of one CPU begin so far apart: a cache line.
const RECORDS_PER_CPU: usize = 8;

/// So often a sweep looks for a quiet moment.
const QUIET_TRIES: u32 = if cfg!(loom) { 1 } else { 100 };

/// The ledger's one word beside its lists: who sweeps. All zero: nobody.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Sweeper(AtomicU64);

/// A process that counts threads. All zero: free.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessEntry {
    /// State (2 bits), generation (16), process id (22), PID namespace (24).
    word: AtomicU64,
    start_ticks: AtomicU64,
}

/// A counted thread: state (2 bits), position of its CPU (14), process (16 + 16). All zero: free.
#[repr(transparent)]
#[derive(Debug)]
pub struct Record(AtomicU64);

macro_rules! empty {
    ($($name:ident { $($field:tt),+ })+) => {$(
        impl $name {
            /// As memory comes from the kernel.
            #[must_use]
            pub fn new() -> Self {
                Self { $($field: AtomicU64::new(0)),+ }
            }
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    )+};
}
empty! {
    Sweeper { 0 }
    ProcessEntry { word, start_ticks }
    Record { 0 }
}

/// What tells one process from all others, now and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process id, below 2²² (`PID_MAX_LIMIT`).
    pub pid: u32,
    /// When it started, in clock ticks since boot: ids are used again. `None` while it is being
    /// entered.
    pub start_ticks: Option<u64>,
    /// The low 24 bits of its PID namespace's inode: ids of other namespaces say nothing.
    pub pid_namespace: u32,
}

/// What a sweeper knows of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It is gone for good.
    Dead,
    /// It is in a namespace of which this process sees nothing. Its threads stay counted.
    Unknown,
}

/// A process of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    index: u16,
    generation: u16,
}

impl Process {
    /// As a number below 2³², to be kept in a word.
    #[must_use]
    pub fn to_word(self) -> u64 {
        u64::from(self.generation) << 16 | u64::from(self.index)
    }

    /// The process of such a number; `None` for any other.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let word = u32::try_from(word).ok()?;
        Some(Self { index: word as u16, generation: (word >> 16) as u16 })
    }
}

/// A counted thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId(pub u32);

/// A thread that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where, and why there.
    pub decision: Decision,
    /// For [`Ledger::release`]. `None`: the ledger is full, and the thread is not counted.
    pub record: Option<RecordId>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that were dead.
    pub nr_processes: u32,
    /// Threads of theirs that were taken off.
    pub nr_threads: u32,
    /// Entries of T that were wrong and are right now.
    pub nr_repaired: u32,
    /// Changes that were cut off and wait for a quiet moment.
    pub nr_pending: u32,
}

/// Estimates whose T is kept by records.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    estimates: Estimates<'a>,
    sweeper: &'a Sweeper,
    processes: &'a [ProcessEntry],
    records: &'a [Record],
}

const FREE: u64 = 0;
const IN_FLIGHT: u64 = 1;
const SETTLED: u64 = 2;

const CLAIMING: u64 = 1;
const LIVE: u64 = 2;
const DEAD: u64 = 3;

impl<'a> Ledger<'a> {
    /// How many records serve a tree: 16 threads for each CPU, at least 4096.
    #[must_use]
    pub fn nr_records(tree: &Tree) -> usize {
        (16 * tree.nr_cpus()).next_power_of_two().max(4096)
    }

    /// A ledger over lists of any length; the list of processes counts up to 2¹⁶.
    #[must_use]
    pub fn new(
        estimates: Estimates<'a>,
        sweeper: &'a Sweeper,
        processes: &'a [ProcessEntry],
        records: &'a [Record],
    ) -> Self {
        let processes = &processes[..processes.len().min(1 << 16)];
        Self { estimates, sweeper, processes, records }
    }

    /// The estimates whose T it keeps.
    #[must_use]
    pub fn estimates(&self) -> &Estimates<'a> {
        &self.estimates
    }

    /// Enters a process. What an earlier program of the same process left (it called `exec`) is left
    /// to the next sweep. `None` when the list is full.
    #[must_use]
    pub fn enter(&self, owner: &Owner) -> Option<Process> {
        for entry in self.processes {
            if owner_of(entry).as_ref() == Some(owner) {
                let word = entry.word.load(Relaxed);
                let _ = entry.word.compare_exchange(word, with_state(word, DEAD), Relaxed, Relaxed);
            }
        }
        let from = owner.pid as usize;
        let len = self.processes.len();
        (0..len).map(|at| (from + at) % len).find_map(|index| self.claim_process(index, owner))
    }

    fn claim_process(&self, index: usize, owner: &Owner) -> Option<Process> {
        let entry = &self.processes[index];
        let word = entry.word.load(Relaxed);
        if state_of(word) != FREE {
            return None;
        }
        let generation = generation_of(word);
        let claimed = process_word(CLAIMING, generation, owner);
        entry.word.compare_exchange(word, claimed, Relaxed, Relaxed).ok()?;
        entry.start_ticks.store(owner.start_ticks.unwrap_or(0), Relaxed);
        entry.word.store(with_state(claimed, LIVE), Release);
        Some(Process { index: index as u16, generation })
    }

    /// Takes a process out, with all its threads; it places no more. If another thread of it is just
    /// placing or releasing one, the entry stays, and the sweep after the process has ended frees it.
    pub fn leave(&self, process: Process) {
        for record in self.records {
            if belongs_to(record.0.load(Acquire), process) {
                self.take_off(record, process);
            }
        }
        let entry = &self.processes[usize::from(process.index)];
        let word = entry.word.load(Relaxed);
        let is_empty = !self.records.iter().any(|r| belongs_to(r.0.load(Acquire), process));
        if is_empty && generation_of(word) == process.generation {
            let _ = entry.word.compare_exchange(word, freed(word), Release, Relaxed);
        }
    }

    /// Chooses a CPU for a thread of a process and counts it there. `None` when no CPU will do.
    ///
    /// # Panics
    /// If the request's set of allowed CPUs was made for another tree.
    #[must_use]
    pub fn place(&self, process: Process, request: &impl Placement) -> Option<Placed> {
        let mut record = None;
        let mut is_full = false;
        let count = |position: usize, seen: Option<u32>| {
            if record.is_none() && !is_full {
                record = self.claim_record(process, position);
                is_full = record.is_none();
            }
            match seen {
                _ if is_full => true,
                Some(seen) => self.estimates.add_if_unchanged(position, seen),
                None => self.estimates.add_at(position),
            }
        };
        let decided = decide_and(&self.estimates, request, count);
        if let Some(record) = record {
            let word =
                decided.map_or(FREE, |(_, position)| record_word(SETTLED, position, process));
            self.records[record].0.store(word, Release);
        }
        let (decision, _) = decided?;
        Some(Placed { decision, record: record.map(|at| RecordId(at as u32)) })
    }

    /// Counts a thread that runs on a CPU already. `None` when the CPU takes no threads or the
    /// ledger is full.
    #[must_use]
    pub fn count(&self, process: Process, cpu: CpuId) -> Option<RecordId> {
        let position = self.estimates.tree().position_of(cpu)?;
        let record = self.claim_record(process, position)?;
        self.estimates.add_at(position);
        self.records[record].0.store(record_word(SETTLED, position, process), Release);
        Some(RecordId(record as u32))
    }

    /// Takes a thread off: it ended, or was never made. Says whether it was counted.
    pub fn release(&self, process: Process, id: RecordId) -> bool {
        self.release_of(process, process, id)
    }

    /// Counts a thread of another process on another CPU, on behalf of `me`, which may be killed meanwhile:
    /// then nobody is in doubt but about `me`. Gives the new record; `None`, and nothing changed, when that is not the
    /// process's, or the ledger is full.
    #[must_use]
    pub fn recount(&self, me: Process, of: Process, id: RecordId, cpu: CpuId) -> Option<RecordId> {
        let old = self.records.get(id.0 as usize)?;
        let word = old.0.load(Relaxed);
        if state_of(word) != SETTLED || process_of(word) != of {
            return None;
        }
        let position = self.estimates.tree().position_of(cpu)?;
        let new = self.claim_record(me, position)?;
        self.estimates.add_at(position);
        self.records[new].0.store(record_word(SETTLED, position, of), Release);
        self.take_off(old, me);
        Some(RecordId(new as u32))
    }

    /// Takes a thread of another process off, on behalf of `me`. Says whether it was counted.
    pub fn release_of(&self, me: Process, of: Process, id: RecordId) -> bool {
        let Some(record) = self.records.get(id.0 as usize) else { return false };
        let word = record.0.load(Relaxed);
        state_of(word) == SETTLED && process_of(word) == of && self.take_off(record, me)
    }

    /// Takes a settled record off on behalf of `me`; says whether it was still there.
    fn take_off(&self, record: &Record, me: Process) -> bool {
        let word = record.0.load(Acquire);
        let position = position_of(word);
        let in_flight = record_word(IN_FLIGHT, position, me);
        if state_of(word) != SETTLED
            || record.0.compare_exchange(word, in_flight, Relaxed, Relaxed).is_err()
        {
            return false;
        }
        self.begin_change();
        // Memory that somebody damaged may name any CPU.
        if position < self.estimates.tree().nr_cpus() {
            self.estimates.remove_at(position);
        }
        record.0.store(FREE, Release);
        true
    }

    /// A record in flight, near those of the same CPU.
    fn claim_record(&self, process: Process, position: usize) -> Option<usize> {
        let len = self.records.len();
        let word = record_word(IN_FLIGHT, position, process);
        let first = position * RECORDS_PER_CPU;
        let probes = (0..PROBES_MAX.min(len)).map(|at| (first + at) % len);
        let claim = |at: &usize| {
            let record = &self.records[*at].0;
            record.load(Relaxed) == FREE
                && record.compare_exchange(FREE, word, Acquire, Relaxed).is_ok()
        };
        let claimed = probes.into_iter().find(claim)?;
        self.begin_change();
        Some(claimed)
    }

    /// Counts a change of T after its record says that it is in flight, and before T changes.
    fn begin_change(&self) {
        self.estimates.threads_of(ClusterId::ROOT).nr_changes.fetch_add(1, Release);
        fence(Release);
    }

    /// Takes off the threads of dead processes, and puts right what they left half done. `life` says
    /// who is dead. `None` when another process sweeps already.
    pub fn sweep(&self, me: Process, life: impl Fn(&Owner) -> Life) -> Option<Swept> {
        self.lock(me, &life)?;
        let mut swept = Swept { nr_processes: self.bury(&life), ..Swept::default() };
        for record in self.records {
            let word = record.0.load(Acquire);
            if state_of(word) != FREE && self.is_dead(process_of(word)) {
                if state_of(word) == SETTLED {
                    swept.nr_threads += u32::from(self.take_off(record, me));
                } else {
                    swept.nr_pending += 1;
                }
            }
        }
        if swept.nr_pending > 0 {
            let repaired = (0..QUIET_TRIES).find_map(|_| self.reconcile());
            if let Some(nr_repaired) = repaired {
                (swept.nr_repaired, swept.nr_pending) = (nr_repaired, 0);
            }
        }
        if swept.nr_pending == 0 {
            self.free_the_dead();
        }
        self.sweeper.0.store(0, Release);
        Some(swept)
    }

    fn lock(&self, me: Process, life: impl Fn(&Owner) -> Life) -> Option<()> {
        let mine = 1 << 32 | me.to_word();
        let holder = self.sweeper.0.load(Relaxed);
        if holder != 0 {
            let process = Process { index: holder as u16, generation: (holder >> 16) as u16 };
            let entry = self.processes.get(usize::from(process.index));
            let owner = entry.and_then(owner_of);
            let runs = owner.is_some_and(|owner| life(&owner) != Life::Dead);
            if runs && !self.is_dead(process) {
                return None;
            }
        }
        self.sweeper.0.compare_exchange(holder, mine, AcqRel, Relaxed).ok().map(|_| ())
    }

    /// Marks the entries of dead processes; gives how many are marked.
    fn bury(&self, life: impl Fn(&Owner) -> Life) -> u32 {
        let mut nr_dead = 0;
        for entry in self.processes {
            let word = entry.word.load(Acquire);
            if let Some(owner) = owner_of(entry)
                && life(&owner) == Life::Dead
            {
                let _ = entry.word.compare_exchange(word, with_state(word, DEAD), Relaxed, Relaxed);
            }
            nr_dead += u32::from(state_of(entry.word.load(Relaxed)) == DEAD);
        }
        nr_dead
    }

    fn is_dead(&self, process: Process) -> bool {
        let entry = self.processes.get(usize::from(process.index));
        entry.is_none_or(|entry| {
            let word = entry.word.load(Relaxed);
            generation_of(word) != process.generation || matches!(state_of(word), DEAD | FREE)
        })
    }

    fn free_the_dead(&self) {
        for entry in self.processes {
            let word = entry.word.load(Relaxed);
            if state_of(word) == DEAD {
                entry.word.store(freed(word), Release);
            }
        }
    }

    /// Makes T what the records say, if this is a quiet moment; gives how many entries were wrong.
    ///
    /// Only under the sweeper's lock: an error must be taken away once.
    fn reconcile(&self) -> Option<u32> {
        let tree = self.estimates.tree();
        let changes = &self.estimates.threads_of(ClusterId::ROOT).nr_changes;
        let before = changes.load(Acquire);
        let mut expected = vec![0u32; tree.nr_cpus()];
        let mut cut_off = Vec::new();
        for record in self.records {
            let word = record.0.load(Acquire);
            match (state_of(word), self.is_dead(process_of(word))) {
                (FREE, _) => {}
                (SETTLED, false) => {
                    if let Some(count) = expected.get_mut(position_of(word)) {
                        *count += 1;
                    }
                }
                (_, true) => cut_off.push((record, word)),
                (_, false) => return None,
            }
        }
        let errors = self.errors(&expected);
        fence(Acquire);
        if changes.load(Relaxed) != before {
            return None;
        }
        for &(cluster, entry, error) in &errors {
            self.estimates.threads_of(cluster).nr_threads[entry].fetch_sub(error, Relaxed);
        }
        // Last: a sweeper that is killed before finds them again.
        for (record, word) in cut_off {
            let _ = record.0.compare_exchange(word, FREE, Release, Relaxed);
        }
        Some(errors.len() as u32)
    }

    /// The entries of T that are not what these counts of CPUs add up to, and by how much.
    fn errors(&self, expected: &[u32]) -> Vec<(ClusterId, usize, u32)> {
        let tree = self.estimates.tree();
        let mut errors = Vec::new();
        for id in tree.cluster_ids() {
            let cluster = tree.cluster(id);
            let sum =
                |positions: std::ops::Range<usize>| -> u32 { expected[positions].iter().sum() };
            let mut expected = [0; FANOUT_MAX];
            if cluster.is_leaf() {
                let cpus = cluster.positions();
                expected.iter_mut().zip(cpus).for_each(|(entry, cpu)| *entry = sum(cpu..cpu + 1));
            } else {
                let children = cluster.children().map(|child| sum(tree.cluster(child).positions()));
                expected.iter_mut().zip(children).for_each(|(entry, child)| *entry = child);
            }
            let slots = &self.estimates.threads_of(id).nr_threads;
            for (entry, (slot, expected)) in slots.iter().zip(expected).enumerate() {
                let error = slot.load(Relaxed).wrapping_sub(expected);
                if error != 0 {
                    errors.push((id, entry, error));
                }
            }
        }
        errors
    }
}

/// What a process leaves that is killed at the worst moment. For tests of whoever sweeps.
#[doc(hidden)]
impl Ledger<'_> {
    /// A record in flight, and nothing changed yet.
    pub fn begin_and_die(&self, process: Process, cpu: CpuId) {
        let position = self.estimates.tree().position_of(cpu).unwrap_or(0);
        let _ = self.claim_record(process, position);
    }

    /// A sweep that began.
    pub fn lock_and_die(&self, process: Process) {
        let _ = self.lock(process, |_| Life::Alive);
    }
}

#[doc(hidden)]
impl Record {
    /// Damage.
    pub fn overwrite(&self, word: u64) {
        self.0.store(word, Relaxed);
    }
}

fn state_of(word: u64) -> u64 {
    word & 3
}

fn with_state(word: u64, state: u64) -> u64 {
    word & !3 | state
}

fn record_word(state: u64, position: usize, process: Process) -> u64 {
    process.to_word() << 16 | (position as u64 & 0x3fff) << 2 | state
}

fn position_of(word: u64) -> usize {
    (word >> 2 & 0x3fff) as usize
}

fn process_of(word: u64) -> Process {
    Process { index: (word >> 16) as u16, generation: (word >> 32) as u16 }
}

fn belongs_to(word: u64, process: Process) -> bool {
    state_of(word) != FREE && process_of(word) == process
}

fn process_word(state: u64, generation: u16, owner: &Owner) -> u64 {
    let namespace = u64::from(owner.pid_namespace & 0xff_ffff);
    let pid = u64::from(owner.pid & 0x3f_ffff);
    namespace << 40 | pid << 18 | u64::from(generation) << 2 | state
}

fn generation_of(word: u64) -> u16 {
    (word >> 2) as u16
}

/// A free entry of the next generation: records of the last one belong to nobody any more.
fn freed(word: u64) -> u64 {
    u64::from(generation_of(word).wrapping_add(1)) << 2 | FREE
}

/// Who an entry stands for, unless it is free or known to be dead.
fn owner_of(entry: &ProcessEntry) -> Option<Owner> {
    let word = entry.word.load(Acquire);
    let start_ticks = match state_of(word) {
        LIVE => Some(entry.start_ticks.load(Relaxed)),
        CLAIMING => None,
        _ => return None,
    };
    let pid = (word >> 18 & 0x3f_ffff) as u32;
    Some(Owner { pid, start_ticks, pid_namespace: (word >> 40) as u32 })
}
