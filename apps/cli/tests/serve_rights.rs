//! `quartier serve` for those who may do less than root: what is not done is said with the remedy, and the rest works. And what
//! others may do to its files.

mod common;
mod serving;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serving::{Served, free_port, has_two_cpus, refused_under, serves};

const NOBODY: &str = "65534";

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can become somebody who may do less");
    }
    is_root
}

/// One who is not root.
fn as_nobody() -> [&'static str; 8] {
    let own = ["--clear-groups", "env", "-u", "XDG_RUNTIME_DIR"];
    ["setpriv", "--reuid=65534", "--regid=65534", own[0], own[1], own[2], own[3], "TMPDIR=/tmp"]
}

fn start_under(before: &[&str], options: &[&str], name: &str) -> Served {
    let port = free_port();
    let (server, number) = (serves(), port.to_string());
    Served::start_under(before, options, name, port, &[&server, &number, "2"])
}

#[test]
fn whoever_may_not_steer_serves_and_is_told_what_it_takes() {
    if !is_root() || !has_two_cpus() {
        return;
    }
    let served = start_under(&as_nobody(), &["--copies", "2", "--steer"], "nobody");
    served.wait_until_all_serve(2);
    (0..20).for_each(|_| assert!(served.ask().is_ok()));
    let status = served.status().unwrap();
    let why = status["why_not_steered"].as_str().unwrap();
    assert!(why.contains("CAP_BPF and CAP_NET_ADMIN; start as root"), "{why}");
    let said = served.stop();
    let steer: Vec<_> = said.lines().filter(|line| line.contains("--steer: ")).collect();
    assert_eq!(steer.len(), 2, "what was set, and why the rest was not: {said}");
    assert!(steer.iter().any(|line| line.contains("0 settings changed")), "{said}");
    let why = steer
        .iter()
        .any(|line| line.contains("stay as they are") && line.contains("start as root"));
    let is_any = std::fs::read_dir("/sys/class/net").is_ok_and(|it| it.count() > 1);
    assert!(why || !is_any, "{said}");
}

#[test]
fn root_without_the_capabilities_is_told_the_same() {
    if !is_root() {
        return;
    }
    let less = ["setpriv", "--bounding-set=-bpf,-net_admin,-sys_admin", "--inh-caps=-all"];
    let served = start_under(&less, &["--copies", "1"], "less");
    served.ask().unwrap();
    let why = served.status().unwrap()["why_not_steered"].as_str().unwrap().to_owned();
    assert!(why.contains("CAP_BPF and CAP_NET_ADMIN"), "{why}");
    assert!(served.stop().contains("connections are not steered: "));
}

#[test]
fn servers_that_may_not_be_looked_into_are_not_said_to_be_slow() {
    if !is_root() {
        return;
    }
    let less = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all"];
    let another = ["setpriv", "--reuid", NOBODY, "--clear-groups"];
    let port = free_port().to_string();
    let server = [serves(), port, "1".to_owned()];
    let words: Vec<&str> = another.into_iter().chain(server.iter().map(String::as_str)).collect();
    let said = refused_under(&less, &["--start-timeout", "2"], &words);
    assert!(said.contains("is unknown where copy 0 listens: process "), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE, or start the servers as its own user"), "{said}");
    let said = refused_under(&[], &["--start-timeout", "1"], &["sleep", "60"]);
    assert!(said.contains("copy 0 listens on no port after 1 s"), "{said}");
}

/// All below a folder, with what others may do to it.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = vec![(folder.to_owned(), mode(folder))];
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(modes(&entry.path())),
            kind if kind.is_symlink() => {}
            _ => found.push((entry.path(), mode(&entry.path()))),
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn others_may_go_through_and_neither_hold_nor_write_anything_whatever_the_umask_is() {
    if !is_root() {
        return;
    }
    let site = tempfile::tempdir().unwrap();
    let config = site.path().join("secret.conf");
    std::fs::write(&config, "{copy}\n").unwrap();
    std::fs::set_permissions(&config, PermissionsExt::from_mode(0o640)).unwrap();
    let config = config.to_str().unwrap();
    for umask in ["000", "077"] {
        let shell = ["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"];
        let options = ["--copies", "1", "--config", config];
        let served = start_under(&shell, &options, &format!("umask-{umask}"));
        let folder = PathBuf::from("/run/quartier-serve").join(&served.name);
        let found = modes(&folder);
        for (path, mode) in &found {
            let name = path.file_name().unwrap().to_str().unwrap();
            let expected = match name {
                _ if path.is_dir() => 0o711,
                "status.json" | "metrics" => 0o644,
                "secret.conf" => 0o640,
                _ => 0o600,
            };
            assert_eq!(*mode, expected, "{umask}: {name}: {mode:o}");
        }
        assert!(found.iter().any(|(path, _)| path.ends_with("lock")), "{found:?}");
        assert!(found.iter().any(|(path, _)| path.ends_with("copy-0/secret.conf")), "{found:?}");
        // Nobody else can hold the name.
        let lock = folder.join("lock").display().to_string();
        let mut flock = std::process::Command::new("setpriv");
        flock.args(["--reuid", NOBODY, "--clear-groups", "flock", "--nonblock", "--shared", &lock]);
        let output = flock.arg("true").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("Permission denied"), "{said}");
    }
}
