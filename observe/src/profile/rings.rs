//! The kernel's rings: opened before a program is started, emptied while it runs, read when it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use perf_event::data::Record as Parsed;
use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};
use quartier_model::{CpuList, Recording};
use rustix::time::{ClockId, clock_gettime};

use super::arch::{REGISTERS, Registers};
use super::asleep::Asleep;
use super::clock::{self, Clock, NoCycles, Opener};
use super::kernel::Kernel;
use super::records::{self, Record, Sample, What};
use super::stacks::Assembler;
use super::wakeups::Wakeups;
use crate::Host;

/// What is kept of a stack at a tick of the clock.
pub const STACK_BYTES: u32 = 4096;
/// And where a thread is about to wait: that may happen a hundred times as often.
const WAITING_STACK_BYTES: u32 = 1024;
/// Of a CPU's ring: the first holds what it writes between two looks even if it does nothing but switch, the last is what
/// any user may lock (kernel.perf_event_mlock_kb).
const RING_BYTES: [usize; 3] = [4 << 20, 1 << 20, 256 << 10];
/// How often rings are emptied.
const EMPTIED_EVERY: Duration = Duration::from_millis(25);
/// How often threads are looked at, where their waits are not seen.
const LOOKED_EVERY: Duration = Duration::from_millis(10);
/// Threads that are looked at each time: each takes some microseconds.
const LOOKED_AT_MAX: usize = 500;
/// Records that are kept before stacks are made of them; until then the program has the CPUs to itself.
const PENDING_MAX: usize = 200_000;

/// Why nothing can be profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprofiled {
    /// By the administrator.
    #[error(
        "profiles are not permitted: run as root, or allow them (sysctl kernel.perf_event_paranoid=1)"
    )]
    NotPermitted,
    /// By limits.
    #[error(
        "no memory or descriptors are left for profiles: raise kernel.perf_event_mlock_kb or `ulimit -n`"
    )]
    NoRoom,
    /// By the kernel.
    #[error("this kernel has no perf events (CONFIG_PERF_EVENTS): profile on another one")]
    Unsupported,
}

/// Profiles what the thread that opened it starts, from the moment when that becomes another program.
pub struct Profiler {
    opened: Opened,
    host: Host,
    clock: Clock,
    /// Where it is noted who allocates what, if it is.
    allocations: Option<PathBuf>,
}

/// What the kernel writes.
struct Opened {
    rings: Vec<Ring>,
    /// When threads are woken; `None`: that is not to be seen.
    wakeups: Option<Wakeups>,
    /// The kernel is not to be seen, nor where threads wait: they are looked at instead.
    is_user_only: bool,
}

struct Ring {
    sampler: Sampler,
    waits: bool,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clock, nr_rings) = (self.clock, self.opened.rings.len());
        let mut shown = f.debug_struct("Profiler");
        shown.field("clock", &clock).field("rings", &nr_rings).finish_non_exhaustive()
    }
}

impl Profiler {
    /// Opens it for the calling thread, on these CPUs; so many looks each second. The host's kernel is the one that runs.
    ///
    /// # Errors
    /// When nothing can be profiled; then nothing is open.
    pub fn open(host: &Host, cpus: &CpuList, hertz: u32) -> Result<Self, Unprofiled> {
        let (opened, clock) = clock::open(&mut Live { host, cpus, hertz })?;
        Ok(Self { opened, host: host.clone(), clock, allocations: None })
    }

    /// What says when running code is looked at.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Memory that was allocated has names too: by a table ([`Sites`](super::Sites)) that the program writes meanwhile.
    #[must_use]
    pub fn naming_allocations(self, table: &Path) -> Self {
        Self { allocations: Some(table.to_owned()), ..self }
    }

