//! The parts beside what others offer for the same, alternating in one run: `cargo bench -p quartier-percore`.
//!
//! One round runs every case of a group once; a ratio is always taken between two cases of one round, and the
//! smallest, the middle and the largest ratio of all rounds is shown. Threads are held on a CPU each.

mod cases;
mod cpus;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cases::{Group, Way};
use cpus::hold_on_cpu;

const NR_ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(20);
/// Operations between two looks at whether the round is over.
const BATCH: u32 = 256;

/// Nobody's turn ends: all CPUs run at the same time.
#[inline]
fn end_turn() {}

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let nr_cpus = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{NR_ROUNDS} rounds; times the first of each group: smallest, middle, largest of all rounds"
    );
    for nr_threads in [1, 2, 4, 8, 16, 32].into_iter().filter(|nr| *nr <= nr_cpus) {
        for group in cases::GROUPS {
            let is_it = |part: &String| group.word == part || group.name.contains(part.as_str());
            if only.as_ref().is_none_or(is_it) {
                compare(group, nr_threads);
            }
        }
    }
}

fn compare(group: &Group, nr_threads: usize) {
    let cases = (group.make)();
    let mut times_ns = vec![Vec::new(); cases.len()];
    for _ in 0..NR_ROUNDS {
        for (case, times_ns) in cases.iter().zip(&mut times_ns) {
            times_ns.push(time_ns(&*case.way, nr_threads));
        }
    }
    let threads = if nr_threads == 1 { "thread" } else { "threads" };
    println!("\n{}, {nr_threads} {threads} (ns; times the first)", group.name);
    for (case, own) in cases.iter().zip(&times_ns) {
        let name = case.name;
        let both = own.iter().zip(&times_ns[0]);
        let ratios = sorted(both.filter_map(|(own, first)| Some((*own)? / (*first)?)));
        let own = sorted(own.iter().copied().flatten());
        let (Some(own), Some(middle)) = (own.get(own.len() / 2), ratios.get(ratios.len() / 2))
        else {
            println!("  {name:<34} was never run by all threads");
            continue;
        };
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        println!("  {name:<34} {own:>8.2}   {least:.2} {middle:.2} {most:.2}");
    }
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The time that an operation takes a thread while all do it; `None` when some thread did nothing (the machine
/// had other things for its CPU).
fn time_ns(way: &dyn Way, nr_threads: usize) -> Option<f64> {
    let (begin, is_over) = (Barrier::new(nr_threads + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let (begin, is_over) = (&begin, &is_over);
        let threads: Vec<_> = (0..nr_threads)
            .map(|number| {
                scope.spawn(move || {
                    hold_on_cpu(number);
                    way.run(number, BATCH);
                    begin.wait();
                    let (started, mut nr_done) = (Instant::now(), 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        way.run(number, BATCH);
                        nr_done += u64::from(BATCH);
                    }
                    (nr_done > 0).then(|| started.elapsed().as_nanos() as f64 / nr_done as f64)
                })
            })
            .collect();
        begin.wait();
        thread::sleep(ROUND);
        is_over.store(true, Ordering::Relaxed);
        let times = threads.into_iter().map(|thread| thread.join().expect("a case does not panic"));
        Some(times.sum::<Option<f64>>()? / nr_threads as f64)
    })
}
