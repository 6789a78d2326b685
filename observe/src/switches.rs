//! When the kernel woke threads and gave them a CPU: its scheduler's tracepoints, for as long as somebody asks. From them,
//! how long threads run at once, and how long they wait for a CPU once they are woken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use perf_event::data::Record as Parsed;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use quartier_model::CpuList;

use crate::Host;

const TRACING: [&str; 2] =
    ["sys/kernel/tracing/events/sched", "sys/kernel/debug/tracing/events/sched"];
const RING_BYTES: [usize; 3] = [4 << 20, 1 << 20, 256 << 10];
const EMPTIED_EVERY: Duration = Duration::from_millis(20);
/// Some minutes of a busy machine.
const HAPPENED_MAX: usize = 8_000_000;

/// Why nothing is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untraced {
    /// Nobody has mounted it, or only root may look.
    #[error(
        "the kernel's tracepoints are not to be seen here: as root, with tracefs mounted (mount -t tracefs tracefs /sys/kernel/tracing)"
    )]
    NoTracefs,
    /// By the administrator.
    #[error("the kernel's tracepoints may not be used by this user: run as root (CAP_PERFMON)")]
    NotPermitted,
    /// By limits.
    #[error(
        "no memory or descriptors are left for the kernel's tracepoints: raise kernel.perf_event_mlock_kb or `ulimit -n`"
    )]
    NoRoom,
    /// By the kernel.
    #[error("this kernel has no perf events of tracepoints")]
    Unsupported,
}

/// What one CPU's scheduler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// On the kernel's clock.
    pub at_ns: u64,
    /// What it was.
    pub what: What,
}

/// Threads by the number that the kernel's first namespace has for them; 0 is no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It has something to do.
    Woken(u32),
    /// A CPU went from one to another.
    Switched(u32, u32),
}

/// Once that a thread was given a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// By the kernel's number.
    pub thread: u32,
    /// From when it was woken to when it was given the CPU; none if it had not slept.
    pub wakeup_ns: Option<u64>,
    /// On the kernel's clock.
    pub began_ns: u64,
    /// When it lost the CPU; none if nobody looked any more.
    pub ended_ns: Option<u64>,
}

impl Slice {
    /// How long it ran at once, as far as that is known.
    #[must_use]
    pub fn ran_ns(&self) -> Option<u64> {
        self.ended_ns.map(|ended| ended.saturating_sub(self.began_ns))
    }
}

/// The tracepoints, open on every CPU.
pub struct SwitchTrace {
    rings: Vec<Ring>,
}

impl fmt::Debug for SwitchTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SwitchTrace").field("rings", &self.rings.len()).finish_non_exhaustive()
    }
}

struct Ring {
    sampler: Sampler,
    fields: Fields,
}

/// Where in a record the numbers of threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    Woken { pid: usize },
    Switched { from: usize, to: usize },
}

impl SwitchTrace {
    /// # Errors
    /// When nothing is to be seen; then nothing is open.
    pub fn open(host: &Host) -> Result<Self, Untraced> {
        let online = host.read("sys/devices/system/cpu/online").ok().flatten();
        let online: CpuList =
            online.and_then(|list| list.trim().parse().ok()).ok_or(Untraced::Unsupported)?;
        let mut rings = Vec::new();
        for name in ["sched_switch", "sched_wakeup"] {
            let (id, fields) = tracepoint(host, name).ok_or(Untraced::NoTracefs)?;
            for cpu in online.iter() {
                let mut builder = Builder::new(Tracepoint::with_id(id));
                builder.any_pid().one_cpu(cpu as usize).include_kernel().sample_period(1);
                builder.sample(SampleFlag::TIME | SampleFlag::RAW).clockid(Clock::MONOTONIC);
                rings.push(Ring { sampler: sampler(&builder)?, fields });
            }
        }
        for ring in &mut rings {
            ring.sampler.enable().map_err(|error| untraced(&error))?;
        }
        Ok(Self { rings })
    }

    /// Everything that happens until told that it is enough, and how often something was lost.
    #[must_use]
    pub fn record(mut self, ended: &Receiver<()>) -> (Vec<Happened>, u64) {
        let (mut happened, mut nr_lost) = (Vec::new(), 0);
        loop {
            let is_over =
                !matches!(ended.recv_timeout(EMPTIED_EVERY), Err(RecvTimeoutError::Timeout));
            for ring in &mut self.rings {
                nr_lost += ring.empty(&mut happened);
            }
            if is_over || happened.len() > HAPPENED_MAX {
                happened.sort_by_key(|one| one.at_ns);
                return (happened, nr_lost);
            }
        }
    }
}

fn sampler(builder: &Builder<'_>) -> Result<Sampler, Untraced> {
    for bytes in RING_BYTES {
        let counter = builder.build().map_err(|error| untraced(&error))?;
        if let Ok(sampler) = counter.sampled(bytes) {
            return Ok(sampler);
        }
    }
    Err(Untraced::NoRoom)
}

fn untraced(error: &io::Error) -> Untraced {
    match error.raw_os_error() {
        Some(1 | 13) => Untraced::NotPermitted,
        Some(12 | 23 | 24) => Untraced::NoRoom,
        _ => Untraced::Unsupported,
    }
}

