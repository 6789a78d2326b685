//! `quartier-torture`: a random tester of the runtime. Threads touch, map, unmap, fork and mark
//! memory in every way, and compare what they find with a model. Run it under `quartier run`, and
//! plainly, where it must pass too.
//!
//! It prints its seed first. On a difference it prints the seed, the operation, the address, what
//! was expected and found, and the last operations; the exit status is 1.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod arena;
mod log;
mod model;
mod ops;
mod rng;
mod signals;
mod sys;
mod team;
mod watchdog;
mod worker;
mod world;

use std::time::{Duration, Instant, SystemTime};

use clap::Parser;

use crate::log::Op;
use crate::world::World;

/// Touches, maps, forks and marks memory at random and compares with a model.
#[derive(Debug, Parser)]
struct Args {
    /// Operations in all
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
    /// The seed [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Long-lived threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=16))]
    threads: u64,
    /// MiB of memory to work on
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=4096))]
    mib: u64,
    /// Stop after this many seconds, with whatever is done
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// A child once in so many operations
    #[arg(long, default_value_t = 2500)]
    fork_every: usize,
    /// Call it a hang when nothing happens for this many seconds
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Leave out operations, by the names in the log (and `signals`)
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    without: Vec<String>,
}

fn main() {
    let args = Args::parse();
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = args.seed.unwrap_or_else(|| clock().as_nanos() as u64 % 1_000_000_007);
    println!("seed {seed}");
    let world = match world(&args, seed) {
        Ok(world) => world,
        Err(error) => {
            eprintln!("quartier-torture: no memory to test: {error}");
            std::process::exit(2);
        }
    };
    println!("{}", if world.arena.can_mark() { "with a runtime" } else { "without a runtime" });
    watchdog::start(world, Duration::from_secs(args.patience));
    let began = Instant::now();
    let mut team = team::Team::new(world);
    let done = team.run(args.ops, Duration::from_secs(args.seconds));
    team.stop();
    let took = began.elapsed().as_secs_f64();
    let signals = world.signals.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "{done} operations, {signals} signals, no difference; {:.0} operations/s",
        done as f64 / took
    );
}

fn world(args: &Args, seed: u64) -> std::io::Result<&'static World> {
    let workers = args.threads as usize;
    let names = &args.without;
    // SAFETY: a query.
    let root = unsafe { libc::geteuid() } == 0;
    let [phase, done, kind, share] = [0; 4].map(|_: u32| &sys::shared(1)[0]);
    let arena = arena::Arena::new((args.mib as usize) << 8)?;
    Ok(Box::leak(Box::new(World {
        // The coordinator's log, and signal handlers', is the last.
        log: log::Log::new(workers + 1, seed),
        seed,
        workers,
        fork_every: args.fork_every.max(1),
        unseen_forks: root,
        without: names
            .iter()
            .filter_map(|name| Op::named(name))
            .fold(0, |all, op| all | 1 << op as u8),
        no_signals: names.iter().any(|name| name == "signals"),
        arena,
        phase,
        done,
        kind,
        share,
        signals: &sys::shared(1)[0],
    })))
}
