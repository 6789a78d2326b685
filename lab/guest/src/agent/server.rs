//! A server: started in the group that is counted, loaded as soon as it can be, stopped afterwards.
//!
//! It is whatever lives in the group: a server may fork, and end its first process.

use std::collections::HashSet;
use std::fs::{self, File};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quartier_marker::Facts;
use rustix::process::{Pid, Signal, WaitOptions};

use super::plan::{Plan, PlanFile, Role};
use super::session::{Ended, attend, reap};
use super::{Host, group, streams};
use crate::error::{Context, Error, Result};
use crate::frame::{Exit, Frame, Load, Start};

/// How often is looked whether it listens, or has ended; by the host's clock, as what follows.
const LOOK: Duration = Duration::from_millis(50);
/// How long a load may go on without its server, and a server after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// A load may fail a moment before its dying server is gone.
const DYING: Duration = Duration::from_secs(1);
/// How much is kept of what it wrote, for its last line.
const KEPT_BYTES: usize = 4096;
/// How much of that line is told.
const TOLD_LETTERS: usize = 300;

/// Runs the server and its load to the load's end, and gives the load's status.
pub fn run(
    start: &Start,
    load: &Load,
    facts: Option<&Facts>,
    host: &Host,
    from_host: File,
) -> Result<Exit> {
    let mut server = Server::start(start, host)?;
    host.send(&Frame::Serving).doing("write to the host")?;
    server.wait_until_it_is_ready(start, load)?;
    let plan = Plan::new(of_line(start, &load.line), Role::Load, facts);
    let exit = attend(plan, host, from_host, |ended| server.watch(ended))?;
    if exit != Exit::Status(0) && server.has_ended_within(DYING / start.slower)? {
        return Err(server.lost("while it was loaded"));
    }
    server.stop()?;
    Ok(exit)
}

/// As the server is started, but a line for a shell.
fn of_line(start: &Start, line: &[u8]) -> Start {
    let command = vec![b"/bin/sh".to_vec(), b"-c".to_vec(), line.to_vec()];
    Start { command, name: b"sh".to_vec(), ..start.clone() }
}

struct Server {
    first: Pid,
    first_exit: Option<Exit>,
    /// Its end was seen while it was loaded.
    is_lost: bool,
    /// The end of its standard error, and of its standard output.
    said: Vec<Arc<Mutex<Vec<u8>>>>,
    readers: Vec<JoinHandle<()>>,
    /// Its readers look here; they end before it, when nobody can write any more.
    ended: Arc<AtomicBool>,
    /// How many times slower the clock is here.
    slower: u32,
    _plan: PlanFile,
}

impl Server {
    fn start(start: &Start, host: &Host) -> Result<Self> {
        let plan = Plan::new(Start { terminal: None, ..start.clone() }, Role::Server, None);
        let plan = plan.write()?;
        let mut command = plan.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().doing("start the server")?;
        // The standard output is the load's.
        let (first, outputs) = streams::pipes(&mut child, Frame::ErrorOutput)?;
        let said: Vec<_> = outputs.iter().map(|_| Arc::<Mutex<Vec<u8>>>::default()).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let reader = |((file, wrap), said): ((File, streams::Wrap), &Arc<Mutex<Vec<u8>>>)| {
            let (host, said, ended) = (host.clone(), said.clone(), ended.clone());
            let pass_on = move |data: &[u8]| {
                keep(&mut said.lock().unwrap_or_else(PoisonError::into_inner), data);
                host.send(&wrap(data.to_vec()))
            };
            thread::spawn(move || streams::forward(file, &ended, pass_on))
        };
        let readers = outputs.into_iter().zip(&said).map(reader).collect();
        Ok(Self {
            first,
            first_exit: None,
            is_lost: false,
            said,
            readers,
            ended,
            slower: start.slower,
            _plan: plan,
        })
    }

