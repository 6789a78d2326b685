//! The tree that programs share, on real kernels with four nodes: who renews it, who reads it, where it
//! lies, and what is left of programs that are killed.

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// One script for all: a guest takes longer to start than these to run. Each part begins with a line
/// `== NAME`.
const SCRIPT: &str = r#"
q=$1; tools=$2
echo "== served"
$q tree serve --period 200ms --threads-mode 666 2>/dev/null &
server=$!
n=0; until $q tree show >/dev/null 2>&1 || [ $n -gt 100 ]; do sleep 0.1; n=$((n + 1)); done
(i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done) & busy=$!
sleep 1
$q tree show --json
wait $busy
echo "== placed"
$q run --quiet -- $tools/eighths 8 8
$q tree show --json
echo "== killed"
touch /tmp/places
$q run --quiet -- $tools/side_by_side /tmp/places /tmp/go &
n=0; until [ -s /tmp/places ] || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done
$q tree show --json
kill -9 $(cut -d' ' -f1 /tmp/places) $!
sleep 4
echo "== swept"
$q tree show --json
echo "== refused"
setpriv --reuid 65534 --clear-groups $q tree serve --directory /dev/shm/quartier --ticks 1 2>&1
setpriv --reuid 65534 --clear-groups $q tree show | head -n 1
kill $server
wait $server
echo "== stopped"
$q tree show --json
$tools/pages_of_file /dev/shm/quartier/threads | head -n 5
echo "== on nodes"
$tools/pages_of_file /dev/shm/quartier/tree | tail -n 4
echo "== damaged"
printf x | dd of=/dev/shm/quartier/tree bs=1 seek=4100 conv=notrunc 2>/dev/null
$q tree show 2>&1
$q run --quiet -- $tools/eighths 8 8
$q run --tree /dev/shm/quartier -- $tools/eighths 8 8 2>&1 | grep -E 'other runs|wrong_bytes'
ls /dev/shm
"#;

/// The folder of the programs, which are built once.
fn tools() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let programs = ["eighths", "side_by_side", "pages_of_file"].map(common::program);
        programs[0].parent().unwrap().to_owned()
    })
}

fn run_in_guest(kernel: &str) -> Option<String> {
    let quartier = common::quartier();
    if !common::can_boot(kernel) {
        return None;
    }
    let output = Command::new(quartier)
        .args(["lab", "run", "--kernel", kernel, "--nodes", "4", "--cpus-per-node", "2", "--root"])
        .args(["--mem", "2G", "--timeout", "300", "--", "sh", "-c", SCRIPT, "sh"])
        .args([quartier, tools()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("kernel {kernel}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// What the script said in one of its parts.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let begin = format!("== {name}\n");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no part {name}: {text}"));
    rest.split_once("\n== ").map_or(rest, |(part, _)| part)
}

/// The tree that `tree show --json` printed in a part.
fn shown(text: &str, name: &str) -> Value {
    let part = part(text, name);
    let json = &part[part.find("{\n").expect(part)..=part.rfind("\n}").expect(part) + 1];
    serde_json::from_str(json).expect(json)
}

fn check(kernel: &str) {
    let Some(text) = run_in_guest(kernel) else { return };
    let served = shown(&text, "served");
    let nodes = served["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), served["threads"].as_u64()), (4, Some(0)));
    assert!(served["refreshed_ms_ago"].as_u64().unwrap() < 20_000);
    for node in nodes {
        let pages = node["free_pages"].as_u64().unwrap();
        assert!((10_000..131_072).contains(&pages), "512 MiB, less the kernel: {node}");
        assert!(node["usage_percent"].as_u64().unwrap() <= 100);
        let blocks = node["free_blocks"].as_array().unwrap();
        let in_blocks: u64 = blocks.iter().enumerate().map(|(n, b)| b.as_u64().unwrap() << n).sum();
        assert!(in_blocks > pages / 2, "{node}");
    }
    let busiest = nodes.iter().map(|node| node["usage_percent"].as_u64().unwrap()).max();
    assert!(busiest.unwrap() >= 20, "a shell loop keeps one of two CPUs busy: {served}");
    assert_eq!(shown(&text, "placed")["threads"], 0, "the program took its threads off");
    assert_eq!(shown(&text, "killed")["threads"], 2);
    assert_eq!(shown(&text, "swept")["threads"], 0, "the server took them off");
    let refused = part(&text, "refused");
    assert!(refused.contains("renewed by another process already") || refused.contains("may not"));
    assert!(refused.contains("you may place threads"), "{refused}");
    assert_eq!(shown(&text, "stopped")["nodes"].as_array().unwrap().len(), 4);
    let lines: Vec<_> = part(&text, "stopped").lines().rev().take(4).collect();
    assert_eq!(lines, ["4 3", "3 2", "2 1", "1 0"], "T of each node lies there");
    let on_nodes: Vec<_> =
        part(&text, "on nodes").lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(on_nodes, ["0", "1", "2", "3"], "U and M of each node lie there");
    let damaged = part(&text, "damaged");
    assert!(damaged.contains("is damaged: its topology is not what was written"), "{damaged}");
    assert!(damaged.contains("threads of other runs are not seen"), "{damaged}");
    assert_eq!(damaged.matches("\"wrong_bytes\": 0").count(), 2, "both ran: {damaged}");
    assert_eq!(damaged.lines().last(), Some("quartier"), "the user's own tree is gone");
}

#[test]
fn a_tree_is_served_shared_swept_and_refused_on_6_1() {
    check("6.1");
}

#[test]
fn a_tree_is_served_shared_swept_and_refused_on_7_3() {
    check("7.3");
}
