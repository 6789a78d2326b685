//! A guest that does not boot is tried once more, and never one in which something may have run. QEMU is
//! a script here, which says what a kernel and our agent would.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::quartier;
use quartier_lab::frame::Frame;
use quartier_lab::{
    CpusPerNode, Error, Exit, Input, Kernel, Qemu, Report, Request, Streams, Topology, run,
};
use tempfile::TempDir;

/// A guest without a word, as one whose kernel hangs.
const SILENT: &str = "exec sleep 1000";
/// A guest that runs the command.
const RUNS: &str = "cat \"$folder/frames\" >&11; exec sleep 1000";
/// A guest whose agent answers, and that is gone then.
const ANSWERS: &str = "cat \"$folder/hello\" >&11";

/// A QEMU that does what it is told, by the number of its start.
struct Fake {
    folder: TempDir,
}

/// What was said, by whom.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Said {
    fn text(&self) -> String {
        common::text(&self.0.lock().unwrap())
    }
}

struct Outcome {
    result: Result<Report, Error>,
    output: String,
    error: String,
    console: String,
    nr_starts: usize,
}

impl Fake {
    fn new(first: &str, then: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/bash\nfolder=\"{}\"\necho start >> \"$folder/starts\"\n\
             case $(wc -l < \"$folder/starts\") in\n\
             1) echo first kernel; {first} ;;\n\
             *) echo second kernel; {then} ;;\nesac\n",
            folder.path().display()
        );
        let fake = Self { folder };
        fs::write(fake.path("qemu"), script).unwrap();
        fs::set_permissions(fake.path("qemu"), fs::Permissions::from_mode(0o700)).unwrap();
        let hello = [Frame::Hello("6.1".to_owned()), Frame::Started];
        let rest = [Frame::Output(b"hello\n".to_vec()), Frame::Exit(Exit::Status(3))];
        for (name, frames) in [("hello", hello.to_vec()), ("frames", [hello, rest].concat())] {
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.write(&mut bytes).unwrap());
            fs::write(fake.path(name), bytes).unwrap();
        }
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, change: impl FnOnce(&mut Request)) -> Outcome {
        let topology = Topology::new(Some(1), &CpusPerNode::Same(1), None, None).unwrap();
        let image = self.path("no kernel is read");
        let kernel = Kernel {
            release: "6.1".to_owned(),
            image,
            unpacked: None,
            modules: None,
            config: None,
        };
        let qemu = Qemu { program: self.path("qemu"), version: "10".to_owned(), prefix: None };
        let mut request = Request::new(topology, kernel, qemu, vec!["true".into()]).unwrap();
        request.quartier = quartier().to_owned();
        change(&mut request);
        let [output, error, console] = [(); 3].map(|()| Said::default());
        let streams = Streams {
            input: Input::Null,
            output: Box::new(output.clone()),
            error: Box::new(error.clone()),
            console: Some(Box::new(console.clone())),
        };
        let result = run(&request, streams);
        Outcome {
            result,
            output: output.text(),
            error: error.text(),
            console: console.text(),
            nr_starts: fs::read_to_string(self.path("starts")).unwrap().lines().count(),
        }
    }
}

fn in_a_second(request: &mut Request) {
    request.boot_limit = Duration::from_secs(1);
}

#[test]
fn a_guest_that_hangs_while_it_boots_is_tried_once_more() {
    let outcome = Fake::new(SILENT, RUNS).run(in_a_second);
    let report = outcome.result.unwrap();
    assert_eq!((report.exit, outcome.output.as_str()), (Exit::Status(3), "hello\n"));
    let note = "quartier: the guest did not start within 1 s; nothing has run in it, so another is \
                tried, once\n";
    assert_eq!(outcome.error, note);
    assert_eq!(outcome.console, "first kernel\nsecond kernel\n");
    // The time of the first one is told.
    assert!(report.boot_ms.unwrap() >= 1000);
}

#[test]
fn a_guest_that_ends_while_it_boots_is_tried_once_more() {
    for (end, words) in [
        ("echo Kernel panic - not syncing", "panicked"),
        ("true", "switched itself off"),
        (
            "echo quartier: CPU 1 has lost its timer",
            "quartier: CPU 1 has lost its timer; nothing has run",
        ),
        ("kill -ABRT $$", "SIGABRT"),
        ("kill -SEGV $$", "SIGSEGV"),
    ] {
        let outcome = Fake::new(end, RUNS).run(|_| ());
        assert_eq!(outcome.result.unwrap().exit, Exit::Status(3));
        assert!(
            outcome.error.contains(words) && outcome.error.lines().count() == 1,
            "{}",
            outcome.error
        );
    }
}

#[test]
fn a_guest_that_does_not_boot_twice_is_given_up() {
    let begun = Instant::now();
    let outcome = Fake::new(SILENT, SILENT).run(in_a_second);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let error = outcome.result.unwrap_err();
    assert_eq!(error.exit_status(), quartier_lab::STATUS_LAB_FAILED);
    let expected = "the guest did not start within 1 s; the end of its console:\nsecond kernel";
    assert_eq!(error.to_string(), expected);
    assert_eq!((outcome.nr_starts, outcome.error.lines().count()), (2, 1));
}

#[test]
fn a_guest_that_has_answered_is_not_tried_again() {
    for hangs in [false, true] {
        let first = if hangs { format!("{ANSWERS}; {SILENT}") } else { ANSWERS.to_owned() };
        let outcome = Fake::new(&first, RUNS).run(|request| {
            in_a_second(request);
            request.hang_limit = Duration::from_secs(1);
        });
        assert!(matches!(outcome.result, Err(Error::GuestDied { .. })), "{:?}", outcome.result);
        assert_eq!(
            (outcome.nr_starts, outcome.error.as_str(), outcome.output.as_str()),
            (1, "", "")
        );
    }
}

#[test]
fn a_guest_that_somebody_ends_is_not_tried_again() {
    for end in ["kill -TERM $$", "kill -KILL $$"] {
        let outcome = Fake::new(end, RUNS).run(|_| ());
        assert!(matches!(outcome.result, Err(Error::GuestDied { .. })), "{:?}", outcome.result);
        assert_eq!((outcome.nr_starts, outcome.error.as_str()), (1, ""));
    }
}

#[test]
fn what_qemu_refuses_is_not_asked_again() {
    let outcome = Fake::new("echo no such option >&2; exit 1", RUNS).run(|_| ());
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.contains("QEMU ended") && error.contains("no such option"), "{error}");
    assert_eq!((outcome.nr_starts, outcome.error.as_str()), (1, ""));
}

/// The limit is the whole run's, however many guests it takes.
#[test]
fn the_second_guest_has_what_is_left_of_the_time() {
    let limit = Duration::from_secs(2);
    let outcome = Fake::new(SILENT, SILENT).run(|request| {
        in_a_second(request);
        request.boot_limit = Duration::from_millis(1200);
        request.time_limit = Some(limit);
    });
    assert!(matches!(outcome.result, Err(Error::TimedOut { seconds: 2 })), "{:?}", outcome.result);
    assert_eq!(outcome.nr_starts, 2);
    let outcome = Fake::new(SILENT, RUNS).run(|request| request.time_limit = Some(limit));
    assert!(matches!(outcome.result, Err(Error::TimedOut { seconds: 2 })), "{:?}", outcome.result);
    assert_eq!((outcome.nr_starts, outcome.error.as_str()), (1, ""));
}
