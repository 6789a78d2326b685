//! A listening socket of another process, in our hands too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use thiserror::Error;

/// As many as the kernel allows (`net.core.somaxconn` is the limit): the server's own number cannot be asked for.
const BACKLOG: i32 = i32::MAX;

/// Why a socket of a copy cannot be had.
#[derive(Debug, Error)]
#[error(
    "the sockets of process {pid} cannot be taken in hand ({cause}): give the command CAP_SYS_PTRACE, or start \
     the servers as its own user"
)]
pub struct ListenerError {
    pid: u32,
    cause: rustix::io::Errno,
}

/// A copy's listening socket. While it is held, the end of the copy does not close it: so it is held
/// no longer than it takes to do something with it, but where the copy is stopped.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// The socket that process `pid` has as its descriptor `fd`.
    ///
    /// # Errors
    /// When the process is gone, or is not ours to look into.
    pub fn of(pid: u32, fd: i32) -> Result<Self, ListenerError> {
        let error = |cause| ListenerError { pid, cause };
        let process = Pid::from_raw(pid as i32).ok_or(error(rustix::io::Errno::SRCH))?;
        let pidfd = pidfd_open(process, PidfdFlags::empty()).map_err(error)?;
        pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty()).map(Self).map_err(error)
    }

    /// Stops listening: what waits here goes to other sockets of the group, where a program is attached that
    /// can move it (or `net.ipv4.tcp_migrate_req` is set); else it is reset. To the server it is as if nobody
    /// called any more, if it does not look meanwhile.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn stop(&self) -> std::io::Result<()> {
        Ok(rustix::net::shutdown(&self.0, rustix::net::Shutdown::Read)?)
    }

    /// Listens again, with an empty queue.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&self) -> std::io::Result<()> {
        Ok(rustix::net::listen(&self.0, BACKLOG)?)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
