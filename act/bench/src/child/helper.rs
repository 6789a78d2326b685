//! The runtime's helper seen from outside: the process that shares this one's memory.

use std::fs;

use quartier_kernel::sys;

/// A helper, and what it had used when it was found.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    pid: i32,
    before: Used,
}

/// What a process used.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Nanoseconds on a CPU.
    pub cpu_ns: f64,
    /// Times it went to sleep by itself.
    pub sleeps: f64,
}

impl Helper {
    /// Finds this process's helper.
    pub fn find() -> Option<Self> {
        let own = sys::pid();
        let pids = fs::read_dir("/proc").ok()?.flatten();
        let pid = pids
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&pid: &i32| pid != own)
            .find(|&pid| is_helper(pid) && sys::same_memory(own, pid) == Some(true))?;
        Some(Self { pid, before: Used::of(pid)? })
    }

    /// What it has used since it was found; `None` when it is gone.
    pub fn used(self) -> Option<Used> {
        let now = Used::of(self.pid)?;
        Some(Used {
            cpu_ns: now.cpu_ns - self.before.cpu_ns,
            sleeps: now.sleeps - self.before.sleeps,
        })
    }
}

fn is_helper(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| name.starts_with("quartier-help"))
}

impl Used {
    fn of(pid: i32) -> Option<Self> {
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let sleeps =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some(Self {
            cpu_ns: schedstat.split_whitespace().next()?.parse().ok()?,
            sleeps: sleeps.trim().parse().ok()?,
        })
    }
}
