//! Whose are the sockets that listen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};

use quartier_observe::{Host, Listening};
use quartier_steer::{Listener, ListenerError};

/// A listening socket of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    pub listening: Listening,
    pub copy: usize,
    /// A process of the copy that has it, and as which descriptor.
    pub pid: u32,
    pub fd: i32,
    /// Connections that wait there, as of the last look.
    pub waiting: Option<u32>,
}

impl Owned {
    /// The socket, in our hands too.
    pub fn listener(&self) -> Result<Listener, ListenerError> {
        Listener::of(self.pid, self.fd, self.listening.inode)
    }

    /// Whether others may listen there too; `None`: it cannot be asked.
    pub fn is_shared(&self) -> Option<bool> {
        rustix::net::sockopt::socket_reuseport(self.listener().ok()?).ok()
    }

    /// Looks what waits there; `false`: it does not listen any more.
    pub fn look(&mut self) -> bool {
        match self.listener() {
            Ok(listener) => {
                self.waiting = listener.queue().map(|queue| queue.waiting);
                self.waiting.is_some()
            }
            Err(ListenerError::Another { .. }) => false,
            Err(ListenerError::NotOurs { .. }) => {
                self.waiting = None;
                true
            }
        }
    }
}

/// A copy's processes, its first one first.
pub type Processes = Vec<u32>;

/// One of them whose files may not be looked into, so that it is unknown where it listens. (Root may still count them.)
pub fn hidden(processes: &Processes) -> Option<u32> {
    let is_forbidden = |error: io::Error| error.kind() == ErrorKind::PermissionDenied;
    let is_hidden = |pid: &&u32| match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(files) => {
            files.flatten().any(|file| fs::read_link(file.path()).is_err_and(is_forbidden))
        }
        Err(error) => is_forbidden(error),
    };
    processes.iter().find(is_hidden).copied()
}

/// Looks for owners again and again: those that are known are not looked for.
#[derive(Debug, Default)]
pub struct Sockets {
    known: BTreeMap<u64, (usize, u32, i32)>,
    /// Of nobody here, as of the last time that everything was looked through.
    foreign: BTreeSet<u64>,
}

impl Sockets {
    /// What listens now, of the copies and of others on the same addresses. `ports` empty: any port.
    pub fn look(
        &mut self,
        listening: &[Listening],
        copies: &[Processes],
        ports: &[u16],
        host: &Host,
    ) -> (Vec<Owned>, Vec<Listening>) {
        let now: BTreeSet<u64> = listening.iter().map(|socket| socket.inode).collect();
        self.known
            .retain(|inode, (copy, pid, _)| now.contains(inode) && copies[*copy].contains(pid));
        self.foreign.retain(|inode| now.contains(inode));
        let is_known = |inode: &u64| self.known.contains_key(inode) || self.foreign.contains(inode);
        if !now.iter().all(is_known) {
            for (copy, processes) in copies.iter().enumerate() {
                for pid in processes {
                    for (inode, fd) in host.sockets_of(*pid) {
                        if now.contains(&inode) {
                            self.known.entry(inode).or_insert((copy, *pid, fd));
                        }
                    }
                }
            }
            self.foreign = now.iter().filter(|it| !self.known.contains_key(it)).copied().collect();
        }
        let is_asked =
            |socket: &&Listening| ports.is_empty() || ports.contains(&socket.address.port());
        let owned = |listening: &Listening| {
            let (copy, pid, fd) = *self.known.get(&listening.inode)?;
            Some(Owned { listening: *listening, copy, pid, fd, waiting: Some(listening.waiting) })
        };
        let ours: Vec<Owned> = listening.iter().filter(is_asked).filter_map(owned).collect();
        let addresses: BTreeSet<_> = ours.iter().map(|owned| owned.listening.address).collect();
        let is_stranger = |socket: &&Listening| {
            addresses.contains(&socket.address) && !self.known.contains_key(&socket.inode)
        };
        let strangers = listening.iter().filter(is_stranger).copied().collect();
        (ours, strangers)
    }

    /// What is of nobody may have become a copy's: a socket can be handed over.
    pub fn forget_foreign(&mut self) {
        self.foreign.clear();
    }
}