    fn wait_until_it_is_ready(&mut self, start: &Start, load: &Load) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(load.ready_limit_s) / self.slower;
        let what = match load.ready {
            Some(_) => "the line that asks whether the server is ready has not succeeded",
            None => "the server listens at no TCP or Unix socket",
        };
        while !self.is_ready(start, load, end)? {
            if self.has_ended()? {
                let is_asked = load.ready.is_some();
                return Err(self.lost(if is_asked {
                    "before it was ready"
                } else {
                    "before it listened"
                }));
            }
            if Instant::now() > end {
                return Err(Error::refused(format!(
                    "{what} after {} s (--hang-timeout), so nothing can load it; {}",
                    load.ready_limit_s,
                    self.last_words()
                )));
            }
            thread::sleep(LOOK / self.slower);
        }
        Ok(())
    }

    /// Whether it can be loaded: by the line that says so, or it listens.
    fn is_ready(&mut self, start: &Start, load: &Load, end: Instant) -> Result<bool> {
        let Some(line) = &load.ready else { return Ok(listens(&group::members())) };
        let of_line = Start { terminal: None, ..of_line(start, line) };
        let plan = Plan::new(of_line, Role::Load, None).write()?;
        let mut command = plan.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let asked = Pid::from_child(&command.spawn().doing("ask whether the server is ready")?);
        loop {
            match reap(WaitOptions::NOHANG)? {
                Some((process, exit)) if process == asked => return Ok(exit == Exit::Status(0)),
                Some((process, exit)) => self.note(process, exit),
                None if Instant::now() > end => {
                    let _ = rustix::process::kill_process(asked, Signal::KILL);
                    return Ok(false);
                }
                None => thread::sleep(LOOK / self.slower),
            }
        }
    }

    /// Hears of a process that has ended while the load runs. A load that goes on without its server
    /// is ended too.
    fn watch(&mut self, ended: &Ended) {
        self.note(ended.process, ended.exit);
        if self.is_gone() && !self.is_lost {
            self.is_lost = true;
            let (load, grace) = (ended.command, GRACE / self.slower);
            thread::spawn(move || {
                thread::sleep(grace);
                let _ = rustix::process::kill_process_group(load, Signal::KILL);
            });
        }
    }

    /// SIGTERM, and time to follow it.
    fn stop(mut self) -> Result<()> {
        let members = group::members();
        // A server that has ended its first process is told as a whole.
        let told = if members.contains(&self.first) { vec![self.first] } else { members };
        for process in told {
            let _ = rustix::process::kill_process(process, Signal::TERM);
        }
        if !self.has_ended_within(GRACE / self.slower)? {
            group::kill();
        }
        self.finish_reading();
        Ok(())
    }

    fn has_ended_within(&mut self, limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        while !self.has_ended()? {
            if Instant::now() > end {
                return Ok(false);
            }
            thread::sleep(LOOK / self.slower);
        }
        Ok(true)
    }

    fn has_ended(&mut self) -> Result<bool> {
        while let Some((process, exit)) = reap(WaitOptions::NOHANG)? {
            self.note(process, exit);
        }
        Ok(self.is_gone())
    }

    fn note(&mut self, process: Pid, exit: Exit) {
        if process == self.first {
            self.first_exit = Some(exit);
        }
    }

    /// Before its first process is in the group, nobody is.
    fn is_gone(&self) -> bool {
        self.first_exit.is_some() && group::members().is_empty()
    }

    /// Why nothing is counted of a server that has ended.
    fn lost(&mut self, when: &str) -> Error {
        let how = match self.first_exit {
            Some(Exit::Status(status)) => format!(" with status {status}"),
            Some(Exit::Signal(signal)) => format!(" by signal {signal}"),
            None => String::new(),
        };
        Error::refused(format!("the server ended{how} {when}; {}", self.last_words()))
    }

    fn last_words(&mut self) -> String {
        if self.is_gone() {
            self.finish_reading();
        }
        let line = |said: &Arc<Mutex<Vec<u8>>>| {
            last_line(&said.lock().unwrap_or_else(PoisonError::into_inner))
        };
        // What goes wrong is told on standard error, by most.
        match self.said.iter().find_map(line) {
            Some(line) => format!("it said last: {line}"),
            None => "it said nothing".to_owned(),
        }
    }

    /// Has everything read that it wrote.
    fn finish_reading(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

/// Keeps the end of what was said.
fn keep(said: &mut Vec<u8>, data: &[u8]) {
    said.extend_from_slice(data);
    let surplus = said.len().saturating_sub(KEPT_BYTES);
    said.drain(..surplus);
}

/// The last line that says something, without what would move a cursor.
fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let plain = |line: &str| -> String {
        line.trim().chars().filter(|letter| !letter.is_control()).take(TOLD_LETTERS).collect()
    };
    text.lines().rev().map(plain).find(|line| !line.is_empty())
}

