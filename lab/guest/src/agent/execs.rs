//! The kernel's word that a process has begun to execute a program, at once (its process events connector, `linux/cn_proc.h`).

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
/// `PROC_EVENT_EXEC`
const EXEC: u32 = 2;

/// `struct nlmsghdr`, `struct cn_msg`, and what is said.
const HEADER_BYTES: usize = 16;
const CONNECTOR_BYTES: usize = 20;
const SAID_AT: usize = HEADER_BYTES + CONNECTOR_BYTES;
/// Of an event: what, which CPU, when, the thread, and its process.
const PROCESS_AT: usize = SAID_AT + 20;
const EVENT_BYTES_MAX: usize = 256;

/// Hears of each, from its making on.
#[derive(Debug)]
pub struct Execs(OwnedFd);

impl Execs {
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

    /// The processes that have begun a program since this was last asked. If there were more events than the kernel keeps,
    /// some are not among them.
    pub fn begun(&self) -> Vec<u32> {
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

impl AsFd for Execs {
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

/// The process, if this event is one of these.
fn begun_by(event: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    (word(SAID_AT)? == EXEC).then(|| word(PROCESS_AT)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_process_and_nothing_else_does() {
        let mut event = [0; PROCESS_AT + 4];
        event[SAID_AT] = EXEC as u8;
        event[PROCESS_AT - 4] = 8;
        event[PROCESS_AT] = 7;
        assert_eq!(begun_by(&event), Some(7), "the process, not its thread");
        assert_eq!(begun_by(&event[..PROCESS_AT + 3]), None, "cut short");
        event[SAID_AT] = 1;
        assert_eq!(begun_by(&event), None, "a fork");
        assert_eq!(begun_by(&[]), None);
    }
}
