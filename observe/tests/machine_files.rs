//! A file that says of a machine what cannot be, in either of the two forms.

use quartier_model::Origin;
use quartier_observe::{Gathered, Host, machine_from_json};
use serde_json::{Value, json};

/// Two nodes of two CPUs with a cache each, as files of /sys.
fn gathered() -> Value {
    let mut files = vec![
        ("proc/sys/kernel/osrelease".to_owned(), "6.1.0\n".to_owned()),
        ("sys/devices/system/cpu/present".to_owned(), "0-3\n".to_owned()),
        ("sys/devices/system/cpu/online".to_owned(), "0-3\n".to_owned()),
        ("sys/devices/system/node/online".to_owned(), "0-1\n".to_owned()),
    ];
    for (node, cpus, distances) in [(0, "0-1", "10 21"), (1, "2-3", "21 10")] {
        let dir = format!("sys/devices/system/node/node{node}");
        files.push((format!("{dir}/cpulist"), cpus.to_owned()));
        files.push((format!("{dir}/distance"), distances.to_owned()));
    }
    for cpu in 0..4 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let sharers = if cpu < 2 { "0-1" } else { "2-3" };
        files.push((format!("{dir}/cache/index0/level"), "3".to_owned()));
        files.push((format!("{dir}/cache/index0/shared_cpu_list"), sharers.to_owned()));
    }
    serde_json::from_str(&Gathered::synthetic("made up", files).to_json()).unwrap()
}

/// The same as `quartier topo --json` writes it.
fn serialised() -> Value {
    let files = Gathered::from_json(&gathered().to_string()).unwrap();
    serde_json::to_value(Host::gathered(files).machine().unwrap()).unwrap()
}