    /// Records until told that the program has ended; paths of programs begin at `root`.
    #[must_use]
    pub fn record(self, root: &Path, ended: &Receiver<()>) -> Recording {
        let Self { opened, host, allocations, .. } = self;
        let Opened { mut rings, mut wakeups, is_user_only } = opened;
        let assembler = Assembler::new(root, Kernel::read(&host), is_user_only);
        let mut assembler = assembler.naming_allocations(allocations);
        let mut pending = Vec::new();
        let mut alive = BTreeMap::new();
        let every = if is_user_only { LOOKED_EVERY } else { EMPTIED_EVERY };
        // Rings are emptied one after the other. So what is earlier than anything found the last time is complete now.
        let mut complete_ns = 0;
        loop {
            let has_ended = !matches!(ended.recv_timeout(every), Err(RecvTimeoutError::Timeout));
            let before_ns = pending.iter().map(|record: &Record| record.at_ns).max();
            if is_user_only {
                look_at(&host, &alive, &mut pending);
            }
            let known = pending.len();
            rings.iter_mut().for_each(|ring| ring.empty(&mut pending));
            let gone = follow(&mut alive, &pending[known..]);
            if let Some(wakeups) = &mut wakeups {
                wakeups.empty(&alive, &mut pending);
            }
            // Only now: whoever has ended may have been woken before.
            alive.retain(|tid, _| !gone.contains(tid));
            if has_ended {
                complete_ns = u64::MAX;
            } else if pending.len() < PENDING_MAX {
                continue;
            } else {
                complete_ns = before_ns.unwrap_or(complete_ns);
            }
            pending.sort_by_key(|record| record.at_ns);
            let rest = pending.partition_point(|record| record.at_ns <= complete_ns);
            pending.drain(..rest).for_each(|record| assembler.take(record));
            if has_ended {
                let mut recording = assembler.finish();
                recording.has_wakeups = wakeups.is_some_and(|wakeups| !wakeups.has_lost);
                return recording;
            }
        }
    }
}

/// The running kernel, for so many looks each second.
struct Live<'a> {
    host: &'a Host,
    cpus: &'a CpuList,
    hertz: u32,
}

impl Opener for Live<'_> {
    type Opened = Opened;

    fn by_cycles(&mut self, is_user_only: bool) -> Result<Opened, NoCycles> {
        let nr_cycles = clock::cycles_between(self.host, self.hertz)?;
        let looks = |cpu| {
            let mut looks = builder(Hardware::CPU_CYCLES, cpu, STACK_BYTES);
            looks.sample_period(nr_cycles);
            looks
        };
        Ok(self.open(looks, is_user_only)?)
    }

    fn by_software(&mut self, is_user_only: bool) -> Result<Opened, Unprofiled> {
        let looks = |cpu| {
            let mut looks = builder(Software::TASK_CLOCK, cpu, STACK_BYTES);
            looks.sample_frequency(self.hertz.into());
            looks
        };
        self.open(looks, is_user_only)
    }
}

impl Live<'_> {
    fn open(
        &self,
        looks: impl Fn(u32) -> Builder<'static>,
        is_user_only: bool,
    ) -> Result<Opened, Unprofiled> {
        let mut rings = Vec::new();
        for cpu in self.cpus.iter() {
            let mut looks = looks(cpu);
            looks.mmap(true).mmap2(true).comm(true).comm_exec(true);
            looks.task(true).context_switch(true).exclude_kernel(is_user_only);
            rings.push(Ring::open(&looks, false)?);
            if !is_user_only {
                let mut switches = builder(Software::CONTEXT_SWITCHES, cpu, WAITING_STACK_BYTES);
                switches.sample_period(1);
                rings.push(Ring::open(&switches, true)?);
            }
        }
        let wakeups = if is_user_only { None } else { Wakeups::open(self.host, self.cpus) };
        Ok(Opened { rings, wakeups, is_user_only })
    }
}

/// Which threads there are: thread and process. Gives those that are no more.
fn follow(alive: &mut BTreeMap<u32, u32>, records: &[Record]) -> BTreeSet<u32> {
    let mut gone = BTreeSet::new();
    for record in records {
        let (tid, pid) = match &record.what {
            What::Ended => {
                gone.insert(record.tid);
                continue;
            }
            What::Made { pid, tid, .. } => (*tid, *pid),
            What::Came | What::Executed => (record.tid, record.pid),
            _ => continue,
        };
        gone.remove(&tid);
        alive.insert(tid, pid);
    }
    gone
}

