//! Lending `/dev/userfaultfd` to the programs of a run: a descriptor that the launcher may open works
//! in a process that may not, and serves accesses made by the kernel too.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

/// How far up a process's ancestors are looked at.
const ANCESTORS_MAX: usize = 64;

/// The lending socket: abstract, so that nothing is left in a file system.
#[derive(Debug)]
pub struct Lender {
    socket: OwnedFd,
    device: File,
    name: String,
}

impl Lender {
    /// Opens the device and the socket; `None` where the device may not be opened.
    pub fn open() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/userfaultfd").ok()?;
        let name = format!("quartier-{}-{:016x}", std::process::id(), random()?);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
        let kind = SocketType::SEQPACKET;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
        rustix::net::bind(&socket, &address).ok()?;
        rustix::net::listen(&socket, 64).ok()?;
        Some(Self { socket, device, name })
    }

    /// The socket's name, for the programs' environment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lends to every process of the run that asks, until the launcher ends.
    pub fn serve(&self) {
        while let Ok(peer) = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            if may_have(&peer) {
                let _ = self.lend(&peer);
            }
        }
    }

    fn lend(&self, peer: &OwnedFd) -> rustix::io::Result<usize> {
        let devices = [self.device.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&devices));
        let _ = RecvFlags::empty();
        rustix::net::sendmsg(peer, &[IoSlice::new(b"u")], &mut control, SendFlags::NOSIGNAL)
    }
}

/// Only our own user, or a descendant of ours that became another user, gets the descriptor.
fn may_have(peer: &OwnedFd) -> bool {
    let Ok(credentials) = rustix::net::sockopt::socket_peercred(peer) else { return false };
    if credentials.uid == rustix::process::getuid() {
        return true;
    }
    let us = std::process::id();
    std::iter::successors(Some(credentials.pid.as_raw_nonzero().get() as u32), |pid| parent(*pid))
        .take(ANCESTORS_MAX)
        .any(|pid| pid == us)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

fn random() -> Option<u64> {
    let mut bytes = [0u8; 8];
    use std::io::Read;
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
