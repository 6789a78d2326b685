//! The fixed part of the session: configuration and where everything else lies.

use std::sync::atomic::AtomicU64;

/// First eight bytes of every session.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"quartier");

/// Raised whenever a field moves: launcher and runtime of different builds must not share memory.
pub const LAYOUT_VERSION: u32 = 7;

/// Words of a CPU mask: room for 8192 CPUs, x86-64's largest `NR_CPUS`.
pub const NR_CPU_WORDS: usize = 128;

/// A set of CPUs by OS id, one bit each.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuBits {
    /// Bit `id % 64` of word `id / 64`.
    pub words: [u64; NR_CPU_WORDS],
}

impl CpuBits {
    /// No CPU.
    pub const EMPTY: Self = Self { words: [0; NR_CPU_WORDS] };

    /// Every CPU that a kernel can have.
    pub const ALL: Self = Self { words: [u64::MAX; NR_CPU_WORDS] };

    /// Whether all of them are in another set, too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.intersection(other) == *self
    }

    /// Adds a CPU; ids over 8191 are left out.
    pub fn insert(&mut self, os_id: u32) {
        if let Some(word) = self.words.get_mut(os_id as usize / 64) {
            *word |= 1 << (os_id % 64);
        }
    }

    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, os_id: u32) -> bool {
        self.words.get(os_id as usize / 64).is_some_and(|word| word >> (os_id % 64) & 1 == 1)
    }

    /// The CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(other.words) {
            *word &= other;
        }
        Self { words }
    }

    /// These CPUs without those of another set; all of them where nothing else would be left.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = *self;
        for (word, other) in rest.words.iter_mut().zip(other.words) {
            *word &= !other;
        }
        if rest.is_empty() { *self } else { rest }
    }

    /// Whether there is no CPU in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.words.iter().zip(0..).filter(|(word, _)| **word != 0);
        used.flat_map(|(word, at)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }

    /// The mask as the bytes that `sched_setaffinity` takes.
    #[must_use]
    pub fn byte_len() -> usize {
        NR_CPU_WORDS * 8
    }
}

