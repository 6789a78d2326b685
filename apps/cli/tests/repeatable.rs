//! `quartier lab count --repeatable`: the same run again gives the same counts.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

fn count(kernel: &str, options: &[&str], command: &[&str]) -> Output {
    let mut count = Command::new(common::quartier());
    count.args(["lab", "count", "--repeatable", "--kernel", kernel, "--timeout", "500"]);
    count.args(options).arg("--").args(command).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program of several threads, built once: a guest may be reading it.
fn threads() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| common::program("eighths")).to_str().unwrap()
}

/// A server of several processes, and its load, twice: identical too.
#[test]
fn two_runs_of_a_loaded_server_give_identical_counts_on_6_12() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = common::program("prefork");
    let server = server.to_str().unwrap();
    let load = format!("{server} ask 7000 2");
    let run = || {
        let command = [server, "serve", "7000", "2", "1"];
        let (report, said) = run(folder.path(), "6.12", &["--load", &load], &command);
        assert_eq!(said, "2 served\n");
        report
    };
    let first = run();
    assert!(first.contains("\"deterministic\""), "{first}");
    assert!(first == run(), "two runs differ: {first}");
}

/// The report and the output of a run on two nodes.
fn run(folder: &Path, kernel: &str, options: &[&str], command: &[&str]) -> (String, String) {
    let report = folder.join("report.json");
    let both = [&["--nodes", "2", "--report", report.to_str().unwrap()], options].concat();
    let output = count(kernel, &both, command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (fs::read_to_string(&report).unwrap(), text(&output.stdout))
}

fn check(kernel: &str, command: &[&str]) {
    if !common::can_boot(kernel) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let run = || run(folder.path(), kernel, &["--phase", "parallel"], command);
    let (first, said) = run();
    assert!(
        said.contains("\"node_of_thread\": [") && said.contains("\"wrong_bytes\": 0"),
        "{said}"
    );
    assert!(first.contains("\"deterministic\""), "{first}");
    let (again, _) = run();
    assert!(first == again, "{kernel}: two runs differ:\n{first}\n{again}");
}

#[test]
fn two_runs_of_threads_give_identical_counts_on_6_1() {
    check("6.1", &[threads(), "2", "4"]);
}

#[test]
fn two_runs_under_quartier_give_identical_counts_on_7_3() {
    let quartier = common::quartier().to_str().unwrap();
    check("7.3", &[quartier, "run", "--quiet", "--", threads(), "2", "4"]);
}

/// Where each of two runs says that lines go, who waits for memory and what code is executed.
#[test]
fn two_runs_tell_the_same_lines_on_7_3() {
    if !common::can_boot("7.3") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = common::program("stops_scaling");
    let command = [program.to_str().unwrap(), "counter", "2", "200000"];
    let run = || run(folder.path(), "7.3", &["--lines"], &command).0;
    let first = run();
    let told: serde_json::Value = serde_json::from_str(&first).unwrap();
    let lines = told["lines"]["most"].as_array().unwrap();
    let own = lines.iter().find(|line| !line["process"].is_null()).unwrap();
    assert_eq!(own["words"][0]["object"], "global_count", "{own}");
    assert!(lines.iter().any(|line| line["process"].is_null()), "the kernel has none");
    assert!(first == run(), "two runs differ: {first}");
}

#[test]
fn the_guest_has_the_files_that_are_named_and_no_others() {
    if !common::can_boot("6.1") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("script"), "cat \"$1\" \"$2\"\nread word || cat \"$0\".more\n").unwrap();
    fs::write(path("named"), "named\n").unwrap();
    fs::create_dir(path("asked")).unwrap();
    fs::write(path("asked/for"), "asked for\n").unwrap();
    fs::write(path("script.more"), "missing\n").unwrap();
    let asked = path("asked");
    let options = ["--nodes", "1", "--with-file", &asked, "--with-file", "/bin/cat"];
    let command = ["sh", &path("script"), &path("named"), &path("asked/for")];
    let output = count("6.1", &options, &command);
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "named\nasked for\n", "{said}");
    assert!(said.contains("script.more: No such file"), "the program's own error: {said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn what_a_repeatable_run_cannot_have_is_refused() {
    for (options, part) in [
        (&["--rw"][..], "sees no folder of this machine"),
        (&["--with-file", "/nowhere"], "/nowhere"),
    ] {
        if !common::can_boot("6.1") {
            return;
        }
        let output = count("6.1", options, &["true"]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
