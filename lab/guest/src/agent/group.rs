//! The control group by which the instrument knows the command, and the agent a server's processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use quartier_marker::Facts;
use rustix::process::Pid;

use super::cpus;
use crate::error::{Context, Result};

const GROUP: &str = "/sys/fs/cgroup/counted";
const MEMBERS: &str = "/sys/fs/cgroup/counted/cgroup.procs";
/// Of the group that everybody else is in.
const OTHERS: &str = "/sys/fs/cgroup/cgroup.procs";
const CPUS: &str = "/sys/fs/cgroup/counted/cpuset.cpus";
/// What the groups below may limit.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.subtree_control";
const KILL: &str = "/sys/fs/cgroup/counted/cgroup.kill";

/// Goes to the group; what this process starts is in it too. The group holds its processes on `cpus`,
/// unless that is empty: affinity alone could be widened by them, or by a daemon beside them.
pub fn join(cpus: &str) -> Result<()> {
    let write = |file: &str, text: &str| fs::write(file, text).path("write", Path::new(file));
    fs::create_dir_all(GROUP).path("create", Path::new(GROUP))?;
    if !cpus.is_empty() {
        write(CONTROLLERS, "+cpuset")?;
        write(CPUS, cpus)?;
    }
    write(MEMBERS, "0")
}

/// Has the instrument count the group from now on, without this process: whoever executes the marker
/// has to be in the group, if only for that.
pub fn begin_counting(facts: &Facts) -> Result<()> {
    let others = Path::new(OTHERS);
    let mut leave = File::options().write(true).open(others).path("open", others)?;
    join("")?;
    quartier_marker::start(facts);
    leave.write_all(b"0").path("write", others)?;
    // The instrument learns from a switch whose task a CPU runs, and a busy thread that ran before may not be switched by itself.
    cpus::on_each(|_| Ok(()))
}

/// The group's processes; those that have ended and wait to be reaped are not among them.
pub fn members() -> Vec<Pid> {
    let text = fs::read_to_string(MEMBERS).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Kills all of them. Where the kernel cannot (before 5.14), they end with the guest.
pub fn kill() {
    let _ = fs::write(KILL, "1");
}
