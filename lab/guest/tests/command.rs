//! A command in a guest runs as if it were on this machine.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::thread;

use common::{FAST, Running, alone, assert_status, complaints, lab, ready, text};

#[test]
fn user_folder_environment_files_and_status_are_the_callers() {
    let kernel = "6.12";
    if !ready(kernel) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (kept, written) = (folder.path().join("kept"), folder.path().join("written"));
    fs::create_dir(&written).unwrap();
    fs::write(&kept, "from the host").unwrap();
    let script = r#"
        echo "$0|$1|$2|$WORD|$(pwd)|$(umask)|$(id -u)|$(hostname)|$(uname -r)"
        cat kept; echo
        echo changed > kept; cat kept; rm kept; echo also > new; mkdir /new-folder
        echo kept > written/file; mkdir written/folder; mv written/file written/folder/moved
        find / -xdev -maxdepth 2 > /dev/null
        getent hosts localhost > /dev/null && echo loopback
        echo complaint >&2
        exit 7
    "#;
    let mut command = lab(
        kernel,
        &["--nodes=2", "--rw=written", "--report=report.json"],
        &["sh", "-c", script, "zero", "a b", "*"],
    );
    let _alone = alone();
    let output = command.current_dir(folder.path()).env("WORD", "wörd\n2").output().unwrap();
    assert_status(&output, 7);
    assert_eq!(complaints(&output), "complaint\n");
    let stdout = text(&output.stdout);
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let umask = fs::read_to_string("/proc/self/status").unwrap();
    let umask = umask.lines().find_map(|line| line.strip_prefix("Umask:\t")).unwrap();
    let place = folder.path().display();
    let start = format!("zero|a b|*|wörd\n2|{place}|{umask}|{uid}|{}|6.12.", hostname.trim());
    assert!(stdout.starts_with(&start), "{stdout}\n{start}");
    assert!(stdout.ends_with("\nfrom the host\nchanged\nloopback\n"), "{stdout}");

    assert_eq!(fs::read_to_string(&kept).unwrap(), "from the host");
    assert!(!folder.path().join("new").exists() && !fs::exists("/new-folder").unwrap());
    assert_eq!(fs::read_to_string(written.join("folder/moved")).unwrap(), "kept\n");

    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    for part in [r#""kernel":"6.12."#, r#""cpus":[2,2]"#, r#""exit_status":7"#, r#""boot_ms":"#] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn megabytes_pass_through_unchanged_and_in_order() {
    if !ready(FAST) {
        return;
    }
    // Every byte value, at no fixed distance.
    let data: Vec<u8> =
        (0u32..6 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut command = lab(FAST, &["--nodes=1"], &["sh", "-c", "tee /dev/stderr"]);
    let _alone = alone();
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), data.clone());
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_status(&output, 0);
    assert!(output.stdout == data, "standard output differs");
    assert!(output.stderr == data, "standard error differs");
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    if !ready(FAST) {
        return;
    }
    let mut running = Running::start({
        let mut command = common::lab(FAST, &["--nodes=1"], &["yes"]);
        command.stderr(Stdio::null());
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg("\"$@\" | head -n 2; echo ended").arg("sh");
        shell.arg(command.get_program()).args(command.get_args());
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        shell
    });
    assert_eq!(running.status(), 0);
    running.wait_for("y\ny\nended\n");
}

#[test]
fn a_terminal_is_a_terminal_in_the_guest() {
    if !ready(FAST) {
        return;
    }
    // `script` gives the program a terminal of its own and passes our keys on.
    let program = common::quartier().display();
    let inner = "tty; stty size; test -t 2 && echo three; \
                 trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 1; done";
    let line = format!(
        "stty rows 33 cols 99; {program} lab run --kernel {FAST} --nodes=1 -- sh -c \"{inner}\""
    );
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::start(script);
    running.wait_for("ready");
    let mut keys = running.child.stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    assert_eq!(running.status(), 9, "{}", running.said());
    let said = running.said();
    for part in ["/dev/pts/0\r\n", "33 99\r\n", "three\r\n", "interrupted\r\n"] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
}
