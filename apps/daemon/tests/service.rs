//! `quartierd` as systemd sees it: what it tells, and how it ends. It only looks at this machine.
#![forbid(unsafe_code)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn quartierd() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quartierd"))
}

/// One that is ended with its test, however that ends.
struct Daemon(Child);

impl Daemon {
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next message that is not only a sign of life.
fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 1024];
    loop {
        let len = socket.recv(&mut message).expect("quartierd says nothing for 20 s");
        match std::str::from_utf8(&message[..len]).unwrap() {
            "WATCHDOG=1\n" => {}
            other => return other.to_owned(),
        }
    }
}

#[test]
fn it_says_when_it_is_ready_reads_again_lives_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (config, socket) = (folder.path().join("c.toml"), folder.path().join("notify"));
    // Far longer than the watchdog waits.
    std::fs::write(&config, "monitor.period_ms = 60000\nweb.listen = \"\"\n").unwrap();
    let told = UnixDatagram::bind(&socket).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = quartierd();
    command.arg("--config").arg(&config).env("NOTIFY_SOCKET", &socket);
    command.env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID").stdout(Stdio::null());
    let mut daemon = Daemon(command.spawn().unwrap());
    let ready = next(&told);
    assert!(ready.starts_with("READY=1\nSTATUS=only says what --apply would do"), "{ready}");
    for _ in 0..3 {
        let mut message = [0; 64];
        let len = told.recv(&mut message).unwrap();
        assert_eq!(&message[..len], b"WATCHDOG=1\n");
    }
    for (text, status) in [
        ("monitor.period_ms = 1", "the configuration is bad; the old one stays"),
        ("web.listen = \"\"\nmonitor.period_ms = 60000", "only says what --apply would do"),
    ] {
        std::fs::write(&config, text).unwrap();
        daemon.send(Signal::HUP);
        let reloading = next(&told);
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert_eq!(next(&told), format!("READY=1\nSTATUS={status}\n"));
    }
    daemon.send(Signal::TERM);
    let stopping = next(&told);
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert!(daemon.0.wait().unwrap().success());
}

fn check(config: &Path) -> Output {
    quartierd().arg("--check").arg("--config").arg(config).output().unwrap()
}

#[test]
fn a_configuration_is_checked_without_more() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    std::fs::write(&config, include_str!("../quartierd.toml")).unwrap();
    let good = check(&config);
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert_eq!(String::from_utf8_lossy(&good.stdout), format!("{}: good\n", config.display()));
    std::fs::write(&config, "[monitor]\nperiod_ms = 1\n").unwrap();
    let bad = check(&config);
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(2), 0), "{bad:?}");
    let expected = format!("quartierd: {}: line 2, column 13: ", config.display());
    assert!(String::from_utf8_lossy(&bad.stderr).starts_with(&expected), "{bad:?}");
    let missing = check(&folder.path().join("missing.toml"));
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn a_mistake_on_the_command_line_is_one_sentence() {
    for words in [&["--aply"][..], &["--check", "--apply"], &["now"], &["--journal"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quartierd"));
        let output = command.args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("quartierd: ") && said.contains("quartierd --help"), "{said}");
        assert!(said.contains(words.last().unwrap()), "{said}");
    }
}
