//! `quartier topo` and `quartier gather`, run as a user runs them.
//!
//! Every machine of `observe/machines` has its expected drawing beside it, `NAME.topo.txt`;
//! `QUARTIER_BLESS=1 cargo test -p quartier-cli` writes them anew.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

fn quartier(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quartier")).args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = quartier(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The one sentence a refusal consists of.
fn refusal(args: &[&str]) -> String {
    let output = quartier(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn machines() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/machines");
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut machines: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect();
    machines.sort();
    assert!(machines.len() >= 4, "{machines:?}");
    machines
}

#[test]
fn every_kept_machine_is_drawn_as_before() {
    for path in machines() {
        let machine = path.to_str().unwrap();
        let drawn = stdout(&["topo", "--machine", machine])
            + "\n"
            + &stdout(&["topo", "--tree", "--machine", machine]);
        let expected = path.with_extension("topo.txt");
        if env::var_os("QUARTIER_BLESS").is_some() {
            fs::write(&expected, &drawn).unwrap();
        }
        assert_eq!(drawn, fs::read_to_string(&expected).unwrap(), "{machine}");
    }
}

#[test]
fn json_is_read_again_as_the_same_machine() {
    for path in machines() {
        let json = stdout(&["topo", "--json", "--machine", path.to_str().unwrap()]);
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy.json");
        fs::write(&copy, &json).unwrap();
        assert_eq!(stdout(&["topo", "--json", "--machine", copy.to_str().unwrap()]), json);
    }
}

#[test]
fn drawings_are_xml_with_every_cpu() {
    for path in machines() {
        let machine = path.to_str().unwrap();
        let drawing = stdout(&["topo", "--svg", "-", "--machine", machine]);
        let drawing = roxmltree::Document::parse(&drawing).unwrap();
        let is_cpu = |node: &roxmltree::Node<'_, '_>| {
            node.has_tag_name("title") && node.text().unwrap_or_default().starts_with("CPU ")
        };
        let json: serde_json::Value =
            serde_json::from_str(&stdout(&["topo", "--json", "--machine", machine])).unwrap();
        let nr_cpus = json["cpus"].as_array().unwrap().len();
        assert_eq!(drawing.descendants().filter(is_cpu).count(), nr_cpus, "{machine}");
    }
}

#[test]
fn a_thousand_nodes_fit_on_a_screen() {
    let text = stdout(&["topo", "--synthetic", "1024x4"]);
    assert!(text.lines().count() < 10, "{text}");
    assert!(text.contains("nodes 0-1023") && text.contains("--all"), "{text}");
    let all = stdout(&["topo", "--synthetic", "1024x4", "--all"]);
    assert!(all.lines().count() > 2048);
    let tree = stdout(&["topo", "--synthetic", "1024x4", "--tree"]);
    assert!(tree.contains("height 5") && tree.lines().count() < 20, "{tree}");
    let drawing = stdout(&["topo", "--synthetic", "1024x4", "--svg", "-"]);
    roxmltree::Document::parse(&drawing).unwrap();
}

#[test]
fn the_tree_says_which_cpu_updates_what() {
    let tree = stdout(&["topo", "--synthetic", "2,0,3", "--tree"]);
    for line in [
        "nodes 0-2: CPUs 0-4      1  node 0  CPU 0",
        "├─ node 1: no CPUs       0  node 1  CPU 0",
        "└─ node 2: CPUs 2-4      0  node 2  CPU 2",
        "Updated by: ",
    ] {
        assert!(tree.contains(line), "`{line}` is missing:\n{tree}");
    }
    let folded = stdout(&["topo", "--synthetic", "1024x4", "--tree"]);
    let line = "└─ 3 more alike: nodes 256-1023: CPUs 1024-4095        4  nodes 256,512,768  CPUs";
    assert!(folded.contains(line), "{folded}");
    let all = stdout(&["topo", "--synthetic", "1024x4", "--tree", "--all"]);
    assert!(all.lines().count() > 1365 && !all.contains("alike"));
}

#[test]
fn the_tree_as_json_holds_together() {
    let of = |machine: &Path| {
        stdout(&["topo", "--tree", "--json", "--machine", machine.to_str().unwrap()])
    };
    let mut trees: Vec<_> = machines().iter().map(|machine| of(machine)).collect();
    trees.push(stdout(&["topo", "--tree", "--json", "--synthetic", "1024x4"]));
    for text in trees {
        let tree: serde_json::Value = serde_json::from_str(&text).unwrap();
        let clusters = tree["clusters"].as_array().unwrap();
        assert_eq!((&tree["format"], &tree["height"]), (&1.into(), &clusters[0]["level"]));
        let numbers = |list: &serde_json::Value| -> Vec<u64> {
            list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
        };
        let online = numbers(&clusters[0]["cpus"]);
        for (at, cluster) in clusters.iter().enumerate() {
            assert_eq!(cluster["id"], at);
            assert_eq!(cluster["parent"].is_null(), at == 0);
            assert!(online.contains(&cluster["updater"].as_u64().unwrap()));
            let children = numbers(&cluster["children"]);
            assert!(children.len() <= 4 && (children.is_empty() == (cluster["level"] == 0)));
            let of_children = children.iter().flat_map(|&child| {
                let child = &clusters[child as usize];
                assert_eq!(child["parent"], at);
                numbers(&child["cpus"])
            });
            let of_children: Vec<_> = of_children.collect();
            assert!(children.is_empty() || of_children == numbers(&cluster["cpus"]));
        }
    }
}

/// The texts under a pointer, of one drawing.
fn hints(drawing: &str) -> Vec<String> {
    let drawing = roxmltree::Document::parse(drawing).unwrap();
    let titles = drawing.descendants().filter(|node| node.has_tag_name("title"));
    titles.map(|title| title.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_tree_is_drawn_with_members_and_updaters() {
    for machine in machines() {
        let drawing =
            stdout(&["topo", "--tree", "--svg", "-", "--machine", machine.to_str().unwrap()]);
        assert!(drawing.contains("prefers-color-scheme:dark"));
        assert!(hints(&drawing).iter().any(|hint| hint.contains("updated by CPU ")), "{machine:?}");
    }
    let drawing = stdout(&["topo", "--tree", "--svg", "-", "--synthetic", "4x2"]);
    let found = hints(&drawing);
    assert_eq!(found.iter().filter(|hint| hint.starts_with("node")).count(), 5);
    let cpu = "CPU 0 updates nodes 0-3 (level 1), node 0 (level 0)";
    assert!(found.iter().any(|hint| hint == cpu), "{found:?}");
    assert!(found.iter().any(|hint| hint == "CPU 1"), "{found:?}");
}

#[test]
fn a_drawing_of_a_thousand_nodes_folds_brothers_that_are_alike() {
    let drawing = stdout(&["topo", "--tree", "--svg", "-", "--synthetic", "1024x4"]);
    assert!(drawing.contains("3 more alike"));
    // Five levels of a box and its brothers, the root, and four CPUs.
    assert_eq!(hints(&drawing).len(), 2 * 5 + 1 + 4);
    let all = stdout(&["topo", "--tree", "--svg", "-", "--synthetic", "64x4", "--all"]);
    assert!(!all.contains("alike"));
    assert_eq!(hints(&all).len(), 64 + 16 + 4 + 1 + 64 * 4);
}

#[test]
fn no_colours_in_a_pipe() {
    assert!(!stdout(&["topo", "--synthetic", "2,0"]).contains('\u{1b}'));
}

#[test]
fn bad_input_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.json");
    let bad = file.to_str().unwrap();
    for content in ["", "{", "[1]", "{\"format\": 2, \"files\": {}}", "\u{0}"] {
        fs::write(&file, content).unwrap();
        let message = refusal(&["topo", "--machine", bad]);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains("bad.json"), "{message}");
    }
    for (content, words) in [
        ("{\"format\":1,\"files\":{}}", "gather the machine again"),
        ("{\"format\":1,\"name\":\"a\\nb\",\"files\":{}}", "line break or control character"),
        ("{\"format\":1,\"origin\":{},\"height\":2,\"clusters\":[]}", "this is no machine"),
    ] {
        fs::write(&file, content).unwrap();
        let message = refusal(&["topo", "--machine", bad]);
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
        assert!(!message.contains("mounted"), "{message}");
    }
    let good = stdout(&["topo", "--synthetic", "2x2", "--json"]);
    for distance in ["-20", "20.5", "1000"] {
        fs::write(&file, good.replacen("20", distance, 1)).unwrap();
        let message = refusal(&["topo", "--machine", bad]);
        let words = "expected a whole number from 10 to 255 as the distance in row 0, column 1";
        assert!(message.contains(words) && message.lines().count() == 1, "{message}");
    }
    assert_eq!(refusal(&["topo", "--machine", "/nonexistent"]).lines().count(), 1);
    assert!(refusal(&["topo", "--synthetic", "-1x2"]).contains("`-1x2` is not a machine"));
    assert!(refusal(&["gather", "--name", ""]).contains("a value is required for '--name"));
    assert!(refusal(&["gather", "--name", "a\nb"]).contains("line break"));
    assert!(refusal(&["gather", "/nonexistent/box"]).contains("there is no folder /nonexistent"));
    assert_eq!(refusal(&["topo", "--synthetic", "many"]).lines().count(), 1);
    assert_eq!(
        refusal(&["topo", "--svg", "/nonexistent/x", "--synthetic", "1x1"]).lines().count(),
        1
    );
    refusal(&["topo", "--synthetic", "1x1", "--machine", bad]);
    refusal(&["topo", "--json", "--svg", "-"]);
    refusal(&["topo", "--json", "--all"]);
    assert!(refusal(&["topo", "--synthetic", "1x1", "--svg", "-", "--all"]).contains("--all"));
}

#[test]
fn gathering_replaces_nothing_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("box.json");
    let path = file.to_str().unwrap();
    stdout(&["gather", path]);
    // A guest's memory may grow while the test runs.
    let but_memory = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("meminfo")).map(str::to_owned).collect()
    };
    let gathered = but_memory(&fs::read_to_string(&file).unwrap());
    assert!(refusal(&["gather", path]).contains("--force"));
    assert_eq!(stdout(&["gather", "--force", path]), "");
    assert_eq!(but_memory(&fs::read_to_string(&file).unwrap()), gathered);
    assert_eq!(but_memory(&stdout(&["gather"])), gathered);
    assert!(stdout(&["topo", "--machine", path]).starts_with("box (gathered): "));
    stdout(&["gather", "--force", "--name", "tower", path]);
    assert!(stdout(&["topo", "--machine", path]).starts_with("tower (gathered): "));
}