impl FromIterator<u32> for CpuBits {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut bits = Self::EMPTY;
        ids.into_iter().for_each(|os_id| bits.insert(os_id));
        bits
    }
}

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal => $text:literal,)+ }) => {
        $(#[$doc])*
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)+ }

        impl $name {
            /// The value of a word read from shared memory, if it is one.
            #[must_use]
            pub fn from_wire(word: u32) -> Option<Self> {
                match word { $($value => Some(Self::$variant),)+ _ => None }
            }

            /// Its name in options and reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

wire_enum! {
    /// Where pages go.
    Policy {
        /// Observe and report only.
        None = 0 => "none",
        /// The kernel's default: pages stay where they were first touched.
        FirstTouch = 1 => "first-touch",
        /// Auto-Next-Touch (thesis 4.4.3).
        NextTouch = 2 => "next-touch",
        /// Round robin over the allowed nodes (`MPOL_INTERLEAVE`).
        Interleave = 3 => "interleave",
        /// Only on the nodes given (`MPOL_BIND`).
        Bind = 4 => "bind",
    }
}

wire_enum! {
    /// How firmly a thread is held where it was placed.
    Pin {
        /// The thread is not placed at all.
        None = 0 => "none",
        /// It starts on the CPU chosen and may move between the CPUs of that node.
        Node = 1 => "node",
        /// It stays on the CPU chosen.
        Cpu = 2 => "cpu",
    }
}

wire_enum! {
    /// Which node a thread goes to when its creator's has no idle CPU.
    Strategy {
        /// The emptiest.
        Thesis = 0 => "thesis",
        /// The fullest that has an idle CPU.
        Packed = 1 => "packed",
        /// The emptiest of all, from the start.
        Spread = 2 => "spread",
    }
}

wire_enum! {
    /// By which kernel interface pages are caught at the next touch.
    Rung {
        /// None that is safe: threads are placed, pages stay.
        None = 0 => "none",
        /// `UFFDIO_MOVE` to a shadow range (Linux 6.8).
        Move = 1 => "move",
        /// `UFFDIO_RWPROTECT` (Linux 7.3).
        Rwp = 2 => "rwp",
    }
}

/// What the launcher asks of the runtime. Written once, before any process maps it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A [`Policy`].
    pub policy: u32,
    /// A [`Pin`].
    pub pin: u32,
    /// A [`Strategy`].
    pub strategy: u32,
    /// The highest [`Rung`] that may be used.
    pub rung_max: u32,
    /// Share of a node's memory, in percent, that a process with one thread may fill; 0: no limit
    /// (thesis 4.4.3, `R_max`).
    pub initial_share_percent: u32,
    /// Not 0: huge pages are split into blocks; 0: a huge page is one block.
    pub split_huge: u32,
    /// Not 0: blocks are copied even when they are local already, to measure what moving costs on a
    /// machine with one node.
    pub always_copy: u32,
    /// How long a helper stays that has nothing marked.
    pub helper_idle_ms: u32,
    /// Between two rounds of marking at most; 0: what a process has is marked when it gets its second
    /// thread, and then no more.
    pub remark_ms_max: u32,
    /// Until the first round.
    pub remark_ms_first: u32,
    /// How often it is looked for threads that wait for a CPU while others have nothing to do; 0: never,
    /// each stays where it was placed.
    pub balance_ms: u32,
    /// How often a helper looks whether its program has executed another one, is traced, or is due for a round; more
    /// often where a round comes sooner.
    pub tick_ms: u32,
    /// Size of a block, the least that is pulled; a power of two, at least a page.
    pub block_bytes: u64,
    /// What a sweeping thread's touch pulls at most; at least `block_bytes`.
    pub block_bytes_max: u64,
    /// The CPUs that the user allows: the affinity that `quartier run` itself started with.
    pub allowed: CpuBits,
    /// CPUs that the kernel balances no load to (`isolcpus`, isolated cpusets): somebody has reserved
    /// them, so nothing is placed there unless nothing else is allowed.
    pub isolated: CpuBits,
    /// The CPUs to which the launcher narrows the program for its start; none: it does not. Set by the
    /// launcher itself.
    pub start: CpuBits,
}

impl Config {
    /// How long a helper stays that has nothing marked: a program that has just lost its threads may
    /// well make new ones.
    pub const HELPER_IDLE_MS: u32 = 1000;

    /// A block.
    pub const BLOCK_BYTES: u64 = 16 << 10;

    /// What a sweep's touch pulls at most: a huge page.
    pub const BLOCK_BYTES_MAX: u64 = 2 << 20;

    /// Until the first round of marking. A program that keeps its threads works far from its new data until
    /// then; so early a round costs little, because there is little data yet, or it was touched just now.
    pub const REMARK_MS_FIRST: u32 = 25;

    /// Between two looks for threads that wait.
    pub const BALANCE_MS: u32 = 100;

    /// Between two looks of a helper at its program.
    pub const TICK_MS: u32 = 100;

    /// Between two rounds of marking at most, as the kernel's NUMA balancing has it
    /// (`numa_balancing_scan_period_max_ms`).
    pub const REMARK_MS_MAX: u32 = 60_000;

    /// `next-touch` with the documented defaults.
    #[must_use]
    pub fn new(policy: Policy, allowed: CpuBits) -> Self {
        Self {
            policy: policy as u32,
            pin: Pin::Node as u32,
            strategy: Strategy::Thesis as u32,
            rung_max: Rung::Rwp as u32,
            initial_share_percent: 0,
            split_huge: 0,
            always_copy: 0,
            helper_idle_ms: Self::HELPER_IDLE_MS,
            remark_ms_max: Self::REMARK_MS_MAX,
            remark_ms_first: Self::REMARK_MS_FIRST,
            balance_ms: Self::BALANCE_MS,
            tick_ms: Self::TICK_MS,
            block_bytes: Self::BLOCK_BYTES,
            block_bytes_max: Self::BLOCK_BYTES_MAX,
            allowed,
            isolated: CpuBits::EMPTY,
            start: CpuBits::EMPTY,
        }
    }

