//! What the kernel counts and samples of one thread (perf_event_open(2)): the addresses of its page faults, its
//! instructions and cycles, its misses of the last-level cache, and its reads of other nodes' memory.
//!
//! Of a thread rather than of a process: what is opened for a process's first thread and inherited counts none of
//! the threads that are there already, and its samples cannot be read by whoever is not in it.

use std::fmt;
use std::io;

use perf_event::data::Record;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware, Software};
use perf_event::{Builder, Counter, ReadFormat, SampleFlag, Sampler};

/// Why something is not counted or sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// The thread has ended.
    Ended,
    /// `CAP_PERFMON` is missing, and `kernel.perf_event_paranoid` forbids it, or the thread is another user's.
    NotPermitted,
    /// The kernel has no such events, or the machine no such counters.
    Unsupported,
    /// No descriptors are left, or no memory for them.
    NoDescriptors,
}

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which process.
    pub pid: u32,
    /// Of which thread.
    pub tid: u32,
    /// What it touched.
    pub address: u64,
}

/// What a thread did since it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In user mode.
    pub instructions: u64,
    /// Fetches that missed the last-level cache; `None`: those are not counted here.
    pub llc_misses: Option<u64>,
    /// Cycles; `None`: likewise.
    pub cycles: Option<u64>,
    /// Reads that another node's memory answered; `None`: likewise.
    pub remote_reads: Option<u64>,
}

/// How much is counted of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Instructions and misses of the last-level cache: what decisions are made from.
    Needed,
    /// Cycles and remote reads as well, which are told to who asks.
    All,
}

impl Extent {
    /// Descriptors that it takes at most.
    #[must_use]
    pub fn descriptors(self) -> usize {
        match self {
            Self::Needed => 2,
            Self::All => 4,
        }
    }
}

/// The page faults of a thread, from now on.
pub trait Faults: fmt::Debug {
    /// Those since the last time; says how many were lost, because nobody took them in time.
    fn take(&mut self, each: &mut dyn FnMut(Fault)) -> u64;
}

/// What a thread does, from now on.
pub trait Counters: fmt::Debug {
    /// Since it was opened; `None`: the CPU counted something else all the time.
    fn read(&mut self) -> Option<Counts>;

    /// Descriptors that it takes.
    fn nr_open(&self) -> usize;

    /// Whether misses of the last-level cache are counted.
    fn counts_misses(&self) -> bool;
}

/// Where threads are counted and sampled.
pub trait Events: fmt::Debug {
    /// Samples page faults of a thread. Takes one descriptor.
    ///
    /// # Errors
    /// When it cannot be; then nothing is open.
    fn faults(&self, tid: u32) -> Result<Box<dyn Faults>, Refused>;

    /// Counts a thread.
    ///
    /// # Errors
    /// When it cannot be; then nothing is open.
    fn counters(&self, tid: u32, extent: Extent) -> Result<Box<dyn Counters>, Refused>;
}

/// The running kernel's.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveEvents;

/// Of a machine that is only files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl Events for NoEvents {
    fn faults(&self, _: u32) -> Result<Box<dyn Faults>, Refused> {
        Err(Refused::Unsupported)
    }

    fn counters(&self, _: u32, _: Extent) -> Result<Box<dyn Counters>, Refused> {
        Err(Refused::Unsupported)
    }
}

/// Bytes of a ring: 128 faults and more of a thread between two looks.
const RING: usize = 4096;

impl Events for LiveEvents {
    fn faults(&self, tid: u32) -> Result<Box<dyn Faults>, Refused> {
        // Only those in user mode, which may be asked with least permission.
        let counter = Builder::new(Software::PAGE_FAULTS)
            .observe_pid(pid_of(tid)?)
            .any_cpu()
            .sample_period(1)
            .sample(SampleFlag::TID | SampleFlag::ADDR)
            .enabled(true)
            .build()
            .map_err(|error| refused(&error))?;
        // Whoever may open it may not always lock memory for it.
        let ring = counter.sampled(RING).map_err(|error| match refused(&error) {
            Refused::NotPermitted => Refused::NoDescriptors,
            other => other,
        })?;
        Ok(Box::new(Ring(ring)))
    }

