//! When threads are woken: the kernel's tracepoint for it, on every CPU, of whoever is woken. Where it may not be used, nothing
//! else of a profile is missing.

use std::collections::BTreeMap;
use std::io;

use perf_event::data::Record as Parsed;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use quartier_model::CpuList;

use super::records::{Record, What};
use crate::Host;
use crate::switches::{Fields, What as Traced, tracepoint};

/// Of a CPU's ring: some ten thousand wakeups between two looks.
const RING_BYTES: usize = 1 << 20;

/// What /proc/self/ns/pid says in the kernel's first namespace (include/linux/proc_ns.h, `PROC_PID_INIT_INO`): only there threads
/// have the numbers that the tracepoint tells.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The tracepoint, open on every CPU.
pub struct Wakeups {
    rings: Vec<Sampler>,
    fields: Fields,
    /// Some were lost: then it is not known how long threads were queued.
    pub has_lost: bool,
}

impl Wakeups {
    /// `None`: it may not be used here, or its numbers are not ours.
    pub fn open(host: &Host, cpus: &CpuList) -> Option<Self> {
        let namespace = std::fs::read_link(host.full_path("proc/self/ns/pid")).ok()?;
        if namespace.to_str() != Some(FIRST_NAMESPACE) {
            return None;
        }
        let (id, fields) = tracepoint(host, "sched_wakeup")?;
        let mut rings =
            cpus.iter().map(|cpu| ring(id, cpu)).collect::<io::Result<Vec<_>>>().ok()?;
        rings.iter_mut().try_for_each(|ring| ring.enable()).ok()?;
        Some(Self { rings, fields, has_lost: false })
    }

    /// Takes those of threads that are alive (thread and process).
    pub fn empty(&mut self, alive: &BTreeMap<u32, u32>, into: &mut Vec<Record>) {
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                let sample = match record.parse_record() {
                    Ok(Parsed::Sample(sample)) => sample,
                    Ok(Parsed::Lost(_)) => {
                        self.has_lost = true;
                        continue;
                    }
                    _ => continue,
                };
                let woken = sample.raw().and_then(|raw| self.fields.read(raw));
                let Some(Traced::Woken(tid)) = woken else { continue };
                if let (Some(at_ns), Some(pid)) = (sample.time(), alive.get(&tid)) {
                    into.push(Record { at_ns, pid: *pid, tid, what: What::Woken });
                }
            }
        }
    }
}

fn ring(id: u64, cpu: u32) -> io::Result<Sampler> {
    let mut builder = Builder::new(Tracepoint::with_id(id));
    builder.any_pid().one_cpu(cpu as usize).include_kernel().sample_period(1);
    builder.sample(SampleFlag::TIME | SampleFlag::RAW).clockid(Clock::MONOTONIC);
    builder.build()?.sampled(RING_BYTES)
}
