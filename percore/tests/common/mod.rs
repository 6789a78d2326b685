//! Seeds, CPUs and signals for stress tests.
#![allow(dead_code, unused_imports)] // Not every test uses all of it.

#[path = "../../benches/beside/cpus.rs"]
mod cpus;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub use cpus::hold_on_cpu;

/// A random source whose seed is printed, and taken from QUARTIER_PERCORE_SEED if that is set.
pub fn random(test: &str) -> fastrand::Rng {
    let given = std::env::var("QUARTIER_PERCORE_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("{test}: QUARTIER_PERCORE_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Rounds of a loop: fewer where each is interpreted.
pub fn scaled(nr_rounds: i64) -> i64 {
    if cfg!(miri) { (nr_rounds / 1_000).clamp(1, 100) } else { nr_rounds }
}

/// Signals for threads that joined, many a millisecond: the kernel restarts what is interrupted.
pub struct Storm {
    members: Arc<Mutex<Vec<libc::pthread_t>>>,
    is_over: Arc<AtomicBool>,
    thunder: Option<thread::JoinHandle<u64>>,
}

impl Storm {
    pub fn begin() -> Self {
        let (members, is_over) = (Arc::default(), Arc::default());
        let thunder = (!cfg!(miri)).then(|| {
            extern "C" fn ignore(_: libc::c_int) {}
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(libc::SIGUSR1, ignore as *const () as libc::sighandler_t) };
            let (members, is_over) = (Arc::clone(&members), Arc::clone(&is_over));
            thread::spawn(move || send_signals(&members, &is_over))
        });
        Self { members, is_over, thunder }
    }

    /// This thread gets signals until it drops what this gives.
    pub fn join(&self) -> Member<'_> {
        // SAFETY: has no preconditions.
        let own = unsafe { libc::pthread_self() };
        self.members.lock().unwrap().push(own);
        Member { members: &self.members, own }
    }

    pub fn end(mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thunder) = self.thunder.take() {
            println!("{} signals", thunder.join().unwrap());
        }
    }
}

fn send_signals(members: &Mutex<Vec<libc::pthread_t>>, is_over: &AtomicBool) -> u64 {
    let mut nr_signals = 0;
    while !is_over.load(Ordering::Acquire) {
        for member in members.lock().unwrap().iter() {
            // SAFETY: a member takes itself off the list before it ends.
            unsafe { libc::pthread_kill(*member, libc::SIGUSR1) };
            nr_signals += 1;
        }
        thread::sleep(Duration::from_micros(20));
    }
    nr_signals
}

pub struct Member<'a> {
    members: &'a Mutex<Vec<libc::pthread_t>>,
    own: libc::pthread_t,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.members.lock().unwrap().retain(|member| *member != self.own);
    }
}
