//! A listening socket of another process, in our hands too.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use thiserror::Error;

/// `TCP_LISTEN` (Linux include/net/tcp_states.h).
const LISTENS: u8 = 10;

/// What waits at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// As many may.
    pub waiting_max: u32,
}

/// Why a socket of a copy cannot be had.
#[derive(Debug, Error)]
#[allow(missing_docs)] // The messages are the documentation.
pub enum ListenerError {
    #[error(
        "the sockets of process {pid} cannot be taken in hand ({cause}): give the command CAP_SYS_PTRACE, or \
         start the servers as its own user"
    )]
    NotOurs { pid: u32, cause: rustix::io::Errno },
    #[error("process {pid} has closed a socket meanwhile")]
    Another { pid: u32 },
}

/// A copy's listening socket. While it is held, the end of the copy does not close it: so it is held
/// no longer than it takes to do something with it, but where the copy is stopped.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// The socket with this inode that process `pid` has as its descriptor `fd`, if it still has.
    ///
    /// # Errors
    /// When the process is gone, is not ours to look into, or has another file there by now.
    pub fn of(pid: u32, fd: i32, inode: u64) -> Result<Self, ListenerError> {
        let error = |cause| match cause {
            Errno::SRCH | Errno::BADF => ListenerError::Another { pid },
            cause => ListenerError::NotOurs { pid, cause },
        };
        let process = Pid::from_raw(pid as i32).ok_or(error(Errno::SRCH))?;
        let pidfd = pidfd_open(process, PidfdFlags::empty()).map_err(error)?;
        let socket = pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty()).map_err(error)?;
        let is_it = rustix::fs::fstat(&socket).is_ok_and(|file| file.st_ino == inode);
        if is_it { Ok(Self(socket)) } else { Err(ListenerError::Another { pid }) }
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
    pub fn listen(&self, waiting_max: u32) -> std::io::Result<()> {
        Ok(rustix::net::listen(&self.0, waiting_max.try_into().unwrap_or(i32::MAX))?)
    }

    /// What waits here; `None`: it does not listen. (/proc tells it too, and the kernel goes through all connections for
    /// that, each time.)
    #[must_use]
    pub fn queue(&self) -> Option<Queue> {
        // SAFETY: all-zero is a valid tcp_info, which is numbers.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            )
        };
        // Of a socket that listens these two are its queue (Linux net/ipv4/tcp.c, tcp_get_info).
        let queue = Queue { waiting: info.tcpi_unacked, waiting_max: info.tcpi_sacked };
        (result == 0 && info.tcpi_state == LISTENS).then_some(queue)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
