//! The last step before the command: a process of its own that becomes the caller's user, with the
//! caller's limits, and then becomes the command. No `unsafe` is needed for what would otherwise
//! have to happen between fork and exec.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::Mode;
use rustix::process::{Gid, Rlimit, Uid};

use super::group;
use super::plan::{Plan, PlanFile, Role};
use crate::error::{Context, Result};
use crate::frame::Start;
use crate::limits::RESOURCES;

/// What a shell gives for a command that cannot be executed.
pub const STATUS_NOT_EXECUTABLE: i32 = 126;

/// Becomes the command that the file at `path` says.
///
/// # Errors
/// Does not return on errors either: they are told, and the process ends with 126.
pub fn enter(path: &Path) -> Result<Infallible> {
    let (plan, mut file) = match PlanFile::open(path) {
        Ok(opened) => opened,
        Err(error) => give_up(&error.to_string()),
    };
    let why = match follow(&plan) {
        Err(error) => error.to_string(),
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            format!("cannot run {}: {}", Path::new(&program).display(), command.exec())
        }
    };
    // Of what was to be counted there is nothing to show, and the host says why.
    if plan.facts().is_some() && file.fail(&why).is_ok() {
        std::process::exit(STATUS_NOT_EXECUTABLE)
    }
    give_up(&why)
}

fn give_up(why: &str) -> ! {
    let _ = writeln!(io::stderr(), "quartier: {why}");
    std::process::exit(STATUS_NOT_EXECUTABLE)
}

/// Does everything that the plan says but the last step, and gives that.
fn follow(plan: &Plan) -> Result<Command> {
    let (start, facts) = (&plan.start, plan.facts());
    // Only root may, so before the user changes.
    match (plan.role, &facts) {
        (Role::Command, Some(_)) | (Role::Server, _) => group::join(&start.cpus)?,
        (Role::Load, Some(facts)) => group::begin_counting(facts)?,
        (Role::Command | Role::Load, None) => {}
    }
    become_user(start)?;
    let text = |bytes| OsStr::from_bytes(bytes);
    let mut words = start.command.iter().map(|word| text(word));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.arg0(text(&start.name)).args(words);
    let environment = start.environment.iter().map(|(name, value)| (text(name), text(value)));
    command.env_clear().envs(environment);
    if let (Role::Command, Some(facts)) = (plan.role, &facts) {
        quartier_marker::start(facts);
    }
    Ok(command)
}

/// Takes on the caller's session, limits, groups, user and directory.
fn become_user(start: &Start) -> Result<()> {
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
    std::env::set_current_dir(folder).path("enter", folder)
}
