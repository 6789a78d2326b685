//! Yield points: chosen by a profile while requests run, read, and fixed by hand.

use super::jvm::{self, Jvm, degrade, ok};
use serde_json::Value;

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
    let list: Value =
        serde_json::from_str(&ok(&degrade(&["points", &jvm.pid(), "--json"]))).unwrap();
    is_the_same_as(&list, &chosen);
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

/// Programs are told what people are: the same points, with how often each is passed, and whether it is needed.
fn is_the_same_as(list: &Value, chosen: &[&str]) {
    assert_eq!(list["by"], "profile");
    assert!(list["profile"]["windows"].as_u64() >= Some(100), "{list}");
    let points = list["points"].as_array().unwrap();
    let is_chosen = |point: &&Value| point["chosen"].as_bool().unwrap();
    assert_eq!(points.iter().filter(is_chosen).count(), chosen.len(), "{list}");
    for line in chosen {
        let name = line.split('"').nth(1).unwrap();
        let point = points.iter().find(|point| point["point"] == name).expect(name);
        assert_eq!(point["needed"].as_bool().unwrap_or(false), line.contains("needed"), "{line}");
        assert_eq!(point["per_s"].is_null(), line.contains("not seen"), "{line}");
    }
    // Fibonacci by itself passes its entry too often; what was left out is listed too.
    assert!(points.iter().any(|point| !is_chosen(&point)), "{list}");
}
