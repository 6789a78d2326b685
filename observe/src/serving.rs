//! What servers do: who listens where, how many connections wait there, and the processes of a server.
//!
//! From `proc/PID/net/tcp`, not from netlink's `sock_diag`: a file can be below any root. What listens
//! stands first in it, so reading ends where connections begin; the kernel looks for some of those all
//! the same, which takes milliseconds on a large machine, so this is not for every look.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tasks::stat::{Stat, Used};
use crate::{Error, Host, Result};

/// `TCP_ESTABLISHED` and `TCP_LISTEN` (Linux include/net/tcp_states.h).
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// Connections are counted in files up to this size; that takes some 50 ms.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// A server with more processes than this is not looked through.
const PROCESSES_MAX: usize = 4096;

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// Names the socket.
    pub inode: u64,
}

/// Of [`ServerProcess`] and [`ServerUsage`]: the kernel's, as it tells users of time (`USER_HZ`).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// A process of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerProcess {
    /// Its number.
    pub pid: u32,
    /// Whether it was stopped by a signal or a debugger.
    pub is_stopped: bool,
    /// CPU time that it has used, in 1/100 s.
    pub cpu_ticks: u64,
}

/// What a server took so far: its processes, and those that have ended and were waited for by one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerUsage {
    /// CPU time in user code, in 1/100 s.
    pub user_ticks: u64,
    /// CPU time in the kernel, in 1/100 s.
    pub kernel_ticks: u64,
    /// Page faults, those included that read from a disk.
    pub nr_faults: u64,
    /// Page faults that read from a disk.
    pub nr_disk_faults: u64,
}

impl ServerUsage {
    /// What was taken in both of two spans of time.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            user_ticks: self.user_ticks + other.user_ticks,
            kernel_ticks: self.kernel_ticks + other.kernel_ticks,
            nr_faults: self.nr_faults + other.nr_faults,
            nr_disk_faults: self.nr_disk_faults + other.nr_disk_faults,
        }
    }

    /// What was taken since an earlier moment. A process that ended without being waited for takes what it had with it: that is
    /// none less than nothing.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            user_ticks: self.user_ticks.saturating_sub(before.user_ticks),
            kernel_ticks: self.kernel_ticks.saturating_sub(before.kernel_ticks),
            nr_faults: self.nr_faults.saturating_sub(before.nr_faults),
            nr_disk_faults: self.nr_disk_faults.saturating_sub(before.nr_disk_faults),
        }
    }
}

impl Host {
    /// What listens for TCP in the network namespace of a process.
    ///
    /// # Errors
    /// When the process is gone, or what the kernel says is not understood.
    pub fn listening(&self, pid: u32) -> Result<Vec<Listening>> {
        let mut found = Vec::new();
        for name in ["tcp", "tcp6"] {
            let path = format!("proc/{pid}/net/{name}");
            // Without IPv6 the second is not there.
            let Some(file) = self.open(&path)? else { continue };
            for line in BufReader::new(file).lines().skip(1) {
                let line = line.map_err(|cause| self.unreadable(&path, cause))?;
                let socket =
                    Socket::parse(&line).ok_or_else(|| self.malformed(&path, &line, "a socket"))?;
                if socket.state != LISTEN {
                    break;
                }
                let Socket { address, waiting, inode, .. } = socket;
                found.push(Listening { address, waiting, inode });
            }
        }
        Ok(found)
    }