/// Its number, and where its fields are.
pub(crate) fn tracepoint(host: &Host, name: &str) -> Option<(u64, Fields)> {
    TRACING.iter().find_map(|folder| {
        let read = |file: &str| host.read(&format!("{folder}/{name}/{file}")).ok().flatten();
        Some((read("id")?.trim().parse().ok()?, Fields::parse(&read("format")?)?))
    })
}

impl Fields {
    /// `format` has a line for each field: `field:pid_t prev_pid; offset:24; size:4; signed:1;`.
    fn parse(format: &str) -> Option<Self> {
        let offset = |name: &str| {
            let line = format.lines().find(|line| line.contains(&format!(" {name};")))?;
            line.split("offset:").nth(1)?.split(';').next()?.parse::<usize>().ok()
        };
        match (offset("prev_pid"), offset("next_pid"), offset("pid")) {
            (Some(from), Some(to), _) => Some(Self::Switched { from, to }),
            (_, _, Some(pid)) => Some(Self::Woken { pid }),
            _ => None,
        }
    }

    pub(crate) fn read(self, raw: &[u8]) -> Option<What> {
        let number = |at: usize| {
            let bytes = raw.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes))
        };
        Some(match self {
            Self::Woken { pid } => What::Woken(number(pid)?),
            Self::Switched { from, to } => What::Switched(number(from)?, number(to)?),
        })
    }
}

impl Ring {
    /// Gives how often something was lost.
    fn empty(&mut self, into: &mut Vec<Happened>) -> u64 {
        let mut nr_lost = 0;
        while let Some(record) = self.sampler.next_record() {
            match record.parse_record() {
                Ok(Parsed::Sample(sample)) => {
                    let what = sample.raw().and_then(|raw| self.fields.read(raw));
                    into.extend(
                        sample.time().zip(what).map(|(at_ns, what)| Happened { at_ns, what }),
                    );
                }
                Ok(Parsed::Lost(_)) => nr_lost += 1,
                _ => {}
            }
        }
        nr_lost
    }
}

/// When these threads had a CPU, in order of when that began. What happened is in order.
#[must_use]
pub fn slices(happened: &[Happened], threads: &BTreeSet<u32>) -> Vec<Slice> {
    let (mut woken, mut running) = (BTreeMap::new(), BTreeMap::new());
    let mut slices: Vec<Slice> = Vec::new();
    for Happened { at_ns, what } in happened {
        match what {
            What::Woken(thread) if threads.contains(thread) => {
                // Woken twice, it waits since the first time.
                woken.entry(*thread).or_insert(*at_ns);
            }
            What::Woken(_) => {}
            What::Switched(from, to) => {
                if let Some(slice) = running.remove(from) {
                    let slice: &mut Slice = &mut slices[slice];
                    slice.ended_ns = Some(*at_ns);
                }
                // Woken while it still ran, it never slept.
                woken.remove(from);
                if threads.contains(to) {
                    running.insert(*to, slices.len());
                    slices.push(Slice {
                        thread: *to,
                        wakeup_ns: woken.remove(to).map(|since| at_ns.saturating_sub(since)),
                        began_ns: *at_ns,
                        ended_ns: None,
                    });
                }
            }
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 316\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";
    const WAKEUP: &str = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        assert_eq!(Fields::parse(SWITCH), Some(Fields::Switched { from: 24, to: 56 }));
        assert_eq!(Fields::parse(WAKEUP), Some(Fields::Woken { pid: 24 }));
        assert_eq!(Fields::parse(""), None);
        let mut raw = [0; 60];
        raw[24..28].copy_from_slice(&7u32.to_ne_bytes());
        raw[56..60].copy_from_slice(&9u32.to_ne_bytes());
        assert_eq!(Fields::Switched { from: 24, to: 56 }.read(&raw), Some(What::Switched(7, 9)));
        assert_eq!(Fields::Switched { from: 24, to: 56 }.read(&raw[..59]), None);
    }

    #[test]
    fn slices_and_wakeups_are_of_the_threads_that_are_asked_for() {
        let happened = [
            (10, What::Woken(7)),
            (12, What::Woken(7)),
            (15, What::Switched(0, 7)),
            (16, What::Woken(8)),
            (20, What::Switched(7, 8)),
            (25, What::Switched(8, 7)),
            (27, What::Woken(7)),
            (30, What::Switched(7, 0)),
            (40, What::Woken(7)),
            (41, What::Switched(0, 7)),
        ]
        .map(|(at_ns, what)| Happened { at_ns, what });
        let slices = slices(&happened, &BTreeSet::from([7]));
        assert!(slices.iter().all(|slice| slice.thread == 7));
        let ran: Vec<_> = slices.iter().map(Slice::ran_ns).collect();
        assert_eq!(ran, [Some(5), Some(5), None], "the last still ran");
        let wakeups: Vec<_> = slices.iter().map(|slice| slice.wakeup_ns).collect();
        assert_eq!(
            wakeups,
            [Some(5), None, Some(1)],
            "pushed out is not woken, nor is who still ran"
        );
    }

    #[test]
    fn where_there_are_none_it_is_said() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sys/devices/system/cpu")).unwrap();
        std::fs::write(folder.path().join("sys/devices/system/cpu/online"), "0-1\n").unwrap();
        let host = Host::at(folder.path(), "made up");
        assert_eq!(SwitchTrace::open(&host).unwrap_err(), Untraced::NoTracefs);
    }
}
