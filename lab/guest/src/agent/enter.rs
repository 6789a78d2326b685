//! The last step before the command: a process of its own that becomes the caller's user, with the
//! caller's limits, and then becomes the command. No `unsafe` is needed for what would otherwise
//! have to happen between fork and exec.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use quartier_marker::Facts;
use rustix::fs::Mode;
use rustix::process::{Gid, Rlimit, Uid};

use crate::error::{Context, Error, Result};
use crate::frame::Start;
use crate::limits::RESOURCES;

/// What a shell gives for a command that cannot be executed.
const STATUS_NOT_EXECUTABLE: i32 = 126;

/// Becomes the command that the file at `plan` says.
///
/// # Errors
/// Does not return on errors either: they are printed, and the process ends with 126.
pub fn enter(plan: &Path) -> Result<Infallible> {
    let error = match prepare(plan) {
        Err(error) => error.to_string(),
        Ok((start, facts)) => {
            let program = start.command.first().cloned().unwrap_or_default();
            let program = Path::new(OsStr::from_bytes(&program)).to_owned();
            let mut command = Command::new(&program);
            command.arg0(OsStr::from_bytes(&start.name));
            command.args(start.command.iter().skip(1).map(|arg| OsStr::from_bytes(arg)));
            command.env_clear().envs(
                start
                    .environment
                    .iter()
                    .map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))),
            );
            if let Some(facts) = facts {
                quartier_marker::start(&facts);
            }
            format!("cannot run {}: {}", program.display(), command.exec())
        }
    };
    let _ = writeln!(io::stderr(), "quartier: {error}");
    std::process::exit(STATUS_NOT_EXECUTABLE)
}

fn prepare(plan: &Path) -> Result<(Start, Option<Facts>)> {
    let bytes = fs::read(plan).path("read", plan)?;
    let start: Start = postcard::from_bytes(&bytes).map_err(io::Error::other).path("read", plan)?;
    // Only root may, so before the user changes.
    let facts = start.is_counted.then(|| be_counted(&start.cpus)).transpose()?;
    rustix::process::setsid().doing("start a session")?;
    if start.terminal.is_some() {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).doing("take the terminal")?;
    }
    for (number, soft, hard) in &start.limits {
        if let Some(resource) = RESOURCES.get(*number as usize) {
            let limit = Rlimit { current: *soft, maximum: *hard };
            rustix::process::setrlimit(*resource, limit).doing("set a limit")?;
        }
    }
    rustix::process::umask(Mode::from_raw_mode(start.umask));
    let groups: Vec<Gid> = start.groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
    rustix::thread::set_thread_groups(&groups).doing("set the groups")?;
    rustix::thread::set_thread_gid(Gid::from_raw(start.gid)).doing("set the group")?;
    rustix::thread::set_thread_uid(Uid::from_raw(start.uid)).doing("set the user")?;
    let folder = Path::new(OsStr::from_bytes(&start.directory));
    std::env::set_current_dir(folder).path("enter", folder)?;
    Ok((start, facts))
}

/// Goes to a control group of its own, by which the instrument knows the command and its children, and
/// which holds them on their CPUs: affinity alone could be widened by them, or by a daemon beside them.
fn be_counted(cpus: &str) -> Result<Facts> {
    let group = Path::new("/sys/fs/cgroup/counted");
    fs::create_dir_all(group).path("create", group)?;
    if !cpus.is_empty() {
        let controllers = Path::new("/sys/fs/cgroup/cgroup.subtree_control");
        fs::write(controllers, "+cpuset").path("write", controllers)?;
        let of_group = group.join("cpuset.cpus");
        fs::write(&of_group, cpus).path("write", &of_group)?;
    }
    let members = group.join("cgroup.procs");
    fs::write(&members, "0").path("write", &members)?;
    Facts::read(Path::new("/"))
        .map_err(|error| Error::refused(format!("nothing can be counted: {error}")))
}
