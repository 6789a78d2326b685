//! The launcher's desk: what a process of the run, or its helper, comes for.
//!
//! - It lends `/dev/userfaultfd`: a descriptor that the launcher may open works in a process that
//!   may not, and serves accesses made by the kernel too.
//! - It guards a helper that holds a program's data: while the desk keeps a copy of its userfaultfd,
//!   the data is not read as zeros should somebody kill the helper. The program is then ended.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use quartier_session::{DeskRequest, Reason, Session};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::TreeFiles;

/// How far up a process's ancestors are looked at.
const ANCESTORS_MAX: usize = 64;

/// The desk's socket: abstract, so that nothing is left in a file system.
#[derive(Debug)]
pub struct Desk {
    socket: OwnedFd,
    device: Option<File>,
    memory: OwnedFd,
    tree: OwnedFd,
    threads: OwnedFd,
    name: String,
}

impl Desk {
    /// Opens the desk of the session in `memory`; `None` where the kernel has no sockets for it.
    pub fn open(memory: &OwnedFd, tree: TreeFiles<'_>) -> Option<Self> {
        let memory = memory.try_clone().ok()?;
        let threads = tree.threads.try_clone_to_owned().ok()?;
        let tree = tree.tree.try_clone_to_owned().ok()?;
        let device = File::options().read(true).write(true).open("/dev/userfaultfd").ok();
        let name = format!("quartier-{}-{:016x}", std::process::id(), random()?);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
        let kind = SocketType::SEQPACKET;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).ok()?;
        rustix::net::bind(&socket, &address).ok()?;
        rustix::net::listen(&socket, 64).ok()?;
        Some(Self { socket, device, memory, tree, threads, name })
    }

    /// The socket's name, for the programs' environment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Serves every process of the run, until the launcher ends.
    pub fn serve(&self, session: &'static Session) {
        while let Ok(peer) = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            if !is_of_this_run(&peer) {
                continue;
            }
            let Some((request, lent)) = receive(&peer) else { continue };
            match (request, lent) {
                (DeskRequest::Lend, _) => {
                    let _ = self.device.as_ref().map(|device| lend(&peer, device.as_fd()));
                }
                (DeskRequest::Session, _) => {
                    let _ = lend(&peer, self.memory.as_fd());
                }
                (DeskRequest::Tree, _) => {
                    let _ = lend(&peer, self.tree.as_fd());
                }
                (DeskRequest::Threads, _) => {
                    let _ = lend(&peer, self.threads.as_fd());
                }
                (DeskRequest::Guard { program }, Some(uffd)) => {
                    std::thread::spawn(move || guard(session, &peer, program, uffd));
                }
                _ => {}
            }
        }
    }
}

fn lend(peer: &OwnedFd, descriptor: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(peer, &[IoSlice::new(b"u")], &mut control, SendFlags::NOSIGNAL)
}

/// Holds a helper's userfaultfd until the helper says goodbye. If it is gone without: ends the
/// program, because what the helper held would read as zeros from then on.
fn guard(session: &Session, helper: &OwnedFd, program: u32, uffd: OwnedFd) {
    let pid = i32::try_from(program).ok().and_then(Pid::from_raw);
    let Some(pidfd) =
        pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    let _ = rustix::net::send(helper, b"k", SendFlags::NOSIGNAL);
    let goodbye = matches!(receive(helper), Some((DeskRequest::Goodbye, _)));
    if !goodbye
        && rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
        && let Some((_, slot)) = session.processes().find(|(_, slot)| slot.pid() == program)
    {
        slot.note(Reason::HelperKilled);
    }
    drop(uffd);
}

fn receive(peer: &OwnedFd) -> Option<(DeskRequest, Option<OwnedFd>)> {
    let mut bytes = [0u8; DeskRequest::BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        peer,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .ok()?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    (message.bytes == bytes.len()).then_some(())?;
    Some((DeskRequest::from_bytes(bytes)?, descriptor))
}

/// Only our own user, or a descendant of ours that became another user, is served.
fn is_of_this_run(peer: &OwnedFd) -> bool {
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
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
