//! Threads on a CPU each that all count up, for `quartier lab count` (see `docs/percore.md`):
//! `count_up atomic|sloppy|without-rseq|nothing THREADS TIMES`.

use std::hint::black_box;
use std::num::NonZeroU16;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use quartier_percore::SloppyCounter;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [way, nr_threads, times] = &words[..] else { return usage() };
    let (Ok(nr_threads), Ok(times)) = (nr_threads.parse(), times.parse()) else { return usage() };
    let batch = NonZeroU16::new(32).expect("is not zero");
    let value = match way.as_str() {
        "nothing" => {
            together(nr_threads, times, || _ = black_box(0));
            0
        }
        "atomic" => {
            let counter = AtomicI64::new(0);
            together(nr_threads, times, || _ = counter.fetch_add(1, Ordering::Relaxed));
            counter.into_inner()
        }
        "sloppy" => {
            let counter = SloppyCounter::with_batch(0, batch);
            if !counter.uses_rseq() {
                eprintln!("count_up: no restartable sequences here, so spares are atomic");
            }
            together(nr_threads, times, || counter.increment());
            counter.value()
        }
        "without-rseq" => {
            let counter = SloppyCounter::without_rseq(0, batch);
            together(nr_threads, times, || counter.increment());
            counter.value()
        }
        _ => return usage(),
    };
    println!("{value}");
    let expected = if way == "nothing" { 0 } else { nr_threads as i64 * i64::from(times) };
    if value == expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: count_up atomic|sloppy|without-rseq|nothing THREADS TIMES");
    ExitCode::from(2)
}

/// Each of so many threads, the last of them this one, does it so many times, from one instant on.
fn together(nr_threads: usize, times: u32, once: impl Fn() + Sync) {
    let begin = Barrier::new(nr_threads);
    let run = |number: usize| {
        hold_on_cpu(number);
        begin.wait();
        for _ in 0..times {
            once();
            // Ends this CPU's turn where CPUs are emulated one after the other.
            std::hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        for number in 1..nr_threads {
            let run = &run;
            scope.spawn(move || run(number));
        }
        run(0);
    });
}

/// Where that is refused the kernel places the thread.
fn hold_on_cpu(number: usize) {
    // SAFETY: a set of zeros is an empty set, and the call is given its size.
    unsafe {
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number, &mut only);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only);
    }
}
