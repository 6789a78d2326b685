//! `proc/PID/status`: where a process may run and allocate.

use std::fmt;

use quartier_model::CpuList;

use crate::{Host, Result, parse};

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pid {
    /// The one that asks.
    Own,
    /// The one with this id (or a thread, by its thread id).
    Of(u32),
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("self"),
            Self::Of(pid) => pid.fmt(f),
        }
    }
}

/// What cpusets and affinity leave to a process. All are the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLimits {
    /// CPUs its first thread may run on (`Cpus_allowed_list`), offline ones possibly included.
    pub cpus: CpuList,
    /// Nodes it may allocate on (`Mems_allowed_list`); `None` without cpusets in the kernel.
    pub nodes: Option<CpuList>,
}

impl Host {
    /// What cpusets and affinity leave to a process.
    ///
    /// # Errors
    /// When the process is gone, or its status cannot be read.
    pub fn process_limits(&self, pid: Pid) -> Result<ProcessLimits> {
        let path = format!("proc/{pid}/status");
        let status = self.read_required(&path, "the process is gone, or /proc is not mounted")?;
        let list = |key| match parse::status_field(&status, key) {
            None => Ok(None),
            Some(list) => parse::list(list)
                .map(Some)
                .ok_or_else(|| self.malformed(&path, list, &format!("a list after {key}"))),
        };
        let cpus = list("Cpus_allowed_list")?
            .ok_or_else(|| self.malformed(&path, "", "a line Cpus_allowed_list"))?;
        Ok(ProcessLimits { cpus, nodes: list("Mems_allowed_list")? })
    }
}
