//! Threads on a CPU each that all do the same at once, in one of the benchmark's ways, for `quartier lab count` (see
//! `docs/percore.md`): `contend PART WAY THREADS TIMES`. `contend ways` lists parts and ways; the way `nothing`, of every
//! part, is threads that begin, take their turns and end.

#[path = "../benches/beside/cases/mod.rs"]
pub(crate) mod cases;
#[path = "../benches/beside/cpus.rs"]
mod cpus;

use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;

use cases::{Case, GROUPS, NR_THREADS_MAX, Way};
use cpus::hold_on_cpu;
use quartier_percore::SloppyCounter;

/// Where CPUs are emulated one after the other, the next one's turn is now.
#[inline]
fn end_turn() {
    std::hint::spin_loop();
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    if words == ["ways"] {
        print!("{}", ways());
        return ExitCode::SUCCESS;
    }
    let Some((case, nr_threads, times)) = asked(&words) else {
        eprintln!(
            "usage: contend PART WAY THREADS TIMES, at most {NR_THREADS_MAX} threads; `contend ways` lists parts and ways"
        );
        return ExitCode::from(2);
    };
    if case.word == "sloppy" && !SloppyCounter::new(0).uses_rseq() {
        eprintln!("contend: no restartable sequences here, so spares are atomic");
    }
    match contend(&*case.way, nr_threads, times) {
        Ok(nr_operations) => {
            println!("{nr_operations} operations");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("contend: {}: {problem}", case.name);
            ExitCode::FAILURE
        }
    }
}

/// A line for each: part and way, and what they are called, with tabs between.
fn ways() -> String {
    let lines = GROUPS.iter().flat_map(|group| {
        let line = move |case: Case| {
            format!("{}\t{}\t{}\t{}\n", group.word, case.word, group.name, case.name)
        };
        (group.make)().into_iter().map(line)
    });
    lines.collect()
}

fn asked(words: &[String]) -> Option<(Case, usize, u32)> {
    let [part, way, nr_threads, times] = words else { return None };
    let group = GROUPS.iter().find(|group| group.word == part)?;
    let mut cases = [cases::nothing()].into_iter().chain((group.make)());
    let case = cases.find(|case| case.word == way)?;
    let nr_threads: usize = nr_threads.parse().ok()?;
    (1..=NR_THREADS_MAX).contains(&nr_threads).then_some(())?;
    Some((case, nr_threads, times.parse().ok()?))
}

/// Each of so many threads, the last of them this one, does it so many times, from one instant on. How many times all of
/// them did it.
///
/// # Errors
/// What is wrong with what they did.
pub(crate) fn contend(way: &dyn Way, nr_threads: usize, times: u32) -> Result<u64, String> {
    let begin = Barrier::new(nr_threads);
    let run = |number: usize| {
        hold_on_cpu(number);
        begin.wait();
        way.run(number, times)
    };
    let nr_wrong: u64 = thread::scope(|scope| {
        let run = &run;
        let others: Vec<_> =
            (1..nr_threads).map(|number| scope.spawn(move || run(number))).collect();
        let own = run(0);
        // Of a thread that panicked nothing is right.
        let others = others.into_iter().map(|thread| thread.join().unwrap_or(times));
        others.chain([own]).map(u64::from).sum()
    });
    let nr_operations = nr_threads as u64 * u64::from(times);
    if nr_wrong > 0 {
        return Err(format!("{nr_wrong} of {nr_operations} operations went wrong"));
    }
    if !way.is_right(nr_operations) {
        return Err(format!("what is left of {nr_operations} operations is wrong"));
    }
    Ok(nr_operations)
}
