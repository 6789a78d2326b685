//! What cannot be read is refused with its path; nothing makes the reader panic.

mod fake_sys;

use fake_sys::FakeSys;
use proptest::prelude::*;
use quartier_observe::{Gathered, Pid, machine_from_json};

const NODE: &str = "sys/devices/system/node";
const CPU: &str = "sys/devices/system/cpu";

fn small() -> FakeSys {
    let fake = FakeSys::with_nodes(&[(0, "0-1"), (1, "2-3")]);
    for cpu in 0..4 {
        let pair = if cpu < 2 { "0-1" } else { "2-3" };
        fake.cache(cpu, 0, &[("level", "3"), ("shared_cpu_list", pair), ("size", "32768K")]);
        fake.write(&format!("{CPU}/cpu{cpu}/topology/core_id"), "0\n");
    }
    fake
}

#[test]
fn malformed_files_are_named() {
    let bad = [
        (format!("{CPU}/present"), "zero to three"),
        (format!("{CPU}/present"), ""),
        (format!("{CPU}/present"), "0-99999999"),
        (format!("{CPU}/online"), "0-"),
        (format!("{CPU}/cpu1/topology/core_id"), "first"),
        (format!("{CPU}/cpu1/cache/index0/level"), "0"),
        (format!("{CPU}/cpu1/cache/index0/shared_cpu_list"), "1..2"),
        (format!("{CPU}/cpu0/cache/index0/size"), "big"),
        (format!("{NODE}/online"), "\n"),
        (format!("{NODE}/node1/cpulist"), "2-x"),
        (format!("{NODE}/node1/meminfo"), "Node 1 MemTotal: lots\n"),
        (format!("{NODE}/node1/distance"), "20 10 20"),
        (format!("{NODE}/node1/distance"), "20 1000"),
        ("proc/sys/kernel/osrelease".to_owned(), ""),
    ];
    for (path, text) in bad {
        let fake = small();
        fake.write(&path, text);
        let is_kernel = path.contains("osrelease");
        let error = if is_kernel {
            fake.host().kernel_release().unwrap_err().to_string()
        } else {
            fake.error()
        };
        assert!(error.contains(&path) && error.contains("expected"), "{path}: {error}");
    }
}

#[test]
fn contradictions_are_named() {
    for (path, text, message) in [
        ("node/node1/cpulist", "1-2", "CPU 1 is of another node too"),
        ("node/node1/cpulist", "2-9", "CPU 4 is not present"),
        ("cpu/cpu0/cache/index0/shared_cpu_list", "2-3", "CPU 0 does not share it"),
        ("node/node1/distance", "20 11", "the distance from node P#1 to node P#1 is 11"),
        ("cpu/online", "", "at least one online CPU"),
    ] {
        let fake = small();
        fake.write(&format!("sys/devices/system/{path}"), text);
        assert!(fake.error().contains(message), "{}", fake.error());
    }
}

#[test]
fn missing_files_are_named() {
    for path in [format!("{CPU}/present"), format!("{NODE}/node1/cpulist")] {
        let fake = small();
        fake.remove(&path);
        assert!(fake.error().contains(&format!("{path} is missing")), "{}", fake.error());
    }
}

#[test]
fn a_file_that_is_no_text_is_an_error() {
    let fake = small();
    fake.remove(&format!("{CPU}/online"));
    fake.write(&format!("{CPU}/online/oops"), "");
    assert!(fake.error().starts_with("cannot read "), "{}", fake.error());
}

#[test]
fn limits_of_a_process() {
    let fake = FakeSys::new();
    let status =
        "Name:\tsleep\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0,2\n";
    fake.write("proc/17/status", status);
    let limits = fake.host().process_limits(Pid::Of(17)).unwrap();
    assert_eq!(limits.cpus.to_string(), "0-3");
    assert_eq!(limits.nodes.unwrap().to_string(), "0,2");

    fake.write("proc/18/status", "Cpus_allowed_list:\t0\n");
    assert_eq!(fake.host().process_limits(Pid::Of(18)).unwrap().nodes, None);
    fake.write("proc/19/status", "Name:\tsleep\n");
    assert!(fake.host().process_limits(Pid::Of(19)).is_err());
    let gone = fake.host().process_limits(Pid::Of(20)).unwrap_err().to_string();
    assert!(gone.contains("the process is gone"), "{gone}");
}

#[test]
fn a_gathered_machine_is_the_machine() {
    let fake = small();
    let gathered = Gathered::gather(&fake.host(), Some("fake".to_owned())).unwrap();
    let text = gathered.to_json();
    assert_eq!(text, Gathered::gather(&fake.host(), Some("fake".to_owned())).unwrap().to_json());
    assert_eq!(Gathered::from_json(&text).unwrap(), gathered);
    assert_eq!(machine_from_json(&text, "other").unwrap(), fake.machine());
}

#[test]
fn what_changes_and_what_is_private_is_not_gathered() {
    let fake = small();
    let volatile = "Node 0 MemTotal: 1 kB\nNode 0 MemFree: 77777 kB\n";
    fake.write(&format!("{NODE}/node0/meminfo"), volatile);
    fake.write("sys/class/dmi/id/product_serial", "SECRET\n");
    fake.write("proc/sys/kernel/hostname", "SECRET\n");
    fake.write("proc/sys/kernel/osrelease", "6.1.7-SECRET\n");
    let text = Gathered::gather(&fake.host(), None).unwrap().to_json();
    assert!(!text.contains("77777") && !text.contains("SECRET") && !text.contains("\"name\""));
}

#[test]
fn a_machine_from_a_file_is_never_live() {
    let live = quartier_observe::Host::live().machine().unwrap();
    let text = serde_json::to_string(&live).unwrap();
    let machine = machine_from_json(&text, "copy").unwrap();
    assert!(matches!(machine.origin(), quartier_model::Origin::Gathered { .. }));
}

#[test]
fn files_of_another_kind_are_refused() {
    for text in ["", "[]", "{}", "{\"files\": {}}", "{\"format\": 9, \"files\": {}}"] {
        assert!(machine_from_json(text, "x").is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_content_of_any_file_makes_the_reader_panic(
        at in 0usize..40,
        text in "([-0-9,kKB \\n]{0,30}|(?s).{0,30})",
    ) {
        let gathered = Gathered::gather(&small().host(), None).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&gathered.to_json()).unwrap();
        let files = json["files"].as_object_mut().unwrap();
        let path = files.keys().nth(at % files.len()).unwrap().clone();
        files[&path] = text.into();
        let _ = machine_from_json(&json.to_string(), "fuzzed");
    }
}
