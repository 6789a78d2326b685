//! `quartier lab compare`: policies in real kernels, sweeps over CPUs, and what fails or is refused.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A small guest, for what does not depend on its size.
const SMALL: [&str; 5] = ["--snapshots", "--nodes", "2", "--cpus-per-node", "1"];

fn compare(args: &[&str]) -> Command {
    let mut command = Command::new(common::quartier());
    command.args(["lab", "compare"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(args: &[&str]) -> Output {
    compare(args).output().unwrap()
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn policy<'a>(report: &'a Value, name: &str) -> &'a Value {
    let policies = report["policies"].as_array().unwrap();
    policies.iter().find(|policy| policy["policy"] == name).unwrap()
}

/// The share of all remote commands that the most asked node got, percent.
fn most_asked_percent(policy: &Value) -> f64 {
    let asked = policy["asked"].as_array().unwrap().iter();
    let of_node = |node: &Value| -> f64 {
        node["remote"].as_object().unwrap().values().filter_map(Value::as_f64).sum()
    };
    let asked: Vec<_> = asked.map(of_node).collect();
    100.0 * asked.iter().copied().fold(0.0, f64::max) / asked.iter().sum::<f64>()
}

/// Every policy takes effect: what one thread filled is asked of its node under first touch, and of all when it
/// lies all around.
#[test]
fn policies_are_compared_by_what_they_move() {
    if !common::can_boot("7.3") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (report, page, kept) = (path("compare.json"), path("compare.html"), path("kept"));
    let program = common::program("eighths");
    // Of the kernel's ticks, which come as a slow machine has time for them, next to nothing is asked of the first node then.
    let guest = ["--snapshots", "--kernel", "7.3", "--timeout", "400", "--slow-time=10"];
    let guest = [&guest[..], &["--phase=parallel", "--slow-clocks=auto"]].concat();
    let options = ["--runs", "1", "--hand", "numactl --interleave=0,1", "--recordings", &kept];
    let options = [&options[..], &["--cpus-per-node", "1"]].concat();
    let outputs = ["--report", &report, "--html", &page, "--"];
    let command = [program.to_str().unwrap(), "16", "4"];
    let output = run(&[&guest[..], &options, &outputs, &command].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text} {said}");
    // A counted guest is slower than what is modelled, and that was found out.
    let times = said.lines().find_map(|line| line.strip_prefix("quartier: clocks wait "));
    let times: u32 = times.unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((2..200).contains(&times), "{said}");
    assert!(text.contains(&format!("waited {times} times as long")), "{text}");
    assert!(text.contains("Moved between nodes") && text.contains("(not measured)"), "{text}");
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
    let report = read(&report);
    let policies = report["policies"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
    let placed = ["first-touch", "interleave", "numa-balancing", "numad", "hand"];
    assert_eq!(names, [&placed[..], &["quartier", "quartier-balanced"]].concat());
    for policy in policies {
        if policy["policy"] == "numad" && policy["absent"].is_string() {
            eprintln!("not tested: {}", policy["absent"]);
            continue;
        }
        assert!(policy["runs"][0]["q_mib"].as_f64().unwrap() > 1.0, "{policy}");
    }
    let asked = |name: &str| most_asked_percent(policy(&report, name));
    let (first, around) = (asked("first-touch"), asked("interleave"));
    // Where the kernel moves the thread that fills, half of it lies on another node.
    assert!(first > around + 10.0 && around < 40.0, "{first} %, {around} %");
    let tried = policy(&report, "hand")["tried"].as_array().unwrap();
    let tried: Vec<_> = tried.iter().map(|trial| trial["detail"].as_str().unwrap()).collect();
    assert_eq!(tried, ["numactl --interleave=0,1", "as it is"]);
    // What nobody bound is counted once, and found again.
    let again = path("again.json");
    let output = run(&["--from", &kept, "--phase", "parallel", "--report", &again]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&again), report);
}

/// Two policies on two of four CPUs and on all. The program sees its CPUs, and cannot have more.
#[test]
fn a_sweep_is_of_cpus_that_the_program_cannot_leave() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, again, console, kept) = (path("1.json"), path("2.json"), path("log"), path("kept"));
    let program = common::program("eighths");
    let script = format!(
        "taskset -p -c 0-3 $$ && test $(nproc) = {{cpus}} && exec {} 4 {{cpus}}",
        program.display()
    );
    let guest = ["--kernel", "6.12", "--nodes", "2", "--timeout", "400", "--console", &console];
    let options = ["--policies", "first-touch,quartier", "--runs", "1", "--sweep", "2"];
    let kept = ["--recordings", &kept, "--report", &first, "--", "sh", "-c", &script];
    let output = run(&[&guest[..], &options, &kept].concat());
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    let errors = String::from_utf8(errors).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("Modelled speed-up") && text.contains("2 CPUs  4 CPUs"), "{text}");
    for nr in 1..=4 {
        let lines = errors.lines().filter(|line| line.contains(&format!("run {nr} of 4: ")));
        assert_eq!(lines.count(), 1, "{errors}");
    }
    let consoles = fs::read(&console).unwrap();
    let consoles = String::from_utf8_lossy(&consoles);
    assert_eq!(consoles.matches("quartier: run ").count(), 4, "{consoles}");
    assert!(consoles.matches("SeaBIOS (version").count() >= 4, "{consoles}");
    let report = read(&first);
    for curve in report["sweep"]["curves"].as_array().unwrap() {
        let cpus = |point: &Value| point["nr_cpus"].as_u64().unwrap();
        let points: Vec<_> = curve["points"].as_array().unwrap().iter().map(cpus).collect();
        assert_eq!(points, [2, 4], "{curve}");
    }
    assert_eq!(report["sweep"]["curves"].as_array().unwrap().len(), 2);
    let output = run(&["--from", kept[1], "--report", &again]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&again), report);
}

