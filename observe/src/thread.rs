//! `proc/PID/task/TID/`: how long a thread ran, how long it waited for a CPU, and where it is.

use std::time::Duration;

use quartier_model::{CpuOsId, Nanos};
use rustix::time::{ClockId, clock_gettime};

use crate::tasks::stat::{Stat, times};
use crate::{Host, Result};

/// A thread's time since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a CPU.
    pub ran: Nanos,
    /// Able to run, while others had its CPU.
    pub waited: Nanos,
}

impl Host {
    /// How long a thread of a process ran and waited; `None` when it has ended, or the kernel does not
    /// count (`CONFIG_SCHED_INFO`).
    ///
    /// # Errors
    /// When the file is not what the kernel writes.
    pub fn thread_times(&self, pid: u32, tid: u32) -> Result<Option<ThreadTimes>> {
        let path = format!("proc/{pid}/task/{tid}/schedstat");
        self.parse(&path, "time run, time waited, times run", |text| times(text.as_bytes()))
    }

    /// The CPU that a thread runs on, or ran on last; `None` when it has ended.
    ///
    /// # Errors
    /// When the file is not what the kernel writes.
    pub fn thread_cpu(&self, pid: u32, tid: u32) -> Result<Option<CpuOsId>> {
        let path = format!("proc/{pid}/task/{tid}/stat");
        self.parse(&path, "52 fields", |text| Some(Stat::parse(text.as_bytes())?.cpu))
    }
}

/// How long the calling thread was on a CPU.
#[must_use]
pub fn own_cpu_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

/// How long all threads of the calling process were on a CPU.
#[must_use]
pub fn own_process_cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_what_the_kernel_writes_and_nothing_else() {
        let expected = ThreadTimes { ran: Nanos(5_000), waited: Nanos(77) };
        assert_eq!(times(b"5000 77 12\n"), Some(expected));
        for bad in ["", "5000", "x 7 1", "5 -1 2"] {
            assert_eq!(times(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn this_thread_has_run_and_a_thread_that_is_not_there_has_not() {
        let host = Host::live();
        let own = std::process::id();
        let tid = own_tid();
        // The kernel adds up when a thread leaves its CPU, and at ticks.
        while host.thread_times(own, tid).unwrap().unwrap().ran == Nanos(0) {
            std::thread::yield_now();
        }
        assert!(host.thread_cpu(own, tid).unwrap().is_some());
        let nobody = (1 << 22) + 1;
        assert_eq!(host.thread_times(own, nobody).unwrap(), None);
        assert_eq!(host.thread_cpu(own, nobody).unwrap(), None);
    }

    fn own_tid() -> u32 {
        let link = std::fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }
}
