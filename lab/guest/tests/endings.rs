//! However a run ends, it says how, and leaves nothing behind.

mod common;

use std::fs;
use std::process::Command;

use common::{
    FAST, Running, Signal, alone, assert_status, descendants, lab, quartier, ready, runs,
    send_signal, text, wait_until,
};

/// Whether nothing was left in a folder for temporary files.
fn is_empty(folder: &tempfile::TempDir) -> bool {
    fs::read_dir(folder.path()).unwrap().next().is_none()
}

#[test]
fn an_interrupt_is_the_commands_to_handle() {
    if !ready(FAST) {
        return;
    }
    let script = "trap 'echo handled; exit 5' INT; echo ready; while :; do sleep 1; done";
    let temporary = tempfile::tempdir().unwrap();
    let mut command = lab(FAST, &["--nodes=1"], &["sh", "-c", script]);
    command.env("TMPDIR", temporary.path());
    let mut running = Running::start(command);
    running.wait_for("ready");
    let processes = descendants(running.child.id());
    assert!(processes.iter().any(|(_, name)| name.starts_with("qemu-system")), "{processes:?}");
    running.signal(Signal::INT);
    assert_eq!(running.status(), 5);
    running.wait_for("handled");
    assert!(processes.iter().all(|(id, _)| !runs(*id)), "{processes:?}");
    assert!(is_empty(&temporary));
}

#[test]
fn a_second_interrupt_ends_what_ignores_the_first() {
    if !ready(FAST) {
        return;
    }
    let script = "trap '' INT; echo ready; while :; do sleep 1; done";
    let mut running = Running::start(lab(FAST, &["--nodes=1"], &["sh", "-c", script]));
    running.wait_for("ready");
    let processes = descendants(running.child.id());
    running.signal(Signal::INT);
    std::thread::sleep(std::time::Duration::from_millis(500));
    running.signal(Signal::INT);
    assert_eq!(running.status(), 130);
    assert!(processes.iter().all(|(id, _)| !runs(*id)), "{processes:?}");
}

#[test]
fn killing_quartier_ends_everything() {
    if !ready(FAST) {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut command = lab(FAST, &["--nodes=1"], &["sh", "-c", "echo ready; sleep 1000"]);
    command.env("TMPDIR", temporary.path());
    let mut running = Running::start(command);
    running.wait_for("ready");
    let processes = descendants(running.child.id());
    assert!(processes.len() >= 2, "{processes:?}");
    running.signal(Signal::KILL);
    assert_eq!(running.status(), 137);
    wait_until("the guest's end", || processes.iter().all(|(id, _)| !runs(*id)));
    assert!(is_empty(&temporary));
}

#[test]
fn a_panic_is_told_with_the_console() {
    if !ready(FAST) {
        return;
    }
    let root = fs::metadata("/proc/self").map(|data| std::os::unix::fs::MetadataExt::uid(&data));
    let options: &[&str] =
        if root.unwrap() == 0 { &["--nodes=1"] } else { &["--nodes=1", "--root"] };
    let script = "echo before; sleep 0.2; echo c > /proc/sysrq-trigger; sleep 100";
    let _alone = alone();
    let output = lab(FAST, options, &["sh", "-c", script]).output().unwrap();
    assert_status(&output, 125);
    assert_eq!(text(&output.stdout), "before\n");
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("quartier: the guest's kernel panicked"), "{stderr}");
    assert!(stderr.contains("Kernel panic - not syncing: sysrq triggered crash"), "{stderr}");
}

#[test]
fn a_hang_is_told() {
    if !ready(FAST) {
        return;
    }
    let options = ["--nodes=1", "--hang-timeout=3"];
    let mut running = Running::start(lab(FAST, &options, &["sh", "-c", "echo ready; sleep 1000"]));
    running.wait_for("ready");
    let processes = descendants(running.child.id());
    let (qemu, _) = processes.iter().find(|(_, name)| name.starts_with("qemu-system")).unwrap();
    send_signal(*qemu, Signal::STOP);
    assert_eq!(running.status(), 125);
    let mut stderr = String::new();
    let mut stream = running.child.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stream, &mut stderr).unwrap();
    assert!(stderr.contains("hangs: it has said nothing for"), "{stderr}");
    assert!(processes.iter().all(|(id, _)| !runs(*id)), "{processes:?}");
}

#[test]
fn a_lost_file_server_is_told() {
    if !ready(FAST) {
        return;
    }
    let script = "echo ready; while :; do sleep 1; done";
    let mut running = Running::start(lab(FAST, &["--nodes=1"], &["sh", "-c", script]));
    running.wait_for("ready");
    let processes = descendants(running.child.id());
    let (server, _) = processes.iter().find(|(_, name)| name == "quartier").unwrap();
    send_signal(*server, Signal::KILL);
    assert_eq!(running.status(), 125);
    assert!(processes.iter().all(|(id, _)| !runs(*id)), "{processes:?}");
}

#[test]
fn time_limits_and_signals_have_their_own_statuses() {
    if !ready(FAST) {
        return;
    }
    let run = |options: &[&str], script: &str| {
        let _alone = alone();
        lab(FAST, options, &["sh", "-c", script]).output().unwrap()
    };
    let output = run(&["--nodes=1", "--timeout=8"], "sleep 1000");
    assert_status(&output, 124);
    assert!(text(&output.stderr).contains("--timeout 8 s"), "{}", text(&output.stderr));
    // A process that outlives the command neither holds the run up nor loses the command's words.
    let output = run(&["--nodes=1"], "sleep 1000 & yes | head -n 20000; kill -s TERM $$");
    assert_status(&output, 143);
    assert_eq!(output.stdout.len(), 40_000);
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence_before_anything_starts() {
    let not_a_kernel = tempfile::NamedTempFile::new().unwrap();
    fs::write(not_a_kernel.path(), "#!/bin/sh\n").unwrap();
    let not_a_kernel = not_a_kernel.path().to_str().unwrap();
    let cases: [(&[&str], &str); 11] = [
        (&["--", "no-such-program"], "no folder of the PATH"),
        (&["--", "/no/such/program"], "no such file"),
        (&["--", "/etc"], "not an executable"),
        (&["--nodes=0", "--", "true"], "0 nodes"),
        (&["--nodes=129", "--", "true"], "QEMU's 128"),
        (&["--cpus-per-node=100", "--", "true"], "CPUs are more"),
        (&["--mem=64M", "--", "true"], "too little"),
        (&["--nodes=2", "--distance=9", "--", "true"], "cannot be"),
        (&["--kernel", not_a_kernel, "--", "true"], "not a Linux x86-64 kernel"),
        (&["--kernel", "/no/such/kernel", "--", "true"], "/no/such/kernel"),
        (&["--kernel", "5.4", "--", "true"], "no suite of the archive has it"),
    ];
    for (args, words) in cases {
        let output = Command::new(quartier()).args(["lab", "run"]).args(args).output().unwrap();
        let stderr = text(&output.stderr);
        // Others may be looking in the archive at this moment.
        let stderr =
            stderr.trim_start_matches("quartier: waiting for another quartier that is fetching\n");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("quartier: ") && stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
