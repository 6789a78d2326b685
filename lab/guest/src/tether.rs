//! A process that becomes another and dies with its parent.
//!
//! The death signal has to be set in the child between fork and exec; doing it in a process of our
//! own that then becomes the program needs no `unsafe`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

use crate::error::{Context, Error, Result};

/// Makes the kernel end this process as soon as `parent` ends, and leaves its terminal's reach.
///
/// # Errors
/// When the parent has already ended.
pub fn bind_to_parent(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .doing("set the death signal")?;
    // A parent that ended before the call sends no signal.
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get() as u32)
        != Some(parent)
    {
        return Err(Error::refused("the quartier that started this has ended"));
    }
    // Ctrl-C is for the command in the guest, not for the machine it runs on.
    rustix::process::setsid().doing("start a session").map(drop)
}

/// Becomes `command`, bound to `parent`.
///
/// # Errors
/// When the parent has ended or the program cannot be executed.
pub fn become_program(parent: u32, command: &[OsString]) -> Result<Infallible> {
    bind_to_parent(parent)?;
    let (program, args) =
        command.split_first().ok_or_else(|| Error::refused("there is no program to become"))?;
    let source = Command::new(program).args(args).exec();
    Err(Error::Program {
        program: program.to_string_lossy().into_owned(),
        source,
        remedy: "run `quartier lab doctor`",
    })
}
