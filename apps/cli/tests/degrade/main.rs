//! `quartier degrade` with real JVMs: in and out under load, every refusal, the page, the points, and why.
//! Skipped where the agent's jar was not built, but in CI.

#[path = "../common/mod.rs"]
mod common;
mod jvm;
mod page;
mod points;
mod refusals;
mod why;

use std::sync::atomic::Ordering;

use jvm::{Jvm, degrade, ok, refused};

/// Classes of requests, and one permit.
const CONFIG: &str = "\
permits = 1
metrics_port = 0

[[class]]
name = \"light\"
paths = \"/light\"

[[class]]
name = \"burning\"
paths = \"/burn\"
";

#[test]
fn it_goes_in_and_out_under_load_and_no_request_fails() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let config = jvm.file("degrade.toml", CONFIG);
    let load = jvm.load(&[("/light", 2), ("/burn", 2)]);
    for round in 0..20 {
        let said = ok(&degrade(&["attach", &jvm.pid(), "--config", &config]));
        assert!(said.contains("1 permits, 3 classes, mode on"), "round {round}: {said}");
        let before = load.nr_answered.load(Ordering::Relaxed);
        jvm::wait_for("requests under the agent", || {
            load.nr_answered.load(Ordering::Relaxed) > before + 5
        });
        if round % 10 == 0 {
            let status = jvm.status();
            assert_eq!(status["faults"], 0, "{status}");
            assert_eq!(status["permits"], 1, "{status}");
            let text = ok(&degrade(&["status", &jvm.pid()]));
            assert!(text.contains("burning") && text.contains("policy fair, mode on"), "{text}");
        }
        let said = ok(&degrade(&["detach", &jvm.pid()]));
        assert!(said.contains("the agent is out"), "{said}");
    }
    let failures = load.stop();
    assert!(failures.is_empty(), "{failures:?}");
    refused(&["status", &jvm.pid()], "no agent is active in process");
}

#[test]
fn without_a_file_it_is_fair_and_has_a_page() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let said = ok(&degrade(&["attach", &jvm.pid(), "--json"]));
    let status: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&status["policy"], &status["mode"]), (&"fair".into(), &"on".into()), "{status}");
    assert!(status["page"].as_str().unwrap().contains("//127.0.0.1:"), "{status}");
    assert!(status["config"].is_null(), "{status}");
}

#[test]
fn a_word_switches_it_off_until_the_file_says_otherwise() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    refused(&["mode", &jvm.pid(), "off"], "no agent is active in process");
    let config = jvm.file("degrade.toml", CONFIG);
    ok(&degrade(&["attach", &jvm.pid(), "--config", &config]));
    let load = jvm.load(&[("/light", 2), ("/burn", 4)]);
    jvm::wait_for("requests that wait", || jvm.status()["classes"][1]["waiting"] != 0);
    let said = ok(&degrade(&["mode", &jvm.pid(), "off"]));
    assert!(said.contains(&format!("mode off, until {config} is written again")), "{said}");
    let status: serde_json::Value =
        serde_json::from_str(&ok(&degrade(&["mode", &jvm.pid(), "dry-run", "--json"]))).unwrap();
    assert_eq!(status["mode"], "dry-run");
    jvm::wait_for("somebody who would wait", || jvm.status()["classes"][1]["would_wait"] != 0);
    let status = jvm.status();
    assert!(status["classes"].as_array().unwrap().iter().all(|class| class["waiting"] == 0));
    let text = ok(&degrade(&["status", &jvm.pid()]));
    assert!(text.contains("would have waited"), "{text}");
    assert!(load.stop().is_empty());
    jvm.file("degrade.toml", &format!("{CONFIG}\n"));
    jvm::wait_for("the file to be read again", || jvm.status()["mode"] == "on");
}

#[test]
fn the_page_keeps_no_program_from_ending() {
    assert_ne!(jvm::ends_by_itself(CONFIG), Some(false));
}

/// Its own /tmp, its own numbers of processes, and without the agent's jar: what a container has.
#[test]
fn a_container_is_no_border() {
    let Some(jvm) = Jvm::start_apart() else { return };
    let inside = format!("/proc/{}/root/tmp/degrade.toml", jvm.pid());
    std::fs::write(inside, CONFIG).unwrap();
    let said = ok(&degrade(&["attach", &jvm.pid(), "--config", "/tmp/degrade.toml"]));
    assert!(said.contains("1 permits"), "{said}");
    assert_eq!(jvm.get("/light").unwrap(), 200);
    assert_eq!(jvm.status()["config"], "/tmp/degrade.toml");
    ok(&degrade(&["detach", &jvm.pid()]));
    refused(
        &["attach", &jvm.pid(), "--config", "/proc/1/nothing.toml"],
        "is not there for process",
    );
}
