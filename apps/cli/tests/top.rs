//! `quartier top` on a terminal of its own, and `quartier explain`, before a made-up quartierd.

mod fake_daemon;
mod made_up;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fake_daemon::{FakeDaemon, ok, with_status};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Nothing here takes this long.
const SOON: Duration = Duration::from_secs(60);
const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";

fn answers(path: &str, to: &mut TcpStream) {
    let answer = match path {
        "/view.json" => ok(&serde_json::to_string(&made_up::view()).unwrap()),
        "/processes/100" => ok(&serde_json::to_string(&made_up::explanation(100)).unwrap()),
        _ => with_status("404 Not Found", ""),
    };
    let _ = to.write_all(&answer);
}

/// `quartier top` on a terminal.
struct Top {
    child: Child,
    /// What a person types.
    keys: File,
    /// The terminal itself.
    terminal: File,
    before: Termios,
    written: Receiver<Vec<u8>>,
    seen: String,
}

fn size(columns: u16, lines: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Top {
    fn begin(daemon: &FakeDaemon) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let terminal =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let (keys, terminal) = (File::from(keys), File::from(terminal));
        tcsetwinsize(&terminal, size(80, 24)).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_quartier"))
            .args(["top", "--interval", "100", "--daemon", &daemon.at.to_string()])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, written) = channel();
        let mut from = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                if to.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, terminal, before, written, seen: String::new() }
    }

    /// Waits until the terminal was told this; forgets all before it.
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + SOON;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(more) => self.seen += &String::from_utf8_lossy(&more),
                Err(_) => panic!("no {text:?} in {:.2000?}", self.seen),
            }
        }
    }

    /// Waits until this is on the screen. Only what differs is written, so it is made to draw all of it again and again.
    fn wait_until_drawn(&mut self, text: &str) {
        const A_WHILE: Duration = Duration::from_millis(200);
        let until = Instant::now() + SOON;
        let mut columns = 80;
        while Instant::now() < until {
            columns = 159 - columns;
            self.resize(columns, 24);
            let again = Instant::now() + A_WHILE;
            let left = || again.saturating_duration_since(Instant::now());
            while let Ok(more) = self.written.recv_timeout(left()) {
                self.seen += &String::from_utf8_lossy(&more);
                if self.seen.contains(text) {
                    self.seen.clear();
                    return;
                }
            }
            self.seen.clear();
        }
        panic!("never drawn: {text:?}");
    }

    fn resize(&self, columns: u16, lines: u16) {
        tcsetwinsize(&self.terminal, size(columns, lines)).unwrap();
        // In a session of its own the kernel would tell it.
        self.signal(Signal::WINCH);
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended, and checks that the terminal is as it was.
    fn end(mut self) -> std::process::ExitStatus {
        self.wait_for(LEAVES);
        let status = self.child.wait().unwrap();
        let after = tcgetattr(&self.terminal).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes, "echo and lines are back");
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        status
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminal_is_as_it_was_whatever_ends_top() {
    let daemon = FakeDaemon::writing(answers);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut top = Top::begin(&daemon);
        top.wait_for(ENTERS);
        top.wait_for("DECIDED");
        top.signal(signal);
        let status = top.end();
        assert_eq!(status.signal(), Some(signal.as_raw()), "whoever waits learns of it");
    }
    for key in ["q", "\u{3}"] {
        let mut top = Top::begin(&daemon);
        top.wait_for("DECIDED");
        top.press(key);
        assert_eq!(top.end().code(), Some(0), "{key:?}");
    }
}

#[test]
fn keys_explain_the_selected_task_and_a_new_size_is_drawn() {
    let daemon = FakeDaemon::writing(answers);
    let mut top = Top::begin(&daemon);
    top.wait_for("DECIDED");
    top.press("e");
    top.wait_until_drawn("Where it runs");
    top.resize(20, 5);
    top.wait_for("far, process 100");
    top.press("q");
    top.wait_until_drawn("q quit");
    top.press("?");
    top.wait_until_drawn("q back");
    top.press("\u{1b}");
    top.wait_until_drawn("q quit");
    top.press("q");
    assert_eq!(top.end().code(), Some(0));
}

