//! `quartier serve` with servers that listen elsewhere than at 127.0.0.1, or that no library can be loaded into. The server at other
//! addresses is this test program itself.

mod common;
mod serving;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serving::{Served, ask_at, free_port, has_two_cpus, refused};

/// Where the server listens, with a blank between two addresses.
const SERVES_AT: &str = "QUARTIER_TEST_SERVES_AT";

#[test]
#[ignore = "it is the server of the others"]
fn server() {
    let Ok(addresses) = std::env::var(SERVES_AT) else { return };
    let copy = std::env::var("QUARTIER_COPY").unwrap();
    let listeners = addresses.split(' ').map(|address| TcpListener::bind(address).unwrap());
    let listeners: Vec<TcpListener> = listeners.collect();
    std::thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(|| {
                for mut stream in listener.incoming().flatten() {
                    let _ = stream.read(&mut [0; 16]);
                    let _ = writeln!(stream, "copy {copy}");
                }
            });
        }
    });
}

/// Two copies at these addresses; none where this machine has no IPv6.
fn two_copies(name: &str, port: u16, addresses: &str) -> Option<Served> {
    if !has_two_cpus() || TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("skipped: there is no IPv6, or one CPU");
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let script = format!(
        "{SERVES_AT}='{addresses}' exec {} --ignored --exact server --nocapture >/dev/null",
        own.display()
    );
    let served = Served::start_command(&["--copies", "2"], name, port, &["sh", "-c", &script]);
    served.wait_until_all_serve(2);
    // It serves with the first of its sockets; the others are found when it is looked the next time.
    std::thread::sleep(Duration::from_millis(300));
    Some(served)
}

fn check_both_answer(served: &Served, addresses: [SocketAddr; 2]) {
    for address in addresses {
        let mut answered = [0; 2];
        for _ in 0..100 {
            let answer = ask_at(address).unwrap();
            let copy: usize = answer.trim().split(' ').nth(1).unwrap().parse().unwrap();
            answered[copy] += 1;
        }
        let said = || format!("{:#}\n{}", served.status().unwrap(), served.said());
        let have_both = answered.iter().all(|count| *count >= 10);
        assert!(have_both, "{address}: {answered:?} {}", said());
    }
    std::thread::sleep(Duration::from_millis(1500));
    let status = served.status().unwrap();
    if status["why_not_steered"].is_null() {
        let given = |copy: usize| status["copies"][copy]["given"].as_u64().unwrap();
        assert!(given(0) + given(1) >= 200, "all of them were steered: {status}");
        assert_eq!(status["left_to_kernel"], 0, "{status}");
    }
}

fn at_both(port: u16) -> [SocketAddr; 2] {
    [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
}

#[test]
fn one_socket_for_both_families_is_shared_and_steered() {
    let port = free_port();
    let Some(served) = two_copies("dual", port, &format!("[::]:{port}")) else { return };
    check_both_answer(&served, at_both(port));
    assert_eq!(served.status().unwrap()["addresses"], serde_json::json!([format!("[::]:{port}")]));
    assert!(served.stop().contains(&format!(": 2 copies on [::]:{port}\n")));
}

#[test]
fn a_socket_for_each_family_is_shared_and_steered() {
    let port = free_port();
    let [v4, v6] = at_both(port);
    let Some(served) = two_copies("each", port, &format!("{v4} {v6}")) else { return };
    check_both_answer(&served, [v4, v6]);
    let addresses = served.status().unwrap()["addresses"].clone();
    assert_eq!(addresses, serde_json::json!([v4.to_string(), v6.to_string()]));
}

#[test]
fn a_port_that_somebody_has_for_ipv6_alone_is_taken() {
    let Ok(taken) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        return println!("skipped: there is no IPv6");
    };
    let address = taken.local_addr().unwrap();
    let said = refused(&["--port", &address.port().to_string()], &["true"]);
    assert!(said.contains(&format!("{address} is in use by ")), "{said}");
}

/// The server of the other tests without the C library beside it; `shares`: it sets `SO_REUSEPORT` itself.
fn static_server(folder: &Path, shares: bool) -> Option<String> {
    const SHARES: &str = "#include <sys/socket.h>\n#define bind(fd, address, length) \
        (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)), bind(fd, address, length))\n";
    let header = folder.join("shares.h");
    std::fs::write(&header, if shares { SHARES } else { "" }).unwrap();
    let program = folder.join("serves-statically");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/serves.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-O2", "-D_GNU_SOURCE=", "-include"]).arg(header);
    let output = compiler.arg("-o").arg(&program).arg(source).output().unwrap();
    if !output.status.success() {
        println!("skipped: nothing can be linked statically: {output:?}");
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

#[test]
fn copies_of_a_static_server_that_does_not_share_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = static_server(folder.path(), false).filter(|_| has_two_cpus()) else {
        return;
    };
    for choose in ["auto", "kernel"] {
        let port = free_port().to_string();
        let said = refused(&["--copies", "2", "--choose", choose], &[&program, &port, "1"]);
        let what = format!("copy 0 listens on 127.0.0.1:{port} without SO_REUSEPORT");
        assert!(said.contains(&what) && said.contains("it is statically linked"), "{said}");
        assert!(said.contains("use a dynamically linked build"), "{said}");
        assert!(said.contains("have the server set it itself, or give --copies 1"), "{said}");
    }
}

#[test]
fn a_static_server_is_served_alone_or_where_it_shares() {
    let folder = tempfile::tempdir().unwrap();
    let Some(alone) = static_server(folder.path(), false) else { return };
    let port = free_port();
    let words = [&alone, &port.to_string(), "1"];
    let served = Served::start_command(&["--copies", "1"], "static", port, &words);
    served.ask().unwrap();
    served.stop();
    let folder = tempfile::tempdir().unwrap();
    let Some(shares) = static_server(folder.path(), true).filter(|_| has_two_cpus()) else {
        return;
    };
    let port = free_port();
    let words = [&shares, &port.to_string(), "1"];
    let served = Served::start_command(&["--copies", "2"], "static-2", port, &words);
    served.wait_until_all_serve(2);
    served.ask().unwrap();
    let said = served.stop();
    assert!(!said.contains("SO_REUSEPORT"), "there is nothing to say: {said}");
}

#[test]
fn a_program_that_binds_by_itself_is_told_apart_from_one_that_cannot_be_helped() {
    if !has_two_cpus() {
        return;
    }
    // The kernel is called directly, as Go does it.
    let folder = tempfile::tempdir().unwrap();
    let header = folder.path().join("directly.h");
    let text = "#include <sys/socket.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
        #define bind(fd, address, length) syscall(SYS_bind, fd, address, length)\n";
    std::fs::write(&header, text).unwrap();
    let program = folder.path().join("serves-directly");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/serves.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-D_GNU_SOURCE=", "-include"]).arg(header).arg("-o").arg(&program);
    assert!(compiler.arg(source).stdin(Stdio::null()).status().unwrap().success());
    let port = free_port().to_string();
    let said = refused(&["--copies", "2"], &[program.to_str().unwrap(), &port, "1"]);
    assert!(
        said.contains("it does not bind through the C library; use a build that does"),
        "{said}"
    );
}
