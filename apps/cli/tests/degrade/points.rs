//! Yield points: chosen by a profile while requests run, read, and fixed by hand.

use super::jvm::{self, Jvm, degrade, ok};

const CLASSES: &str = "\
permits = 1

[[class]]
name = \"light\"
paths = \"/light\"

[weave]
";

#[test]
fn a_profile_chooses_points_and_its_report_fixes_them() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let profiled = jvm.file("profiled.toml", &format!("{CLASSES}profile_s = 1\n"));
    ok(&degrade(&["attach", &jvm.pid(), "--config", &profiled]));
    assert_eq!(jvm.status()["points_by"], "profile-under-way");
    let load = jvm.load(&[("/burn", 3)]);
    jvm::wait_for("a choice", || jvm.status()["points_by"] == "profile");
    let report = ok(&degrade(&["points", &jvm.pid()]));
    let chosen: Vec<_> = report.lines().filter(|line| line.starts_with("    \"")).collect();
    // Nearly all of the time is in one small method that calls itself: nothing else can cover that.
    assert!(
        chosen.iter().any(|line| line.contains("Serves#") && line.contains("needed")),
        "{report}"
    );
    let covered = report.split("of which ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    // The rest is the JDK's own server, and what is not compiled yet.
    assert!(covered.parse::<f64>().unwrap() > 50.0, "{report}");
    ok(&degrade(&["detach", &jvm.pid()]));
    let fixed = jvm.file("fixed.toml", &format!("{CLASSES}{report}"));
    ok(&degrade(&["attach", &jvm.pid(), "--config", &fixed]));
    jvm::wait_for("yields at the points that the file names", || {
        let status = jvm.status();
        let classes = status["classes"].as_array().unwrap();
        classes.iter().any(|class| class["yields"].as_u64() > Some(10))
    });
    let status = jvm.status();
    assert_eq!(status["points_by"], "file");
    assert_eq!(status["points"].as_u64(), Some(chosen.len() as u64), "{report}{status}");
    assert_eq!(status["faults"], 0, "{status}");
    assert!(load.stop().is_empty());
}
