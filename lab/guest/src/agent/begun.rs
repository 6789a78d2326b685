//! The kernel's word that a process has begun, or begun to execute a program, at once (its process events connector, `linux/cn_proc.h`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// `CN_IDX_PROC` and `CN_VAL_PROC`: what the events are called, and the group that they go to.
const PROCESS_EVENTS: u32 = 1;
/// `NLMSG_DONE`
const LAST_PART: u16 = 3;
/// `PROC_CN_MCAST_LISTEN`
const LISTEN: u32 = 1;
/// `PROC_EVENT_FORK` and `PROC_EVENT_EXEC`
const FORK: u32 = 1;
const EXEC: u32 = 2;

/// `struct nlmsghdr`, `struct cn_msg`, and what is said.
const HEADER_BYTES: usize = 16;
const CONNECTOR_BYTES: usize = 20;
const SAID_AT: usize = HEADER_BYTES + CONNECTOR_BYTES;
/// Of an event: what, which CPU, when, the thread, and its process; and of a fork those that are new.
const PROCESS_AT: usize = SAID_AT + 20;
const NEW_THREAD_AT: usize = SAID_AT + 24;
const NEW_PROCESS_AT: usize = SAID_AT + 28;
const EVENT_BYTES_MAX: usize = 256;

/// What has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// A process, as a copy of another.
    Copy { process: u32, of: u32 },
    /// A program, in that process.
    Program(u32),
}

/// Hears of each, from its making on.
#[derive(Debug)]
pub struct Beginnings(OwnedFd);

impl Beginnings {
    /// For root, where the kernel has such events.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::CONNECTOR);
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESS_EVENTS))?;
        rustix::net::send(&socket, &request(), SendFlags::empty())?;
        Ok(Self(socket))
    }

    /// What has begun since this was last asked, in this order. If there were more events than the kernel keeps, some are not among them.
    pub fn begun(&self) -> Vec<Begun> {
        let mut begun = Vec::new();
        let mut event = [0; EVENT_BYTES_MAX];
        loop {
            match rustix::net::recv(&self.0, &mut event[..], RecvFlags::empty()) {
                Ok((length, _)) => begun.extend(begun_by(&event[..length])),
                Err(io::Errno::INTR | io::Errno::NOBUFS) => {}
                Err(_) => return begun,
            }
        }
    }
}

impl AsFd for Beginnings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn request() -> [u8; SAID_AT + 4] {
    let mut request = [0; SAID_AT + 4];
    let length = request.len() as u32;
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &length.to_ne_bytes());
    put(4, &LAST_PART.to_ne_bytes());
    put(HEADER_BYTES, &PROCESS_EVENTS.to_ne_bytes());
    put(HEADER_BYTES + 4, &PROCESS_EVENTS.to_ne_bytes());
    put(HEADER_BYTES + 16, &4_u16.to_ne_bytes());
    put(SAID_AT, &LISTEN.to_ne_bytes());
    request
}

/// What this event is of, if it is one of these.
fn begun_by(event: &[u8]) -> Option<Begun> {
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    match word(SAID_AT)? {
        EXEC => word(PROCESS_AT).map(Begun::Program),
        FORK => {
            let (of, process) = (word(PROCESS_AT)?, word(NEW_PROCESS_AT)?);
            // A thread is no process.
            (word(NEW_THREAD_AT)? == process).then_some(Begun::Copy { process, of })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_process_and_nothing_else_does() {
        let mut event = [0; NEW_PROCESS_AT + 4];
        event[SAID_AT] = EXEC as u8;
        event[PROCESS_AT - 4] = 8;
        event[PROCESS_AT] = 7;
        assert_eq!(begun_by(&event), Some(Begun::Program(7)), "the process, not its thread");
        assert_eq!(begun_by(&event[..PROCESS_AT + 3]), None, "cut short");
        event[SAID_AT] = FORK as u8;
        (event[NEW_THREAD_AT], event[NEW_PROCESS_AT]) = (9, 9);
        assert_eq!(begun_by(&event), Some(Begun::Copy { process: 9, of: 7 }));
        assert_eq!(begun_by(&event[..NEW_PROCESS_AT + 3]), None, "cut short");
        event[NEW_PROCESS_AT] = 7;
        assert_eq!(begun_by(&event), None, "a thread");
        event[SAID_AT] = 4;
        assert_eq!(begun_by(&event), None, "another event");
        assert_eq!(begun_by(&[]), None);
    }
}