fn refusal(file: &Value) -> String {
    let error = machine_from_json(&file.to_string(), "bad").unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn both_forms_are_the_same_machine() {
    let [files, parts] = [gathered(), serialised()]
        .map(|file| machine_from_json(&file.to_string(), "good").unwrap());
    assert_eq!(files, parts);
}

#[test]
fn files_of_sys_that_make_no_machine_are_named() {
    const SYS: &str = "sys/devices/system";
    let bad = [
        ("cpu/present", "\n", "cpu/present says ``"),
        ("cpu/present", "0-16999", "and a list of CPUs from 0 to 8191 was expected"),
        ("node/online", "0-1499", "and a list of nodes from 0 to 1023 was expected"),
        ("cpu/online", "\n", "at least one online CPU"),
        ("node/online", "\n", "at least one node"),
        // Nothing is in two nodes, and no list goes back.
        ("node/node1/cpulist", "1-3", "node1/cpulist does not agree with the rest: CPU 1"),
        ("node/node1/cpulist", "3-2", "node1/cpulist says `3-2`"),
        ("node/node1/cpulist", "2-4294967295", "node1/cpulist says"),
        ("node/node0/distance", "10 -21", "node0/distance says `10 -21`"),
        ("node/node0/distance", "10 nan", "node0/distance says `10 nan`"),
        ("node/node0/distance", "10 256", "node0/distance says `10 256`"),
        ("node/node0/distance", "10 9", "the distance from node P#0 to node P#1 is 9"),
        ("node/node0/distance", "20 21", "the distance from node P#0 to node P#0 is 20"),
        ("node/node0/distance", "10", "2 distances of 10 to 255"),
        ("cpu/cpu0/cache/index0/shared_cpu_list", "1-2", "CPU 0 does not share it"),
    ];
    for (path, text, words) in bad {
        let mut file = gathered();
        let path = format!("{SYS}/{path}");
        assert!(file["files"].get(&path).is_some(), "{path}");
        file["files"][&path] = text.into();
        let refusal = refusal(&file);
        assert!(refusal.contains(words), "{path}, {text:?}: {refusal}");
    }
}

#[test]
fn a_serialised_machine_that_cannot_be_is_refused() {
    let bad = [
        ("/cpus", json!([]), "at least one online CPU"),
        ("/nodes", json!([]), "at least one node"),
        ("/nodes", json!(vec![json!({"os_id": 0, "memory": null}); 1500]), "at most 1024"),
        ("/nodes/1/os_id", json!(1024), "node 1024: Linux numbers them from 0 to 1023"),
        ("/cpus/1/os_id", json!(u32::MAX), "CPU 4294967295: Linux numbers them from 0 to 8191"),
        ("/origin/synthetic/spec", json!("a\u{1b}[2J"), "line break or control character"),
        ("/cpus/1/os_id", json!(0), "two CPUs have the OS id 0"),
        ("/nodes/1/os_id", json!(0), "two nodes have the OS id 0"),
        ("/cpus/1/node", json!(2), "CPU P#1 names node 2, and there are only 2"),
        ("/cpus/1/node", json!(-1), "integer `-1`, expected a whole number from 0 to 4294967295"),
        ("/cpus/1", json!(1), "integer `1`, expected an object at line "),
        ("/cpus/1/llc", json!(2), "CPU P#1 names LLC 2, and there are only 2"),
        ("/cpus/1/package", json!(0), "CPU P#1 names package 0, and there are only 0"),
        (
            "/distances/rows/0/1",
            json!(-21),
            "integer `-21`, expected a whole number from 10 to 255",
        ),
        ("/distances/rows/0/1", json!(21.5), "floating point `21.5`, expected a whole number"),
        ("/distances/rows/0/1", json!(null), "as the distance in row 0, column 1"),
        ("/distances/rows/1/0", json!(256), "as the distance in row 1, column 0"),
        ("/distances/rows/0/1", json!(0), "is 0: nothing is nearer than 10"),
        ("/distances/rows/0/0", json!(11), "a node is at distance 10 from itself"),
        ("/distances/rows/1", json!([21]), "2 × 1"),
        ("/distances/rows", json!([]), "0 × 0"),
        ("/format", json!(2), "machine format 2"),
        ("/format", json!(1u64 << 32), "machine format 4294967296"),
    ];
    for (place, value, words) in bad {
        let mut file = serialised();
        *file.pointer_mut(place).unwrap() = value;
        let refusal = refusal(&file);
        assert!(refusal.contains(words), "{place}: {refusal}");
    }
}

/// A file is told from a kernel: nobody can mount its /sys, and nothing comes or goes in it.
#[test]
fn a_file_is_to_be_gathered_again_not_mounted() {
    for (path, text) in [
        ("sys/devices/system/cpu/present", None),
        ("sys/devices/system/node/node0/cpulist", None),
        ("sys/devices/system/node/node0/distance", None),
        ("sys/devices/system/node/node1/cpulist", Some("1-3")),
    ] {
        let mut file = gathered();
        let files = file["files"].as_object_mut().unwrap();
        match text {
            Some(text) => _ = files.insert(path.to_owned(), text.into()),
            None => _ = files.remove(path),
        }
        let refusal = refusal(&file);
        assert!(
            refusal.contains(path) && refusal.contains("gather the machine again"),
            "{refusal}"
        );
        assert!(!refusal.contains("mounted") && !refusal.contains("retry"), "{refusal}");
    }
    let refusal = refusal(&json!({"format": 1, "files": {}}));
    assert!(refusal.contains("cpu/present is missing"), "{refusal}");
}

#[test]
fn who_says_what_cannot_be_is_named() {
    let mut files = gathered();
    files["files"]["sys/devices/system/node/node0/distance"] = "10 9".into();
    let mut parts = serialised();
    parts["distances"]["rows"][0][1] = 9.into();
    for file in [files, parts] {
        let refusal = refusal(&file);
        assert!(refusal.starts_with("what the file says makes no machine: "), "{refusal}");
    }
    for text in ["", "[1]", "{}", "{\"format\": 1, \"clusters\": []}", "\u{1b}"] {
        let refusal = machine_from_json(text, "bad").unwrap_err().to_string();
        assert!(refusal.starts_with("this is no machine: "), "{text}: {refusal}");
        assert!(!refusal.contains(char::is_control), "{text}: {refusal:?}");
    }
}

#[test]
fn names_that_cannot_be_printed_are_refused_and_missing_ones_replaced() {
    for name in ["two\nlines", "\u{1b}[31mred", "\u{202e}backwards", "bell\u{7}", "\u{9b}2J"] {
        let mut file = gathered();
        file["name"] = name.into();
        let refusal = refusal(&file);
        assert!(refusal.contains("line break or control character"), "{refusal}");
        assert!(!refusal.contains(char::is_control), "{refusal:?}");
        let kept = Gathered::gather(&Host::live(), Some(name.to_owned()));
        assert!(kept.unwrap_err().to_string().contains("line break or control character"));
    }
    let mut file = gathered();
    for name in [json!(null), json!(" ")] {
        file["name"] = name;
        // A file's own name is not the fault of who wrote it.
        let machine = machine_from_json(&file.to_string(), "a\nb").unwrap();
        assert_eq!(machine.origin(), &Origin::Synthetic { spec: "a b".to_owned() });
    }
}

/// What contains what is said by numbers of lists, so there is no way to say that a node contains
/// itself: whatever else a file says of it is unknown, and refused.
#[test]
fn containment_cannot_go_in_circles() {
    for (place, field) in [("/nodes/0", "parent"), ("/cpus/0", "cpus"), ("", "children")] {
        let mut file = serialised();
        let object = file.pointer_mut(place).unwrap().as_object_mut().unwrap();
        object.insert(field.to_owned(), 0.into());
        assert!(refusal(&file).contains(&format!("unknown field `{field}`")), "{place}");
    }
    let mut file = gathered();
    file["parent"] = 0.into();
    assert!(refusal(&file).contains("unknown field `parent`"));
    assert!(machine_from_json("{\"format\": 1, \"format\": 1}", "twice").is_err());
}

#[test]
fn how_powerful_cpus_are_is_what_the_kernel_says_or_their_frequencies() {
    let capacities = |files: &[(&str, [&str; 4])]| {
        let mut file = gathered();
        for (name, texts) in files {
            for (cpu, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
                let path = format!("sys/devices/system/cpu/cpu{cpu}/{name}");
                file["files"][path] = json!(text);
            }
        }
        let machine = machine_from_json(&file.to_string(), "made up").unwrap();
        machine.cpus().iter().map(|cpu| Some(cpu.capacity?.0)).collect::<Vec<_>>()
    };
    let frequencies = ("cpufreq/cpuinfo_max_freq", ["3000000\n", "2000000", "", "1"]);
    assert_eq!(capacities(&[]), [None; 4]);
    assert_eq!(capacities(&[frequencies]), [Some(1024), Some(683), None, Some(1)]);
    let said = ("cpu_capacity", ["512\n", "512", "1024", "1024"]);
    assert_eq!(capacities(&[said, frequencies]), [512, 512, 1024, 1024].map(Some));
    // What is no number, or zero, says nothing; and nothing overflows.
    let odd = ("cpufreq/cpuinfo_max_freq", ["<unknown>", "0", "4294967295", "-1"]);
    assert_eq!(capacities(&[odd]), [None, None, Some(1024), None]);
}
