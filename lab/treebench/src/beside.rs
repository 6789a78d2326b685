//! What runs on the other CPU while something is measured.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quartier_model::CpuId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::stats::Sample;
use crate::world::World;

/// The period of the refresh (thesis 4.3.1).
pub const PERIOD: Duration = Duration::from_millis(2);

/// CPUs of this machine that the program may use.
#[derive(Clone, Copy, Debug)]
pub struct HostCpus {
    /// Where measurements run.
    pub first: Option<usize>,
    /// Where the others run. `None`: there is no other CPU.
    pub other: Option<usize>,
}

impl HostCpus {
    /// Chooses them and moves this thread to the first.
    pub fn choose() -> Self {
        let mut cpus = Vec::new();
        if let Ok(set) = sched_getaffinity(None) {
            cpus.extend((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)));
        }
        let chosen = Self { first: cpus.first().copied(), other: cpus.get(1).copied() };
        chosen.first.iter().for_each(|cpu| pin(*cpu));
        chosen
    }
}

/// Where it is refused the kernel places the thread, and the spread shows it.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// A kernel with other programs to run may let the thread on the other CPU wait. A measurement during
/// which it ran less than this is repeated, so often, and the best one counts.
const ENOUGH_PERCENT: f64 = 80.0;
const TRIES_MAX: u32 = 8;

/// Measures until the thread beside it ran most of the time.
pub fn until_beside(mut measure: impl FnMut() -> anyhow::Result<Sample>) -> anyhow::Result<Sample> {
    let percent = |sample: &Sample| sample.other_percent.unwrap_or(0.0);
    let mut best = measure()?;
    for _ in 1..TRIES_MAX {
        if percent(&best) >= ENOUGH_PERCENT {
            break;
        }
        let next = measure()?;
        if percent(&next) > percent(&best) {
            best = next;
        }
    }
    Ok(best)
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Measures while on CPU `other` each of `loops` runs until it is told to stop. The last one is never
/// idle: how much it ran is told.
fn beside(
    other: usize,
    loops: &[&(dyn Fn(&AtomicBool) + Sync)],
    measured: impl FnOnce() -> Sample,
) -> Sample {
    let (stop, nr_started) = (AtomicBool::new(false), AtomicU32::new(0));
    let start = |run: &(dyn Fn(&AtomicBool) + Sync)| {
        pin(other);
        nr_started.fetch_add(1, Ordering::Relaxed);
        let (started, cpu_time_before) = (Instant::now(), cpu_time());
        run(&stop);
        let ran = cpu_time() - cpu_time_before;
        100.0 * ran.as_secs_f64() / started.elapsed().as_secs_f64()
    };
    let start = &start;
    thread::scope(|scope| {
        let threads: Vec<_> = loops.iter().map(|run| scope.spawn(move || start(run))).collect();
        while nr_started.load(Ordering::Relaxed) < loops.len() as u32 {
            thread::yield_now();
        }
        let sample = measured();
        stop.store(true, Ordering::Relaxed);
        let percents = threads.into_iter().map(|thread| thread.join().unwrap_or(0.0));
        Sample { other_percent: percents.last(), ..sample }
    })
}

/// Measures while one thread places and releases threads as fast as it can, and another refreshes U
/// and M at each period.
pub fn beside_updates(other: usize, world: &World, measured: impl FnOnce() -> Sample) -> Sample {
    let place = |stop: &AtomicBool| {
        let ledger = world.shared.ledger().expect("a private tree is writable");
        // Other creators than those that are measured at the same time.
        let mut nr = 1000;
        while !stop.load(Ordering::Relaxed) {
            let placed = ledger.place(world.process, &world.request(nr));
            let record = placed.and_then(|placed| placed.record);
            record.into_iter().for_each(|record| _ = ledger.release(world.process, record));
            nr += 7;
        }
    };
    let refresh = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            world.refresh();
            thread::sleep(PERIOD.saturating_sub(started.elapsed()));
        }
    };
    beside(other, &[&refresh, &place], measured)
}

/// Measures while another thread counts threads on a CPU as fast as it can. What is measured is given
/// how many came and went so far, to see whether the other thread runs.
pub fn beside_counting(
    other: usize,
    world: &World,
    cpu: CpuId,
    through_ledger: bool,
    measured: impl FnOnce(&AtomicU64) -> Sample,
) -> Sample {
    let nr_counted = AtomicU64::new(0);
    let count = |stop: &AtomicBool| {
        let ledger = world.shared.ledger().expect("a private tree is writable");
        let estimates = ledger.estimates();
        while !stop.load(Ordering::Relaxed) {
            if through_ledger {
                let record = ledger.count(world.process, cpu);
                record.into_iter().for_each(|record| _ = ledger.release(world.process, record));
            } else {
                estimates.add_thread(cpu);
                let _ = estimates.remove_thread(cpu);
            }
            nr_counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    beside(other, &[&count], || measured(&nr_counted))
}