/// One event on one CPU, of what the calling thread starts.
fn builder(event: impl Event, cpu: u32, stack_bytes: u32) -> Builder<'static> {
    let mut sample = SampleFlag::TID | SampleFlag::TIME | SampleFlag::IP | SampleFlag::CALLCHAIN;
    let mut builder = Builder::new(event);
    builder.observe_self().one_cpu(cpu as usize).inherit(true).enable_on_exec(true);
    builder.include_kernel().sample_id_all(true).clockid(perf_event::Clock::MONOTONIC);
    if REGISTERS != 0 {
        sample |= SampleFlag::REGS_USER | SampleFlag::STACK_USER;
        builder.sample_regs_user(REGISTERS).sample_stack_user(stack_bytes);
        builder.exclude_callchain_user(true);
    }
    builder.sample(sample);
    builder
}

/// At all at the same moment, as far as that goes.
fn look_at(host: &Host, alive: &BTreeMap<u32, u32>, into: &mut Vec<Record>) {
    let now = clock_gettime(ClockId::Monotonic);
    let at_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    for (tid, pid) in alive.iter().take(LOOKED_AT_MAX) {
        let (tid, pid) = (*tid, *pid);
        if let Some(asleep) = Asleep::look(host, pid, tid) {
            into.push(Record { at_ns, pid, tid, what: What::Asleep(Box::new(asleep)) });
        }
    }
}

impl Ring {
    fn open(builder: &Builder<'_>, waits: bool) -> Result<Self, Unprofiled> {
        for bytes in RING_BYTES {
            let counter = builder.build().map_err(|error| unprofiled(&error))?;
            // Whoever may open it may not always lock as much memory for it.
            if let Ok(sampler) = counter.sampled(bytes) {
                return Ok(Self { sampler, waits });
            }
        }
        Err(Unprofiled::NoRoom)
    }

    fn empty(&mut self, into: &mut Vec<Record>) {
        const TYPE_SAMPLE: u32 = 9;
        while let Some(record) = self.sampler.next_record() {
            let found = if record.ty() == TYPE_SAMPLE {
                let is_user = record.misc() & 7 == 2;
                match record.parse_record() {
                    Ok(Parsed::Sample(sample)) => of_sample(&sample, is_user, self.waits),
                    _ => None,
                }
            } else {
                records::parse(record.ty(), record.misc(), &record.to_contiguous())
            };
            into.extend(found);
        }
    }
}

fn of_sample(sample: &perf_event::data::Sample<'_>, is_user: bool, waits: bool) -> Option<Record> {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut is_kernel = false;
    for address in sample.callchain().unwrap_or_default() {
        match *address as i64 {
            // Not addresses: what follows is of the kernel, or of the user.
            -128 => is_kernel = true,
            -4095..0 => is_kernel = false,
            _ if is_kernel => kernel.push(*address),
            _ => user.push(*address),
        }
    }
    let registers = sample.regs_user().filter(|registers| !registers.regs.is_empty());
    let sample_of = Sample {
        is_user,
        waits,
        kernel,
        user,
        registers: registers.map(|registers| Registers::of(&registers.regs)),
        stack: sample.stack_user().unwrap_or_default().to_vec(),
    };
    let what = What::Sample(Box::new(sample_of));
    Some(Record { at_ns: sample.time()?, pid: sample.pid()?, tid: sample.tid()?, what })
}

/// Why an event was not opened.
pub fn unprofiled(error: &io::Error) -> Unprofiled {
    const EPERM: i32 = 1;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EPERM | EACCES) => Unprofiled::NotPermitted,
        Some(ENOMEM | ENFILE | EMFILE) => Unprofiled::NoRoom,
        _ => Unprofiled::Unsupported,
    }
}
