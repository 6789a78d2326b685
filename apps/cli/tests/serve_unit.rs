//! `quartier serve` as systemd has it: the lines of the unit start, reload and stop it, and it tells what it does.

mod common;
mod serving;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serving::{free_port, has_two_cpus, send, serves, wait_for};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/quartier-serve@.service");

/// A setting of the unit.
fn setting(name: &str) -> String {
    let text = std::fs::read_to_string(UNIT).unwrap();
    let start = format!("{name}=");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&start));
    let value = values.next().unwrap_or_else(|| panic!("the unit has no {name}")).to_owned();
    assert_eq!(values.next(), None, "{name} twice");
    value
}

/// The words of a command of the unit, as systemd would fill them in.
fn words(name: &str, filled_in: &[(&str, &[String])]) -> Vec<String> {
    let setting = setting(name);
    let words = setting.split(' ').flat_map(|word| {
        let found = filled_in.iter().find(|(variable, _)| *variable == word);
        found.map_or_else(|| vec![word.to_owned()], |(_, words)| words.to_vec())
    });
    words.collect()
}

/// One that is stopped with its test, however that ends.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            send("TERM", &self.0.id().to_string());
            let _ = self.0.wait();
        }
    }
}

fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 1024];
    let len = socket.recv(&mut message).expect("nothing is told for 20 s");
    std::str::from_utf8(&message[..len]).unwrap().to_owned()
}

/// The first message that begins so.
fn next_that(socket: &UnixDatagram, start: &str) -> String {
    let mut others = Vec::new();
    loop {
        let told = next(socket);
        if told.starts_with(start) {
            return told;
        }
        assert!(others.len() < 20, "no {start}, but {others:?}");
        others.push(told);
    }
}

fn environment(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap()
}

#[test]
fn the_unit_starts_reloads_and_stops_all_of_it_and_is_told_so() {
    if !has_two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let told = UnixDatagram::bind(&path).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = format!("test-unit-{}", std::process::id());
    let port = free_port().to_string();
    let options = ["--copies", "2", "--drain", "5", "--", &serves(), &port, "2"];
    let start = words(
        "ExecStart",
        &[
            ("/usr/bin/quartier", &[common::quartier().display().to_string()]),
            ("%i", std::slice::from_ref(&name)),
            ("$SERVE", &options.map(str::to_owned)),
        ],
    );
    let mut command = Command::new(&start[0]);
    command.args(&start[1..]).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let mut service = Service(command.spawn().unwrap());
    let serve_on = |nr: u8| format!("STATUS={nr} of 2 copies serve on 127.0.0.1:{port}\n");
    assert_eq!(next(&told), format!("READY=1\n{}", serve_on(1)), "when the first one listens");
    assert_eq!(next(&told), serve_on(2));
    let status = || {
        let mut status = Command::new(common::quartier());
        status.args(["serve", "status", "--json", "--name", &name]);
        serde_json::from_slice::<serde_json::Value>(&status.output().unwrap().stdout).ok()
    };
    let pid_of = |copy: usize| status().and_then(|it| it["copies"][copy]["pid"].as_u64());
    wait_for("the status", || pid_of(1).is_some());
    let copy = pid_of(1).unwrap() as u32;
    let told_to_copy = environment(copy);
    assert!(told_to_copy.contains("QUARTIER_COPY=1"), "{told_to_copy}");
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC"] {
        assert!(!told_to_copy.contains(variable), "it would tell in our place: {told_to_copy}");
    }
    let main = service.0.id().to_string();
    let reload = words("ExecReload", &[("$MAINPID", &[main])]);
    assert!(Command::new(&reload[0]).args(&reload[1..]).status().unwrap().success());
    let reloading = next(&told);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(&told), format!("READY=1\n{}", serve_on(2)), "both have, one after the other");
    send("KILL", &format!("-{copy}"));
    assert_eq!(next(&told), serve_on(1));
    assert_eq!(next(&told), serve_on(2), "it is started again");
    assert_eq!(setting("KillMode"), "mixed", "or the copies were told by systemd, before us");
    send("TERM", &service.0.id().to_string());
    let stopping = next_that(&told, "STOPPING=1\n");
    assert_eq!(stopping, "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\n", "--drain, and ten seconds");
    assert!(service.0.wait().unwrap().success());
}

#[test]
fn what_cannot_be_reloaded_is_over_for_systemd_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.conf");
    std::fs::write(&config, "{copy}\n").unwrap();
    let path = folder.path().join("notify");
    let told = UnixDatagram::bind(&path).unwrap();
    told.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = format!("test-unit-conf-{}", std::process::id());
    let mut command = Command::new(common::quartier());
    command.args(["serve", "--name", &name, "--copies", "1", "--config"]).arg(&config);
    command.args(["--", &serves(), &free_port().to_string(), "1"]).env("NOTIFY_SOCKET", &path);
    let service = Service(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    next_that(&told, "READY=1\n");
    std::fs::write(&config, "{no_such_word}\n").unwrap();
    send("HUP", &service.0.id().to_string());
    next_that(&told, "RELOADING=1\n");
    next_that(&told, "READY=1\n");
}

#[test]
fn nobody_is_told_where_nobody_asks_and_that_is_no_failure() {
    let port = free_port().to_string();
    let name = format!("test-unit-mute-{}", std::process::id());
    let mut command = Command::new(common::quartier());
    command.args(["serve", "--name", &name, "--copies", "1", "--", &serves(), &port, "1"]);
    command.env("NOTIFY_SOCKET", "/nowhere/notify").stdin(Stdio::null()).stderr(Stdio::null());
    let mut service = Service(command.spawn().unwrap());
    let serves = || {
        let mut status = Command::new(common::quartier());
        status.args(["serve", "status", "--name", &name]).output().unwrap().status.success()
    };
    wait_for("its status", serves);
    serving::ask(port.parse().unwrap()).unwrap();
    send("TERM", &service.0.id().to_string());
    assert!(service.0.wait().unwrap().success());
}

#[test]
fn systemd_understands_the_unit() {
    let Some(verify) = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
    else {
        return println!("skipped: there is no systemd-analyze");
    };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join(Path::new(UNIT).file_name().unwrap());
    let text = std::fs::read_to_string(UNIT).unwrap();
    let quartier = common::quartier().display().to_string();
    std::fs::write(&unit, text.replace("/usr/bin/quartier", &quartier)).unwrap();
    let output = Command::new(verify).args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