    /// The policy, with unknown words read as [`Policy::None`].
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy::from_wire(self.policy).unwrap_or(Policy::None)
    }

    /// The pinning, with unknown words read as [`Pin::None`].
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin::from_wire(self.pin).unwrap_or(Pin::None)
    }

    /// The strategy, with unknown words read as [`Strategy::Thesis`].
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        Strategy::from_wire(self.strategy).unwrap_or(Strategy::Thesis)
    }

    /// The highest rung, with unknown words read as [`Rung::None`].
    #[must_use]
    pub fn rung_max(&self) -> Rung {
        Rung::from_wire(self.rung_max).unwrap_or(Rung::None)
    }
}

/// Where the processes of a run find the decision tree: `/proc/PID/fd/N`, twice.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The launcher's process id.
    pub pid: u32,
    /// Its descriptor of the tree's topology, U and M.
    pub tree_fd: i32,
    /// Its descriptor of T.
    pub threads_fd: i32,
    /// The low 32 bits of its PID namespace's inode: ids of threads elsewhere say nothing to it. 0:
    /// unknown.
    pub pid_namespace: u32,
}

/// The program's first thread as the launcher counts it in the decision tree: its ledger's process
/// and record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstThread {
    /// The launcher, as the ledger knows it.
    pub process: u32,
    /// The record; below the largest `u32`.
    pub record: u32,
}

impl FirstThread {
    /// As a word that is not 0.
    #[must_use]
    pub fn pack(self) -> u64 {
        u64::from(self.process) << 32 | (u64::from(self.record) + 1)
    }

    /// Reads a word; `None` for 0.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        let record = (word as u32).checked_sub(1)?;
        Some(Self { process: (word >> 32) as u32, record })
    }
}

/// The start of the mapping.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`LAYOUT_VERSION`].
    pub version: u32,
    /// Nodes of the machine: the length of every per-node array.
    pub nr_nodes: u32,
    /// Length of the whole mapping in bytes.
    pub size_bytes: u64,
    /// Where the machine's JSON starts, in bytes from here.
    pub machine_offset: u64,
    /// Its length in bytes.
    pub machine_len: u64,
    /// Who made it, and its descriptors of the decision tree's two files.
    pub launcher: Launcher,
    /// A [`FirstThread`], until the program's process counts its threads itself; 0: not counted.
    pub first_thread: AtomicU64,
    /// Where the process slots start.
    pub processes_offset: u64,
    /// How many there are.
    pub nr_processes: u64,
    /// Bytes from one slot to the next.
    pub process_stride: u64,
    /// Where the seats start.
    pub seats_offset: u64,
    /// How many there are.
    pub nr_seats: u64,
    /// One past the last that was ever used.
    pub seats_used: AtomicU64,
    /// What to do.
    pub config: Config,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(ids: &[u32]) -> CpuBits {
        ids.iter().copied().collect()
    }

    #[test]
    fn reserved_cpus_are_left_out_unless_nothing_else_is_allowed() {
        assert_eq!(cpus(&[0, 1, 70]).without(&cpus(&[1, 2])), cpus(&[0, 70]));
        assert_eq!(cpus(&[1, 2]).without(&cpus(&[1, 2, 3])), cpus(&[1, 2]));
        assert_eq!(cpus(&[]).without(&cpus(&[1])), cpus(&[]));
    }

    #[test]
    fn the_first_threads_word_is_never_the_empty_one() {
        for known in
            [FirstThread { process: 0, record: 0 }, FirstThread { process: u32::MAX, record: 9 }]
        {
            assert_eq!(FirstThread::unpack(known.pack()), Some(known));
        }
        assert_eq!(FirstThread::unpack(0), None);
    }
}