    /// The sockets of connections to these ports that are open; `None` where there are too many to tell.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn connections(&self, pid: u32, ports: &BTreeSet<u16>) -> Result<Option<BTreeSet<u64>>> {
        let mut found = BTreeSet::new();
        let mut nr_bytes = 0;
        for name in ["tcp", "tcp6"] {
            let path = format!("proc/{pid}/net/{name}");
            let Some(file) = self.open(&path)? else { continue };
            for line in BufReader::new(file.take(TABLE_BYTES_MAX)).lines().skip(1) {
                let line = line.map_err(|cause| self.unreadable(&path, cause))?;
                nr_bytes += line.len() as u64 + 1;
                if line.split_ascii_whitespace().nth(3) != Some(ESTABLISHED) {
                    continue;
                }
                let socket = Socket::parse(&line).filter(|it| ports.contains(&it.address.port()));
                found.extend(socket.map(|socket| socket.inode));
            }
        }
        // Inode 0: it waits to be accepted.
        found.remove(&0);
        Ok((nr_bytes < TABLE_BYTES_MAX - 4096).then_some(found))
    }

    /// The sockets that a process has, by inode, with their descriptors; empty when it is gone, or is not ours to look into.
    #[must_use]
    pub fn sockets_of(&self, pid: u32) -> Vec<(u64, i32)> {
        let Ok(entries) = fs::read_dir(self.full_path(&format!("proc/{pid}/fd"))) else {
            return Vec::new();
        };
        let socket = |entry: fs::DirEntry| {
            let target = fs::read_link(entry.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            let fd = entry.file_name().to_str()?.parse().ok()?;
            Some((inode.parse().ok()?, fd))
        };
        entries.flatten().filter_map(socket).collect()
    }

    /// A process and all that it has started, as far as those are still its descendants.
    #[must_use]
    pub fn server_processes(&self, pid: u32) -> Vec<u32> {
        let mut found = vec![pid];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied().filter(|_| at < PROCESSES_MAX) {
            at += 1;
            // Only a server's first process starts others from threads of its own.
            let threads = match fs::read_dir(self.full_path(&format!("proc/{pid}/task"))) {
                Ok(threads) if parent == pid => threads
                    .flatten()
                    .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                    .collect(),
                _ => vec![parent],
            };
            for thread in threads {
                let path = format!("proc/{parent}/task/{thread}/children");
                let children = self.read(&path).ok().flatten().unwrap_or_default();
                found.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        found
    }

    /// How a process stands; `None` when it has ended.
    #[must_use]
    pub fn server_process(&self, pid: u32) -> Option<ServerProcess> {
        let text = self.read(&format!("proc/{pid}/stat")).ok().flatten()?;
        let stat = Stat::parse(text.as_bytes())?;
        let has_ended = matches!(stat.state, b'Z' | b'X');
        let is_stopped = matches!(stat.state, b'T' | b't');
        (!has_ended).then_some(ServerProcess { pid, is_stopped, cpu_ticks: stat.cpu_ticks })
    }

    /// What a process and all that it has started took so far, as far as those are still its descendants; `None` when it has ended
    /// and was waited for.
    #[must_use]
    pub fn server_usage(&self, pid: u32) -> Option<ServerUsage> {
        let used = |pid: &u32| {
            Used::parse(self.read(&format!("proc/{pid}/stat")).ok().flatten()?.as_bytes())
        };
        used(&pid)?;
        let all = self.server_processes(pid);
        let sum = |sum: ServerUsage, of: Used| ServerUsage {
            user_ticks: sum.user_ticks + of.user_ticks,
            kernel_ticks: sum.kernel_ticks + of.kernel_ticks,
            nr_faults: sum.nr_faults + of.faults.minor + of.faults.major,
            nr_disk_faults: sum.nr_disk_faults + of.faults.major,
        };
        Some(all.iter().filter_map(used).fold(ServerUsage::default(), sum))
    }

    /// The name of a process, as far as it has one that can be printed.
    #[must_use]
    pub fn process_name(&self, pid: u32) -> Option<String> {
        let name = self.read(&format!("proc/{pid}/comm")).ok().flatten()?;
        Some(crate::printable(name.trim_end()))
    }

    /// The process that has a socket, looked for among all: slow, for a refusal.
    #[must_use]
    pub fn owner_of_socket(&self, inode: u64) -> Option<u32> {
        let processes = fs::read_dir(self.full_path("proc")).ok()?.flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.into_iter().find(|pid| self.sockets_of(*pid).iter().any(|(socket, _)| *socket == inode))
    }

    /// Whether what waits at a socket that is closed goes to others of its group, even where no program
    /// says which (`net.ipv4.tcp_migrate_req`, Linux 5.14); `None`: the kernel has no such setting.
    #[must_use]
    pub fn tcp_migrates(&self) -> Option<bool> {
        let text = self.read("proc/sys/net/ipv4/tcp_migrate_req").ok().flatten()?;
        Some(text.trim() == "1")
    }

    fn open(&self, path: &str) -> Result<Option<File>> {
        match File::open(self.full_path(path)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(self.unreadable(path, cause)),
        }
    }

    fn unreadable(&self, path: &str, cause: std::io::Error) -> Error {
        Error::Io { path: self.full_path(path), cause }
    }
}

/// A line of `net/tcp`: `sl local remote st tx:rx tr:when retransmitted uid timeout inode …`.
struct Socket<'a> {
    address: SocketAddr,
    state: &'a str,
    waiting: u32,
    inode: u64,
}

impl<'a> Socket<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let address = address(words.nth(1)?)?;
        let state = words.nth(1)?;
        let (_, waiting) = words.next()?.split_once(':')?;
        let waiting = u32::from_str_radix(waiting, 16).ok()?;
        let inode = words.nth(4)?.parse().ok()?;
        Some(Self { address, state, waiting, inode })
    }
}