    fn counters(&self, tid: u32, extent: Extent) -> Result<Box<dyn Counters>, Refused> {
        let pid = pid_of(tid)?;
        let mut group = Group::of(pid, Hardware::INSTRUCTIONS)?;
        group.llc_misses = group.member(pid, Hardware::CACHE_MISSES)?;
        if extent == Extent::All {
            group.cycles = group.member(pid, Hardware::CPU_CYCLES)?;
            group.remote_reads = group.member(pid, REMOTE_READS)?;
        }
        group.begin()?;
        Ok(Box::new(group))
    }
}

/// 0 would be ourselves.
fn pid_of(tid: u32) -> Result<i32, Refused> {
    i32::try_from(tid).ok().filter(|tid| *tid > 0).ok_or(Refused::Ended)
}

fn of(event: impl Event, pid: i32) -> Builder<'static> {
    let mut builder = Builder::new(event);
    builder.observe_pid(pid).any_cpu().enabled(true);
    builder
}

fn refused(error: &io::Error) -> Refused {
    const EPERM: i32 = 1;
    const ESRCH: i32 = 3;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(ESRCH) => Refused::Ended,
        Some(EPERM | EACCES) => Refused::NotPermitted,
        Some(EMFILE | ENFILE | ENOMEM) => Refused::NoDescriptors,
        // ENOENT, EOPNOTSUPP, ENODEV, ENOSYS, and whatever else a kernel without them says.
        _ => Refused::Unsupported,
    }
}

struct Ring(Sampler);

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ring")
    }
}

impl Faults for Ring {
    fn take(&mut self, each: &mut dyn FnMut(Fault)) -> u64 {
        let mut lost = 0;
        // As much as a ring holds: a thread that faults faster than that is read must not keep us here.
        for _ in 0..RING / 16 {
            let Some(record) = self.0.next_record() else { break };
            match record.parse_record() {
                Ok(Record::Sample(sample)) => {
                    if let (Some(pid), Some(tid), Some(address)) =
                        (sample.pid(), sample.tid(), sample.addr())
                    {
                        each(Fault { pid, tid, address });
                    }
                }
                Ok(Record::Lost(of)) => lost += of.lost,
                Ok(Record::LostSamples(of)) => lost += of.lost,
                // It was slowed down, or ended.
                Ok(_) | Err(_) => {}
            }
        }
        lost
    }
}

/// Reads that missed the own node's memory.
const REMOTE_READS: Cache =
    Cache { which: CacheId::NODE, operation: CacheOp::READ, result: CacheResult::MISS };

/// All are on a CPU's counters at the same time, and read at once.
struct Group {
    instructions: Counter,
    llc_misses: Option<Counter>,
    cycles: Option<Counter>,
    remote_reads: Option<Counter>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group")
    }
}

impl Group {
    /// One that does not count yet: what is added to a group that counts already does so only some time later.
    fn of(pid: i32, instructions: impl Event) -> Result<Self, Refused> {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let instructions = of(instructions, pid)
            .enabled(false)
            .read_format(ReadFormat::GROUP | ReadFormat::ID | times)
            .build()
            .map_err(|error| refused(&error))?;
        Ok(Self { instructions, llc_misses: None, cycles: None, remote_reads: None })
    }

    /// One more; `None`: the machine has no counter for it.
    fn member(&mut self, pid: i32, event: impl Event) -> Result<Option<Counter>, Refused> {
        let member = of(event, pid).build_with_group(&mut self.instructions);
        match member.map_err(|error| refused(&error)) {
            Err(Refused::Unsupported) => Ok(None),
            other => other.map(Some),
        }
    }

    fn begin(&mut self) -> Result<(), Refused> {
        self.instructions.enable().map_err(|error| refused(&error))
    }

