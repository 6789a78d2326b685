//! The program in this machine's kernel: where connections go by the CPU that receives them, and that
//! nothing is lost of what waits at a socket that stops.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use quartier_steer::{Error, Group, Listener, Queue, SLOTS, Tables};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// A socket that listens on the address, with others.
fn listener(address: SocketAddr) -> TcpListener {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    TcpListener::from(socket)
}

/// Two sockets on one port.
fn two_listeners() -> (SocketAddr, [TcpListener; 2]) {
    // A port that the kernel chose is lost when its socket stops listening; servers name theirs.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (address, [listener(address), listener(address)])
}

/// A group with both in it; none where eBPF is not permitted.
fn group(nr_rows: u32, row_of_cpu: impl Fn(u32) -> Option<u32>) -> Option<Group> {
    match Tables::new(nr_rows, row_of_cpu).and_then(|tables| Group::new(&tables, 8)) {
        Ok(group) => Some(group),
        Err(error @ Error::NotPermitted) => {
            assert!(!rustix::process::geteuid().is_root(), "root may: {error}");
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// How many wait there.
fn accept_all(listener: &TcpListener) -> usize {
    listener.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| listener.accept().ok()).count()
}

fn on_cpu<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(None, &set).unwrap();
            work()
        });
        worker.join().unwrap()
    })
}

fn nr_cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn a_connection_goes_where_the_row_of_its_cpu_says() {
    if nr_cpus() < 2 {
        println!("skipped: one CPU cannot be told from another");
        return;
    }
    let Some(group) = group(2, |cpu| Some(cpu % 2)) else { return };
    let (address, listeners) = two_listeners();
    for (number, listener) in (0..).zip(&listeners) {
        group.insert(number, listener.as_fd()).unwrap();
        group.set_row(number, &[number; SLOTS]).unwrap();
    }
    let connect = |count| (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
    // Loopback hands a connection over on the CPU that sends it.
    let _from_0: Vec<_> = on_cpu(0, || connect(20));
    let _from_1: Vec<_> = on_cpu(1, || connect(30));
    assert_eq!(listeners.each_ref().map(accept_all), [20, 30]);
    let chosen = |number| group.chosen(number).unwrap();
    assert_eq!((chosen(0)[0].new, chosen(1)[1].new), (20, 30));
    assert_eq!((chosen(0)[1].new, chosen(1)[0].new), (0, 0));
    assert_eq!(group.missed().unwrap().iter().map(|cpu| cpu.new).sum::<u64>(), 0);
}

#[test]
fn a_row_is_shared_out_by_its_places_and_what_is_gone_is_left_to_the_kernel() {
    let Some(group) = group(1, |_| Some(0)) else { return };
    let (address, [first, second]) = two_listeners();
    group.insert(0, first.as_fd()).unwrap();
    group.insert(1, second.as_fd()).unwrap();
    let mut row = [0; SLOTS];
    row[..SLOTS / 4].fill(1);
    group.set_row(0, &row).unwrap();
    let connect = || (0..40).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>();
    let mut seen = [0; 2];
    let mut kept = Vec::new();
    for _ in 0..10 {
        kept.extend(connect());
        seen[0] += accept_all(&first);
        seen[1] += accept_all(&second);
    }
    // A quarter of 400, give or take five standard deviations.
    assert!(seen[0] + seen[1] == 400 && (57..=143).contains(&seen[1]), "{seen:?}");
    drop(second);
    kept.extend(connect());
    assert_eq!(accept_all(&first), 40, "nothing went to the socket that is gone");
    assert!(group.missed().unwrap().iter().map(|cpu| cpu.new).sum::<u64>() > 0);
}

#[test]
fn what_waits_at_a_socket_that_stops_is_moved_and_answered() {
    let Some(group) = group(1, |_| Some(0)) else { return };
    let (address, [first, second]) = two_listeners();
    group.insert(0, first.as_fd()).unwrap();
    group.insert(1, second.as_fd()).unwrap();
    group.set_row(0, &[0; SLOTS]).unwrap();
    let mut clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for client in &mut clients {
        client.write_all(b"question").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    group.set_row(0, &[1; SLOTS]).unwrap();
    let inode = rustix::fs::fstat(&first).unwrap().st_ino;
    let own = std::process::id();
    assert!(Listener::of(own, first.as_raw_fd(), inode + 1).is_err(), "another file by now");
    let held = Listener::of(own, first.as_raw_fd(), inode).unwrap();
    assert_eq!(held.queue(), Some(Queue { waiting: 20, waiting_max: 64 }));
    held.stop().unwrap();
    assert_eq!(held.queue(), None);
    held.listen(64).unwrap();
    assert_eq!(held.queue(), Some(Queue { waiting: 0, waiting_max: 64 }));
    assert_eq!(accept_all(&first), 0);
    second.set_nonblocking(true).unwrap();
    let mut nr_answered = 0;
    while let Ok((mut stream, _)) = second.accept() {
        stream.set_nonblocking(false).unwrap();
        let mut question = [0; 8];
        stream.read_exact(&mut question).unwrap();
        stream.write_all(&question).unwrap();
        nr_answered += 1;
    }
    assert_eq!(nr_answered, 20);
    for client in &mut clients {
        let mut answer = [0; 8];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"question");
    }
    let moved: u64 = group.chosen(1).unwrap().iter().map(|cpu| cpu.moved).sum();
    assert_eq!(moved, 20);
    // It listens again as if nothing had been, and may be chosen again.
    group.insert(0, first.as_fd()).unwrap();
    group.set_row(0, &[0; SLOTS]).unwrap();
    let _client = TcpStream::connect(address).unwrap();
    assert_eq!(accept_all(&first), 1);
}
