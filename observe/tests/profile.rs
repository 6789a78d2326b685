//! A program that this test runs is profiled on this machine: where it ran, where it waited, and for what.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

use quartier_model::{Frame, Happening, Recording};
use quartier_observe::Host;
use quartier_observe::profile::{Profiler, Unprofiled};

/// Runs it on any CPU. `None`: nothing can be profiled here.
fn profile(command: &mut Command) -> Option<Recording> {
    let host = Host::live();
    let online = host.machine().unwrap().cpus().iter().map(|cpu| cpu.os_id.0).collect();
    let profiler = match Profiler::open(&host, &online, 997) {
        Ok(profiler) => profiler,
        Err(why @ (Unprofiled::NotPermitted | Unprofiled::Unsupported)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    let mut child = command.spawn().unwrap();
    let (running, ended) = channel();
    let recorder = std::thread::spawn(move || profiler.record(Path::new("/"), &ended));
    assert!(child.wait().unwrap().success());
    drop(running);
    Some(recorder.join().unwrap())
}

fn stack(recording: &Recording, stack: u32) -> Vec<&Frame> {
    let frames = recording.stacks[stack as usize].iter();
    frames.map(|frame| &recording.frames[*frame as usize]).collect()
}

#[test]
fn a_shell_and_what_it_starts_are_seen_running_and_waiting() {
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.1; true | cat";
    let Some(recording) = profile(Command::new("sh").args(["-c", script])) else { return };
    let mut modules = std::collections::BTreeSet::new();
    let (mut nr_ran, mut sleepers) = (0, std::collections::BTreeSet::new());
    for event in &recording.events {
        match event.what {
            Happening::Ran { stack: at, .. } => {
                nr_ran += 1;
                modules.extend(stack(&recording, at).iter().map(|frame| frame.module.clone()));
            }
            Happening::Waits { stack: at, .. } => {
                let frames = stack(&recording, at);
                if frames.iter().any(|frame| frame.function.contains("nanosleep")) {
                    sleepers.insert(event.tid);
                }
            }
            _ => {}
        }
    }
    assert!(nr_ran > 5, "{nr_ran} looks; {} lost", recording.nr_lost);
    assert!(
        modules.iter().any(|module| module == "dash" || module == "bash" || module == "sh"),
        "{modules:?}"
    );
    let is_hidden = recording.frames.iter().any(|frame| frame.function == "kernel");
    assert!(!sleepers.is_empty() || is_hidden, "{:?}", recording.frames);
    // Who sleeps is woken, though it ends at once then.
    let is_woken = |tid: &u32| {
        recording.events.iter().any(|event| event.tid == *tid && event.what == Happening::Woken)
    };
    assert!(!recording.has_wakeups || sleepers.iter().all(is_woken), "{sleepers:?}");
    let is_in_order = recording.events.is_sorted_by_key(|event| event.at_ns);
    assert!(is_in_order || recording.nr_lost > 0);
    // The shell, sleep, and both ends of the pipe.
    let ended = recording.events.iter().filter(|event| event.what == Happening::Ended);
    assert!(ended.count() >= 3, "{:?}", recording.events.len());
}