    fn members(&self) -> [&Option<Counter>; 3] {
        [&self.llc_misses, &self.cycles, &self.remote_reads]
    }
}

impl Counters for Group {
    fn read(&mut self) -> Option<Counts> {
        let read = self.instructions.read_group().ok()?;
        let (enabled, running) = (read.time_enabled()?.as_nanos(), read.time_running()?.as_nanos());
        // Where there are more events than counters, they take turns.
        let whole = |counted: u64| -> Option<u64> {
            (u128::from(counted) * enabled).checked_div(running)?.try_into().ok()
        };
        let of = |member: &Option<Counter>| whole(read.get(member.as_ref()?)?.value());
        let [llc_misses, cycles, remote_reads] = self.members().map(of);
        let instructions = whole(read.get(&self.instructions)?.value())?;
        Some(Counts { instructions, llc_misses, cycles, remote_reads })
    }

    fn nr_open(&self) -> usize {
        1 + self.members().into_iter().flatten().count()
    }

    fn counts_misses(&self) -> bool {
        self.llc_misses.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nothing_is_counted_is_told_apart() {
        for (errno, expected) in [
            (1, Refused::NotPermitted),
            (2, Refused::Unsupported),
            (3, Refused::Ended),
            (12, Refused::NoDescriptors),
            (13, Refused::NotPermitted),
            (19, Refused::Unsupported),
            (23, Refused::NoDescriptors),
            (24, Refused::NoDescriptors),
            (38, Refused::Unsupported),
            (95, Refused::Unsupported),
        ] {
            assert_eq!(refused(&io::Error::from_raw_os_error(errno)), expected, "{errno}");
        }
        assert_eq!(refused(&io::Error::from(io::ErrorKind::Unsupported)), Refused::Unsupported);
    }

    fn own_tid() -> i32 {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// Where there is no PMU, what reads a group is still seen to work: the kernel's own events are read alike.
    #[test]
    fn all_of_a_group_are_read_each_by_itself() {
        let mut group = match Group::of(own_tid(), Software::TASK_CLOCK) {
            Ok(group) => group,
            Err(refused) => return eprintln!("skipped: nothing can be counted here: {refused:?}"),
        };
        group.llc_misses = group.member(own_tid(), Software::PAGE_FAULTS).unwrap();
        group.remote_reads = group.member(own_tid(), Software::EMULATION_FAULTS).unwrap();
        group.begin().unwrap();
        assert_eq!((group.nr_open(), group.counts_misses()), (3, true));
        let before = group.read().unwrap();
        // More than an allocator gives from what it has.
        let nr_pages = 1024;
        let mut touched: Vec<u8> = Vec::with_capacity(nr_pages << 12);
        (0..nr_pages).for_each(|page| {
            touched.spare_capacity_mut()[page << 12].write(1);
        });
        let now = group.read().unwrap();
        // Nanoseconds, and faults, if not of huge pages: a few of the one would be very many of the other.
        assert!(now.instructions - before.instructions > 10_000, "{before:?} {now:?}");
        let faults = now.llc_misses.unwrap() - before.llc_misses.unwrap();
        assert!((2..2_000).contains(&faults), "{before:?} {now:?}");
        // Nothing is emulated here; and what is not counted is not zero.
        assert_eq!((now.remote_reads, now.cycles), (Some(0), None));
    }

    #[test]
    fn instructions_are_counted_where_there_is_a_pmu() {
        let mut counters = match LiveEvents.counters(own_tid() as u32, Extent::All) {
            Ok(counters) => counters,
            Err(refused) => return eprintln!("skipped: no counters here: {refused:?}"),
        };
        let sum: u64 = (0..std::hint::black_box(100_000u64)).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        // Others may have the counters all the time.
        if let Some(counts) = counters.read() {
            assert!(counts.instructions > 100_000, "{counts:?}");
            assert!(counts.cycles.is_none_or(|cycles| cycles > 10_000), "{counts:?}");
        }
    }
}