/// Whether one of the processes waits for connections.
fn listens(processes: &[Pid]) -> bool {
    let waiting = listening_sockets();
    processes.iter().any(|process| {
        let files = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()));
        files.into_iter().flatten().flatten().any(|file| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            socket_number(&target.to_string_lossy()).is_some_and(|number| waiting.contains(&number))
        })
    })
}

/// Numbers of all sockets that wait for connections.
fn listening_sockets() -> HashSet<u64> {
    let read = |name| fs::read_to_string(name).unwrap_or_default();
    let tcp = ["/proc/net/tcp", "/proc/net/tcp6"].map(read);
    let unix = read("/proc/net/unix");
    tcp.iter().flat_map(|text| listening_tcp(text)).chain(listening_unix(&unix)).collect()
}

/// The number in `socket:[123]`.
fn socket_number(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Numbers of the sockets that listen, in the text of /proc/net/tcp.
fn listening_tcp(text: &str) -> impl Iterator<Item = u64> {
    const LISTEN: &str = "0A";
    text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        (*words.get(3)? == LISTEN).then(|| words.get(9)?.parse().ok())?
    })
}

/// The same for /proc/net/unix, but for the socket of `quartier run`, which listens before the server.
fn listening_unix(text: &str) -> impl Iterator<Item = u64> {
    const ACCEPTS_CONNECTIONS: u32 = 1 << 16;
    const LAUNCHERS: &str = "@quartier-";
    text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let flags = u32::from_str_radix(words.get(3)?, 16).ok()?;
        let is_launchers = words.get(7).is_some_and(|name| name.starts_with(LAUNCHERS));
        (flags & ACCEPTS_CONNECTIONS != 0 && !is_launchers).then(|| words.get(6)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The number of a socket of this process.
    fn number(socket: &impl AsRawFd) -> u64 {
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        socket_number(&fs::read_link(link).unwrap().to_string_lossy()).unwrap()
    }

    #[test]
    fn sockets_that_wait_for_connections_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = UnixListener::bind(folder.path().join("s")).unwrap();
        let client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let waiting = listening_sockets();
        assert!(waiting.contains(&number(&tcp)) && waiting.contains(&number(&unix)));
        assert!(!waiting.contains(&number(&client)));
        assert!(listens(&[rustix::process::getpid()]) && !listens(&[]));
    }

    #[test]
    fn only_servers_sockets_that_listen_are_a_servers() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
                   timeout inode\n\
                   0: 0100007F:1B58 00000000:0000 0A 0:0 00:0 00000000     0        0 51 1 0 100\n\
                   1: 0100007F:1B58 0100007F:8D70 01 0:0 00:0 00000000     0        0 52 1 0 20\n";
        assert_eq!(listening_tcp(tcp).collect::<Vec<_>>(), [51]);
        let unix = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0: 00000002 00000000 00010000 0001 01 61 /run/s\n\
                    0: 00000003 00000000 00000000 0001 03 62\n\
                    0: 00000002 00000000 00010000 0005 01 63 @quartier-171-00ff\n\
                    0: 00000002 00000000 00010000 0005 01 64 @other\n";
        assert_eq!(listening_unix(unix).collect::<Vec<_>>(), [61, 64]);
    }

    #[test]
    fn the_last_line_is_told_without_control_characters() {
        let mut said = Vec::new();
        assert_eq!(last_line(&said), None);
        keep(&mut said, b"first\n\x1bsecond \r\n \n");
        assert_eq!(last_line(&said).as_deref(), Some("second"));
        keep(&mut said, &vec![b'x'; 10_000]);
        assert_eq!(said.len(), KEPT_BYTES);
        assert_eq!(last_line(&said).map(|line| line.len()), Some(TOLD_LETTERS));
    }
}
