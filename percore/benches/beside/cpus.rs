//! A CPU for each thread: of the benchmark, an example, and stress tests.

/// Of those that it may use. Where that is refused the kernel places the thread, and the spread shows it; a test is only a weaker one.
pub fn hold_on_cpu(number: usize) {
    // Which interprets, and has no CPUs.
    if cfg!(miri) {
        return;
    }
    // SAFETY: a set of zeros is an empty set, and the calls are given its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &raw mut allowed);
        let mut cpus =
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed));
        let Some(cpu) = cpus.nth(number) else { return };
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut only);
        libc::sched_setaffinity(0, size, &raw const only);
    }
}