#[test]
fn no_key_is_lost_to_a_new_size() {
    let daemon = FakeDaemon::writing(answers);
    let mut top = Top::begin(&daemon);
    top.wait_for("DECIDED");
    for columns in 81..110 {
        // Each text is in one of the two views only, and both come whole: a lost key would come with the next one.
        for (key, tells) in [("?", "q back"), ("q", "q quit")] {
            top.resize(columns + u16::from(key == "q"), 24);
            top.press(key);
            top.wait_until_drawn(tells);
        }
    }
    top.press("q");
    assert_eq!(top.end().code(), Some(0));
}

#[test]
fn a_daemon_that_goes_away_is_missed_and_found_again() {
    let daemon = FakeDaemon::writing(answers);
    let at = daemon.at;
    let mut top = Top::begin(&daemon);
    top.wait_for("DECIDED");
    drop(daemon);
    top.wait_until_drawn("NO ANSWER");
    let _again = FakeDaemon::writing_at(at, answers);
    top.wait_until_drawn("1.2.3 moves; 3");
    top.press("q");
    assert_eq!(top.end().code(), Some(0));
}

fn quartier(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quartier"))
        .args(args)
        .env_remove("QUARTIER_DAEMON")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn into_a_pipe_goes_one_frame_or_the_data() {
    let daemon = FakeDaemon::writing(answers);
    let at = daemon.at.to_string();
    for args in [&["top", "--daemon", &at][..], &["top", "--once", "--daemon", &at]] {
        let output = quartier(args);
        assert!(output.status.success());
        let told = printed(&output);
        assert!(told.contains("\n100  far "), "{told}");
        assert!(!told.contains('\u{1b}'), "{told:?}");
    }
    let told = printed(&quartier(&["top", "--json", "--daemon", &at]));
    let view: quartier_decide::reporter::view::View = serde_json::from_str(&told).unwrap();
    assert_eq!(view, made_up::view());
    let output = quartier(&["explain", "100", "--daemon", &at]);
    assert!(output.status.success() && printed(&output).starts_with("far, process 100\n"));
    let told = printed(&quartier(&["explain", "100", "--json", "--daemon", &at]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["replayed"], serde_json::Value::Null);
    assert_eq!(told["process"]["name"], "far");
}

#[test]
fn without_an_answer_there_is_one_sentence_and_status_2() {
    let gone = FakeDaemon::writing(answers).at.to_string();
    let other = FakeDaemon::answering(|_| ok("hello"));
    let other = other.at.to_string();
    for (args, expected) in [
        (&["top", "--daemon", &gone][..], "start `quartierd`"),
        (&["top", "--json", "--daemon", &gone], "start `quartierd`"),
        (&["explain", "1", "--daemon", &gone], "start `quartierd`"),
        (&["explain", "1", "--daemon", &other], "is no quartierd"),
        (&["explain", "1", "--daemon", "10.0.0.1:7117"], "not on loopback"),
        (&["explain", "0"], "from 1 to 2147483647"),
        (&["explain", "-1"], "from 1 to 2147483647"),
        (&["top", "--interval", "1"], "from 100 to 60000"),
        (&["explain", "1", "--log", "/nonexistent/log"], "cannot read the log"),
    ] {
        let output = quartier(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_log_is_explained_without_a_daemon_and_who_is_not_in_it_is_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let machine = made_up::machine(4);
    let snapshot = made_up::snapshot(&machine, made_up::processes());
    let settings = quartier_decide::reporter::Settings::default();
    let state = quartier_decide::reporter::State::default();
    let mut reporter = quartier_decide::reporter::Reporter::new(machine.clone(), settings, state);
    let plan = made_up::plan(&mut reporter, &snapshot);
    let lines = [
        made_up::begin(&machine),
        quartier_decide::reporter::log::Line::Decided { snapshot, plan },
    ];
    let text = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
    std::fs::write(&log, text.collect::<String>()).unwrap();
    let log = log.to_str().unwrap();
    let output = quartier(&["explain", "--log", log, "100"]);
    assert!(output.status.success());
    assert!(printed(&output).contains("REPLAYED: as line 2 of 2 of the log"));
    let told = printed(&quartier(&["explain", "--json", "--log", log, "100"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["replayed"]["line"], &told["process"]["threads"]), (&2.into(), &2.into()));
    let output = quartier(&["explain", "--log", log, "7"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("has no process or thread 7"));
}