/// `0100007F:1F90`: words of four bytes as they lie in memory, printed as numbers of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..host.len()).step_by(8) {
        let word = u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:0000001F 00:00000000 00000000     0        0 4711 1
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4713 1
   3: 0100007F:1F90 0100007F:D432 01 00000000:00000000 00:00000000 00000000     0        0 0 1
   4: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4714 1
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A \
00000000:00000002 00:00000000 00000000 0 0 4715 1
";

    fn host() -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/7/net")).unwrap();
        fs::write(root.path().join("proc/7/net/tcp"), TCP).unwrap();
        fs::write(root.path().join("proc/7/net/tcp6"), TCP6).unwrap();
        let host = Host::at(root.path(), "test");
        (root, host)
    }

    #[test]
    fn what_listens_is_read_with_what_waits_there() {
        let (_root, host) = host();
        let listening = |address: &str, waiting, inode| Listening {
            address: address.parse().unwrap(),
            waiting,
            inode,
        };
        let expected = [
            listening("127.0.0.1:8080", 31, 4711),
            listening("0.0.0.0:80", 0, 4712),
            listening("[::1]:80", 2, 4715),
        ];
        assert_eq!(host.listening(7).unwrap(), expected);
        assert_eq!(host.listening(8).unwrap(), []);
    }

    #[test]
    fn connections_are_those_that_were_accepted_on_our_ports() {
        let (_root, host) = host();
        let found = host.connections(7, &BTreeSet::from([8080])).unwrap();
        assert_eq!(found, Some(BTreeSet::from([4713])));
    }

    #[test]
    fn what_is_no_socket_is_refused_with_its_path() {
        let (root, host) = host();
        fs::write(root.path().join("proc/7/net/tcp"), "head\n 0: rubbish\n").unwrap();
        let error = host.listening(7).unwrap_err().to_string();
        assert!(error.contains("proc/7/net/tcp says `0: rubbish`"), "{error}");
    }

    #[test]
    fn processes_and_their_sockets_are_those_of_this_kernel() {
        let host = Host::live();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        let here = host.listening(own).unwrap();
        let found = here.iter().find(|it| it.address == listener.local_addr().unwrap()).unwrap();
        assert!(host.sockets_of(own).iter().any(|(inode, _)| *inode == found.inode));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(host.server_processes(own).contains(&child.id()));
        assert!(!host.server_process(child.id()).unwrap().is_stopped);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(host.server_process(child.id()), None);
    }

    #[test]
    fn what_a_server_took_has_that_of_children_which_ended() {
        let host = Host::live();
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let script = format!("({burn}) & wait; echo done; read never");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).stdin(std::process::Stdio::piped());
        let mut server = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let began = host.server_usage(server.id()).unwrap();
        let mut said = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let used = host.server_usage(server.id()).unwrap().since(began);
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(said, "done\n");
        assert!(used.user_ticks + used.kernel_ticks > 3, "{used:?}");
        assert!(used.nr_faults > 0, "{used:?}");
        assert_eq!(host.server_usage(server.id()), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "[ 0-9A-F:]{0,200}") {
            let _ = Socket::parse(&line);
        }
    }
}
