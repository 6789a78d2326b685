//! `quartier run` on this machine: what does not need more than one node.

mod common;

use std::process::{Command, Output, Stdio};

use common::quartier;

fn run(options: &[&str], command: &[&str]) -> Output {
    Command::new(quartier())
        .arg("run")
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_exit_status_is_the_programs_own() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)] {
        for options in [&["--quiet"][..], &["--quiet", "--force"]] {
            let output = run(options, &["sh", "-c", script]);
            let expected = match (options.len(), status) {
                // Without the runtime quartier becomes the program, so it is killed itself.
                (1, 137 | 143) if output.status.code().is_none() => continue,
                _ => status,
            };
            assert_eq!(output.status.code(), Some(expected), "{script} {options:?}: {output:?}");
            assert!(output.stderr.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn bad_input_is_one_sentence_and_status_2() {
    let cases: [(&[&str], &[&str], &str); 12] = [
        (&["--policy", "fast"], &["true"], "no policy `fast`"),
        (&["--policy", "bind=99"], &["true"], "no node 99"),
        (&["--block", "5K"], &["true"], "power of two"),
        (&["--block", "1M", "--block-max", "64K"], &["true"], "blocks only grow"),
        (&["--initial-share", "101"], &["true"], "101"),
        (&["--initial-share", "-1"], &["true"], "give a whole number from 0 to 100"),
        (&["--block", "-64"], &["true"], "`-64` is not a size"),
        // Not `--` for a size.
        (&["--block"], &["true"], "a value is required for '--block"),
        (&["--tree", ""], &["true"], "a value is required for '--tree"),
        (&["--rung", "mprotect"], &["true"], "mprotect"),
        (&[], &["no-such-command"], "no command"),
        (&[], &["/etc/passwd"], "not executable"),
    ];
    for (options, command, message) in cases {
        let output = run(options, command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{options:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn streams_and_arguments_are_the_programs() {
    let mut command = Command::new(quartier());
    command.args(["run", "--force", "--quiet", "--", "sh", "-c", "cat; echo \"$0|$1\" >&2", "a b"]);
    command.arg("c\"d").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let mut stdin = child.stdin.take().unwrap();
    let input = bytes.clone();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.stdout == bytes);
    assert_eq!(text(&output.stderr), "a b|c\"d\n");
}

#[test]
fn a_report_names_every_process_of_the_tree() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(
        &["--force", "--report", path],
        &["sh", "-c", "sh -c 'exit 0'; sh -c 'kill -9 $$'; exit 0"],
    );
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3, "{report:#}");
    let known: Vec<_> =
        processes.iter().map(|process| process["resident_known"].as_bool().unwrap()).collect();
    // The one that was killed could not count its pages: unknown, not zero.
    assert_eq!(known.iter().filter(|known| !**known).count(), 1, "{report:#}");
    let killed = &processes[known.iter().position(|known| !known).unwrap()];
    assert!(killed["nodes"][0].get("resident_pages").is_none(), "{killed:#}");
}

#[test]
fn one_node_is_said_and_the_program_runs() {
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    if nodes.trim() != "0" {
        println!("skipped: this machine has nodes {nodes}");
        return;
    }
    let output = run(&[], &["echo", "here"]);
    assert_eq!(text(&output.stdout), "here\n");
    let said = text(&output.stderr);
    assert!(said.contains("one node") && said.lines().count() == 1, "{said}");
}

#[test]
fn options_that_leave_each_other_nothing_to_say_are_refused() {
    let cases: [(&[&str], &str); 14] = [
        (&["--pin", "none", "--strategy", "packed"], "--strategy says nothing"),
        (&["--pin", "none", "--strategy", "thesis"], "--strategy says nothing"),
        (&["--pin", "none", "--tree", "own"], "--tree says nothing"),
        (&["--policy", "none", "--pin", "node"], "--pin says nothing"),
        (&["--policy", "none", "--strategy", "spread"], "--strategy says nothing"),
        (&["--policy", "none", "--tree", "/tmp"], "--tree says nothing"),
        (&["--policy", "none", "--rung", "move"], "--rung says nothing"),
        (&["--policy", "first-touch", "--block", "64K"], "--block says nothing"),
        (&["--policy", "first-touch", "--split-huge"], "--split-huge says nothing"),
        (&["--policy", "interleave", "--initial-share", "5"], "--initial-share says nothing"),
        (&["--policy", "bind=0", "--rung", "auto"], "--rung says nothing"),
        (&["--rung", "none", "--block-max", "1M"], "--block-max says nothing"),
        (&["--rung", "none", "--always-copy"], "--always-copy says nothing"),
        (&["--rung", "none", "--split-huge"], "--split-huge says nothing"),
    ];
    for (options, words) in cases {
        let output = run(options, &["echo", "ran"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?} {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{options:?}: {said}");
        assert!(said.contains("because") && output.stdout.is_empty(), "{options:?}: {said}");
    }
    // These agree with each other.
    for options in [
        &["--policy", "none", "--pin", "none"][..],
        &["--policy", "first-touch", "--rung", "none", "--initial-share", "0"],
        &["--policy", "first-touch", "--strategy", "packed", "--pin", "cpu"],
        &["--rung", "none", "--initial-share", "50"],
    ] {
        let output = run(&[&["--force", "--quiet"], options].concat(), &["true"]);
        assert!(output.status.success(), "{options:?}: {output:?}");
    }
}

#[test]
fn a_report_that_cannot_be_opened_is_refused_before_the_program_starts() {
    for options in [&["--force"][..], &[]] {
        for path in ["/no/such/folder/report", "/"] {
            let output = run(&[options, &["--report", path]].concat(), &["echo", "ran"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(output.stdout.is_empty(), "it ran");
            assert!(said.contains(path) && said.lines().count() == 1, "{said}");
        }
    }
}

#[test]
fn a_report_that_is_lost_leaves_the_status_to_the_program() {
    for quiet in [&[][..], &["--quiet"]] {
        let options = [&["--force", "--tree", "own", "--report", "/dev/full"], quiet].concat();
        let output = run(&options, &["sh", "-c", "echo ran; exit 7"]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"ran\n"[..]), "{said}");
        let lost: Vec<_> = said.lines().filter(|line| line.contains("/dev/full")).collect();
        assert!(lost.len() == 1 && lost[0].starts_with("quartier: the report is lost"), "{said}");
    }
    // Standard error is gone: nobody can be told, and the program is not to blame.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(quartier());
    command.args(["run", "--force", "--json", "--", "sh", "-c", "exit 7"]).stderr(writer);
    assert_eq!(command.stdin(Stdio::null()).status().unwrap().code(), Some(7));
}

#[test]
fn a_report_replaces_the_last_one_only_when_the_program_ran() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    std::fs::write(&old, "the last one").unwrap();
    for path in [&old, &new] {
        let path = path.to_str().unwrap();
        let output = run(&["--force", "--report", path, "--policy", "bind=99"], &["true"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let script = "cat \"$0\"; exec /nonexistent";
        let output = run(&["--force", "--quiet", "--report", path], &["sh", "-c", script, path]);
        let before = if path.ends_with("old") { "the last one" } else { "" };
        assert_eq!(text(&output.stdout), before, "{output:?}");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok(), "{written}");
        std::fs::write(&old, "the last one").unwrap();
    }
    std::fs::remove_file(&new).unwrap();
    run(&["--force", "--report", new.to_str().unwrap()], &["no-such-command"]);
    run(&["--report", new.to_str().unwrap(), "--policy", "bind=99"], &["true"]);
    assert!(!new.exists(), "an empty report was left");
}

#[test]
fn nobody_reads_the_summary_and_the_program_is_not_harmed() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(quartier())
        .args(["run", "--force", "--", "sh", "-c", "exit 3"])
        .stdin(Stdio::null())
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn runs_share_a_tree_while_they_last_and_leave_none() {
    let directory = tempfile::TempDir::new().unwrap();
    let at = directory.path().join("none");
    let output = run(&["--force", "--tree", at.to_str().unwrap()], &["true"]);
    let said = text(&output.stderr);
    assert!(output.status.success());
    assert!(
        said.contains("threads of other runs are not seen: there is no decision tree"),
        "{said}"
    );
    for options in [["--tree", "own"], ["--tree", "auto"], ["--strategy", "packed"]] {
        let output = run(&[&["--force", "--quiet"][..], &options].concat(), &["true"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{options:?}: {output:?}");
    }
}
