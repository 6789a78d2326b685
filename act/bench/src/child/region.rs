//! The memory that is measured, and the threads that touch it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use quartier_kernel::sys::{self, HUGE, PAGE};

use super::nodes;

/// A private anonymous mapping of base pages, aligned as a huge page.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    base: usize,
    len: usize,
}

/// What a sweep took.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Nanoseconds per page of the thread that touches it.
    pub touch_ns: f64,
    /// CPU time of that.
    pub cpu_ns: f64,
    /// The same touch a second time, when nothing is left to be caught.
    pub again_ns: f64,
}

impl Region {
    /// Maps it, empty.
    pub fn map(len: usize) -> anyhow::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, nothing more.
        let reserved =
            unsafe { libc::mmap(std::ptr::null_mut(), len + HUGE, protection, flags, -1, 0) };
        ensure!(reserved != libc::MAP_FAILED, "no address space for the region");
        let base = (reserved as usize).next_multiple_of(HUGE);
        // SAFETY: our own fresh mapping; the advice changes no contents.
        unsafe { sys::madvise(base, len, libc::MADV_NOHUGEPAGE) }
            .ok()
            .context("the kernel does not take MADV_NOHUGEPAGE")?;
        Ok(Self { base, len })
    }

    /// Gives the pages back to the kernel; they read as zero afterwards.
    pub fn empty(self) {
        // SAFETY: our own mapping; nobody holds a reference into it.
        let _ = unsafe { sys::madvise(self.base, self.len, libc::MADV_DONTNEED) };
    }

    /// Start and length.
    pub fn range(self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// How many pages it has.
    pub fn nr_pages(self) -> usize {
        self.len / PAGE
    }

    /// The first word of a page.
    fn word(self, page: usize) -> &'static AtomicU64 {
        debug_assert!(page < self.nr_pages());
        // SAFETY: inside the mapping, which is never unmapped; aligned; all accesses are atomic.
        unsafe { &*((self.base + page * PAGE) as *const AtomicU64) }
    }

    /// Writes every page, each with its own number.
    pub fn fill(self) {
        for page in 0..self.nr_pages() {
            self.word(page).store(page as u64, Ordering::Relaxed);
        }
    }

    /// Checks that every page holds its number plus `added`.
    pub fn check(self, added: u64) -> anyhow::Result<()> {
        let wrong = (0..self.nr_pages())
            .find(|&page| self.word(page).load(Ordering::Relaxed) != page as u64 + added);
        ensure!(wrong.is_none(), "page {} holds the wrong data", wrong.unwrap_or(0));
        Ok(())
    }

    /// Starts the threads, lets `prepare` (which fills and marks) run, then has each thread add one
    /// to the first word of each page of its own part: one write access, so one fault, per page.
    pub fn sweep(
        self,
        nr_threads: usize,
        prepare: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Sweep> {
        let start = Barrier::new(nr_threads + 1);
        let per_thread = self.nr_pages() / nr_threads;
        std::thread::scope(|scope| {
            let toucher = |index: usize| {
                let start = &start;
                move || {
                    nodes::go_to_last();
                    start.wait();
                    let before = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
                    let touch_ns = self.pass(index * per_thread, per_thread);
                    let cpu_ns = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) - before;
                    let cpu_ns = cpu_ns / per_thread as f64;
                    let again_ns = self.pass(index * per_thread, per_thread);
                    Sweep { touch_ns, cpu_ns, again_ns }
                }
            };
            let threads: Vec<_> = (0..nr_threads).map(|at| scope.spawn(toucher(at))).collect();
            nodes::go_to_first();
            let prepared = prepare();
            start.wait();
            let mut mean = Sweep { touch_ns: 0.0, cpu_ns: 0.0, again_ns: 0.0 };
            for thread in threads {
                let Ok(sweep) = thread.join() else { anyhow::bail!("a thread panicked") };
                mean.touch_ns += sweep.touch_ns / nr_threads as f64;
                mean.cpu_ns += sweep.cpu_ns / nr_threads as f64;
                mean.again_ns += sweep.again_ns / nr_threads as f64;
            }
            prepared.map(|()| mean)
        })
    }

    /// One thread's pass over its pages; nanoseconds per page.
    fn pass(self, first: usize, count: usize) -> f64 {
        let began = Instant::now();
        for page in first..first + count {
            self.word(page).fetch_add(1, Ordering::Relaxed);
        }
        began.elapsed().as_nanos() as f64 / count as f64
    }
}

/// Touches as much memory as the measurement will use at most and frees it, so that it gets pages
/// that the machine below (a hypervisor) has backed already. Gives nanoseconds per page.
pub fn warm_up(len: usize) -> anyhow::Result<f64> {
    let region = Region::map(len)?;
    let cold = region.pass(0, region.nr_pages());
    region.empty();
    Ok(cold)
}

/// CPU time by one of the kernel's clocks.
pub fn cpu_ns(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Whether the kernel can read the memory for the program, as `write` does.
pub fn kernel_can_read(address: usize) -> anyhow::Result<bool> {
    let (mut reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    // SAFETY: eight bytes of a mapping of ours; where they cannot be read the call says so.
    let written = unsafe {
        libc::write(std::os::fd::AsRawFd::as_raw_fd(&writer), address as *const libc::c_void, 8)
    };
    if written != 8 {
        return Ok(false);
    }
    let mut bytes = [0; 8];
    std::io::Read::read_exact(&mut reader, &mut bytes).context("cannot read the pipe")?;
    // SAFETY: inside a mapping of ours, which is readable now.
    let there = unsafe { (address as *const u64).read_volatile() };
    Ok(u64::from_ne_bytes(bytes) == there)
}
