//! Copies that are taken out: what waits at them goes to others.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use quartier_steer::{Listener, Queue};

use super::chooser::Chooser;
use super::sockets::Owned;

/// Sockets of copies that are out.
#[derive(Debug, Default)]
pub struct Outs {
    /// Without our program the kernel would go on giving them connections, so they are closed to it until
    /// their copy is back. By copy.
    closed: BTreeMap<usize, Vec<Closed>>,
}

/// One of them.
#[derive(Debug)]
struct Closed {
    address: SocketAddr,
    listener: Listener,
    queue: Queue,
}

impl Outs {
    /// Moves what waits at a copy. It is chosen no more by now, so it may listen on at once where our program
    /// chooses. Gives what could not be done.
    pub fn take_out(
        &mut self,
        copy: usize,
        owned: &[Owned],
        chooser: Option<&Chooser>,
        migrates: bool,
    ) -> Option<String> {
        if self.closed.contains_key(&copy) {
            return None;
        }
        if chooser.is_none() && !migrates {
            return Some(format!(
                "what waits at copy {copy} waits for it: without our program in the kernel it could only be \
                 reset; `sysctl net.ipv4.tcp_migrate_req=1` lets it be moved"
            ));
        }
        let mut complaint = None;
        for socket in owned.iter().filter(|socket| socket.copy == copy) {
            match self.empty(socket, chooser) {
                Ok(()) => {}
                Err(error) => {
                    complaint =
                        Some(format!("what waits at copy {copy} could not be moved: {error}"));
                }
            }
        }
        complaint
    }

    fn empty(&mut self, socket: &Owned, chooser: Option<&Chooser>) -> std::io::Result<()> {
        let listener = socket.listener().map_err(std::io::Error::other)?;
        let Some(queue) = listener.queue() else { return Ok(()) };
        listener.stop()?;
        match chooser {
            Some(chooser) => {
                listener.listen(queue.waiting_max)?;
                chooser.insert_again(socket)
            }
            None => {
                let closed = Closed { address: socket.listening.address, listener, queue };
                self.closed.entry(socket.copy).or_default().push(closed);
                Ok(())
            }
        }
    }

    /// A copy is back.
    pub fn take_in(&mut self, copy: usize) -> Option<String> {
        let mut complaint = None;
        for Closed { address, listener, queue } in self.closed.remove(&copy).into_iter().flatten() {
            if let Err(error) = listener.listen(queue.waiting_max) {
                complaint = Some(format!("copy {copy} could not be given {address} back: {error}"));
            }
        }
        complaint
    }

    /// A copy has ended: nothing of it is kept open.
    pub fn forget(&mut self, copy: usize) {
        self.closed.remove(&copy);
    }
}
