//! What cannot be done is refused in a sentence that says why, and the JVM serves on.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::CONFIG;
use super::jvm::{Jvm, degrade, is_refusal, ok, refused};
use crate::common;

#[test]
fn what_is_no_jvm_is_not_signalled() {
    let mut ended = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
    let gone = ended.id().to_string();
    ended.wait().unwrap();
    refused(&["attach", &gone], &format!("there is no process {gone}"));
    // That one is alive when this ends.
    let own = std::process::id().to_string();
    for command in ["attach", "detach", "status", "why", "points"] {
        refused(&[command, &own], "is not a JVM");
    }
    refused(&["attach", "0"], "give a whole number from 1");
    refused(&["attach", "java"], "give a whole number from 1");
}

#[test]
fn a_second_agent_and_a_wrong_file_are_refused() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    let pid = jvm.pid();
    let wrong = jvm.file("wrong.toml", "policy = \"best\"\n");
    refused(&["attach", &pid, "--config", &wrong], "wrong.toml:1:1: policy \"best\" is none of");
    refused(&["attach", &pid, "--config", "/nowhere/degrade.toml"], "is not there for process");
    refused(&["detach", &pid], "no agent is active in process");
    refused(&["points", &pid], "no agent is active in process");
    let config = jvm.file("degrade.toml", CONFIG);
    ok(&degrade(&["attach", &pid, "--config", &config]));
    refused(&["attach", &pid], "an agent is active in process");
    refused(&["why", &pid, "--config", &config], "ask without a file");
    assert_eq!(jvm.get("/light").unwrap(), 200);
    ok(&degrade(&["detach", &pid]));
    refused(&["detach", &pid], "no agent is active in process");
    assert_eq!(jvm.get("/light").unwrap(), 200);
}

#[test]
fn a_jvm_that_takes_no_agent_says_which_option_it_is() {
    for (option, why) in [
        ("-XX:+DisableAttachMechanism", "runs with -XX:+DisableAttachMechanism"),
        ("-XX:-EnableDynamicAgentLoading", "runs with -XX:-EnableDynamicAgentLoading"),
    ] {
        let Some(jvm) = Jvm::start(&[option]) else { return };
        refused(&["attach", &jvm.pid()], why);
        assert_eq!(jvm.get("/light").unwrap(), 200, "{option}: {}", jvm.said());
    }
}

#[test]
fn a_java_without_instrumentation_says_what_it_takes() {
    let Some(jvm) = Jvm::start_of_modules("java.management,jdk.httpserver") else { return };
    refused(&["attach", &jvm.pid()], "it needs the module java.instrument");
    assert_eq!(jvm.get("/light").unwrap(), 200, "{}", jvm.said());
}

/// It does not take the signal, and listens from the start.
#[test]
fn a_jvm_that_leaves_signals_alone_takes_one_all_the_same() {
    let Some(jvm) = Jvm::start(&["-Xrs"]) else { return };
    ok(&degrade(&["attach", &jvm.pid()]));
    assert_eq!(jvm.get("/light").unwrap(), 200);
}

#[test]
fn another_users_jvm_is_left_alone() {
    let Some(jvm) = Jvm::start(&[]) else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be somebody else");
        return;
    }
    // Where the build is may be nobody's business.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let copy = folder.path().join("quartier");
    std::fs::copy(common::quartier(), &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    const NOBODY: u32 = 65534;
    let output = Command::new(copy)
        .args(["degrade", "attach", &jvm.pid()])
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    is_refusal(&output, "is of user 0, and this is user 65534");
}
