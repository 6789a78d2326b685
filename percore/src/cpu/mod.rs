//! Which CPU and node a thread runs on, as cheaply as the kernel tells.
//!
//! | where | how | cost |
//! |---|---|---|
//! | x86-64, glibc 2.35, Linux 4.18 (the node: 6.3), or newer | the thread's `rseq` area | one load |
//! | any other Linux | `sched_getcpu` through the vDSO (the node: `getcpu`, a system call) | some 20 ns (100) |
//! | where that fails | a number per thread, dealt in turn | a thread-local |
//!
//! The answer may be old when it arrives: the kernel moves threads at any instruction. Whoever uses
//! it must be right on any CPU, and is only faster on the right one.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri))))]
mod rseq;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri)))))]
mod without_rseq;

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri))))]
pub(crate) use rseq::{Rseq, Slots};
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(any(loom, miri)))))]
pub(crate) use without_rseq::{Rseq, Slots};

/// How many CPUs this machine may have: numbers of CPUs are below it on all but odd machines.
#[must_use]
#[cfg(not(loom))]
pub fn nr_possible() -> usize {
    // SAFETY: sysconf(3) has no preconditions.
    let nr_cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(nr_cpus).unwrap_or(1).max(1)
}

/// The CPU that the calling thread is on.
#[must_use]
#[inline]
#[cfg(not(loom))]
pub fn current() -> usize {
    Rseq::area().and_then(Rseq::cpu).or_else(sched_getcpu).unwrap_or_else(stripe)
}

/// The calling thread's place among so many: its CPU's number, but on odd machines.
#[inline]
pub(crate) fn place_among(nr_places: usize) -> usize {
    let cpu = current();
    // A division takes longer than all the rest.
    if cpu < nr_places { cpu } else { cpu % nr_places }
}

/// The node that the calling thread is on; `None` where the kernel does not say.
#[must_use]
#[cfg(not(loom))]
pub fn current_node() -> Option<usize> {
    Rseq::area().and_then(Rseq::node).or_else(getcpu_node)
}

#[cfg(not(any(loom, miri)))]
fn sched_getcpu() -> Option<usize> {
    // SAFETY: has no preconditions; -1 where the kernel does not say.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(not(any(loom, miri)))]
fn getcpu_node() -> Option<usize> {
    let mut node = 0_u32;
    let none = std::ptr::null_mut::<u32>();
    // SAFETY: the kernel writes the node to a number of this frame, and the CPU nowhere.
    let status = unsafe { libc::syscall(libc::SYS_getcpu, none, &raw mut node, none) };
    (status == 0).then_some(node as usize)
}

#[cfg(miri)]
fn sched_getcpu() -> Option<usize> {
    None
}

#[cfg(miri)]
fn getcpu_node() -> Option<usize> {
    None
}

/// A number per thread, dealt in turn.
#[cfg(not(loom))]
fn stripe() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is just ending has no thread-locals any more.
    OWN.try_with(|own| *own).unwrap_or(0)
}

#[cfg(loom)]
mod pretended {
    use std::cell::Cell;

    loom::thread_local! {
        static CPU: Cell<usize> = Cell::new(0);
    }

    /// In a model, threads are where they say.
    pub fn pretend_to_run_on(cpu: usize) {
        CPU.with(|own| own.set(cpu));
    }

    /// The CPU that the calling thread pretends to be on.
    pub fn current() -> usize {
        CPU.with(Cell::get)
    }

    /// A model's machine.
    pub fn nr_possible() -> usize {
        2
    }
}
#[cfg(loom)]
pub use pretended::{current, nr_possible, pretend_to_run_on};

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    /// Threads of this test are held on one CPU: what is told must be that one.
    #[test]
    fn a_thread_that_is_held_on_a_cpu_is_told_so_in_every_way() {
        // SAFETY: a set of zeros is an empty set; the calls get a pointer to it and its size.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) }, 0);
        // SAFETY: CPU_ISSET reads the set.
        let cpus = (0..nr_possible()).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) });
        for cpu in cpus {
            std::thread::spawn(move || {
                // SAFETY: as above.
                let status = unsafe {
                    let mut only: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(cpu, &mut only);
                    libc::sched_setaffinity(0, size, &raw const only)
                };
                assert_eq!(status, 0);
                assert_eq!(current(), cpu);
                assert_eq!(sched_getcpu(), Some(cpu));
                assert_eq!(current_node(), getcpu_node());
                if let Some(area) = Rseq::area() {
                    assert_eq!(area.cpu(), Some(cpu));
                }
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn stripes_differ() {
        let own = stripe();
        assert_eq!(own, stripe());
        assert_ne!(own, std::thread::spawn(stripe).join().unwrap());
    }
}