/// A folder as the only one of the PATH, with these programs.
fn search_path(folder: &Path, programs: &[&str]) -> PathBuf {
    let path = folder.join("bin");
    fs::create_dir(&path).unwrap();
    for program in programs {
        let from = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
        let from = from.into_iter().find(|path| path.exists()).unwrap();
        symlink(from, path.join(program)).unwrap();
    }
    path
}

#[test]
fn what_cannot_be_counted_is_told_and_the_rest_is_compared() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let report = report.to_str().unwrap();
    let path = search_path(folder.path(), &["sh", "grep", "numactl", "true"]);
    let by_hand =
        ["--hand", "no-such-program", "--hand", "sh -c 'exit 4'", "--hand-instead", "true"];
    let options = ["--policies", "first-touch,interleave,numad,hand", "--runs", "1"];
    let script = "if grep -q interleave /proc/self/numa_maps; then echo broken >&2; exit 5; fi";
    let command = ["--report", report, "--kernel", "6.12", "--", "sh", "-c", script];
    let args = [&by_hand[..], &SMALL, &options, &command].concat();
    let output = compare(&args).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = read(report);
    let absent = |name: &str| policy(&report, name)["absent"].as_str().unwrap_or("").to_owned();
    assert_eq!(absent("first-touch"), "");
    assert_eq!(absent("interleave"), "the command ended with status 5: broken");
    assert!(absent("numad").contains("numad is not installed"), "{}", absent("numad"));
    let hand = policy(&report, "hand");
    let tried = hand["tried"].as_array().unwrap();
    assert_eq!(tried[2]["detail"], "instead: true");
    // Whichever was faster of the two that did not fail.
    assert!(tried[2..].iter().any(|trial| trial["detail"] == hand["detail"]), "{hand}");
    let failed: Vec<_> = tried.iter().map(|trial| &trial["failed"]).collect();
    assert!(failed[0].as_str().unwrap().contains("no folder of the PATH"), "{failed:?}");
    assert!(failed[1].as_str().unwrap().contains("status 4: it said nothing"), "{failed:?}");
    // The last is that of nobody who binds anything.
    assert_eq!(failed[2..], [&Value::Null; 2]);
}

#[test]
fn where_all_fails_the_reason_is_told_once() {
    if !common::can_boot("7.3") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let kept = folder.path().join("kept");
    let kept = kept.to_str().unwrap();
    let script = "echo first >&2; echo it broke >&2; exit 3";
    let options = ["--policies", "first-touch,numa-balancing", "--recordings", kept];
    let command = ["--kernel", "7.3", "--", "sh", "-c", script];
    for args in [[&SMALL[..], &options, &command].concat(), vec!["--from", kept]] {
        let output = run(&args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let last = text.lines().last().unwrap();
        assert_eq!(last.matches("status 3: it broke").count(), 1, "{text}");
        assert!(last.contains("first touch, kernel NUMA balancing"), "{text}");
    }
}

/// Whoever is interrupted has what was counted so far, and no guest any more.
#[test]
fn an_interrupt_ends_everything() {
    if !common::can_boot("6.12") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (kept, started) = (path("kept"), path("started"));
    // The first run ends by itself, the second does not.
    let script =
        format!("if [ -e {started} ]; then touch {started}.2; sleep 600; fi; touch {started}");
    let rw = format!("--rw={}", folder.path().display());
    let options = ["--policies", "first-touch", "--runs", "3", "--recordings", &kept, &rw];
    let command = ["--kernel", "6.12", "--", "sh", "-c", &script];
    let mut child = compare(&[&SMALL[..], &options, &command].concat()).spawn().unwrap();
    while !Path::new(&format!("{started}.2")).exists() {
        if child.try_wait().unwrap().is_some() {
            panic!("it has ended before: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap();
    assert!(!children.trim().is_empty(), "there is no guest");
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.contains("1 of 3 runs") && last.contains(&format!("--from {kept}")), "{text}");
    for id in children.split_whitespace() {
        assert!(!Path::new("/proc").join(id).exists(), "process {id} is still there");
    }
    let output = run(&["--from", &kept]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_cannot_be_compared_is_refused_before_a_guest_boots() {
    let folder = TempDir::new().unwrap();
    let kept = folder.path().to_str().unwrap();
    fs::write(folder.path().join("runs.jsonl"), "{}\n").unwrap();
    for (args, part) in [
        (&["--sweep", "0", "--", "true"][..], "from 1 to"),
        (&["--sweep", "1,x", "--", "true"], "from 1 to"),
        (&["--sweep", "1,9", "--", "true"], "the guest has 8 CPUs"),
        (&["--sweep", "4,1,4", "--", "true"], "4 twice"),
        (&["--sweep", "8", "--", "true"], "counted anyway"),
        (&["--slow-clocks", "0", "--", "true"], "from 1 to"),
        (&["--slow-clocks", "auto", "--repeatable", "--", "true"], "is a nanosecond"),
        (&["--hand", "", "--", "true"], "no word"),
        (&["--hand-instead", "sh -c '", "--", "true"], "quote is not closed"),
        (&["--from", kept], "is damaged"),
        (&["--from", "/nowhere/at.all"], "cannot read"),
        (&["--from", kept, "--sweep", "1"], "cannot be used with"),
        (&["--from", kept, "--kernel", "6.12"], "cannot be used with"),
        (&["--from", kept, "--geometry", "tsar"], "cannot be used with"),
        (&["--from", kept, "--", "true"], "cannot be used with"),
        (&["--", "no-such-program-here"], "no-such-program-here"),
    ] {
        let output = run(args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}
