//! What the tests of `quartier serve` share: one that runs, and one that is refused. A test file has `mod common;` beside it.
#![allow(dead_code)] // Each test file uses a part.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common;

/// Workers of each copy: each has one request in hand at most.
pub const WORKERS: usize = 3;

/// Nothing waits longer than this but what a stopped copy has in hand.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// A running `quartier serve`, which is stopped at the end.
pub struct Served {
    pub process: Child,
    pub name: String,
    pub port: u16,
    _folder: tempfile::TempDir,
    pub said: PathBuf,
    /// What stands before the command, here and when its status is asked.
    before: Vec<String>,
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn serves() -> String {
    common::program("serves").display().to_string()
}

impl Served {
    pub fn start(options: &[&str], name: &str, micros: u32) -> Self {
        let port = free_port();
        let words = [serves(), port.to_string(), WORKERS.to_string(), micros.to_string()];
        Self::start_command(options, name, port, &words.each_ref().map(String::as_str))
    }

    pub fn start_command(options: &[&str], name: &str, port: u16, words: &[&str]) -> Self {
        Self::start_under(&[], options, name, port, words)
    }

    /// By another command, which runs what it is given.
    pub fn start_under(
        before: &[&str],
        options: &[&str],
        name: &str,
        port: u16,
        words: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("said");
        let name = format!("test-{name}-{}", std::process::id());
        let before: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
        let process = quartier_under(&before)
            .args(["serve", "--name", &name])
            .args(options)
            .arg("--")
            .args(words)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let served = Self { process, name, port, _folder: folder, said, before };
        let is_there = || served.status().is_some_and(|status| served.serving(&status) > 0);
        wait_for(&format!("{} to serve: {}", served.name, served.said()), is_there);
        served
    }

    pub fn serving(&self, status: &Value) -> usize {
        let copies = status["copies"].as_array().unwrap();
        copies.iter().filter(|copy| copy["state"] == "serves").count()
    }

    pub fn wait_until_all_serve(&self, copies: usize) {
        let all = || self.status().is_some_and(|status| self.serving(&status) == copies);
        wait_for("all copies to serve", all);
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// None until there is one.
    pub fn status(&self) -> Option<Value> {
        let output = quartier_under(&self.before)
            .args(["serve", "status", "--json", "--name", &self.name])
            .output()
            .unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    pub fn pid_of(&self, copy: usize) -> Option<u32> {
        self.status()?["copies"][copy]["pid"].as_u64().map(|pid| pid as u32)
    }

    pub fn signal(&self, signal: &str) {
        send(signal, &self.process.id().to_string());
    }

    pub fn signal_copy(&self, signal: &str, copy: usize) {
        if let Some(pid) = self.pid_of(copy) {
            send(signal, &format!("-{pid}"));
        }
    }

    /// One connection, one answer.
    pub fn ask(&self) -> std::io::Result<String> {
        ask(self.port)
    }

    pub fn stop(mut self) -> String {
        self.signal("TERM");
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        self.said()
    }
}

fn quartier_under(before: &[String]) -> Command {
    let quartier = common::quartier().display().to_string();
    let words: Vec<&String> = before.iter().chain([&quartier]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("TERM");
            let _ = self.process.wait();
        }
    }
}

pub fn send(signal: &str, to: &str) {
    let _ = Command::new("kill").args(["-s", signal, "--", to]).stderr(Stdio::null()).status();
}

pub fn ask(port: u16) -> std::io::Result<String> {
    ask_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

pub fn ask_at(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"?\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

/// What is shown over HTTP, head and all.
pub fn get(port: u16, path: &str, host: &str) -> String {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(40), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Two copies, or none: a machine with one CPU has room for one.
pub fn has_two_cpus() -> bool {
    let has = std::thread::available_parallelism().unwrap().get() >= 2;
    if !has {
        println!("skipped: one CPU has room for one copy");
    }
    has
}

/// What is said of a command line that is refused.
pub fn refused(options: &[&str], command: &[&str]) -> String {
    refused_under(&[], options, command)
}

/// The same by another command.
pub fn refused_under(before: &[&str], options: &[&str], command: &[&str]) -> String {
    let name = format!("test-refused-{}", free_port());
    let before: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
    let output = quartier_under(&before)
        .args(["serve", "--name", &name])
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
    let ours = said.lines().filter(|line| line.starts_with("quartier: ")).collect::<Vec<_>>();
    let ours: Vec<_> = ours.into_iter().filter(|line| !line.contains("are not steered")).collect();
    assert_eq!(ours.len(), 1, "{said}");
    ours[0].to_owned()
}
